/** Asks before something is done that cannot be undone: what will happen, to whom, and a button that says its name. */
import type { ComponentChildren, JSX, RefObject } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

export interface DialogProps {
  readonly dialog: RefObject<HTMLDialogElement | null>;
  readonly title: string;
  readonly confirm: string;
  readonly isBusy: boolean;
  /** False: the button is there, and cannot be pressed. */
  readonly isPossible: boolean;
  /** Why it cannot be done. */
  readonly refused: string | undefined;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps): JSX.Element {
  const { dialog, title, confirm, isBusy, isPossible, refused, onConfirm, onClose, children } = props;
  const heading = useId();
  const isClosed = useRef(false);
  useEffect(() => dialog.current?.showModal(), []);
  // Once, and before the focus is back: the browser tells of its own closing later, when it may have been asked again.
  const close = (): void => {
    if (isClosed.current) return;
    isClosed.current = true;
    dialog.current?.close();
    onClose();
  };
  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-labelledby={heading}
      onClose={close}
      onCancel={(event) => {
        event.preventDefault();
        if (!isBusy) close(); // whatever comes of it has to be told
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onConfirm();
        }}
      >
        <h2 id={heading}>{title}</h2>
        {children}
        <div role="alert">{refused === undefined ? null : <p class="refused">{refused}</p>}</div>
        <div class="buttons">
          <button type="button" autofocus disabled={isBusy} onClick={close}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={isBusy || !isPossible}>
            {isBusy ? 'Asking the gateway…' : confirm}
          </button>
        </div>
      </form>
    </dialog>
  );
}
