/** `postern completion`: what a shell offers, from the tables of the subcommands. The gateway is not asked. */
import { COMMON, type Command, type GivenFor } from '../arguments/command.js';
import type { Option } from '../arguments/option.js';
import type { completion as description, SHELLS } from '../commands/self.js';
import { EXIT } from '../exit.js';

export async function completion(given: GivenFor<typeof description>, commands: readonly Command[]): Promise<number> {
  const write = { bash, zsh, fish }[given.arguments[0] as (typeof SHELLS)[number]];
  given.output.raw(write(commands));
  return EXIT.ok;
}

function optionsOf(command: Command): [string, Option<unknown>][] {
  return Object.entries({ ...command.options, ...COMMON });
}

function firstWords(commands: readonly Command[]): string[] {
  return [...new Set(commands.map(({ name }) => name.split(' ')[0] as string))];
}

function secondWords(commands: readonly Command[], first: string): string[] {
  return commands.flatMap(({ name }) => (name.startsWith(`${first} `) ? [name.split(' ')[1] as string] : []));
}

/** Behind `--` stands a command line of its own: files and programs are offered there. */
function bash(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const options = optionsOf(command).map(([name]) => `--${name}`);
    const words = [...options, ...command.arguments.flatMap(({ choices = [] }) => choices)];
    return `    '${command.name}') words='${words.join(' ')}' ;;`;
  });
  const pairs = firstWords(commands).filter((first) => secondWords(commands, first).length > 0);
  const values = commands.flatMap((command) =>
    optionsOf(command).flatMap(([name, { choices }]) => (choices ? [[name, choices.join(' ')] as const] : [])),
  );
  const files = Object.entries(COMMON).flatMap(([name, { file }]) => (file ? [`--${name}`] : []));
  return `# bash completion of postern
_postern() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]} words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ \${COMP_WORDS[i]} == -- ]]; then COMPREPLY=($(compgen -o default -c -- "$word")); return; fi
  done
  case $before in
    ${files.join('|')}) COMPREPLY=($(compgen -f -- "$word")); return ;;
${[...new Map(values)].map(([name, choices]) => `    --${name}) COMPREPLY=($(compgen -W '${choices}' -- "$word")); return ;;`).join('\n')}
  esac
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '${firstWords(commands).join(' ')} --help --version' -- "$word")); return
  fi
  case $command in
${pairs
  .map(
    (first) => `    ${first})
      if ((COMP_CWORD == 2)); then COMPREPLY=($(compgen -W '${secondWords(commands, first).join(' ')}' -- "$word")); return; fi
      command="$command \${COMP_WORDS[2]}" ;;`,
  )
  .join('\n')}
  esac
  case $command in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _postern postern
`;
}

/** Single quotes of the shell around a text that goes into a list of \`_describe\` or \`_arguments\`. */
function quoted(text: string): string {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

function zsh(commands: readonly Command[]): string {
  const spec = (command: Command): string => {
    const options = optionsOf(command).map(([name, { placeholder, sentence, choices, file }]) => {
      const says = sentence.replace(/[[\]:\\]/g, (letter) => `\\${letter}`);
      const value = choices ? `:value:(${choices.join(' ')})` : file ? ':file:_files' : ':value:';
      return quoted(
        `--${name}${placeholder === undefined ? '' : '='}[${says}]${placeholder === undefined ? '' : value}`,
      );
    });
    const words = command.arguments.map(({ name, choices }) =>
      quoted(`:${name}:${choices ? `(${choices.join(' ')})` : ''}`),
    );
    const job = command.runs !== undefined ? [quoted('*::command:_normal')] : [];
    return `    ${quoted(command.name)}) _arguments ${[...options, ...words, ...job].join(' ')} ;;`;
  };
  const pairs = firstWords(commands).filter((first) => secondWords(commands, first).length > 0);
  return `#compdef postern
# zsh completion of postern
_postern() {
  local command=$words[2]
  if ((CURRENT == 2)); then _values subcommand ${firstWords(commands).join(' ')}; return; fi
  case $command in
${pairs.map((first) => `    ${first}) if ((CURRENT == 3)); then _values subcommand ${secondWords(commands, first).join(' ')}; return; fi; command="$command $words[3]"; shift words; ((CURRENT--)) ;;`).join('\n')}
  esac
  shift words; ((CURRENT--))
  case $command in
${commands.map(spec).join('\n')}
  esac
}
if [[ $funcstack[1] == _postern ]]; then _postern "$@"; else compdef _postern postern; fi
`;
}

function fish(commands: readonly Command[]): string {
  const escaped = (text: string): string => `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'")}'`;
  const first = firstWords(commands);
  const of = (words: readonly string[]): string =>
    words.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
  const lines = commands.flatMap((command) => {
    const words = command.name.split(' ');
    const [head = '', second] = words;
    const begins =
      second === undefined
        ? `not __fish_seen_subcommand_from ${first.join(' ')}`
        : `${of([head])}; and not __fish_seen_subcommand_from ${secondWords(commands, head).join(' ')}`;
    const own = `complete -c postern -f -n ${escaped(begins)} -a ${second ?? head} -d ${escaped(command.summary)}`;
    const options = optionsOf(command).map(([name, { placeholder, sentence, choices, file }]) => {
      const value =
        placeholder === undefined ? '' : choices ? ` -x -a ${escaped(choices.join(' '))}` : file ? ' -r -F' : ' -x';
      return `complete -c postern -n ${escaped(of(words))} -l ${name}${value} -d ${escaped(sentence)}`;
    });
    const choices = command.arguments.flatMap(({ choices: given }) => given ?? []);
    const values =
      choices.length === 0 ? [] : [`complete -c postern -f -n ${escaped(of(words))} -a ${escaped(choices.join(' '))}`];
    return [own, ...options, ...values];
  });
  const heads = first
    .filter((head) => secondWords(commands, head).length > 0)
    .map(
      (head) => `complete -c postern -f -n ${escaped(`not __fish_seen_subcommand_from ${first.join(' ')}`)} -a ${head}`,
    );
  return `# fish completion of postern\n${[...heads, ...lines].join('\n')}\n`;
}
