// The list of runs: views, filter, counts, selection, and what can be done to many at once.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, has, may } from "./api";
import { Act, Bulk, verbs, type Verb } from "./actions";
import { Start } from "./dialogs";
import { Icon } from "./icons";
import { say, useLive } from "./live";
import { Badge, Empty, Loading, Menu, Older, RunLink, Trouble, When, rowKeys } from "./parts";
import { quoted, terms, toggled, values, without } from "./query";
import { go, link, toRun } from "./route";
import { plural, took } from "./time";
import type { BulkVerb, Run, Runs, Status, Tally, Why as WhyOf } from "./types";

const statuses: Status[] = ["queued", "running", "suspended", "stalled", "failed", "succeeded", "cancelled"];

interface View {
  name: string;
  query: string;
  order?: string;
}

const builtIn: View[] = [
  { name: "All", query: "" },
  { name: "Needs attention", query: "status=failed,stalled" },
  { name: "Failing", query: "mark=failing" },
  { name: "Running", query: "status=running" },
  { name: "Waiting", query: "status=suspended" },
  { name: "Paused", query: "mark=paused" },
  { name: "Recently ended", query: "status=succeeded,failed,cancelled", order: "ended" },
];

const key = "stet.views";

function ownViews(): View[] {
  try {
    const list: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(list) ? list.filter((v) => typeof v?.name === "string" && typeof v?.query === "string") : [];
  } catch {
    return [];
  }
}

const toList = (query: string, order?: string) => link(["runs"], { query, order });

