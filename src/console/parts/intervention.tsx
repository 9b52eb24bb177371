/** A button that changes something for others: it asks first, and says afterwards what was done. */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Refusal } from '../api/refusal.js';
import { say } from '../state/notice.js';
import { noteRefusedKey } from '../state/fetched.js';
import { noteRefused, whyRefused } from '../state/refused-actions.js';
import { Dialog } from './dialog.js';
import { FieldInput, type Entered, type Field } from './field.js';

export interface InterventionProps {
  /** What is done to what, such as `revoke lock a`: a refusal is remembered by it. */
  readonly id: string;
  /** On the button that asks. */
  readonly button: string;
  readonly title: string;
  /** What will happen, and to whom; with what has been entered so far. */
  readonly consequence: (entered: Entered) => ComponentChildren;
  /** On the button that does it. */
  readonly confirm: string;
  readonly fields?: readonly Field[];
  readonly initial?: Entered;
  /** @returns what was done, in a sentence */
  readonly act: (entered: Entered) => Promise<string>;
}

export function Intervention(props: InterventionProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const whyId = useId();
  const why = whyRefused(props.id);
  return (
    <div class="intervention">
      <button
        type="button"
        class="danger-quiet"
        disabled={why !== undefined && !isOpen}
        aria-describedby={why === undefined ? undefined : whyId}
        onClick={() => setOpen(true)}
      >
        {props.button}
      </button>
      {why === undefined ? null : (
        <small id={whyId} class="refused">
          {why}
        </small>
      )}
      {isOpen ? <Asked {...props} why={why} onClose={() => setOpen(false)} /> : null}
    </div>
  );
}

type AskedProps = InterventionProps & { readonly why: string | undefined; readonly onClose: () => void };

function Asked({
  id,
  title,
  consequence,
  confirm,
  fields = [],
  initial = {},
  act,
  why,
  onClose,
}: AskedProps): JSX.Element {
  const [entered, setEntered] = useState<Entered>(initial);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<string>();
  const run = async (): Promise<void> => {
    setBusy(true);
    setRefused(undefined);
    try {
      say(await act(entered));
      onClose();
      keepFocus();
    } catch (error) {
      noteRefusedKey(error);
      const scope = error instanceof Refusal ? error.missingScope : undefined;
      if (scope !== undefined) noteRefused(id, `This key lacks ${scope}.`);
      setRefused(scope === undefined ? messageOf(error) : undefined);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      confirm={confirm}
      isBusy={isBusy}
      isPossible={why === undefined}
      refused={why ?? refused}
      onConfirm={() => void run()}
      onClose={onClose}
    >
      <div class="consequence">{consequence(entered)}</div>
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={entered[field.name] ?? ''}
          onInput={(value) => setEntered((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
    </Dialog>
  );
}

function messageOf(error: unknown): string {
  if (error instanceof Refusal && error.problem.outcome === 'unknown') return `${error.message} It may have been done.`;
  return error instanceof Refusal ? error.message : 'The gateway does not answer: nobody knows whether it was done.';
}

/** What was pressed may be gone with what it was about. */
function keepFocus(): void {
  setTimeout(() => {
    if (document.activeElement === document.body || document.activeElement === null)
      document.getElementById('main')?.focus();
  });
}
