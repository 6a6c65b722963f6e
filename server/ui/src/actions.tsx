// What can be done to runs. Each action says what it will do before it is done, asks why, and what cannot be taken back
// wants the run's ID typed.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, may, post, postLines, Problem } from "./api";
import { Icon } from "./icons";
import { parses, verbatim } from "./json";
import { say } from "./live";
import { Dialog, Loading, Menu, Trouble, type Choice } from "./parts";
import { go, toRun } from "./route";
import { plural } from "./time";
import type { BulkEnd, BulkPreview, BulkResult, BulkVerb, Entry, Preview, Run, WaitInfo } from "./types";

export type Verb = "retry" | "resume" | "pause" | "cancel" | "terminate" | "rewind" | "fork" | "edit";

interface Rule {
  label: string;
  does: string;
  danger?: boolean;
  typed?: boolean; // the run's ID
  children?: string; // what the box says
  previews?: boolean;
}

const ended = (r: Run) => r.status === "succeeded" || r.status === "failed" || r.status === "cancelled";

/** Why a verb would be refused, as the API says; "": nothing in the run's row speaks against it. */
export const refusal = (r: Run, v: Verb): string => r.refused?.[v] ?? "";
const marked = (r: Run, m: string) => (r.marks ?? "").split(",").includes(m);

export const verbs: Record<Verb, Rule> = {
  retry: {
    label: "Retry", previews: true,
    does: "The run goes on from the step that has failed. What was done before stays done, and is not executed again.",
  },
  resume: {
    label: "Resume", does: "The run goes on where it stands. A stalled run is executed again, by a process with its code.",
    children: "and its children, and theirs",
  },
  pause: {
    label: "Pause", does: "Nothing new begins. Steps that are being executed end, and the run waits until it is resumed.",
    children: "and its children, and theirs",
  },
  cancel: {
    label: "Cancel",
    does: "The code hears of it and ends as it likes; steps that carry a compensation are undone. Children are cancelled too.",
    danger: true,
  },
  terminate: {
    label: "Terminate",
    does: "The run ends at once. Its code does not hear of it, nothing is undone, and what is owed is listed. That cannot be taken back.",
    danger: true, typed: true,
  },
  rewind: {
    label: "Rewind", previews: true, danger: true, typed: true,
    does: "The run goes back to before this operation and is executed again from there.",
  },
  fork: {
    label: "Fork", previews: true,
    does: "A new run begins with a copy of this one's history up to before this operation. This run stays as it is.",
  },
  edit: {
    label: "Edit", danger: true, typed: true,
    does: "The outcome of this step is replaced, and the run goes on with the new one.",
  },
};

/** The buttons of a run's page: what helps most stands first. What would be refused is no button; the menu says why. */
export function RunActions({ run, onAct, onSend, onMore }: {
  run: Run; onAct: (v: Verb, at?: string) => void; onSend: () => void; onMore: (what: "start" | "delete") => void;
}) {
  if (!may("operate")) return may("call") && !ended(run) ? <button class="button" onClick={onSend}>Send…</button> : null;
  const order: Verb[] = run.status === "stalled" ? ["resume", "retry", "cancel"] : run.status === "failed" ? ["retry"]
    : marked(run, "paused") ? ["resume", "cancel"] : ["pause", "cancel"];
  const first = order.filter((v) => !refusal(run, v));
  const before = run.rewind_before; // of a run that has undone its steps, and is not retried
  const rest: Choice[] = (["retry", "resume", "pause", "cancel", "terminate"] as Verb[]).filter((v) => !first.includes(v))
    .map((v) => ({ label: verbs[v].label + "…", danger: !!verbs[v].danger, off: refusal(run, v) || undefined, run: () => onAct(v) }));
  if (before && run.status !== "failed") rest.unshift({ label: rewindTo(before), danger: true, run: () => onAct("rewind", before) });
  if (!ended(run)) rest.unshift({ label: "Send a message…", run: onSend });
  rest.push({ label: "Start one like it…", run: () => onMore("start") },
    { label: "Delete…", danger: true, off: ended(run) ? undefined : "the run has not ended", run: () => onMore("delete") });
  return (
    <div class="buttons">
      {before && run.status === "failed" && <button class="button primary" onClick={() => onAct("rewind", before)}>{rewindTo(before)}</button>}
      {first.map((v, i) => (
        <button key={v} class={"button" + (i === 0 && (v === "retry" || v === "resume") ? " primary" : "") + (verbs[v].danger ? " is-danger" : "")}
          onClick={() => onAct(v)}>{verbs[v].label}…</button>
      ))}
      <Menu label="More" choices={rest} />
    </div>
  );
}

