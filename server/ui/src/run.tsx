// The page of one run: how it stands, what it waits for and who may answer, where its time went, and what can be done.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, get, has, info, may, now, skew } from "./api";
import { Act, EntryActions, RunActions, Send, type Verb } from "./actions";
import { AuditList } from "./audit";
import { cutText, wasCut } from "./cut";
import { Assign, Delete, Start } from "./dialogs";
import { Graph } from "./graph";
import { Icon } from "./icons";
import { write } from "./json";
import { say, useLive } from "./live";
import {
  Badge, Copy, Empty, Facts, FailureView, Loading, RunLink, rowKeys, StateOf, Trouble, useLoad, Value, When,
} from "./parts";
import { quoted } from "./query";
import { go, link, toRun, toRuns } from "./route";
import { SmallList, WhyText } from "./runs";
import { RunScript } from "./scripts";
import { bytes, moment, plural, second, span, took } from "./time";
import { Timeline } from "./timeline";
import type { Entry, Failure, History as EntryPage, HistoryUse, Item, NamedValue, Run, Shape, Shown, Status, StreamItem, WaitInfo, Why } from "./types";
import { place, reveal, Windowed } from "./windowed";

const pageOf = 2000;

/** The run and all its entries without values: what is new comes by number, and what has none every time. */
function useRun(id: string, tab: string, streams: string[]) {
  const [run, setRun] = useState<Run | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [shape, setShape] = useState<Shape>();
  const [whole, setWhole] = useState(false);
  const [version, setVersion] = useState(0);
  const entries = useRef(new Map<string, Entry>());
  const newest = useRef<Entry | undefined>(undefined); // the completion with the highest number
  const life = useRef("");
  const read = async (): Promise<void> => {
    const r = await get("runs/{id}", { id });
    const now = (r.incarnation ?? 0) + "/" + (r.generation ?? 0);
    const anew = life.current !== now;
    if (anew) { // rewound, retried or continued as new: what was known is not true any more
      life.current = now;
      newest.current = undefined;
    }
    const next = anew ? new Map<string, Entry>() : new Map([...entries.current].filter(([, e]) => e.number));
    let before = JSON.stringify([...entries.current.values()].filter((e) => !e.number)), after: string | undefined;
    // The newest completion is read again: another one in its place, or none, says that it was taken back by a retry.
    const known = newest.current, above = (known?.number ?? 1) - 1;
    let stands = !known;
    do {
      const page: EntryPage = await get("runs/{id}/history", { id, values: "none", limit: pageOf, after, above: above || undefined });
      for (const e of page.entries) {
        stands ||= e.number === known!.number && e.ended === known!.ended && e.location === known!.location;
        if (r.status === "running" && e.kind === "step" && e.state === "open" && !e.attempts && !e.wake) e.executing ??= e.started;
        next.set(e.location, e);
        if ((e.number ?? 0) > (newest.current?.number ?? 0)) newest.current = e;
      }
      after = page.next;
      if (anew && after) { // the first pages are drawn while the rest is read
        entries.current = new Map(next);
        setRun(r);
        setVersion((v) => v + 1);
      }
    } while (after);
    if (!stands) {
      life.current = "";
      return read();
    }
    const changed = anew || newest.current !== known || before !== JSON.stringify([...next.values()].filter((e) => !e.number));
    entries.current = next;
    setRun((old) => {
      if (old && old.status !== r.status) say("The run is " + r.status);
      return r;
    });
    setError(null);
    setWhole(true);
    if (changed) setVersion((v) => v + 1);
    stale.current = stale.current || changed || life.current + r.status !== shaped.current;
    if (!shape || r.ended || drawn) await reshape(r);
  };
  // What draws the shape has it as new as the entries; elsewhere only the sum of its times stands, which may be older.
  const drawn = tab === "timeline" || tab === "graph";
  const stale = useRef(true), shaped = useRef("");
  const reshape = async (r: Run) => {
    if (!stale.current) return;
    stale.current = false;
    shaped.current = life.current + r.status;
    await get("runs/{id}/shape", { id }).then(setShape, () => { stale.current = true; });
  };
  useEffect(() => { if (run && drawn) void reshape(run); }, [drawn]);
  const load = () => read().catch(setError);
  useEffect(() => { void load(); }, [id]);
  const [news, setNews] = useState<News>({ values: new Map(), items: new Map() });
  useLive(run ? { run: id, stream: streams, runs: tab === "children" ? [childrenOf(run)] : [] } : null, load, run?.ended ? 15000 : 2000, (told) => {
    switch (told.event) {
      case "inbox":
        setNews((n) => ({ ...n, inbox: told.data.items }));
        return true;
      case "value":
        setNews((n) => ({ ...n, values: new Map(n.values).set(told.data.name, told.data) }));
        return true;
      case "item": {
        const item = told.data;
        setNews((n) => ({ ...n, items: new Map(n.items).set(item.stream, [...(n.items.get(item.stream) ?? []), item].slice(-keptItems)) }));
        return true;
      }
      case "page":
        setNews((n) => ({ ...n, children: (n.children ?? 0) + 1 }));
        return true;
      case "reset":
        setNews({ values: new Map(), items: new Map() });
    }
    return false;
  });
  return { run, error, entries: entries.current, version, shape, whole, load, news };
}

