// Scripts: their versions, their sources, and where in one a run stands.

import { get, may } from "./api";
import { Empty, Loading, Table, Trouble, useLoad, When } from "./parts";
import { link, toRun, toRuns } from "./route";
import { bytes, plural } from "./time";
import { useLive } from "./live";
import { quoted } from "./query";
import type { Run, ScriptFile, ScriptPlace } from "./types";

/** The files of a version, with the lines marked that have begun what is under way. */
function Source({ files, stands = [], run }: { files: ScriptFile[]; stands?: ScriptPlace[]; run?: string }) {
  return (
    <>
      {files.map((f) => {
        const at = new Map<number, ScriptPlace[]>();
        for (const p of stands) if (p.file === f.name) at.set(p.line, [...(at.get(p.line) ?? []), p]);
        return (
          <section key={f.name} aria-label={"Source of " + f.name}>
            <h3 class="id">{f.name}</h3>
            <div class="source" tabIndex={0} role="region" aria-label={f.name}>
              <ol>
                {f.text.replace(/\n$/, "").split("\n").map((text, i) => {
                  const here = at.get(i + 1);
                  return (
                    <li key={i} class={here ? "is-here" : ""} aria-current={here ? "step" : undefined}>
                      <code>{text || " "}</code>
                      {here && run !== undefined && <span class="here">{here.slice(0, 3).map((p) => (
                        <a key={p.location} class="id" href={toRun(run, "timeline", p.location)}>{p.location}</a>))}
                        {here.length > 3 && <span> and {here.length - 3} more</span>}</span>}
                    </li>
                  );
                })}
              </ol>
            </div>
          </section>
        );
      })}
    </>
  );
}

/** The source that a run executes, and the lines at which it stands. */
export function RunScript({ run, version }: { run: Run; version: number }) {
  const key = [run.id, run.status, version, JSON.stringify(run.waits_for ?? [])].join("\n");
  const { data, error, load } = useLoad((stop) => get("runs/{id}/script", { id: run.id }, stop), key, true);
  if (error !== undefined) return <Trouble error={error} retry={load} />;
  if (!data) return <Loading />;
  const files = data.files.map((f) => f.name);
  const elsewhere = data.stands.filter((p) => !files.includes(p.file));
  return (
    <section aria-label="Script">
      <h2 class="unseen">Script</h2>
      <p>Version <a href={link(["scripts", data.name], { version: String(data.version) })}>{data.version}</a> of <a href={link(["scripts", data.name])}>{data.name}</a>
        {data.current !== data.version && <span class="dim">; {data.current ? "the current one is " + data.current : "none is current"}</span>}.{" "}
        {data.unknown ?? (data.stands.length ? "It stands at " + plural(new Set(data.stands.map((p) => p.file + p.line)).size, "line") + "."
          : run.ended ? "It has ended." : "No operation is under way.")}</p>
      {elsewhere.length > 0 && <p class="dim">It stands at {elsewhere.map((p) => p.file + ":" + p.line).join(", ")}, which was not kept.</p>}
      <Source files={data.files} stands={data.stands} run={run.id} />
    </section>
  );
}

export function Scripts({ name, version }: { name?: string | undefined; version: string }) {
  return name === undefined ? <List /> : <One key={name} name={name} version={version} />;
}

function List() {
  const { data, error, load } = useLoad((stop) => get("scripts", {}, stop), "scripts");
  useLive({}, load, 5000);
  return (
    <div class="page">
      <h1>Scripts</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : !data.scripts.length
        ? <Empty title="There are no scripts"><code>stet script deploy order.ts</code> makes a workflow of a file.</Empty> : (
          <Table label="Scripts" head={["Script", "Current", "Since", "By", "Why"]} numbers={[1]}>
            {data.scripts.map((s) => (
              <tr key={s.name}>
                <td><a class="id" href={link(["scripts", s.name])}>{s.name}</a></td><td class="num">{s.current || "none"}</td>
                <td><When time={s.at} /></td><td>{s.by}</td><td>{s.why}</td>
              </tr>
            ))}
          </Table>
        )}
    </div>
  );
}

function One({ name, version }: { name: string; version: string }) {
  const { data, error, load } = useLoad((stop) => get("scripts/{name}", { name }, stop), name);
  useLive({}, load, 5000);
  const shown = Number(version) || data?.current || 0;
  return (
    <div class="page">
      <p class="crumbs"><a href="#/scripts">Scripts</a></p>
      <h1>{name}</h1>
      {error !== undefined && <Trouble error={error} retry={load} />}
      {!data ? error === undefined && <Loading /> : (
        <>
          <div class="buttons"><a class="button" href={toRuns("workflow=" + quoted(name))}>Its runs</a></div>
          {!data.current && <p>No version is current: no run begins, those that have begun go on.</p>}
          <Table label="Versions" head={["Version", "State", "Deployed", "By", "Why", "SHA-256", "Size"]} numbers={[0, 6]}>
            {(data.versions ?? []).map((v) => (
              <tr key={v.number}>
                <td class="num"><a href={link(["scripts", name], { version: String(v.number) })} aria-current={v.number === shown ? "true" : undefined}>{v.number}</a></td>
                <td>{v.number === data.current ? <span class="badge is-succeeded">current</span> : v.left && <span class="dim">until <When time={v.left} /></span>}</td>
                <td><When time={v.at} /></td><td>{v.by}</td><td>{v.why}</td><td class="id">{v.hash.slice(0, 12)}</td><td class="num">{bytes(v.size)}</td>
              </tr>
            ))}
          </Table>
          {shown > 0 && (may("values") ? <VersionSource key={shown} name={name} version={shown} /> : <p class="dim">Your role does not show sources.</p>)}
        </>
      )}
    </div>
  );
}

function VersionSource({ name, version }: { name: string; version: number }) {
  const { data, error, load } = useLoad((stop) => get("scripts/{name}/source", { name, version }, stop), name + "\n" + version);
  return (
    <>
      <h2>Version {version}</h2>
      {error !== undefined ? <Trouble error={error} retry={load} /> : !data ? <Loading /> : <Source files={data.files} />}
    </>
  );
}