const rewindTo = (before: string) => `Rewind to before ${before}…`;

interface Result {
  id: string;
  text: string;
  ok: boolean;
}

/** Says what a verb will do, asks, and does it: to one run, or to several one after the other. */
export function Act(p: {
  verb: Verb;
  runs: Run[];
  at?: string | undefined; // the operation, of rewind, fork and edit
  onClose: () => void;
  onDone?: () => void;
}) {
  const rule = verbs[p.verb];
  const one = p.runs.length === 1 ? p.runs[0]! : null;
  const [reason, setReason] = useState("");
  const [children, setChildren] = useState(false);
  const [typed, setTyped] = useState("");
  const [id, setID] = useState("");
  const [outcome, setOutcome] = useState<"result" | "error">("result");
  const [text, setText] = useState("");
  const [under, setUnder] = useState(0);
  const [results, setResults] = useState<Result[] | null>(null);
  const want = one ? one.id : String(p.runs.length);
  const wrongJSON = p.verb === "edit" && outcome === "result" && !parses(text);
  const ready = (!rule.typed || typed === want) && (!rule.danger || reason.trim() !== "") && !(p.verb === "edit" && text.trim() === "") && !wrongJSON;

  const send = async (e: Event) => {
    e.preventDefault();
    if (!ready || under) return;
    const out: Result[] = [];
    for (const run of p.runs) {
      setUnder(out.length + 1);
      try {
        const why = { reason: reason.trim() || undefined }, of = { id: run.id };
        if (p.verb === "fork") {
          const made = (await post("runs/{id}/fork", of, { ...why, before: p.at || "/", id: id.trim() || undefined })).id!;
          out.push({ id: made, ok: true, text: "done" });
          go(toRun(made));
          continue;
        }
        const answer = p.verb === "rewind" ? await post("runs/{id}/rewind", of, { ...why, before: p.at || "/" })
          : p.verb === "edit" ? await post("runs/{id}/edit", of, { ...why, step: p.at!, ...(outcome === "result" ? { result: verbatim(text) } : { error: text }) })
          : await post(`runs/{id}/${p.verb}`, of, { ...why, children: children || undefined });
        out.push({ id: run.id, ok: true, text: answer.pending ? "the request stands; its owner has not decided yet" : "done" });
      } catch (problem) {
        out.push({ id: run.id, ok: false, text: problem instanceof Error ? problem.message : String(problem) });
      }
    }
    setUnder(0);
    p.onDone?.();
    const bad = out.filter((r) => !r.ok).length;
    say(bad ? `${rule.label}: ${bad} of ${out.length} refused` : `${rule.label}: done`);
    if (bad || out.some((r) => r.text !== "done")) setResults(out);
    else p.onClose();
  };

  const title = rule.label + (p.at !== undefined ? (p.verb === "edit" ? " the outcome of " : " to before ") + (p.at || "the start")
    : one ? " " + one.id : " " + plural(p.runs.length, "run"));
  if (results) {
    return (
      <Dialog title={title} onClose={p.onClose}>
        <ul class="results">
          {results.map((r) => <li key={r.id} class={r.ok ? "" : "why-bad"}><Icon name={r.ok ? "succeeded" : "failed"} /><span class="id">{r.id}</span> {r.text}</li>)}
        </ul>
        <footer class="buttons end"><button class="button primary" onClick={p.onClose}>Close</button></footer>
      </Dialog>
    );
  }
  const unfit = p.runs.filter((r) => refusal(r, p.verb));
  return (
    <Dialog title={title} onClose={p.onClose}>
      <form onSubmit={send} class="form">
        <p>{rule.does}</p>
        {unfit.length > 0 && <p class="note is-warn"><Icon name="stalled" />
          <span>{one ? refusal(one, p.verb) : plural(unfit.length, "run") + " will refuse: " + refusal(unfit[0]!, p.verb)}</span></p>}
        {one && rule.previews && <WhatIf run={one} verb={p.verb} at={p.at} />}
        {p.verb === "edit" && (
          <>
            <fieldset class="choice">
              <legend>The step's outcome becomes</legend>
              <label><input type="radio" name="outcome" checked={outcome === "result"} onChange={() => setOutcome("result")} />a result (JSON)</label>
              <label><input type="radio" name="outcome" checked={outcome === "error"} onChange={() => setOutcome("error")} />an error</label>
            </fieldset>
            <Area label={outcome === "result" ? "Result, as JSON" : "Text of the error"} value={text} set={setText} rows={5}
              problem={text.trim() && wrongJSON ? "This is no JSON." : ""} />
          </>
        )}
        {p.verb === "fork" && <Text label="ID of the new run (empty: one is made)" value={id} set={setID} />}
        {rule.children && <label class="check"><input type="checkbox" checked={children}
          onChange={(e) => setChildren(e.currentTarget.checked)} />{rule.children}</label>}
        <Text label={rule.danger ? "Reason (needed; kept in the audit)" : "Reason (kept in the audit; may be empty)"} value={reason} set={setReason} />
        {rule.typed && <Text label={one ? "Type the run's ID to go on" : "Type the number of runs to go on"} hint={want} value={typed} set={setTyped} />}
        <footer class="buttons end">
          {under > 0 && p.runs.length > 1 && <span class="dim">{under} of {p.runs.length}</span>}
          <button type="button" class="button" onClick={p.onClose}>Do nothing</button>
          <button class={"button primary" + (rule.danger ? " is-danger" : "")} disabled={!ready || under > 0}>{rule.label}</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** What a retry, rewind or fork would take back, as the engine says. */
function WhatIf({ run, verb, at }: { run: Run; verb: Verb; at?: string | undefined }) {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    get("runs/{id}/preview", { id: run.id, verb: verb === "fork" ? "rewind" : verb, before: at })
      .then(setPreview, setError);
  }, [run.id, verb, at]);
  if (error !== null) {
    return error instanceof Problem && error.code === "no_endpoint" ? null : <Trouble error={error} />;
  }
  if (!preview) return <Loading />;
  const back = preview.taken_back ?? [], gone = preview.cancelled ?? [], owed = preview.owed ?? [];
  const facts = [
    back.length ? `takes back ${plural(back.length, "completion")}: ${some(back)}` : "takes back no completion",
    verb !== "fork" && gone.length ? `cancels ${gone.length === 1 ? "child" : "children"} ${some(gone)}` : "",
    preview.messages ? `${plural(preview.messages, "message returns", "messages return")} to the inbox` : "",
    owed.length ? `what ${some(owed)} ${owed.length === 1 ? "has" : "have"} done outside stays done, and is done again` : "",
  ].filter(Boolean);
  return <div class="note" role="status"><Icon name="undoing" /><ul>{facts.map((f) => <li key={f}>{f}</li>)}</ul></div>;
}