/** What the stream of events has told beside the run and its entries. */
interface News {
  inbox?: Item[];
  children?: number; // how often they have changed
  values: Map<string, NamedValue>;
  items: Map<string, StreamItem[]>; // by stream
}

const keptItems = 200, followed = 10;

const tabs: [string, string][] = [
  ["timeline", "Timeline"], ["graph", "Graph"], ["history", "History"], ["inbox", "Inbox"], ["children", "Children"],
  ["values", "Values"], ["script", "Script"], ["audit", "Audit"], ["data", "Input and result"],
];

export function RunPage({ id, tab, at }: { id: string; tab: string; at: string }) {
  const [streams, setStreams] = useState<string[]>([]);
  const { run, error, entries, version, shape, whole, load, news } = useRun(id, tab, tab === "values" ? streams : []);
  const [act, setAct] = useState<{ verb: Verb; at?: string | undefined } | null>(null);
  const [send, setSend] = useState<WaitInfo | true | null>(null);
  const [assign, setAssign] = useState<WaitInfo | null>(null);
  const [more, setMore] = useState<"start" | "delete" | null>(null);
  if (!run) return error !== null ? <div class="page"><a href="#/runs">Runs</a><Trouble error={error} retry={load} /></div> : <Loading />;
  const open = (loc: string) => go(toRun(id, tab === "timeline" || tab === "history" || tab === "graph" ? tab : "timeline", loc), true);
  const views: Record<string, () => ComponentChildren> = {
    timeline: () => <Timeline run={run} entries={entries} version={version} shape={shape} at={at} open={open} />,
    graph: () => <Graph run={run} entries={entries} version={version} shape={shape} at={at} open={open} />,
    history: () => <History entries={entries} version={version} at={at} open={open} />,
    inbox: () => <Inbox id={id} run={run} news={news.inbox} />,
    children: () => <Children run={run} version={version + (news.children ?? 0)} />,
    script: () => <RunScript run={run} version={version} />,
    values: () => <Values id={id} version={version} news={news} follow={(names) => setStreams((s) => {
      const next = names.slice(0, followed).map((n) => id + "/" + n);
      return next.join("\n") === s.join("\n") ? s : next;
    })} />,
    audit: () => <RunAudit id={id} version={version} />,
    data: () => <Data run={run} />,
  };
  const view = views[tab] ?? views.timeline!;
  return (
    <div class="page">
      <header class="run-head">
        <p class="crumbs"><a href="#/runs">Runs</a>{run.parent_id && <><Icon name="right" /><RunLink id={run.parent_id} />
          {run.parent_location && <span class="dim">/{run.parent_location}</span>}</>}</p>
        <div class="title-line">
          <h1 class="id">{run.id}</h1>
          <Copy text={run.id} what="the run's ID" />
          <Badge status={run.status} marks={run.marks} />
          <a class="quiet-link" href={toRuns("workflow=" + quoted(run.workflow))}>{run.workflow}</a>
          {run.build && <span class="dim">build {run.build}</span>}
          {!!run.generation && <span class="dim" title="how often it was rewound">generation {run.generation}</span>}
          {!!run.incarnation && <span class="dim" title="how often it has continued as new">incarnation {run.incarnation}</span>}
          <RunActions run={run} onAct={(verb, at) => setAct({ verb, at })} onSend={() => setSend(true)} onMore={setMore} />
        </div>
        <Times run={run} shape={shape} />
        <Tags run={run} />
        <Links run={run} />
      </header>
      {error !== null && <Trouble error={error} retry={load} />}
      <Stopped run={run} entries={entries} onOpen={(loc) => go(toRun(id, "timeline", loc), true)} />
      {!run.ended && run.marks?.includes("paused") && <Paused key={run.marks} id={id} />}
      <Waits run={run} entries={entries} onOpen={open} onSend={setSend} onAssign={setAssign} />
      <nav class="tabs" aria-label="Views of the run">
        {tabs.filter(([t]) => t !== "script" || isScript(entries)).map(([t, label]) => <a key={t} href={toRun(id, t)} aria-current={t === tab ? "page" : undefined}>{label}</a>)}
      </nav>
      {!whole && <p class="dim">Reading the history: {plural(entries.size, "entry", "entries")} so far…</p>}
      <div class={at && ["timeline", "graph", "history"].includes(tab) ? "split" : ""}>
        <div class="split-main">{view()}</div>
        {at && ["timeline", "graph", "history"].includes(tab) && (
          <Operation key={at} id={id} run={run} at={at} known={entries.get(at)} permit={permitOf(run, at)} onClose={() => go(toRun(id, tab), true)}
            onAct={(verb) => setAct({ verb, at })} onSend={setSend} />
        )}
      </div>
      {act && <Act verb={act.verb} runs={[run]} at={act.at} onClose={() => setAct(null)} onDone={load} />}
      {more === "start" && <Start like={run} onClose={() => setMore(null)} />}
      {more === "delete" && <Delete run={run} onClose={() => setMore(null)} />}
      {assign && <Assign run={run} wait={assign} onClose={() => setAssign(null)} onDone={load} />}
      {send && <Send run={run} wait={send === true ? undefined : send} onClose={() => setSend(null)} onDone={load} />}
    </div>
  );
}

