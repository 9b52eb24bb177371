/** Transactions, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { TransactionChore } from './chore.js';
import { Transactions } from './transaction.js';

export interface TransactionRecipe extends Recipe {
  readonly transactions: Transactions;
}

export function transactionRecipe(context: Coordination, { config, warn }: RecipeOptions): TransactionRecipe {
  const transactions = new Transactions(context, (error) => warn(error, 'failed to attend to a transaction; retrying'));
  return {
    transactions,
    chores: [new TransactionChore(context, transactions, config.transactionHistoryMs)],
    observed: () => transactions.observers.size,
    stop: () => transactions.watch.stop(),
  };
}