export function RunsPage({ query, order }: { query: string; order: string }) {
  const [pages, setPages] = useState<{ runs: Run[]; next: string | undefined; key: string } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [fresh, setFresh] = useState<Run[]>([]);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [act, setAct] = useState<{ verb: Verb; runs: Run[] } | null>(null);
  const [start, setStart] = useState(false);
  const [bulk, setBulk] = useState<BulkVerb & Verb | null>(null);
  const [views, setViews] = useState(ownViews);
  const [more, setMore] = useState(false);
  const listKey = query + "\n" + order;
  const wanted = useRef(listKey);
  wanted.current = listKey;
  const params = { query, order: order || undefined, limit: 50 };

  const load = async () => {
    const mine = listKey;
    try {
      const page = await get("runs", params);
      if (wanted.current !== mine) return;
      setPages({ runs: page.runs, next: page.next, key: mine });
      setFresh([]);
      setError(null);
    } catch (e) {
      if (wanted.current === mine) setError(e);
    }
  };
  useEffect(() => {
    setPages(null);
    setError(null);
    setFresh([]);
    setChosen(new Set());
    void load();
  }, [listKey]);

  // Rows are written anew where they stand; what is new waits above until it is asked for.
  const renew = (page: Runs, mine: string) => {
    if (wanted.current !== mine) return;
    setError(null);
    setPages((old) => {
      if (!old || old.key !== mine) return old; // the page itself is on its way
      const byID = new Map(page.runs.map((r) => [r.id, r]));
      const known = new Set(old.runs.map((r) => r.id));
      const added = page.runs.filter((r) => !known.has(r.id));
      if (!old.runs.length && page.runs.length) {
        void load();
        return old;
      }
      setFresh(added);
      return { ...old, runs: old.runs.map((r) => byID.get(r.id) ?? r) };
    });
    counts.load();
  };
  // The stream brings the rows, in the order of their creation: nothing is to be asked for. In another order it only says
  // that something has changed.
  const follows = [...new Set([query, attention])];
  useLive({ runs: follows }, async () => {
    const mine = listKey;
    renew(await get("runs", params), mine);
  }, 3000, (told) => {
    if (told.event !== "page") return false;
    const page = told.data;
    if (page.query === attention) attend.load();
    if (page.query !== query) return true;
    if (order) return false;
    renew({ runs: page.runs.slice(0, params.limit), ...(page.runs.length > params.limit ? { next: "more" } : {}) }, listKey);
    return true;
  });
  const attend = useAttention();

  const older = async () => {
    if (!pages?.next || more) return;
    setMore(true);
    try {
      const page = await get("runs", { ...params, cursor: pages.next });
      setPages((old) => old && { ...old, runs: [...old.runs, ...page.runs], next: page.next });
    } catch (e) {
      setError(e);
    }
    setMore(false);
  };

  const counts = useCounts(query);
  const runs = pages?.key === listKey ? pages.runs : null;
  const selected = useMemo(() => runs?.filter((r) => chosen.has(r.id)) ?? [], [runs, chosen]);
  const change = (q: string) => go(toList(q, order));
  const save = () => {
    const name = prompt("Name of the view")?.trim();
    if (!name) return;
    const list = [...views.filter((v) => v.name !== name), { name, query, order }];
    localStorage.setItem(key, JSON.stringify(list));
    setViews(list);
  };
  const current = (v: View) => v.query === query && (v.order ?? "") === order;
  const mine = views.find(current);

  return (
    <>
      <h1 class="unseen">Runs</h1>
      <div class="views" role="group" aria-label="Views">
        {[...builtIn, ...views].map((v) => (
          <a key={v.name} class="view" href={toList(v.query, v.order)} aria-current={current(v) ? "true" : undefined}>
            {v.name}
            {v.name === "Needs attention" && attend.n && <b class="pill">{attend.n}</b>}
          </a>
        ))}
        {mine ? (
          <button class="button quiet small" onClick={() => {
            const list = views.filter((v) => v !== mine);
            localStorage.setItem(key, JSON.stringify(list));
            setViews(list);
          }}>Forget this view</button>
        ) : !builtIn.some(current) && <button class="button quiet small" onClick={save}><Icon name="plus" />Save as a view</button>}
        {may("call") && <button class="button small" onClick={() => setStart(true)}><Icon name="plus" />Start a run…</button>}
      </div>
      <Filter query={query} change={change} />
      <div class="counts" role="group" aria-label="Runs by status">
        {statuses.map((s) => {
          const c = counts.of(s);
          return (
            <button key={s} class={"count is-" + s} aria-pressed={values(query, "status=").includes(s)}
              onClick={() => change(toggled(query, "status=", s))}>
              <Icon name={s} />{s} <b>{c}</b>
            </button>
          );
        })}
        {counts.capped && <button class="button quiet small" onClick={counts.exact}>Count exactly</button>}
      </div>
      {error !== null && <Trouble error={error} retry={load} />}
      {fresh.length > 0 && (
        <button class="fresh" onClick={() => {
          void load();
          say(plural(fresh.length, "new run") + " shown");
        }}>{fresh.length >= 50 ? "50 or more" : fresh.length} new above, show</button>
      )}
      {!runs ? error === null && <Loading /> : runs.length === 0 ? (
        query ? <Empty title="No run matches">Take a term away, or look at <a href="#/runs">all runs</a>.</Empty>
          : <Empty title="There are no runs yet">Start one from the application, or with <code>stet start</code>.</Empty>
      ) : (
        <>
          <List runs={runs} chosen={chosen} setChosen={setChosen} />
          <div class="foot">
            <span class="dim">{plural(runs.length, "run")} shown</span>
            {pages?.next && <Older under={more} more={older} />}
          </div>
        </>
      )}
      {may("operate") && runs && runs.length > 0 && (
        <div class="acts" role="group" aria-label="Actions">
          {selected.length > 0 ? (
            <>
              <b>{plural(selected.length, "run")} selected</b>
              {(["retry", "cancel"] as Verb[]).map((v) => (
                <button key={v} class="button" onClick={() => setAct({ verb: v, runs: selected })}>{verbs[v].label}…</button>
              ))}
              <Menu label="More" choices={(["resume", "pause", "terminate"] as Verb[]).map((v) => ({
                label: verbs[v].label + "…", danger: v === "terminate", run: () => setAct({ verb: v, runs: selected }),
              }))} />
              <button class="button quiet" onClick={() => setChosen(new Set())}>Clear</button>
            </>
          ) : <><span class="dim">Select runs with the boxes to act on them</span>
            <button class="button quiet" onClick={() => setChosen(new Set(runs.map((r) => r.id)))}>Select all shown</button></>}
          {has("bulk") && <Menu label="All that match" choices={(["retry", "cancel", "pause", "resume", "terminate"] as const).map((v) => ({
            label: verbs[v].label + "…", hint: "shows first which runs it reaches", danger: v === "terminate", run: () => setBulk(v),
          }))} />}
        </div>
      )}
      {act && <Act verb={act.verb} runs={act.runs} onClose={() => setAct(null)} onDone={() => {
        setChosen(new Set());
        void load();
      }} />}
      {start && <Start onClose={() => setStart(false)} />}
      {bulk && <Bulk verb={bulk} query={query} onClose={() => setBulk(null)} onDone={load} />}
    </>
  );
}

