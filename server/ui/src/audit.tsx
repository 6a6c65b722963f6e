// What people did: to a run, or to the store itself.

import { useState } from "preact/hooks";
import { get } from "./api";
import { Text } from "./actions";
import { Empty, Loading, Older, Table, Trouble, useLoad, useMore, When } from "./parts";
import { useLive } from "./live";
import { plural } from "./time";
import type { Audit, Audits } from "./types";

export function AuditList({ acts, none }: { acts: Audit[]; none: string }) {
  if (!acts.length) return <Empty title={none} />;
  const about = acts.some((a) => a.about), detail = acts.some((a) => a.detail);
  return (
    <Table label="Audit" head={["When", "Who", "Act", ...(about ? ["About"] : []), "Why", ...(detail ? ["What"] : [])]}>
      {acts.map((a, i) => (
        <tr key={i}>
          <td class="nowrap"><When time={a.time} /></td><td>{a.who ?? <span class="dim">unknown</span>}</td><td><b>{a.verb}</b></td>
          {about && <td>{a.about}</td>}<td>{a.why}</td>{detail && <td class="dim">{a.detail}</td>}
        </tr>
      ))}
    </Table>
  );
}

export function AuditPage() {
  const [who, setWho] = useState("");
  const [verb, setVerb] = useState("");
  const [about, setAbout] = useState("");
  const key = who + "\n" + verb + "\n" + about;
  const { data, error, load } = useLoad((stop) => get("audit", { who, verb, about, limit: 200 }, stop), key);
  const [older, setOlder] = useState<(Audits & { key: string }) | null>(null);
  const further = older?.key === key ? older : null;
  useLive(further ? null : {}, load, 5000); // what moves from the first page to another would be on neither
  const next = further ? further.next : data?.next;
  const more = useMore(async () => {
    const page = await get("audit", { who, verb, about, limit: 200, cursor: next });
    setOlder({ key, audit: [...(further?.audit ?? []), ...page.audit], ...(page.next ? { next: page.next } : {}) });
  });
  const acts = [...(data?.audit ?? []), ...(further?.audit ?? [])];
  return (
    <div class="page">
      <h1>Audit</h1>
      <p class="dim">What was done to queues, schedules, topics, letters, nodes and tokens, and by whom. A run's own is on its page.</p>
      <div class="form line"><Text label="Who" value={who} set={setWho} /><Text label="Act" value={verb} set={setVerb} /><Text label="About (its beginning: queue mail)" value={about} set={setAbout} /></div>
      {error !== undefined ? <Trouble error={error} retry={load} /> : !data ? <Loading /> : <>
        <AuditList acts={acts} none="Nothing matches" />
        {acts.length > 0 && <div class="foot"><span class="dim">{plural(acts.length, "act")} shown</span>
          {next && <Older {...more} />}</div>}
        {more.error !== null && <Trouble error={more.error} />}
      </>}
    </div>
  );
}