/** Whether a run is bound to a version of a script. */
function isScript(entries: Map<string, Entry>): boolean {
  for (const e of entries.values()) if (e.kind === "version" && e.location.endsWith("/script")) return has("scripts") && may("values");
  return false;
}

/** When it began and ended, and what its time was spent on, as the server says. The times add up to the whole. */
function Times({ run, shape }: { run: Run; shape: Shape | undefined }) {
  if (!run.ended) second.value;
  const spent = shape?.spent ?? [];
  const from = shape ? Date.parse(shape.from) : 0, to = shape ? Date.parse(shape.to) : 0;
  const more = shape && !run.ended && spent.some((s) => s.grows) ? Math.max(0, now() - to) : 0; // since it was read
  const times = spent.map((s) => ({ ...s, ms: s.took_us / 1000 + (s.grows ? more : 0) })).filter((s) => s.ms >= 1);
  return (
    <p class="times">
      <span class="dim">created</span> <When time={run.created} />
      {run.ended && <><span class="dim">, ended</span> <When time={run.ended} /></>}
      {times.length > 0 && <> <span class="sum"><b>{span(to - from + more)}</b> = {times.map((s, i) => (
        <span key={s.text}>{i > 0 && " + "}{s.text} {span(s.ms)}</span>))}</span></>}
      {shape && <Used used={shape.used} />}
      {shape?.cut && <span class="dim"> (earlier operations are not recorded any more)</span>}
    </p>
  );
}

/** How much of its budget the history has used: shown from a tenth on, and marked from 80 % on. */
function Used({ used: u }: { used: HistoryUse }) {
  const parts: [number, string][] = [
    [u.entries / u.max_entries, plural(u.entries, "entry", "entries") + " of " + u.max_entries.toLocaleString("en")],
    [u.bytes / u.max_bytes, bytes(u.bytes) + " of " + bytes(u.max_bytes)],
  ];
  const [share, text] = parts.reduce((a, b) => (b[0] > a[0] ? b : a));
  if (!(share >= 0.1)) return null;
  return (
    <span class={share >= 0.8 ? "why-bad" : "dim"} title="When all is used the run stalls until Config.MaxEntries or MaxBytes is raised">
      , the history has used {Math.floor(share * 100)} % of its budget: {text}</span>
  );
}

function Tags({ run }: { run: Run }) {
  const tags = Object.entries(run.tags ?? {});
  if (!tags.length && !run.queue) return null;
  return (
    <ul class="chips">
      {tags.map(([k, v]) => <li key={k}><a class="chip" href={toRuns("tag." + k + "=" + quoted(v))}>{k}={v}</a></li>)}
      {run.queue && <li><a class="chip" href={link(["queues", run.queue.name])}>queue {run.queue.name}{run.queue.waits ? ", waits" : ""}</a></li>}
    </ul>
  );
}

