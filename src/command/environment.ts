/** The environment of the command: its settings (`gateway.ts`), and what the job inherits. */
export const environment: Readonly<Record<string, string | undefined>> = process.env;
