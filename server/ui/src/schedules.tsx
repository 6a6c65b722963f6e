import { useMemo, useState } from "preact/hooks";
import { del, get, may, now, post, Problem } from "./api";
import { Ask, type Question } from "./ask";
import { Icon } from "./icons";
import { useLive } from "./live";
import { Empty, Facts, Loading, RunLink, Table, Trouble, useLoad, Value, When } from "./parts";
import { go, link, toRun } from "./route";
import { moment, span } from "./time";
import type { Decision, Schedule } from "./types";

const rule = (s: Schedule) => s.cron ? s.cron + (s.zone ? " in " + s.zone : "") : s.every_ms ? "every " + span(s.every_ms) : "";

export function Schedules({ name }: { name?: string | undefined }) {
  const [ask, setAsk] = useState<Question | null>(null);
  // One schedule is read by its name: the rows of the list have no past decisions.
  const { data, error, load } = useLoad(async (stop) => name === undefined ? (await get("schedules", {}, stop)).schedules
    : await get("schedules/{name}", { name }, stop).then((s) => [s], (e: unknown) => {
      if (e instanceof Problem && e.status === 404) return [];
      throw e;
    }), name === undefined ? "schedules" : "schedule " + name);
  useLive({}, load, 5000);
  const pause = (s: Schedule): Question => ({
    title: (s.paused ? "Resume" : "Pause") + " schedule " + s.name, button: s.paused ? "Resume" : "Pause",
    does: s.paused ? "It starts runs again at its next instant. What was due meanwhile is not made up for." : "It starts no runs until it is resumed. Runs that it has started go on.",
    act: (reason) => post(s.paused ? "schedules/{name}/resume" : "schedules/{name}/pause", { name: s.name }, { reason }),
  });
  const trigger = (s: Schedule): Question => ({
    title: "Start a run of " + s.name + " now", button: "Start now", does: <>One run of {s.workflow} begins now, whatever the overlap rule says. The schedule goes on as before.</>,
    act: (reason) => post("schedules/{name}/trigger", { name: s.name }, { reason }),
  });
  const backfill = (s: Schedule): Question => ({
    title: "Backfill " + s.name, button: "Backfill", does: "A run begins for each instant of the schedule in this time.",
    fields: [{ name: "from", label: "From (your time)", type: "datetime-local" },
      { name: "to", label: "To (your time)", type: "datetime-local" }],
    act: (reason, v) => post("schedules/{name}/backfill", { name: s.name }, { reason, from: new Date(v.from!).toISOString(), to: new Date(v.to!).toISOString() }),
  });
  const remove = (s: Schedule): Question => ({
    title: "Delete schedule " + s.name, button: "Delete", danger: true, does: "It starts no more runs, and its past is gone. Runs that it has started go on.", act: (reason) => del("schedules/{name}", { name: s.name }, { reason }),
  });
  const one = name === undefined ? undefined : data?.[0];
  return (
    <div class="page">
      {name !== undefined && <p class="crumbs"><a href="#/schedules">Schedules</a></p>}
      <h1>{name ?? "Schedules"}</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : name !== undefined ? (!one ? <Empty title={"There is no schedule " + name} /> : (
        <>
          {may("operate") && <div class="buttons">
            <button class="button" onClick={() => setAsk(pause(one))}>{one.paused ? "Resume…" : "Pause…"}</button>
            <button class="button" onClick={() => setAsk(trigger(one))}>Start now…</button>
            <button class="button" onClick={() => setAsk(backfill(one))}>Backfill…</button>
            <button class="button is-danger" onClick={() => setAsk(remove(one))}>Delete…</button>
          </div>}
          <Stopped s={one} />
          <Facts of={[
            ["workflow", one.workflow], ["rule", <code>{rule(one)}</code>], ["if one still runs", one.overlap], ["started", one.started], ["skipped", one.skipped || ""],
            ["running", one.running.length ? one.running.map((r) => <span key={r}><RunLink id={r} /> </span>) : ""], ["backfills under way", one.backfills || ""],
          ]} />
          <Month key={one.name} s={one} />
          <h2>Past decisions</h2>
          <Past s={one} />
          <h2>Input</h2><Value value={one.input} name="input" />
        </>
      )) : !data.length ? <Empty title="There are no schedules">An application declares them, or <code>stet schedule create</code> makes one.</Empty> : (
        <Table label="Schedules" head={["Schedule", "Workflow", "Rule", "Next", "Running", "Started", ""]} numbers={[5]}>
          {data.map((s) => (
            <tr key={s.name}>
              <td><a class="id" href={link(["schedules", s.name])}>{s.name}</a>{s.paused && <span class="badge is-mark"><Icon name="paused" />paused</span>}{s.paused && s.reason && <span class="dim"> {s.reason}</span>}
                {s.stalled && <span class="badge is-stalled"><Icon name="stalled" />stalled</span>}{s.lacks && <span class="badge is-stalled" title={s.lacks}><Icon name="stalled" />unserved</span>}</td>
              <td>{s.workflow}</td><td><code>{rule(s)}</code></td><td class="nowrap">{s.paused ? <span class="dim">none</span> : <When time={s.next[0]} />}</td>
              <td>{s.running.slice(0, 3).map((r) => <span key={r}><RunLink id={r} /> </span>)}{s.running.length > 3 && <span class="dim">and {s.running.length - 3} more</span>}</td>
              <td class="num">{s.started.toLocaleString("en")}</td>
              <td class="num nowrap">{may("operate") && <button class="button small" onClick={() => setAsk(pause(s))}>{s.paused ? "Resume…" : "Pause…"}</button>}</td>
            </tr>
          ))}
        </Table>
      )}
      {ask && <Ask q={ask} onClose={() => setAsk(null)} onDone={() => ask.danger ? go("#/schedules") : load()} />}
    </div>
  );
}

