import { useState } from "preact/hooks";
import { get, may, post, put } from "./api";
import { Ask, type Question } from "./ask";
import { Icon } from "./icons";
import { useLive } from "./live";
import { Empty, Facts, Loading, RunLink, Table, Trouble, useLoad, When } from "./parts";
import { link, toRuns } from "./route";
import { span } from "./time";
import type { Limits, Queue, QueueLock, SetQueue, Source, TaskState } from "./types";

const limits = (q: Limits) => [
  q.concurrency && q.concurrency + " at once", q.per_key && q.per_key + " per key", q.rate && q.rate + " per " + span(q.per_ms ?? 1000),
  q.rate_per_key && q.rate_per_key + " per " + span(q.per_ms ?? 1000) + " and key",
].filter(Boolean).join(", ") || "no limit";

export function Queues({ name }: { name?: string | undefined }) {
  const [ask, setAsk] = useState<Question | null>(null);
  const { data, error, load } = useLoad((stop) => get("queues", {}, stop), "queues");
  useLive({}, load, 5000);
  const list = data?.queues ?? [];
  const one = name === undefined ? undefined : list.find((q) => q.name === name);
  const pause = (q: Queue): Question => ({
    title: (q.paused ? "Resume" : "Pause") + " queue " + q.name, button: q.paused ? "Resume" : "Pause",
    does: q.paused ? `${q.waiting} that wait get permits again, as the limits say.` : `No new permits are given. ${q.held} that hold one keep it; ${q.waiting} go on waiting.`,
    act: (reason) => post(q.paused ? "queues/{name}/resume" : "queues/{name}/pause", { name: q.name }, { reason }),
  });
  const change = (q: Queue): Question => ({
    title: "Limits of queue " + q.name, button: "Change", does: "The limits count at once, in place of what the application declares. An empty field is no limit.",
    fields: [
      { name: "concurrency", label: "At once", value: String(q.concurrency ?? ""), type: "number" }, { name: "per_key", label: "At once per key", value: String(q.per_key ?? ""), type: "number" },
      { name: "rate", label: "Rate", value: String(q.rate ?? ""), type: "number" }, { name: "rate_per_key", label: "Rate per key", value: String(q.rate_per_key ?? ""), type: "number" },
      { name: "per_ms", label: "Per milliseconds", value: String(q.per_ms ?? ""), type: "number" },
    ],
    act: (reason, v) => put("queues/{name}", { name: q.name }, { reason, group: q.group, release_while_suspended: q.release_while_suspended,
      ...Object.fromEntries(Object.entries(v).filter(([, x]) => x !== "").map(([k, x]) => [k, Number(x)])) } satisfies SetQueue),
  });
  const reset = (q: Queue): Question => ({
    title: "Reset the limits of queue " + q.name, button: "Reset",
    does: <>What is declared counts again: {limits(q.declared ?? q)}, in place of {limits(q)}.</>,
    act: (reason) => post("queues/{name}/reset", { name: q.name }, { reason }),
  });
  return (
    <div class="page">
      {name !== undefined && <p class="crumbs"><a href="#/queues">Queues</a></p>}
      <h1>{name ?? "Queues"}</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : name !== undefined ? (!one ? <Empty title={"There is no queue " + name} /> : (
        <>
          <div class="buttons">{may("operate") && <><button class={"button" + (one.paused ? " primary" : "")} onClick={() => setAsk(pause(one))}>{one.paused ? "Resume…" : "Pause…"}</button>
            <button class="button" onClick={() => setAsk(change(one))}>Limits…</button>
            {one.overridden && <button class="button" onClick={() => setAsk(reset(one))}>Reset limits…</button>}</>}
            <a class="button" href={toRuns("mark=held")}>Runs held by a queue</a></div>
          {one.paused && <div class="note is-warn"><Icon name="paused" /><p>Paused{one.paused_by && <> by <By s={one.paused_by} /></>}. No permit is given, {one.waiting} {one.waiting === 1 ? "waits" : "wait"}.</p></div>}
          {one.lacks && <div class="note is-warn"><Icon name="stalled" /><p>Nobody serves it: it {one.lacks}</p></div>}
          {one.locks?.map((l) => <Lock key={l.key ?? ""} of={l} />)}
          <Facts of={[
            ["state", one.paused ? "paused" : "open"], ["limits", limits(one)], ["held", <>{one.held} <Meter q={one} /></>], ["waiting", one.waiting], ["delayed by the rate", one.delayed],
            ["granted so far", one.granted], ["group", one.group], ["released while suspended", one.release_while_suspended ? "yes" : ""],
            ["declared", one.declared && limits(one.declared)], ["declared by", one.declared_by && <By s={one.declared_by} />], ["overridden by", one.overridden && <By s={one.overridden} />],
          ]} />
          {!!one.tasks?.length && <Tasks queue={one.name} />}
        </>
      )) : !list.length ? <Empty title="There are no queues">An application declares them, or <code>stet queue create</code> makes one.</Empty> : (
        <Table label="Queues" head={["Queue", "Limits", "Use", "Held", "Waiting", "Granted", ""]} numbers={[3, 4, 5]}>
          {list.map((q) => (
            <tr key={q.name}>
              <td><a class="id" href={link(["queues", q.name])}>{q.name}</a>{q.paused && <span class="badge is-mark" title={q.paused_by?.why}><Icon name="paused" />paused</span>}{q.locks && <span class="badge is-stalled" title="Runs hold its permits that only wait for runs which wait for them."><Icon name="stalled" />locked</span>}{q.lacks && <span class="badge is-stalled" title={q.lacks}><Icon name="stalled" />unserved</span>}{q.paused_by?.why && <span class="dim"> {q.paused_by.why}</span>}</td>
              <td>{limits(q)}{q.overridden && <span class="tag">overridden</span>}</td><td><Meter q={q} /></td>
              <td class="num">{q.held}</td><td class={"num" + (q.waiting ? " strong" : "")}>{q.waiting}</td><td class="num dim">{q.granted.toLocaleString("en")}</td>
              <td class="num">{may("operate") && <button class="button small" onClick={() => setAsk(pause(q))}>{q.paused ? "Resume…" : "Pause…"}</button>}</td>
            </tr>
          ))}
        </Table>
      )}
      {ask && <Ask q={ask} onClose={() => setAsk(null)} onDone={load} />}
    </div>
  );
}