/** Counts by status of all that matches, whatever its status, so that the buttons say what they would show. */
function useCounts(query: string) {
  const [tallies, setTallies] = useState<Tally[] | null>(null);
  const base = terms(query).filter((t) => !t.startsWith("status=")).join(" ");
  const last = useRef(base);
  last.current = base;
  const read = async (exact: boolean) => {
    const mine = base;
    try {
      const c = await get("counts", { query: mine, by: "status", exact, age: exact ? undefined : "1s" });
      if (last.current === mine) setTallies(c.counts);
    } catch {
      // the list says what is wrong
    }
  };
  useEffect(() => {
    setTallies(null);
    void read(false);
  }, [base]);
  const load = useThrottled(() => read(false), 5000);
  return {
    capped: tallies?.some((t) => t.more) ?? false,
    of: (s: Status) => {
      const t = tallies?.find((c) => c.status === s);
      return tallies ? (t?.runs ?? 0).toLocaleString("en") + (t?.more ? "+" : "") : "";
    },
    exact: () => void read(true),
    load,
  };
}

/** Calls a function at most once in an interval, a second later at the soonest: answers that are shared are older. */
function useThrottled(call: () => Promise<unknown>, interval: number): () => void {
  const latest = useRef(call), last = useRef(0), timer = useRef(0);
  latest.current = call;
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      last.current = Date.now();
      latest.current().catch(() => {});
    }, Math.max(1000, last.current + interval - Date.now()));
  };
}

const attention = "status=failed,stalled";

/** How many runs need attention. */
function useAttention() {
  const [n, setN] = useState("");
  const read = async () => {
    const c = await get("counts", { query: attention, by: "status", age: "1s" });
    const sum = c.counts.reduce((a, t) => a + t.runs, 0);
    setN(sum ? sum.toLocaleString("en") + (c.counts.some((t) => t.more) ? "+" : "") : "");
  };
  const load = useThrottled(read, 10000);
  useEffect(() => { read().catch(() => {}); }, []);
  return { n, load };
}

const help: [string, string][] = [
  ["id=order-42", "this ID, or several: id=a,b"], ["id=order-*", "IDs with this beginning"],
  ["workflow=checkout", "one of these workflows"], ["status=failed,stalled", "one of these"],
  ["mark=paused", "paused, cancelling, undoing, expiring, held, failing or locked"], ["tag.tenant=acme", "has the tag with this value"],
  ["parent=etl-7", "children of the run with this ID, or number"], ["created>2026-01-31", "created then or later; also with a time"],
  ["ended<2026-02-01", "has ended, before then"],
];

