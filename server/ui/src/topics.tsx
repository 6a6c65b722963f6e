import { get, segment } from "./api";
import { useLive } from "./live";
import { Empty, Facts, Loading, RunLink, Table, Trouble, useLoad, Value, When } from "./parts";
import { link } from "./route";
import { bytes, plural, span } from "./time";

interface TopicEvent {
  id: string;
  sent: string;
  expires?: string;
  received?: number;
  in_flight?: boolean;
  size: number;
  value?: unknown;
}

interface Topic {
  name: string;
  mode: string;
  expiry_ms?: number;
  retention_ms?: number;
  cap?: number;
  cap_bytes?: number;
  accepted: number;
  received: number;
  pending: number;
  had?: number;
  in_flight: number;
  expired: number;
  refused: number;
  bytes: number;
  waiting: number;
  events?: TopicEvent[];
  waits?: { run: string; location: string; since: string; until?: string }[];
}

export function Topics({ name }: { name?: string | undefined }) {
  return name === undefined ? <All /> : <One key={name} name={name} />;
}

function All() {
  const { data, error, load } = useLoad((stop) => get<{ topics: Topic[] }>("topics", {}, stop), "topics");
  useLive({}, load, 5000);
  return (
    <div class="page">
      <h1>Topics</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : !data.topics?.length ? <Empty title="There are no topics">The first publication, or the first wait, makes one.</Empty> : (
        <Table label="Topics" head={["Topic", "Mode", "Kept", "Waiting runs", "Published", "Received", "Expired", "Refused"]} numbers={[2, 3, 4, 5, 6, 7]}>
          {data.topics.map((t) => (
            <tr key={t.name}><td><a class="id" href={link(["topics", t.name])}>{t.name}</a></td><td>{t.mode}</td>
              <td class="num">{t.pending.toLocaleString("en")}{t.cap ? <span class="dim"> of {t.cap.toLocaleString("en")}</span> : ""}</td><td class="num">{t.waiting.toLocaleString("en")}</td>
              <td class="num dim">{t.accepted.toLocaleString("en")}</td><td class="num dim">{t.received.toLocaleString("en")}</td><td class="num dim">{t.expired || ""}</td>
              <td class={"num" + (t.refused ? " why-bad" : "")}>{t.refused || ""}</td></tr>
          ))}
        </Table>
      )}
    </div>
  );
}

function One({ name }: { name: string }) {
  const { data: t, error, load } = useLoad((stop) => get<Topic>("topics/" + segment(name), {}, stop), name);
  const events = useLoad((stop) => get<{ events: TopicEvent[] }>("topics/" + segment(name) + "/events", {}, stop), name);
  useLive({}, load, 5000);
  const list = (events.data?.events ?? t?.events ?? []).slice(-100).reverse();
  return (
    <div class="page">
      <p class="crumbs"><a href="#/topics">Topics</a></p>
      <h1 class="id">{name}</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!t ? error === undefined && <Loading /> : (
        <>
          <Facts of={[
            ["mode", t.mode], ["kept events", t.pending + (t.cap ? " of " + t.cap : "")], ["kept bytes", t.bytes ? bytes(t.bytes) + (t.cap_bytes ? " of " + bytes(t.cap_bytes) : "") : ""], ["waiting runs", t.waiting], ["on their way", t.in_flight || ""],
            ["published", t.accepted], ["received", t.received], ["expired", t.expired || ""], ["refused", t.refused || ""],
            ["events expire after", t.expiry_ms ? span(t.expiry_ms) : ""], ["kept for", t.retention_ms ? span(t.retention_ms) : ""],
          ]} />
          {!!t.waits?.length && <><h2>Runs that wait</h2>
            <Table label="Runs that wait" head={["Run", "At", "Since", "Until"]}>{t.waits.map((w) => <tr key={w.run + w.location}><td><RunLink id={w.run} /></td><td>{w.location}</td>
              <td><When time={w.since} /></td><td><When time={w.until} /></td></tr>)}</Table></>}
          <h2>Events</h2>
          {!list.length ? <p class="dim">It keeps no events.</p> : <ul class="cards">{list.map((e) => (
            <li key={e.id} class="card"><details><summary><span class="id">{e.id}</span> <span class="dim">sent <When time={e.sent} />, {bytes(e.size)}
              {e.received ? ", " + plural(e.received, "run has", "runs have") + " received it" : ""}{e.in_flight ? ", on its way" : ""}</span></summary>
              <Value value={e.value} name={"event " + e.id} /></details></li>))}</ul>}
        </>
      )}
    </div>
  );
}