const By = ({ s }: { s: Source }) => <>{s.by}{s.build && <> (build {s.build})</>}, <When time={s.at} />{s.why && <>: {s.why}</>}</>;

/** Lock says who holds the permits of a queue, or of a key, and only waits for those that wait for them. */
const Lock = ({ of: l }: { of: QueueLock }) => (
  <div class="note is-warn"><Icon name="stalled" /><p>Locked: {l.held > 1 ? `all ${l.held} permits` : "the only permit"}{l.key && <> of key <code>{l.key}</code></>} {l.held > 1 ? "are" : "is"} held by <Links of={l.holders} />, which
    only {l.holders.length > 1 ? "wait" : "waits"}. <Links of={l.waiting} /> {l.waiting.length > 1 ? "wait" : "waits"} for {l.held > 1 ? "them" : "it"}.
    Set <code>ReleaseWhileSuspended</code>, raise the limit, or give the children another queue; or cancel one of the holders.</p></div>
);

const Links = ({ of: ids }: { of: string[] }) => <>{ids.map((id, i) => <>{i > 0 && ", "}<RunLink key={id} id={id} /></>)}</>;

// Tasks shows the tasks of a queue: which workers hold them, and which nobody has.
function Tasks({ queue }: { queue: string }) {
  const { data, error, load } = useLoad((stop) => get("queues/{name}/tasks", { name: queue }, stop), "tasks " + queue);
  useLive({}, load, 5000);
  const badge = { offered: "queued", leased: "running", expired: "stalled" } satisfies Record<TaskState, string>;
  return (
    <>
      <h2>Tasks</h2>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {data && <Table label="Tasks" head={["Task", "State", "Worker", "Run", "Location", "Attempt", "Since", "Lease until", "Expired"]} numbers={[5, 8]}>
        {data.tasks.map((t) => (
          <tr key={t.run + " " + t.location}>
            <td class="id">{t.name}</td>
            <td><span class={"badge is-" + badge[t.state]}>{t.state}</span>{t.cancelling && <span class="badge is-mark">cancelling</span>}</td>
            <td class="id">{t.worker ?? ""}</td><td><a class="id" href={link(["runs", t.run])}>{t.run}</a></td><td class="id">{t.location}</td>
            <td class="num">{t.attempt}</td><td><When time={t.since} ago /></td><td><When time={t.until} /></td><td class="num">{t.lost ?? ""}</td>
          </tr>))}
      </Table>}
    </>
  );
}

function Meter({ q }: { q: Queue }) {
  if (!q.concurrency) return null;
  return <meter min={0} max={q.concurrency} value={q.held} aria-label={`${q.held} of ${q.concurrency} held`} title={`${q.held} of ${q.concurrency} held`} />;
}