function Filter({ query, change }: { query: string; change: (q: string) => void }) {
  const [text, setText] = useState(query);
  const [open, setOpen] = useState(false);
  useEffect(() => setText(query), [query]);
  return (
    <form class="filter" role="search" onSubmit={(e) => { e.preventDefault(); change(terms(text).join(" ")); }}>
      <div class="filter-line">
        <label for="filter">Filter</label>
        <div class="field">
          <Icon name="find" />
          <input id="filter" value={text} spellcheck={false} autocomplete="off" placeholder="workflow=checkout tag.tenant=acme"
            onInput={(e) => setText(e.currentTarget.value)} aria-describedby="filter-hint" />
        </div>
        <button class="button">Apply</button>
        <button type="button" class="button quiet" aria-expanded={open} onClick={() => setOpen(!open)}>Terms</button>
        <span id="filter-hint" class="unseen">Terms with spaces between them. All must hold. Enter applies.</span>
      </div>
      {open && (
        <ul class="terms">
          {help.map(([t, hint]) => (
            <li key={t}>
              <button type="button" class="chip" onClick={() => setText((text + " " + t).trim())}>{t}</button>
              <span class="dim">{hint}</span>
            </li>
          ))}
        </ul>
      )}
      {terms(query).length > 0 && (
        <ul class="chips" aria-label="Terms of the filter">
          {terms(query).map((t) => (
            <li key={t}>
              <span class="chip">{t}
                <button type="button" aria-label={"Take away " + t} onClick={() => change(without(query, t))}><Icon name="close" /></button>
              </span>
            </li>
          ))}
          <li><button type="button" class="button quiet small" onClick={() => change("")}>Clear all</button></li>
        </ul>
      )}
    </form>
  );
}

/** Why a run stands as it does, in a line: what the server says first of it. */
export function Why({ run }: { run: Run }) {
  const why = run.why ?? [], w = why[0];
  if (!w || w.code === "succeeded" || w.code === "running") return null;
  const where = (w.code === "failed" || w.code.startsWith("stalled")) && run.error?.location;
  return <span>{w.code !== "failed" && <WhyText why={w} bare />}
    {w.quote && <span class={bad(w) ? "why-bad" : ""}>{w.code !== "failed" && ": "}{where && <b>{where}: </b>}{brief(w.quote)}</span>}
    {w.code === "failed" && (run.error?.attempts ?? 0) > 1 && <span class="dim"> ({run.error!.attempts} attempts)</span>}
    {why.length > 1 && <span class="dim"> and {why.length - 1} more</span>}</span>;
}

/** Whether a person has to do something about it, or it has gone wrong. */
export const bad = (w: WhyOf) => /^(stalled|failed|retry|code|group|build|lost)/.test(w.code);

/** What the server says, with the times in the zone of the viewer. bare: without its quote, and since when. */
export function WhyText({ why: w, bare }: { why: WhyOf; bare?: boolean }) {
  const until = w.code === "retry" ? ", next at " : w.code === "worker" ? ", lease until " : w.code === "begin" ? " " : ", until ";
  const short = bare && !["executing", "lost", "offered", "worker"].includes(w.code);
  return <><span class={bad(w) ? "why-bad" : ""}>{w.text}</span>
    {(w.since || w.until) && <span class="dim">{w.since && !short && <> since <When time={w.since} /></>}{w.until && <>{until}<When time={w.until} /></>}</span>}
    {!bare && w.quote && <span class={bad(w) ? "why-bad" : ""}>: {brief(w.quote)}</span>}</>;
}

/** The last words of a failure say most: the step and its attempts are there already. */
function brief(text: string) {
  const line = text.split("\n").find((l) => l.trim()) ?? text;
  const cut = /^step .{1,300}? failed(?: after \d+ attempts?)?: (.+)$/.exec(line);
  return cut ? cut[1] : line;
}

