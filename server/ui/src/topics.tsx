import { useState } from "preact/hooks";
import { Area, Text } from "./actions";
import { address, del, get, may, post } from "./api";
import { Ask, type Question } from "./ask";
import { Icon } from "./icons";
import { parses, verbatim } from "./json";
import { say, useLive } from "./live";
import { Dialog, Empty, Facts, Loading, RunLink, Table, Trouble, useLoad, Value, When } from "./parts";
import { link } from "./route";
import { bytes, plural, span } from "./time";
import type { Event as TopicEvent, Topic } from "./types";

export function Topics({ name }: { name?: string | undefined }) {
  return name === undefined ? <All /> : <One key={name} name={name} />;
}

function All() {
  const { data, error, load } = useLoad((stop) => get("topics", {}, stop), "topics");
  useLive({}, load, 5000);
  return (
    <div class="page">
      <h1>Topics</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : !data.topics.length ? <Empty title="There are no topics">The first publication, or the first wait, makes one.</Empty> : (
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
  const { data: t, error, load } = useLoad((stop) => get("topics/{name}", { name }, stop), name);
  const events = useLoad((stop) => get("topics/{name}/events", { name }, stop), name);
  const [ask, setAsk] = useState<Question | null>(null);
  const [publish, setPublish] = useState(false);
  const again = async () => { await Promise.all([load(), events.load()]); };
  useLive({}, again, 5000);
  const remove = (e: TopicEvent): Question => ({
    title: "Remove event " + e.id, button: "Remove", danger: true,
    does: `No run gets it from now on, and it is gone from topic ${name}. ${e.in_flight ? "It is on its way to a run, which may still get it. " : ""}That cannot be taken back.`,
    act: (reason) => del("topics/{name}/events/{event}", { name, event: e.id }, { reason }),
  });
  const list = (events.data?.events ?? t?.events ?? []).slice(-100).reverse();
  return (
    <div class="page">
      <p class="crumbs"><a href="#/topics">Topics</a></p>
      <div class="title-line"><h1 class="id">{name}</h1>
        {may("call") && <span class="acts-of-page"><button class="button" onClick={() => setPublish(true)}>Publish…</button></span>}</div>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!t ? error === undefined && <Loading /> : (
        <>
          {t.lacks && <div class="note is-warn"><Icon name="stalled" /><p>Nobody serves it: it {t.lacks}</p></div>}
          <Facts of={[
            ["mode", t.mode], ["kept events", t.pending + (t.cap ? " of " + t.cap : "")], ["kept bytes", t.bytes ? bytes(t.bytes) + (t.cap_bytes ? " of " + bytes(t.cap_bytes) : "") : ""], ["which all runs have had", t.had ? t.had + ", not counted by the limit" : ""], ["waiting runs", t.waiting], ["on their way", t.in_flight || ""],
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
              <Value value={e.value} name={"event " + e.id} href={address("topics/{name}/events", { name, number: e.number })} />
              {may("operate") && <p class="buttons"><button class="button small is-danger" onClick={() => setAsk(remove(e))}>Remove…</button></p>}</details></li>))}</ul>}
        </>
      )}
      {ask && <Ask q={ask} onClose={() => setAsk(null)} onDone={again} />}
      {publish && t && <Publish topic={name} of={t} onClose={() => setPublish(false)} onDone={again} />}
    </div>
  );
}

/** Publishes an event, after it has said who gets it. */
function Publish(p: { topic: string; of: Topic; onClose: () => void; onDone: () => void }) {
  const [text, setText] = useState("");
  const [reason, setReason] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const bad = text.trim() !== "" && !parses(text);
  const send = async (e: Event) => {
    e.preventDefault();
    setUnder(true);
    try {
      await post("topics/{name}/events", { name: p.topic }, {
        value: verbatim(text), headers: reason.trim() ? { reason: reason.trim() } : undefined,
        mode: p.of.mode, expiry_ms: p.of.expiry_ms || -1, retention_ms: p.of.retention_ms || -1, cap: p.of.cap || -1, cap_bytes: p.of.cap_bytes || -1,
      });
      say("published to " + p.topic);
      p.onDone();
      p.onClose();
    } catch (problem) {
      setError(problem);
      setUnder(false);
    }
  };
  return (
    <Dialog title={"Publish to topic " + p.topic} onClose={p.onClose}>
      <form class="form" onSubmit={send}>
        <p>{p.of.mode === "consumed" ? `One run gets the event: the one of ${plural(p.of.waiting, "that waits", "that wait")} longest, or the first that comes.`
          : `Each of the ${plural(p.of.waiting, "run that waits", "runs that wait")} gets the event, and those that come while it is kept.`} That cannot be taken back.</p>
        <Area label="Value, as JSON (empty: null)" value={text} set={setText} rows={5} problem={bad ? "This is no JSON." : ""} />
        <Text label="Reason (a header of the event, with your name)" value={reason} set={setReason} />
        {error !== null && <Trouble error={error} />}
        <footer class="buttons end">
          <button type="button" class="button" onClick={p.onClose}>Do nothing</button>
          <button class="button primary" disabled={bad || under}>Publish</button>
        </footer>
      </form>
    </Dialog>
  );
}
