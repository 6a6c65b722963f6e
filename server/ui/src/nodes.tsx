import { useState } from "preact/hooks";
import { address, get, info, may, post } from "./api";
import { Ask, type Question } from "./ask";
import { Icon } from "./icons";
import { useLive } from "./live";
import { Empty, Facts, Loading, RunLink, Table, Trouble, useLoad, When } from "./parts";
import { plural, second, took } from "./time";
import type { Node, Nodes as Told } from "./types";

/** Reports whether a node does not work any more, as far as is known. */
export const away = (n: Node): boolean => n.state === "silent" || n.state === "lost";

export function Nodes() {
  const [ask, setAsk] = useState<Question | null>(null);
  const { data: read, error, load } = useLoad((stop) => get("nodes", {}, stop), "nodes");
  const [told, setTold] = useState<Told | null>(null); // is newer than what was read
  const health = useLoad(async (stop) => {
    const answer = await fetch(address("health/ready", {}), { signal: stop });
    return { ok: answer.ok, status: answer.status };
  }, "health");
  useLive({ nodes: true }, async () => {
    await Promise.all([load(), health.load()]);
    setTold(null);
  }, 5000, ({ event, data }) => {
    if (event !== "nodes") return false;
    setTold(data);
    void health.load();
    return true;
  });
  second.value; // how long bodies have executed grows by itself
  const data = told ?? read;
  const drain = (n: Node): Question => ({
    title: "Drain node " + n.node, button: "Drain", danger: true,
    does: `It takes no more runs, ends what it executes, and gives ${plural(n.shards, "shard")} to other nodes.`, act: (reason) => post("nodes/{name}/drain", { name: n.node }, { reason }),
  });
  const list = data?.nodes ?? [];
  const bodies = list.flatMap((n) => (n.bodies ?? []).map((b) => ({ ...b, node: n.node }))).sort((a, b) => a.since.localeCompare(b.since));
  const store = info.value?.store;
  const digests = new Map<string, string[]>();
  for (const n of list) if (n.zones && !away(n)) digests.set(n.zones, [...digests.get(n.zones) ?? [], n.node]);
  return (
    <div class="page">
      <h1>Nodes</h1>
      <div class="columns">
        <section aria-label="Health">
          <h2>Health</h2>
          {health.data && <p><span class={"badge is-" + (health.data.ok ? "succeeded" : "failed")}><Icon name={health.data.ok ? "succeeded" : "failed"} />{health.data.ok ? "ready" : "not ready (" + health.data.status + ")"}</span> <span class="dim">the store was read within a second and its schema fits; where this process executes, its leases were renewed</span></p>}
          {store && <Facts of={[["store", store.kind], ["what survives", store.durable], ["schema", store.schema], ["slots", store.slots], ["version", info.value!.version], ["id", store.id]]} />}
        </section>
      </div>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : !list.length ? <Empty title="No node lives">Runs wait until a process with their code starts.</Empty> : (
        <Table label="Nodes" head={["Node", "State", "Build", "Groups", "Shards", "Workflows", "Process", "Heard of", ""]} numbers={[4]}>
          {list.map((n) => (
            <tr key={n.node}><td class="id">{n.node}</td><td><span class={"badge is-" + (n.state === "working" ? "succeeded" : away(n) ? "failed" : n.state.startsWith("drain") ? "suspended" : "queued")}><Icon name={n.state === "lost" ? "failed" : n.state === "silent" ? "stalled" : n.state.startsWith("drain") ? "cancelling" : n.state === "working" ? "done" : "open"} />{n.state}</span></td>
              <td>{n.build}</td><td>{n.groups?.join(", ")}</td><td class="num">{n.shards}</td><td class="wrap">{n.workflows.slice(0, 6).join(", ")}{n.workflows.length > 6 && ` and ${n.workflows.length - 6} more`}</td>
              <td class="dim">{n.host} {n.pid}</td><td class="nowrap">{away(n) ? <><When time={n.seen} ago /> ago</> : <span class="dim">lately</span>}</td>
              <td class="num">{may("admin") && <button class="button small" onClick={() => setAsk(drain(n))}>Drain…</button>}</td></tr>
          ))}
        </Table>
      )}
      {list.some((n) => n.lacks?.length) && <>
        <h2>Records that wait for what a process lacks</h2>
        <Table label="Lacks" head={["Node", "Record, and what it needs"]}>
          {list.flatMap((n) => (n.lacks ?? []).map((lack) => <tr key={n.node + lack}><td class="id">{n.node}</td><td class="wrap">{lack}</td></tr>))}
        </Table>
      </>}
      {digests.size > 1 && <p class="note is-bad">These processes have different data of time zones, so a schedule may start at different times on them: {[...digests].map(([digest, names]) => digest + " on " + names.join(", ")).join("; ")}.</p>}
      <h2>Executing for more than 10 s</h2>
      {!bodies.length ? <p class="dim">No body of a step.</p> : (
        <Table label="Long bodies" head={["Step", "Run", "Attempt", "For", "On"]} numbers={[2, 3]}>
          {bodies.map((b) => <tr key={b.run + b.location}><td class="id">{b.location}</td><td><RunLink id={b.run} /></td><td class="num">{b.attempt}</td><td class={"num" + (b.long ? " strong" : "")}>{took(b.since)}{b.long && <> <span class="badge is-stalled"><Icon name="stalled" />long</span></>}</td><td>{b.node}</td></tr>)}
        </Table>
      )}
      {ask && <Ask q={ask} onClose={() => setAsk(null)} onDone={load} />}
    </div>
  );
}
