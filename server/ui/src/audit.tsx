// What people did: to a run, or to the store itself.

import { useState } from "preact/hooks";
import { get } from "./api";
import { Text } from "./actions";
import { Empty, Loading, RunLink, Table, Trouble, useLoad, When } from "./parts";
import type { Audit } from "./types";

export function AuditList({ acts, none }: { acts: Audit[]; none: string }) {
  if (!acts.length) return <Empty title={none} />;
  const about = acts.some((a) => a.run || a.about), detail = acts.some((a) => a.detail);
  return (
    <Table label="Audit" head={["When", "Who", "Act", ...(about ? ["About"] : []), "Why", ...(detail ? ["What"] : [])]}>
      {acts.map((a, i) => (
        <tr key={i}>
          <td class="nowrap"><When time={a.time} /></td><td>{a.who ?? <span class="dim">unknown</span>}</td><td><b>{a.verb}</b></td>
          {about && <td>{a.run ? <RunLink id={a.run} /> : a.about}</td>}<td>{a.why}</td>{detail && <td class="dim">{a.detail}</td>}
        </tr>
      ))}
    </Table>
  );
}

export function AuditPage() {
  const [who, setWho] = useState("");
  const [verb, setVerb] = useState("");
  const { data, error, load } = useLoad((stop) => get<{ audit: Audit[] }>("audit", { who, verb, limit: 200 }, stop), who + "\n" + verb);
  return (
    <div class="page">
      <h1>Audit</h1>
      <p class="dim">What was done to queues, schedules, topics, letters, nodes and tokens, and by whom. A run's own is on its page.</p>
      <div class="form line"><Text label="Who" value={who} set={setWho} /><Text label="Act" value={verb} set={setVerb} /></div>
      {error !== undefined ? <Trouble error={error} retry={load} /> : !data ? <Loading /> : <AuditList acts={data.audit ?? []} none="Nothing matches" />}
    </div>
  );
}
