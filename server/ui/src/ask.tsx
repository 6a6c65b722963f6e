// Acts on what is no run: queues, schedules, letters, nodes. One dialog says what will happen and asks why.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Text } from "./actions";
import { say } from "./live";
import { Dialog, Trouble } from "./parts";

export interface Question {
  title: string;
  does: ComponentChildren;
  button: string;
  danger?: boolean;
  typed?: string; // what is to be typed before it is done
  fields?: { name: string; label: string; value?: string; type?: "text" | "number" | "datetime-local" }[];
  act: (reason: string, values: Record<string, string>) => Promise<unknown>;
}

export function Ask({ q, onClose, onDone }: { q: Question; onClose: () => void; onDone: () => unknown }) {
  const [reason, setReason] = useState("");
  const [values, setValues] = useState<Record<string, string>>(Object.fromEntries(q.fields?.map((f) => [f.name, f.value ?? ""]) ?? []));
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const act = async (e: Event) => {
    e.preventDefault();
    setUnder(true);
    try {
      await q.act(reason.trim(), values);
      say(q.title + ": done");
      await onDone(); // so that the page is new when the focus returns to it
      onClose();
    } catch (problem) {
      setError(problem);
      setUnder(false);
    }
  };
  const lacks = (!!q.danger && !reason.trim()) || (q.typed !== undefined && typed !== q.typed) ||
    !!q.fields?.some((f) => f.type === "datetime-local" && !values[f.name]);
  return (
    <Dialog title={q.title} onClose={onClose}>
      <form class="form" onSubmit={act}>
        <p>{q.does}</p>
        {q.fields?.map((f) => <Text key={f.name} label={f.label} type={f.type ?? "text"} value={values[f.name] ?? ""}
          set={(v) => setValues({ ...values, [f.name]: v })} />)}
        <Text label={q.danger ? "Reason (needed; kept in the audit)" : "Reason (kept in the audit; may be empty)"}
          value={reason} set={setReason} />
        {q.typed !== undefined && <Text label="Type the ID to go on" hint={q.typed} value={typed} set={setTyped} />}
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class={"button primary" + (q.danger ? " is-danger" : "")} disabled={under || lacks}>{q.button}</button>
        </footer>
      </form>
    </Dialog>
  );
}
