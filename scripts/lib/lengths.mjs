/**
 * How long things may be before nobody reads them: the rules of ESLint that hold it, for
 * `eslint.config.js` and `scripts/rooms.mjs`.
 */

/** Of a file, in lines. */
export const FILE_MAX = 400;
const FUNCTION_MAX = 60;
const PARAMETERS_MAX = 5;
const COLUMNS_MAX = 120;

/** What lists tests: its callback is read like a file. */
const LIST_OF_TESTS = /^describe\b/;

/**
 * ESLint's `max-lines-per-function`, but for lists of tests.
 * @type {import('eslint').Rule.RuleModule}
 */
const functionLength = {
  create(context) {
    const isList = (/** @type {import('eslint').Rule.Node} */ { parent }) =>
      parent?.type === 'CallExpression' && LIST_OF_TESTS.test(context.sourceCode.getText(parent.callee));
    const check = (/** @type {import('eslint').Rule.Node} */ node) => {
      const { start, end } = /** @type {import('estree').SourceLocation} */ (node.loc);
      const lines = end.line - start.line + 1;
      if (lines > FUNCTION_MAX && !isList(node))
        context.report({ node, message: `This function has ${lines} lines, ${FUNCTION_MAX} are the most.` });
    };
    return { FunctionDeclaration: check, FunctionExpression: check, ArrowFunctionExpression: check };
  },
};

/** @type {Pick<import('eslint').Linter.Config, 'plugins' | 'rules'>} */
export const LENGTHS = {
  plugins: { lengths: { rules: { function: functionLength } } },
  rules: {
    'max-lines': ['error', FILE_MAX],
    'lengths/function': 'error',
    'max-params': ['error', PARAMETERS_MAX],
    // The formatter breaks code at the same column; what it cannot break is let be.
    'max-len': [
      'error',
      {
        code: COLUMNS_MAX,
        comments: COLUMNS_MAX,
        ignoreStrings: true,
        ignoreTemplateLiterals: true,
        ignoreRegExpLiterals: true,
        ignoreUrls: true,
      },
    ],
  },
};