function List({ runs, chosen, setChosen }: { runs: Run[]; chosen: Set<string>; setChosen: (s: Set<string>) => void }) {
  const [active, setActive] = useState(0);
  const body = useRef<HTMLDivElement>(null);
  const choose = may("operate");
  useEffect(() => { if (active >= runs.length) setActive(Math.max(0, runs.length - 1)); }, [runs.length]);
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
    say(next.size + " selected");
  };
  const keys = rowKeys(runs.length, active, (to) => {
    setActive(to);
    body.current?.querySelectorAll<HTMLElement>("[data-row]")[to]?.focus();
  }, (e) => {
    const run = runs[active];
    if (!run || (e.target as HTMLElement).dataset.row === undefined) return;
    if (e.key === "Enter") go(toRun(run.id));
    else if (e.key === " " && choose) {
      e.preventDefault();
      toggle(run.id);
    }
  });
  const all = runs.every((r) => chosen.has(r.id));
  return (
    <div class={choose ? "list runs" : "list runs plain-list"} role="treegrid" aria-label="Runs" aria-rowcount={runs.length + 1}
      aria-multiselectable={choose} onKeyDown={keys}>
      <div class="row head" role="row" aria-rowindex={1}>
        {choose && <span role="columnheader" class="cell"><input type="checkbox" aria-label="Select all that are shown" tabIndex={-1}
          checked={all} onChange={() => setChosen(all ? new Set() : new Set(runs.map((r) => r.id)))} /></span>}
        {["Status", "Run", "Workflow", "Age", "Took", "Waits for, or why it stopped"].map((h) => (
          <span key={h} class="cell" role="columnheader">{h}</span>
        ))}
      </div>
      <div ref={body} role="rowgroup">
        {runs.map((r, i) => (
          <div key={r.id} class={"row is-" + r.status} role="row" data-row={i} tabIndex={i === active ? 0 : -1} aria-level={1}
            aria-rowindex={i + 2} aria-selected={choose ? chosen.has(r.id) : undefined} onFocus={() => setActive(i)}
            onClick={(e) => {
              if (!(e.target as HTMLElement).closest("a,input,button") && !getSelection()?.toString()) go(toRun(r.id));
            }}>
            {choose && <span role="gridcell" class="cell"><input type="checkbox" tabIndex={-1} aria-label={"Select " + r.id}
              checked={chosen.has(r.id)} onChange={() => toggle(r.id)} /></span>}
            <span role="gridcell" class="cell"><Badge status={r.status} marks={r.marks} /></span>
            <span role="gridcell" class="cell clip"><a class="id" href={toRun(r.id)} tabIndex={-1} title={r.id}>{r.id}</a><Place run={r} /></span>
            <span role="gridcell" class="cell clip"><a class="quiet-link" tabIndex={-1}
              href={toList("workflow=" + quoted(r.workflow))} title={r.workflow}>{r.workflow}</a></span>
            <span role="gridcell" class="cell num"><When time={r.created} ago /></span>
            <span role="gridcell" class="cell num">{r.ended || r.status !== "queued" ? took(r.started, r.ended) : ""}</span>
            <span role="gridcell" class="cell clip why"><Why run={r} /></span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** The runs of a query as a small list: children of a run, runs that wait. */
/** Where a child is in its parent: it says more than the ID of one that has no name. */
function Place({ run: r }: { run: Run }) {
  if (!r.parent_id || !r.parent_location) return null;
  const text = r.parent_id + "/" + r.parent_location;
  return <span class="dim place" title={"started by " + r.parent_id + " at " + r.parent_location}> {text}</span>;
}

export function SmallList({ runs }: { runs: Run[] }) {
  return (
    <ul class="small-list">
      {runs.map((r) => (
        <li key={r.id}>
          <Badge status={r.status} marks={r.marks} /> <RunLink id={r.id} /> <span class="dim">{r.parent_location ? r.parent_location + " · " : ""}{r.workflow}</span>
          <span class="dim num">{took(r.started, r.ended)}</span> <span class="clip why"><Why run={r} /></span>
        </li>
      ))}
    </ul>
  );
}