function Stopped({ s }: { s: Schedule }) {
  if (s.stalled) return <div class="note is-warn"><Icon name="stalled" /><p>Stalled: {s.stalled}</p></div>;
  if (s.lacks) return <div class="note is-warn"><Icon name="stalled" /><p>Nobody serves it: it {s.lacks}</p></div>;
  if (s.paused) return <div class="note"><Icon name="paused" /><p>Paused{s.paused_at && <> since <When time={s.paused_at} /></>}{s.reason && ": " + s.reason}</p></div>;
  return null;
}

function Past({ s }: { s: Schedule }) {
  if (!s.past?.length) return <p class="dim">It has decided nothing yet.</p>;
  return (
    <Table label="Past decisions" head={["Due", "Decided", "What", "Why"]}>
      {[...s.past].reverse().map((d, i) => (
        <tr key={i}><td class="nowrap"><When time={d.from} />{d.count > 1 && <> to <When time={d.to} /> ({d.count})</>}</td><td class="nowrap"><When time={d.at} /></td>
          <td>{d.run ? <RunLink id={d.run} /> : <span class="badge is-cancelled"><Icon name="cancelled" />skipped</span>}</td><td>{d.reason}</td></tr>
      ))}
    </Table>
  );
}

const dayOf = (day: string) => new Date(day + "T12:00:00Z").toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

const dayNames = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let f = formats.get(zone);
  if (!f) {
    f = new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      hourCycle: "h23", timeZoneName: "longOffset" });
    formats.set(zone, f);
  }
  return f;
}

/** The day and clock of a moment in a zone. */
function inZone(t: number, zone: string) {
  const parts = Object.fromEntries(formatOf(zone).formatToParts(t).map((p) => [p.type, p.value]));
  return { day: `${parts.year}-${parts.month}-${parts.day}`, clock: `${parts.hour}:${parts.minute}`, offset: parts.timeZoneName ?? "" };
}

const mostInstants = 45_000; // of one request
const none: string[] = [];

/** The instants of each day in a zone, of a list that is in order. */
function byDay(list: string[], zone: string): Map<string, string[]> {
  const days = new Map<string, string[]>();
  const dayAt = (i: number) => inZone(Date.parse(list[i]!), zone).day;
  for (let i = 0; i < list.length;) {
    const day = dayAt(i);
    let low = i, high = list.length; // the first of another day
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (dayAt(middle) === day) low = middle;
      else high = middle;
    }
    days.set(day, list.slice(i, high));
    i = high;
  }
  return days;
}

/** The past decisions of each day in a zone, the earliest first. */
function pastByDay(s: Schedule, zone: string): Map<string, Decision[]> {
  const days = new Map<string, Decision[]>();
  for (const d of [...(s.past ?? [])].sort((a, b) => Date.parse(a.from) - Date.parse(b.from))) {
    const day = inZone(Date.parse(d.from), zone).day;
    days.set(day, [...(days.get(day) ?? []), d]);
  }
  return days;
}

/** Past decisions of one day: the runs that were started, and the instants that were skipped. */
function PastOfDay({ list, zone }: { list: Decision[]; zone: string }) {
  const shown = list.slice(-4), clock = (t: string) => inZone(Date.parse(t), zone).clock;
  return (
    <>
      {list.length > shown.length && <div class="dim small">{list.length - shown.length} earlier</div>}
      {shown.map((d) => (
        <div key={d.from + d.at} title={(d.run ? "started " + d.run : "skipped" + (d.reason ? ": " + d.reason : "")) + ", " + moment(d.at) + " for you"}>
          {d.run ? <a href={toRun(d.run)}>{clock(d.from)}</a> : <>{clock(d.from)}<span class="dim small"> skipped{d.count > 1 && " ×" + d.count}</span></>}
        </div>
      ))}
    </>
  );
}

