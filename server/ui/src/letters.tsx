import { useState } from "preact/hooks";
import { address, del, get, may, post } from "./api";
import { Ask, type Question } from "./ask";
import { useLive } from "./live";
import { Badge, Empty, FailureView, Loading, Older, RunLink, Trouble, useLoad, useMore, Value, When } from "./parts";
import { plural } from "./time";
import type { Letter, Letters as Page } from "./types";

export function Letters() {
  const [ask, setAsk] = useState<Question | null>(null);
  const [chosen, setChosen] = useState<Set<number>>(new Set());
  const { data, error, load } = useLoad((stop) => get("deadletters", { limit: 100 }, stop), "letters");
  const [older, setOlder] = useState<Page | null>(null);
  useLive(older ? null : {}, load, 5000); // what moves from the first page to another would be on neither
  const first = data?.letters ?? [];
  const list = [...first, ...(older?.letters ?? []).filter((l) => !first.some((f) => f.number === l.number))];
  const next = older ? older.next : data?.next;
  const more = useMore(async () => {
    const page = await get("deadletters", { limit: 100, cursor: next });
    setOlder((o) => ({ ...page, letters: [...(o?.letters ?? []), ...page.letters] }));
  });
  const replay = (numbers: number[]): Question => ({
    title: "Replay " + plural(numbers.length, "letter"), button: "Replay",
    does: "Each is sent again: to the run that it was for, or, if you name one, to that. What has been replayed is no dead letter any more.",
    fields: [{ name: "to", label: "To another run (empty: the one that it was for)" }],
    act: async (reason, v) => {
      for (const n of numbers) await post("deadletters/{number}/replay", { number: n }, { reason: reason || undefined, run: v.to || undefined });
    },
  });
  const remove = (l: Letter): Question => ({
    title: "Remove letter " + l.number, button: "Remove", danger: true,
    does: <>The {l.kind} {l.name && <b>{l.name}</b>} to {l.run} is deleted, with its value. Nobody will receive it, and that cannot be taken back.</>,
    act: (reason) => del("deadletters/{number}", { number: l.number }, { reason }),
  });
  const toggle = (n: number) => {
    const next = new Set(chosen);
    if (!next.delete(n)) next.add(n);
    setChosen(next);
  };
  return (
    <div class="page">
      <h1>Dead letters</h1>
      <p class="dim">Messages, events and other items whose run has ended without taking them, or has refused them.</p>
      {may("operate") && list.length > 0 && <div class="buttons">
        <button class="button" aria-disabled={!chosen.size} title={chosen.size ? "" : "no letter is selected"}
          onClick={() => { if (chosen.size) setAsk(replay([...chosen])); }}>
          Replay selected{chosen.size > 0 && ` (${chosen.size})`}…</button>
        <button class="button quiet" onClick={() => setChosen(chosen.size === list.length ? new Set() : new Set(list.map((l) => l.number)))}>{chosen.size === list.length ? "Clear" : "Select all shown"}</button></div>}
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : !list.length ? <Empty title="There are no dead letters">All that was sent was taken.</Empty> : (
        <ul class="cards">{list.map((l) => (
          <li key={l.number} class="card letter">
            {may("operate") && <input type="checkbox" aria-label={`Select ${l.kind} ${l.name ?? ""} to ${l.run}`} checked={chosen.has(l.number)} onChange={() => toggle(l.number)} />}
            <div class="grow">
              <p><b>{l.kind} {l.name}</b> to <RunLink id={l.run} /> <span class="dim">{l.workflow}</span> <Badge status={l.status} /> <span class="dim">sent <When time={l.sent} />{l.by && " by " + l.by}</span></p>
              <p>{l.reason || <>The run is {l.status} and has not taken it.</>}</p>{l.error && <FailureView failure={l.error} open={false} />}
              {l.value !== undefined && <details open={l.size <= 300 && list.length <= 20}><summary>value</summary><Value value={l.value} name="value" href={address("deadletters", { number: l.number })} /></details>}
            </div>
            {may("operate") && <div class="buttons"><button class="button" onClick={() => setAsk(replay([l.number]))}>Replay…</button>
              <button class="button is-danger" onClick={() => setAsk(remove(l))}>Remove…</button></div>}
          </li>
        ))}</ul>
      )}
      {list.length > 0 && <div class="foot"><span class="dim">{plural(list.length, "letter")} shown</span>
        {next && <Older {...more} />}</div>}
      {more.error !== null && <Trouble error={more.error} />}
      {ask && <Ask q={ask} onClose={() => setAsk(null)} onDone={() => { setChosen(new Set()); setOlder(null); return load(); }} />}
    </div>
  );
}
