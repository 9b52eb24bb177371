/** A button that changes something for others: it asks first, and says afterwards what was done. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
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

function Asked(props: AskedProps): JSX.Element {
  const { id, title, consequence, confirm, fields = [], initial = {}, act, why, onClose } = props;
  const [entered, setEntered] = useState<Entered>(initial);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<string>();
  const step = useSteps(title);
  const dialog = useRef<HTMLDialogElement>(null);
  const run = async (): Promise<void> => {
    step.current = 'acts';
    setBusy(true);
    setRefused(undefined);
    try {
      say(await act(entered));
      step.current = 'over';
      onClose();
    } catch (error) {
      noteRefusedKey(error);
      const scope = error instanceof Refusal ? error.missingScope : undefined;
      const why = scope === undefined ? messageOf(error) : `This key lacks ${scope}.`;
      if (scope !== undefined) noteRefused(id, why);
      // The browser closes it one task before it tells so: nobody would read there what is written there now.
      if (dialog.current?.open !== true) return say(`${title}: ${why}`);
      step.current = 'asks';
      setRefused(scope === undefined ? why : undefined);
      setBusy(false);
    }
  };
  const cancel = (): void => {
    if (step.current === 'asks') step.current = 'over';
    onClose();
  };
  return (
    <Dialog
      dialog={dialog}
      title={title}
      confirm={confirm}
      isBusy={isBusy}
      isPossible={why === undefined}
      refused={why ?? refused}
      onConfirm={() => void run()}
      onClose={cancel}
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

/**
 * What is asked about may go away, and the dialog with it; and a browser closes a dialog that is told to twice. What
 * comes of it is told all the same.
 */
function useSteps(title: string): { current: 'asks' | 'acts' | 'over' } {
  const step = useRef<'asks' | 'acts' | 'over'>('asks');
  useEffect(
    () => () => {
      if (step.current === 'asks') say(`${title}: nothing was done, for what it was about is no longer shown.`);
      keepFocus();
    },
    [],
  );
  return step;
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