const some = (list: string[]) => list.slice(0, 6).join(", ") + (list.length > 6 ? ` and ${list.length - 6} more` : "");

let fieldNumber = 0;

function useID() {
  return useState(() => "field-" + ++fieldNumber)[0];
}

export function Text(p: { label: string; value: string; set: (v: string) => void; hint?: string; type?: "text" | "number" | "datetime-local" }) {
  const id = useID();
  return (
    <div class="labelled">
      <label for={id}>{p.label}{p.hint && <> <code>{p.hint}</code></>}</label>
      <input id={id} type={(p.type ?? "text") as "text"} value={p.value} autocomplete="off" spellcheck={false} onInput={(e) => p.set(e.currentTarget.value)} />
    </div>
  );
}

export function Area(p: { label: string; value: string; set: (v: string) => void; rows?: number; problem?: string }) {
  const id = useID();
  return (
    <div class="labelled">
      <label for={id}>{p.label}</label>
      <textarea id={id} rows={p.rows ?? 3} spellcheck={false} value={p.value} aria-invalid={!!p.problem}
        onInput={(e) => p.set(e.currentTarget.value)} />
      {p.problem && <p class="why-bad small">{p.problem}</p>}
    </div>
  );
}

/** Sends a message to a run; of one that waits for messages these are offered. */
export function Send({ run, wait, onClose, onDone }: { run: Run; wait?: WaitInfo | undefined; onClose: () => void; onDone: () => void }) {
  const names = wait?.names ?? run.waits_for?.flatMap((w) => (w.kind === "receive" ? w.names ?? [] : [])) ?? [];
  const [name, setName] = useState(names[0] ?? "");
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const bad = text.trim() !== "" && !parses(text);
  const send = async (e: Event) => {
    e.preventDefault();
    if (bad || !name || under) return;
    setUnder(true);
    try {
      await post("runs/{id}/messages/{name}", { id: run.id, name }, { value: verbatim(text) });
      say("message " + name + " sent");
      onDone();
      onClose();
    } catch (problem) {
      setError(problem);
      setUnder(false);
    }
  };
  return (
    <Dialog title={"Send a message to " + run.id} onClose={onClose}>
      <form class="form" onSubmit={send}>
        {names.length > 0 && <p>The run waits for {names.map((n) => <><code key={n}>{n}</code> </>)}.</p>}
        <Text label="Name of the message" value={name} set={setName} />
        <Area label="Value, as JSON (empty: null)" value={text} set={setText} rows={6} problem={bad ? "This is no JSON." : ""} />
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class="button primary" disabled={!name || bad || under}>Send</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Acts on all runs that match a filter: first it shows which, then it acts on just these. */
export function Bulk({ verb, query, onClose, onDone }: { verb: BulkVerb & Verb; query: string; onClose: () => void; onDone: () => void }) {
  const rule = verbs[verb];
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [preview, setPreview] = useState<BulkPreview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const [seen, setSeen] = useState<{ runs: number; bad: BulkResult[]; cut: boolean; end: BulkEnd | null } | null>(null);
  const look = async (e: Event) => {
    e.preventDefault();
    setError(null);
    setUnder(true);
    try {
      setPreview(await post("bulk/preview", {}, { query, verb, reason: reason.trim() || undefined }));
    } catch (problem) {
      setError(problem);
    }
    setUnder(false);
  };
  const act = async (e: Event) => {
    e.preventDefault();
    setUnder(true);
    setError(null);
    let runs = 0, end: BulkEnd | null = null;
    const bad: BulkResult[] = [];
    try {
      await postLines("bulk", { token: preview!.token }, (line) => {
        if ("end" in line) end = line;
        else if (runs++, line.code) bad.push(line);
        setSeen({ runs, bad, cut: false, end });
      });
    } catch (problem) {
      if (runs === 0) setError(problem);
    }
    if (runs > 0 || end) {
      setSeen({ runs, bad, cut: !end, end });
      say(plural(runs, "run") + " acted on");
      onDone();
    }
    setUnder(false);
  };
  const total = preview ? preview.runs.toLocaleString("en") + (preview.more ? "+" : "") : "";
  let content: ComponentChildren;
  if (seen) {
    const done = seen.end ? seen.end.done : seen.runs - seen.bad.length;
    content = (
      <>
        <p>{under && !seen.end ? <>Working: {plural(seen.runs, "run")} of {total}.</> : <>
          {plural(done, "run")} done{seen.bad.length > 0 && `, ${seen.bad.length} refused`}{!!seen.end?.pending &&
            `, ${seen.end.pending} not decided yet: the requests stand`}.</>}</p>
        {seen.cut && !under && <p class="note is-warn"><Icon name="stalled" /><span>The answer was cut off: more runs may have been acted on.
          Do it again to reach what is left; what is done is not done twice.</span></p>}
        {seen.end?.more && <p class="note is-warn"><Icon name="stalled" /><span>More runs match than this reached
          {seen.end.detail && <> ({seen.end.detail})</>}. Do it again to go on.</span></p>}
        {seen.bad.length > 0 && <ul class="results">{seen.bad.slice(0, 50).map((r) => <li key={r.id} class="why-bad"><Icon name="failed" /><span class="id">{r.id}</span> {r.detail || r.code}</li>)}</ul>}
        {seen.bad.length > 50 && <p class="dim">and {seen.bad.length - 50} more</p>}
        <footer class="buttons end"><button class="button primary" disabled={under} onClick={onClose}>Close</button></footer>
      </>
    );
  } else if (preview) {
    content = (
      <form class="form" onSubmit={act}>
        <p>{rule.does}</p>
        <p><b>{total} {preview.runs === 1 && !preview.more ? "run" : "runs"}</b> that {preview.runs === 1 ? "matches" : "match"} <code>{query || "(all)"}</code>,
          among them:</p>
        <ul class="results">{preview.examples.map((r) => <li key={r.id}><span class="id">{r.id}</span> <span class="dim">{r.workflow} {r.status}</span></li>)}</ul>
        <p class="dim">Each is looked at again when its turn comes: one that does not match any more is left alone. Runs that start
          from now on are not touched.</p>
        {rule.danger && <Text label="Type the number to go on" hint={total} value={typed} set={setTyped} />}
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class={"button primary" + (rule.danger ? " is-danger" : "")} disabled={under || (!!rule.danger && typed !== total) || preview.runs === 0}>
            {under ? "Working…" : rule.label + " " + total}</button>
        </footer>
      </form>
    );
  } else {
    content = (
      <form class="form" onSubmit={look}>
        <p>{rule.does}</p>
        <p>For all runs that match <code>{query || "(all)"}</code>. Nothing happens before you have seen which they are.</p>
        <Text label={rule.danger ? "Reason (needed; kept in each run's audit)" : "Reason (kept in each run's audit; may be empty)"} value={reason} set={setReason} />
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={onClose}>Do nothing</button>
          <button class="button primary" disabled={under || (!!rule.danger && !reason.trim())}>{under ? "Looking…" : "Show which"}</button>
        </footer>
      </form>
    );
  }
  return <Dialog title={rule.label + " all that match"} onClose={onClose} wide>{content}</Dialog>;
}

/** What can be done at one operation of a run: what the run refuses now is off, and says why. */
export function EntryActions({ run, entry, onAct }: { run: Run; entry: Entry; onAct: (v: Verb) => void }) {
  if (!may("operate")) return null;
  const list: Verb[] = entry.kind === "step" ? ["rewind", "fork", "edit"] : ["rewind", "fork"];
  const why = [...new Set(list.map((v) => refusal(run, v)).filter(Boolean))];
  return (
    <>
      <div class="buttons">
        {list.map((v) => <button key={v} class="button" disabled={!!refusal(run, v)} onClick={() => onAct(v)}>{verbs[v].label}…</button>)}
      </div>
      {why.length > 0 && <p class="dim small">{list.map((v) => verbs[v].label).join(", ")}: {why.join("; ")}</p>}
    </>
  );
}