/** A month of instants, in the schedule's zone: what was decided, and what comes; days on which the clocks change are marked, with what that means. */
function Month({ s }: { s: Schedule }) {
  const { data, error } = useLoad((stop) => get("schedules/{name}/next",
    { name: s.name, n: mostInstants, until: new Date(now() + 36 * 86_400_000).toISOString() }, stop), s.name + (s.cron ?? "") + (s.every_ms ?? ""));
  const viewer = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zone = s.zone && valid(s.zone) ? s.zone : s.cron ? "UTC" : viewer;
  const list = s.paused ? none : data?.instants ?? s.next;
  const days = useMemo(() => byDay(list, zone), [list, zone]);
  const past = useMemo(() => pastByDay(s, zone), [s.past, zone]);
  if (s.paused && !past.size) return null;
  const begin = Date.parse(inZone(now(), zone).day + "T12:00:00Z");
  const monday = begin - ((new Date(begin).getUTCDay() + 6) % 7) * 86_400_000;
  const today = inZone(now(), zone).day;
  const before = new Date(monday).toISOString().slice(0, 10), weekBefore = new Date(monday - 7 * 86_400_000).toISOString().slice(0, 10);
  const last7 = [...past.keys()].some((day) => day >= weekBefore && day < before); // a week more, where something was decided in it
  const weeks = (last7 ? [-1, 0, 1, 2, 3, 4] : [0, 1, 2, 3, 4]).map((w) => [0, 1, 2, 3, 4, 5, 6].map((d) => new Date(monday + (w * 7 + d) * 86_400_000).toISOString().slice(0, 10)));
  const last = list.length ? Date.parse(list[list.length - 1]!) : 0;
  return (
    <section aria-label="Instants">
      <h2>{last7 ? "Last week and the next five" : "Next five weeks"} <span class="dim small">in {zone}{zone !== viewer && <>; you are in {viewer}</>}</span></h2>
      {error !== undefined && <Trouble error={error} />}
      <div class="scroll" tabIndex={0} role="region" aria-label="Month">
        <table class="month">
          <thead><tr>{dayNames.map((d) => <th key={d} scope="col">{d}</th>)}</tr></thead>
          <tbody>{weeks.map((week) => (
            <tr key={week[0]}>{week.map((day) => {
              const at = days.get(day) ?? [], change = clockChange(day, zone);
              return (
                <td key={day} class={day < today ? "past" : day === today ? "today" : ""}>
                  <div class="day"><span>{Number(day.slice(8)) === 1 || day === week[0] ? dayOf(day) : Number(day.slice(8))}</span>
                    {change && <span class="badge is-stalled" title={change.hint}><Icon name="expiring" />{change.text}</span>}</div>
                  {past.has(day) && <PastOfDay list={past.get(day)!} zone={zone} />}
                  {at.slice(0, 4).map((n, i) => (
                    <div key={n} title={moment(n) + " for you"}>{inZone(Date.parse(n), zone).clock}
                      {i > 0 && inZone(Date.parse(at[i - 1]!), zone).clock === inZone(Date.parse(n), zone).clock &&
                        <span class="dim small"> again</span>}
                      {zone !== viewer && <span class="dim small"> {inZone(Date.parse(n), viewer).clock}</span>}</div>
                  ))}
                  {at.length > 4 && <div class="dim small">{at.length - 4} more</div>}
                  {!at.length && last > 0 && Date.parse(day + "T12:00:00Z") > last && list.length >= mostInstants && <div class="dim small">not computed</div>}
                </td>
              );
            })}</tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

function valid(zone: string): boolean {
  try {
    inZone(0, zone);
    return true;
  } catch {
    return false;
  }
}

/** Which hour is skipped or repeated on a day, where the clocks of a zone change. */
function clockChange(day: string, zone: string): { text: string; hint: string } | null {
  const minutes = (t: number) => {
    const m = /GMT([+-])(\d+):?(\d*)/.exec(inZone(t, zone).offset);
    return m ? (m[1] === "-" ? -1 : 1) * (Number(m[2]) * 60 + Number(m[3] || 0)) : 0;
  };
  const noon = Date.parse(day + "T12:00:00Z") - minutes(Date.parse(day + "T12:00:00Z")) * 60_000;
  let low = Math.round(noon / 60_000) - 720, high = Math.round(noon / 60_000) + 714; // minutes; it lies between them
  const before = minutes(low * 60_000), by = minutes(high * 60_000) - before;
  if (!by) return null;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (minutes(middle * 60_000) === before) low = middle;
    else high = middle;
  }
  const at = (t: number) => new Date(t * 60_000).toISOString().slice(11, 16); // what a clock shows
  const from = high + before + Math.min(by, 0), span = at(from) + "–" + at(from + Math.abs(by));
  return { text: span + (by > 0 ? " skipped" : " repeated"), hint: `the clocks go from ${at(high + before)} to ${at(high + before + by)}` };
}