/** Links to what others know of the run: its logs, its trace. One whose place has nothing to stand in is left out. */
function Links({ run }: { run: Run }) {
  const trace = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(run.headers?.traceparent ?? "")?.[1];
  const time = (t?: string) => t && new Date(t).toISOString();
  const known: Record<string, string | undefined> = {
    id: run.id, number: String(run.number), workflow: run.workflow, trace, created: time(run.created), started: time(run.started),
    ended: time(run.ended) ?? new Date(Date.now() + skew.value).toISOString(),
  };
  const links = (info.value?.links ?? []).flatMap(({ name, url }) => {
    let whole = true;
    const href = url.replace(/\{([a-z]+)\}/g, (_, key: string) => {
      whole &&= !!known[key];
      return encodeURIComponent(known[key] ?? "");
    });
    return whole && /^https?:\/\//.test(href) ? [{ name, href }] : [];
  });
  if (!links.length) return null;
  return <p class="links">{links.map((l) => <a key={l.name} class="quiet-link" href={l.href} target="_blank" rel="noopener noreferrer">{l.name}</a>)}</p>;
}

/** Who has paused a run, and why: nothing else on the page says that it stands still on purpose. */
function Paused({ id }: { id: string }) {
  const { data } = useLoad((stop) => get("runs/{id}/audit", { id }, stop), "paused " + id);
  const by = data?.audit.filter((a) => a.verb === "pause").pop();
  return (
    <section class="stopped is-plain" aria-label="Why it stands still">
      <Icon name="paused" />
      <div class="grow">
        <h2>Paused{by && <> by {by.who ?? "nobody known"}, <When time={by.time} /></>}</h2>
        {by?.why && <p class="message">{by.why}</p>}
        <p class="dim">Its code is not executed until it is resumed; what it waits for may come meanwhile.</p>
      </div>
    </section>
  );
}

/** The innermost failure: what a person must read first. */
function innermost(f: Failure): Failure {
  const last = f.causes?.[f.causes.length - 1];
  return last ? innermost(last) : f;
}

/** Why a run has failed or stalled: the step, its error, and the way there. */
function Stopped({ run, entries, onOpen }: { run: Run; entries: Map<string, Entry>; onOpen: (loc: string) => void }) {
  if (run.status !== "failed" && run.status !== "stalled" && run.status !== "cancelled") return null;
  const f = run.error;
  let at = f?.location;
  if (!at && run.status === "failed") { // the code has returned an error of its own: the last failure stands next to it
    let top = 0;
    for (const e of entries.values()) {
      if (e.state === "failed" && (e.number ?? 0) > top) {
        top = e.number!;
        at = e.location;
      }
    }
  }
  const core = f && innermost(f);
  const bad = run.status !== "cancelled";
  const said = !!core && !!run.reason?.includes(core.message); // the reason says it, and what to do
  return (
    <section class={"stopped " + (run.status === "failed" ? "is-bad" : run.status === "stalled" ? "is-warn" : "is-plain")} aria-label="Why it stopped">
      <Icon name={run.status} />
      <div class="grow">
        <h2>{run.status === "stalled" ? "Stalled" + (run.cause ? ": " + run.cause : "") : run.status === "cancelled" ? "Cancelled" : "Failed"}
          {bad && at && <> at <button class="as-link id" onClick={() => onOpen(at!)}>{at}</button></>}
          {bad && !!f?.attempts && <span class="dim"> after {plural(f.attempts, "attempt")}</span>}</h2>
        {core && !said && <pre class="message">{core.message}</pre>}
        {run.reason && run.reason !== core?.message && <p class={said ? "message" : ""}>{run.reason.replace((run.cause ?? "") + ": ", "")}</p>}
        {run.status === "stalled" && <p class="dim">Nothing is lost. When the cause is gone, resume goes on where the run stands.</p>}
        {!!run.owed?.length && <p>Not undone: {run.owed.map((o) => <code key={o}>{o} </code>)}</p>}
        {f && (f.causes?.length || f.stack) && <details><summary>The whole error</summary><FailureView failure={f} /></details>}
      </div>
    </section>
  );
}

const answers: Record<string, string> = {
  message: "Callers and operators may send it", promise: "Whoever has its token assigns it", event: "Whoever publishes to the topic",
};

