/** One field of a dialog. */
import type { JSX } from 'preact';
import { useId } from 'preact/hooks';

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly type: 'text' | 'number' | 'checkbox';
  readonly required?: true;
  readonly pattern?: string;
  readonly maxLength?: number;
}

/** By the name of the field; a checkbox is `true` or empty. */
export type Entered = Readonly<Record<string, string>>;

interface FieldProps {
  readonly field: Field;
  readonly value: string;
  readonly onInput: (value: string) => void;
}

export function FieldInput({ field, value, onInput }: FieldProps): JSX.Element {
  const { label, hint, type, required = false, pattern, maxLength } = field;
  const id = useId();
  const hinted = hint === undefined ? undefined : `${id}-hint`;
  if (type === 'checkbox')
    return (
      <p class="field field-check">
        <input
          id={id}
          type="checkbox"
          checked={value === 'true'}
          onInput={(event) => onInput(event.currentTarget.checked ? 'true' : '')}
          aria-describedby={hinted}
        />
        <label for={id}>{label}</label>
        {hint === undefined ? null : <small id={`${id}-hint`}>{hint}</small>}
      </p>
    );
  return (
    <p class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="text"
        inputMode={type === 'number' ? 'numeric' : 'text'}
        value={value}
        required={required}
        autocomplete="off"
        pattern={pattern}
        maxLength={maxLength}
        aria-describedby={hinted}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {hint === undefined ? null : <small id={`${id}-hint`}>{hint}</small>}
    </p>
  );
}
