// Dialogs that make a run, delete one, or assign a promise. Each says what it will do before it does it.

import { useEffect, useState } from "preact/hooks";
import { address, del, get, may, post } from "./api";
import { Area, Text } from "./actions";
import { Icon } from "./icons";
import { parses, verbatim, write } from "./json";
import { say } from "./live";
import { away } from "./nodes";
import { Dialog, isCut, isRedacted, Loading, Trouble } from "./parts";
import { go, toRun } from "./route";
import { plural } from "./time";
import type { Run, WaitInfo } from "./types";

/** Does what a form is for, once at a time, and keeps what went wrong. */
function useDoing(act: () => Promise<unknown>, then: () => void) {
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (under) return;
    setUnder(true);
    try {
      await act();
      then();
    } catch (problem) {
      setError(problem);
      setUnder(false);
    }
  };
  return { error, under, submit };
}

/** Starts a run: of any workflow, or one like another. */
export function Start({ like, onClose }: { like?: Run; onClose: () => void }) {
  const [workflow, setWorkflow] = useState(like?.workflow ?? "");
  const [known, setKnown] = useState<string[]>([]);
  const [id, setID] = useState("");
  const missing = isCut(like?.input) || isRedacted(like?.input);
  const [text, setText] = useState(like?.input === undefined || missing ? "" : write(like.input, 2));
  const bad = text.trim() !== "" && !parses(text);
  useEffect(() => { // the page of a run has no large input
    if (like && isCut(like.input)) {
      fetch(address("runs/{id}/value", { id: like.id, at: "input" }))
        .then((answer) => answer.ok ? answer.text() : "").then(setText, () => {});
    }
  }, []);
  useEffect(() => {
    get("nodes", {}).then((d) =>
      setKnown([...new Set(d.nodes.filter((n) => !away(n)).flatMap((n) => n.workflows))].sort()), () => {});
  }, []);
  const { error, under, submit } = useDoing(async () => {
    const made = await post("runs", {}, {
      workflow, id: id.trim() || undefined, input: verbatim(text), tags: like?.tags, existing: "refuse",
      queue: like?.queue && { name: like.queue.name, key: like.queue.key, priority: like.queue.priority },
    });
    say("run " + made.id + " started");
    go(toRun(made.id!)); // of one start it is there
  }, onClose);
  const lacks = workflow !== "" && known.length > 0 && !known.includes(workflow);
  return (
    <Dialog title={like ? "Start a run like " + like.id : "Start a run"} onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <p>{like ? "A new run begins from the start, with the input below and the tags and the queue of this one. This run stays as it is."
          : "A new run begins at once, or when a process with its code comes. Its page opens."}</p>
        {known.length > 0 && !like && <p class="dim">Processes have: {known.slice(0, 12).map((w) => <button key={w} type="button" class="button small" onClick={() => setWorkflow(w)}>{w}</button>)}{known.length > 12 && ` and ${known.length - 12} more`}</p>}
        <Text label="Workflow" value={workflow} set={setWorkflow} />
        {lacks && <p class="note is-warn"><Icon name="stalled" /><span>No process that works now has {workflow}: the run waits for one.</span></p>}
        <Area label="Input, as JSON (empty: null)" value={text} set={setText} rows={6} problem={bad ? "This is no JSON." : ""} />
        <Text label="ID of the run (empty: one is made)" value={id} set={setID} />
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class="button primary" disabled={!workflow.trim() || bad || under}>Start</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Deletes a run that has ended, and first says which others go with it. */
export function Delete({ run, onClose }: { run: Run; onClose: () => void }) {
  const [children, setChildren] = useState(false);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [would, setWould] = useState<string[] | null>(null);
  const [refused, setRefused] = useState<unknown>(null);
  useEffect(() => {
    setWould(null);
    setRefused(null);
    get("runs/{id}/deletable", { id: run.id, children }).then((d) => setWould(d.deleted), setRefused);
  }, [run.id, children]);
  const { error, under, submit } = useDoing(() => del("runs/{id}", { id: run.id }, { reason: reason.trim(), children: children || undefined }), () => {
    say("run " + run.id + " deleted");
    go("#/runs");
    onClose();
  });
  const others = (would ?? []).filter((id) => id !== run.id);
  return (
    <Dialog title={"Delete " + run.id} onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <p>The run goes, with its history, messages, values and audit, and its ID is free again. Who deleted it and why is kept. That cannot be taken back.</p>
        <label class="check"><input type="checkbox" checked={children} onChange={(e) => setChildren(e.currentTarget.checked)} />and its children, and theirs</label>
        {refused !== null ? <Trouble error={refused} /> : !would ? <Loading /> : (
          <p class="note is-warn" role="status"><Icon name="stalled" /><span>Deletes {plural(would.length, "run")}: {run.id}{others.length > 0 && ", " + others.slice(0, 6).join(", ")}{others.length > 6 && ` and ${others.length - 6} more`}.</span></p>)}
        <Text label="Reason (needed; kept with the deletion)" value={reason} set={setReason} />
        <Text label="Type the run's ID to go on" hint={run.id} value={typed} set={setTyped} />
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class="button primary is-danger" disabled={under || !would || !reason.trim() || typed !== run.id}>Delete</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Assigns a promise that a run waits for: a value, or a failure. */
export function Assign({ run, wait, onClose, onDone }: { run: Run; wait: WaitInfo; onClose: () => void; onDone: () => void }) {
  const [token, setToken] = useState("");
  const [outcome, setOutcome] = useState<"resolve" | "reject">("resolve");
  const [text, setText] = useState("");
  const [reason, setReason] = useState("");
  const bad = outcome === "resolve" && text.trim() !== "" && !parses(text);
  useEffect(() => {
    if (may("operate")) {
      get("runs/{id}/promises", { id: run.id }).then((d) =>
        setToken(d.promises.find((p) => p.location === wait.location && p.state === "open")?.token ?? ""), () => {});
    }
  }, [run.id, wait.location]);
  const { error, under, submit } = useDoing(
    () => outcome === "resolve" ? post("promises/resolve", {}, { token, value: verbatim(text), reason: reason.trim() || undefined })
      : post("promises/reject", {}, { token, message: text.trim() || undefined, reason: reason.trim() || undefined }),
    () => {
      say("promise " + wait.location + " assigned");
      onDone();
      onClose();
    });
  return (
    <Dialog title={"Assign the promise " + wait.location} onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <p>The run goes on with the value, or with the failure as an error in its code. A promise is assigned once: that cannot be taken back.</p>
        <fieldset class="choice">
          <legend>The promise gets</legend>
          <label><input type="radio" name="assigned" checked={outcome === "resolve"} onChange={() => setOutcome("resolve")} />a value (JSON)</label>
          <label><input type="radio" name="assigned" checked={outcome === "reject"} onChange={() => setOutcome("reject")} />a failure</label>
        </fieldset>
        <Area label={outcome === "resolve" ? "Value, as JSON (empty: null)" : "Text of the failure"} value={text} set={setText} rows={5} problem={bad ? "This is no JSON." : ""} />
        <Text label="Reason (kept with the promise; may be empty)" value={reason} set={setReason} />
        {!may("operate") && <Text label="Token of the promise" value={token} set={setToken} />}
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class={"button primary" + (outcome === "reject" ? " is-danger" : "")} disabled={!token || bad || under}>{outcome === "resolve" ? "Resolve" : "Reject"}</button>
        </footer>
      </form>
    </Dialog>
  );
}