/** Why a step at a location waits for a permit or a worker. */
export const permitOf = (run: Run, at: string) =>
  run.why?.find((w) => w.location === at && ["permit", "offered", "worker"].includes(w.code));

/** What a run waits for or executes, as the server says, with what a person can do about it here. */
function Waits({ run, entries, onOpen, onSend, onAssign }: {
  run: Run; entries: Map<string, Entry>; onOpen: (loc: string) => void; onSend: (w: WaitInfo) => void; onAssign: (w: WaitInfo) => void;
}) {
  const bodies = run.status !== "running" ? [] : [...entries.values()].filter((e) => e.executing).sort((a, b) => a.executing!.localeCompare(b.executing!));
  const elsewhere = /^(stalled|succeeded|failed|cancelled|paused|running$)/; // shown above, or nothing to say
  const list = (run.why ?? []).filter((w) => !elsewhere.test(w.code) && (w.code !== "executing" || !bodies.length));
  if (!list.length && !bodies.length) return null;
  if (bodies.length) second.value;
  const state = bodies.length ? "running" : "suspended";
  return (
    <section class={"waits is-" + state} aria-label={bodies.length ? "What it executes" : "What it waits for"}>
      <Icon name={state} />
      <ul>
        {bodies.slice(0, 5).map((e) => (
          <li key={e.location}>Executes <button class="button small id" onClick={() => onOpen(e.location)}>{e.location}</button> since <When time={e.executing} />, for <b>{took(e.executing!)}</b>
            {long(e.executing!) && <span class="why-bad"> (for long)</span>}.</li>
        ))}
        {bodies.length > 5 && <li class="dim">and {bodies.length - 5} more steps</li>}
        {list.map((w) => {
          const wait = run.waits_for?.find((x) => x.location === w.location);
          const queue = wait?.queue ?? (w.code === "queue" ? run.queue?.name : undefined);
          return (
            <li key={w.code + w.location + w.text}>
              <b><WhyText why={w} /></b>.
              {wait?.run && <> <RunLink id={wait.run} /></>}
              {wait?.topic && <> <a href={link(["topics", wait.topic])}>topic {wait.topic}</a></>}
              {queue && <> <a href={link(["queues", queue])}>queue {queue}</a></>}
              {answers[w.code] && <> {answers[w.code]}{wait && w.code === "message" && may("call") && <> <button class="button small" onClick={() => onSend(wait)}>Send…</button></>}
                {wait && w.code === "promise" && may("call") && <> <button class="button small" onClick={() => onAssign(wait)}>Assign…</button></>}.</>}
              {w.help && !answers[w.code] && <span class="dim"> To help: {w.help}.</span>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** One operation: its outcome, its error, its times, and what can be done there. Values are read when it is opened. */
function Operation(p: {
  id: string; run: Run; at: string; known: Entry | undefined; permit: Why | undefined; onClose: () => void; onAct: (v: Verb) => void; onSend: (w: WaitInfo) => void;
}) {
  const key = p.id + "\n" + p.at + "\n" + [p.known?.state, p.known?.attempts, p.known?.executing].join();
  const { data, error, load } = useLoad(async (stop) => (await get("runs/{id}/history", { id: p.id, at: [p.at] }, stop)).entries[0] ?? null, key);
  const head = useRef<HTMLHeadingElement>(null);
  const e = data ?? p.known;
  return (
    <section class="operation" aria-label={"Operation " + p.at}
      onKeyDown={(k) => { if (k.key === "Escape") p.onClose(); }}>
      <header class="bar">
        <h2 ref={head} class="id">{p.at}</h2>
        <button class="button quiet square" aria-label="Close the operation" onClick={p.onClose}><Icon name="close" /></button>
      </header>
      {!e ? (error !== null && error !== undefined ? <Trouble error={error} retry={load} /> : data === null ? <p class="dim">Nothing is recorded here.</p> : <Loading />) : (
        <>
          <p class="bar-line"><StateOf state={e.state} undone={e.undone} /> <span class="dim">{e.kind}</span>
            {!!e.attempts && e.attempts > 1 && <span class="dim">{e.attempts} attempts</span>}</p>
          <EntryActions run={p.run} entry={e} onAct={p.onAct} />
          {e.executing && <p class="note"><Icon name="running" /><span>Executing since <When time={e.executing} />{long(e.executing) && <b> for long</b>} (attempt {(e.attempts ?? 0) + 1})</span></p>}
          {p.permit && <p class="note"><Icon name="held" /><span><WhyText why={p.permit} /></span></p>}
          {e.state === "open" && e.wake && <p class="note"><Icon name="suspended" /><span>{e.kind === "step" ? "Next attempt" : "Until"} {moment(e.wake)}</span></p>}
          {data && wasCut(data) && <p class="note is-warn"><Icon name="withdrawn" /><span>{cutText(data)}</span></p>}
          {e.error && <FailureView failure={e.error} />}
          {(e.state === "done" || wasCut(e)) && <Tries entry={e} />}
          <Facts of={[
            ["began", <When time={e.started} />], ["ended", e.ended && <When time={e.ended} />],
            ["took", e.started && (e.ended || e.state === "open") && took(e.started, e.ended)], ["order", e.number], ["run", e.run && <RunLink id={e.run} />],
            ["topic", e.topic && <a href={link(["topics", e.topic])}>{e.topic}</a>], ["event", e.event],
            ["assigned by", e.by], ["reason", e.why],
            ["iterations", e.loop && e.loop.completed + (e.loop.oldest ? ", kept from ~" + e.loop.oldest + " on" : "")],
            ["compensation", e.undoable && (e.undone ? "has undone it" : "is there, and has not run")], ["stored", e.size ? bytes(e.size) : ""],
          ]} />
          {e.messages?.map((m, i) => <div key={i}><h3>message {m.name}, sent <When time={m.sent} />{m.by && " by " + m.by}</h3><Value value={m.value} name={"message " + m.name} /></div>)}
          {data === undefined && error === undefined ? <Loading /> : data && data.value !== undefined && data.value !== null ? (
            <><h3>{e.state === "open" ? "last heartbeat" : e.kind === "version" ? "version" : "result"}</h3>
              <Value value={data.value} name="result" href={address("runs/{id}/value", { id: p.id, at: p.at })} /></>
          ) : null}
          {error !== undefined && error !== null && <Trouble error={error} retry={load} />}
        </>
      )}
    </section>
  );
}

/** Whether a body that began then has executed for over 30 s. */
const long = (since: string) => Date.now() + skew.value - Date.parse(since) >= 30_000;

/** The attempts that failed before the operation succeeded. */
function Tries({ entry }: { entry: Entry }) {
  const tries = entry.attempt_times ?? [];
  if (!tries.length) return null;
  const out = tries[0]!.number - 1;
  return (
    <section aria-label="Failed attempts">
      <h3>failed attempts</h3>
      {out > 0 && <p class="dim">{plural(out, "earlier one")} left out</p>}
      {tries.map((a) => (
        <p key={a.number}>{a.number}. <When time={a.began} /> <span class="dim">took {took(a.began, a.ended)}</span> <span>{a.message || a.code}</span></p>
      ))}
    </section>
  );
}

/** All entries in the order in which they were completed. */
function History({ entries, version, at, open }: { entries: Map<string, Entry>; version: number; at: string; open: (loc: string) => void }) {
  const [active, setActive] = useState(0);
  const [find, setFind] = useState("");
  const holder = useRef<HTMLDivElement>(null);
  const wanted = find.trim().toLowerCase();
  const list = useMemo(() => [...entries.values()].filter((e) => !wanted || e.location.toLowerCase().includes(wanted) || e.kind === wanted || e.state === wanted)
    .sort((a, b) => (a.number || Infinity) - (b.number || Infinity) || Date.parse(a.started ?? "") - Date.parse(b.started ?? "")), [version, wanted]);
  const i = Math.min(active, Math.max(0, list.length - 1));
  const keys = rowKeys(list.length, i, (to) => {
    setActive(to);
    reveal(holder.current, to);
  }, (e) => {
    if ((e.key === "Enter" || e.key === " ") && list[i]) {
      e.preventDefault();
      open(list[i]!.location);
    }
  });
  return (
    <section aria-label="History">
      <div class="tools"><div class="tool-line"><label class="find">Find <input type="search" value={find} spellcheck={false} onInput={(e) => setFind(e.currentTarget.value)} /></label>
        <span class="dim">{plural(list.length, "entry", "entries")}, in the order of completion; values are read when you open one</span></div></div>
      {list.length === 0 ? <p class="dim pad">{entries.size ? "Nothing matches." : "Nothing is recorded yet."}</p> : (
        <Windowed count={list.length} active={i} label="History" columns="history-rows" role="grid" holder={holder} onKeyDown={keys}
          head={["Order", "Operation", "Kind", "State", "Began", "Took", "Size"].map((h) => <span key={h} class={"cell" + (h === "Order" || h === "Took" || h === "Size" ? " num" : "")} role="columnheader">{h}</span>)}
          row={(n) => {
            const e = list[n]!;
            return (
              <div key={e.location} class={"row" + (e.location === at ? " chosen" : "")} role="row" data-row={n} tabIndex={n === i ? 0 : -1} aria-rowindex={n + 2}
                aria-selected={e.location === at} style={place(n)} onFocus={() => setActive(n)} onClick={() => { setActive(n); open(e.location); }}>
                <span class="cell num dim" role="gridcell">{e.number ?? ""}</span>
                <span class="cell clip id" role="gridcell" title={e.location}>{e.location}</span>
                <span class="cell dim clip" role="gridcell">{e.kind}</span>
                <span class="cell" role="gridcell"><StateOf state={e.state} undone={e.undone} />{wasCut(e) && <span class="tag">had begun</span>}{(e.attempts ?? 0) > 1 && <span class="tag">×{e.attempts}</span>}</span>
                <span class="cell dim" role="gridcell">{e.started ? moment(e.started, true) : ""}</span>
                <span class="cell num" role="gridcell">{e.ended || e.state === "open" ? took(e.started, e.ended) : ""}</span>
                <span class="cell num dim" role="gridcell">{e.size ? bytes(e.size) : ""}</span>
              </div>
            );
          }} />
      )}
    </section>
  );
}

function Inbox({ id, run, news }: { id: string; run: Run; news: Item[] | undefined }) {
  const wanted = (run.waits_for ?? []).flatMap((w) => w.names ?? []);
  const { data, error, load } = useLoad((stop) => get("runs/{id}/inbox", { id }, stop), id);
  const items = news ?? data?.items;
  if (error !== undefined && !items) return <Trouble error={error} retry={load} />;
  if (!items) return <Loading />;
  if (!items.length) return <Empty title="The inbox is empty">Messages wait here until the code receives them.</Empty>;
  return <ul class="cards">{items.map((m, i) => (
    <li key={i} class="card"><p><b>{m.kind} {m.name}</b> <span class="dim">sent <When time={m.sent} />{m.by && " by " + m.by}{m.why && ": " + m.why}{!m.seen ? ", not yet seen" : ""}{!m.size ? ", without a value" : m.value === undefined ? ", " + bytes(m.size) : ""}</span></p>
      {m.kind === "message" && wanted.length > 0 && !wanted.includes(m.name ?? "") &&
        <p class="note"><Icon name="stalled" /><span>The run waits for {wanted.map((n) => <><code key={n}>{n}</code> </>)}and not for this. It is kept until the code receives it.</span></p>}
      {m.value !== undefined && <Value value={m.value} name={m.kind + " " + (m.name ?? "")} />}</li>))}</ul>;
}

/** Returns the query for the children of a run. */
const childrenOf = (run: Run) => "parent=" + JSON.stringify(run.id);

function Children({ run, version }: { run: Run; version: number }) {
  const { data, error, load } = useLoad((stop) => get("runs", { query: childrenOf(run), limit: 200 }, stop),
    run.id + version, true);
  if (error !== undefined) return <Trouble error={error} retry={load} />;
  if (!data) return <Loading />;
  if (!data.runs.length) return <Empty title="It has started no other runs" />;
  const n = (s: Status) => data.runs.filter((r) => r.status === s).length;
  return (
    <section aria-label="Children">
      <p class="dim">{plural(data.runs.length, "child", "children")}{data.next && " or more"}
        {n("failed") + n("stalled") > 0 && <>, <b class="why-bad">{n("failed") + n("stalled")} failed or stalled</b></>}.
        {" "}<a href={toRuns(childrenOf(run))}>As a list of runs</a></p>
      <SmallList runs={[...data.runs].sort((a, b) => rank(a) - rank(b))} />
    </section>
  );
}

const rank = (r: Run) => ["stalled", "failed", "running", "suspended", "queued", "cancelled", "succeeded"].indexOf(r.status);

function Values({ id, version, news, follow }: { id: string; version: number; news: News; follow: (streams: string[]) => void }) {
  const { data: read, error, load } = useLoad((stop) => get("runs/{id}/values", { id }, stop), id);
  const last = useRef<Shown | undefined>(undefined);
  if (read) last.current = read;
  const data = last.current;
  const told = data?.values.map((v) => { // whichever was set more often is later
    const n = news.values.get(v.name);
    return n && n.set >= v.set ? n : v;
  }) ?? [];
  for (const n of news.values.values()) if (!told.some((v) => v.name === n.name)) told.push(n);
  const unread = useRef(version);
  useEffect(() => { // a new stream comes with an entry; values come by themselves
    if (unread.current !== version) void load();
    unread.current = version;
  }, [version]);
  useEffect(() => { follow(data?.streams.filter((s) => s.last <= 5000).map((s) => s.name) ?? []); }, [data]);
  if (error !== undefined) return <Trouble error={error} retry={load} />;
  if (!data) return <Loading />;
  if (!told.length && !data.streams.length) return <Empty title="It shows no values and no streams">Code shows them with SetValue and Append.</Empty>;
  return (
    <ul class="cards">
      {told.map((v) => <li key={v.name} class="card"><p><b>{v.name}</b> <span class="dim">set <When time={v.at} />, {plural(v.set, "time")}</span></p><Value value={v.value} name={v.name} href={address("runs/{id}/values", { id, name: v.name })} /></li>)}
      {data.streams.map((s) => <li key={s.name} class="card"><Stream id={id} name={s.name} last={s.last} at={s.at} news={news.items.get(s.name) ?? []} /></li>)}
    </ul>
  );
}

function Stream({ id, name, last: known, at: knownAt, news }: { id: string; name: string; last: number; at: string; news: StreamItem[] }) {
  const first = useRef(known); // what comes later is told
  const from = Math.max(0, first.current - 100);
  const { data, error } = useLoad((stop) => get("runs/{id}/streams/{name}", { id, name, after: from || undefined, limit: 100 }, stop), id + name);
  const items = [...(data?.items ?? [])];
  for (const n of news) if (n.position > (items[items.length - 1]?.position ?? first.current)) items.push(n);
  const end = items[items.length - 1];
  const last = Math.max(known, end?.position ?? 0), at = end && end.position >= known ? end.at : knownAt;
  return (
    <>
      <p><b>stream {name}</b> <span class="dim">{plural(last, "item")}, the last one <When time={at} /></span></p>
      {error !== undefined ? <Trouble error={error} /> : !data ? <Loading /> : (
        <ol class="stream" tabIndex={0} aria-label={"Items of " + name}>{items.slice(-keptItems).map((i) => (
          <li key={i.position}><span class="dim num">{i.position}</span> <span class="dim"><When time={i.at} /></span> <code>{write(i.value)}</code></li>))}</ol>
      )}
    </>
  );
}

function RunAudit({ id, version }: { id: string; version: number }) {
  const { data, error, load } = useLoad((stop) => get("runs/{id}/audit", { id }, stop), id + version, true);
  if (error !== undefined) return <Trouble error={error} retry={load} />;
  if (!data) return <Loading />;
  return <AuditList acts={data.audit} none="Nobody has acted on this run" />;
}

function Data({ run }: { run: Run }) {
  const { id } = run;
  return (
    <div class="columns">
      <div><h2>Input</h2><Value value={run.input} name="input" href={address("runs/{id}/value", { id, at: "input" })} /></div>
      <div><h2>Result</h2>{run.status === "succeeded" ? <Value value={run.output} name="result" href={address("runs/{id}/value", { id, at: "output" })} />
        : run.error ? <FailureView failure={run.error} /> : <p class="dim">There is none yet.</p>}</div>
      <div><h2>Facts</h2>
        <Facts of={[
          ["number", run.number], ["created", <When time={run.created} />], ["started", run.started && <When time={run.started} />],
          ["ended", run.ended && <When time={run.ended} />], ["build", run.build], ["shard", run.group && run.group + "/" + run.slot], ["parent", run.parent_id && <RunLink id={run.parent_id} />],
          ["wakes", run.wake_at && <When time={run.wake_at} />],
          ...Object.entries(run.headers ?? {}).map(([k, v]): [string, ComponentChildren] => ["header " + k, v]),
        ]} />
        <p><a class="button" href={address("runs/{id}/export", { id })} download>Export the run</a></p>
      </div>
    </div>
  );
}
