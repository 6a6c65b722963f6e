// The graph of a run: boxes in boxes, laid out by adding sizes. Stages stand one after the other, lanes beside each other.
// The critical path is bold. A box with many inside shows the critical and the failed ones, and counts the rest.

import { useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";
import { Loading, stateColour } from "./parts";
import { span } from "./time";
import { treeOf, type Node as Place } from "./model";
import type { Entry, Run, Shape, ShapeBox } from "./types";

const many = 50;
const shownOfMany = 12;
const mostBoxes = 500;

export function Graph({ run, entries, version, shape, at, open }: {
  run: Run; entries: Map<string, Entry>; version: number; shape: Shape | undefined; at: string; open: (loc: string) => void;
}) {
  const [unfolded, setUnfolded] = useState<Set<string>>(new Set());
  const holder = useRef<HTMLDivElement>(null);
  const took = useMemo(() => new Map(shape?.path.map((p) => [p.location, p])), [shape]);
  const places = useMemo(() => {
    const all = new Map<string, Place>();
    const walk = (n: Place) => {
      all.set(n.loc, n);
      n.children.forEach(walk);
    };
    walk(treeOf(entries.values()));
    return all;
  }, [version]);
  if (!shape) return <Loading />;
  const drawn = { left: mostBoxes };
  const boxes = (shape.boxes ?? []).map((b): Counted => ({ ...b, ...sums(places.get(b.location)) }));
  const root = boxes[0];
  return (
    <section class="graph-view" aria-label="Graph">
      <p class="dim">Left to right: one after the other. Above each other: at the same time. <b class="critical-word">Bold</b>: the critical
        path, the one chain of operations that the run's time went to. The timeline says the same in rows.</p>
      {shape.cut && <p class="note"><Icon name="cancelled" />The path begins where the record does: earlier operations were pruned or belong to a former incarnation.</p>}
      <div class="graph" ref={holder} tabIndex={0} role="group" aria-label="Operations and their order">
        <span class="graph-in"><span class="node end">start</span>
        {root && <Stages boxes={boxes} box={root} at={at} open={open} unfolded={unfolded} drawn={drawn} took={took}
          unfold={(loc) => setUnfolded(new Set(unfolded).add(loc))} />}
        <span class="arrow" aria-hidden="true" />
        <span class={"node end is-" + run.status}><Icon name={run.status} />{run.status}</span></span>
      </div>
      <CriticalPath shape={shape} open={open} />
    </section>
  );
}

/** A box with the operations at and in it. */
interface Counted extends ShapeBox {
  open: number;
  done: number;
  failed: number;
}

const sums = (n?: Place) => ({ open: n?.open ?? 0, done: n?.done ?? 0, failed: n?.failed ?? 0 });

interface Drawing {
  boxes: Counted[];
  at: string;
  open: (loc: string) => void;
  unfolded: Set<string>;
  unfold: (loc: string) => void;
  drawn: { left: number };
  took: Map<string, { took_us: number }>;
}

function Stages(p: Drawing & { box: Counted }) {
  const all = p.box.stages ?? [];
  // Of a long sequence the stages that matter are shown: the first, the last, what is critical and has failed.
  const fold = all.length > many && !p.unfolded.has(p.box.location + "\n");
  const keep = fold ? pick(all.length, (i) => Math.max(...all[i]!.flat().map((b) => weight(p.boxes[b]!)))) : null;
  let hidden = 0;
  return (
    <>
      {all.map((stage, i) => {
        if (keep && !keep.has(i)) {
          hidden++;
          return i + 1 < all.length && !keep.has(i + 1) ? null : (
            <Rest key={i} n={takeHidden()} onClick={() => p.unfold(p.box.location + "\n")} row />
          );
        }
        return (
          <span key={i} class="stage-line">
            <span class="arrow" aria-hidden="true" />
            {stage.length === 1 ? <Lane {...p} lane={stage[0]!} /> : <Beside {...p} stage={stage} name={p.box.location + "\n" + i} />}
          </span>
        );
      })}
    </>
  );
  function takeHidden() {
    const n = hidden;
    hidden = 0;
    return n;
  }
}

/** Which of many are shown: those that weigh most, then the first. */
function pick(count: number, of: (i: number) => number): Set<number> {
  const order = [...Array(count).keys()].sort((a, b) => of(b) - of(a) || a - b);
  return new Set([...order.slice(0, shownOfMany), 0, count - 1]);
}

const weight = (b: Counted) => (b.failed ? 4 : 0) + (b.critical ? 2 : 0) + (b.open ? 1 : 0);

function Beside(p: Drawing & { stage: number[][]; name: string }) {
  const fold = p.stage.length > 8 && !p.unfolded.has(p.name);
  const keep = fold ? [...p.stage.keys()].sort((a, b) => heavy(p, b) - heavy(p, a) || a - b).slice(0, 6).sort((a, b) => a - b) : [...p.stage.keys()];
  const rest = p.stage.filter((_, i) => !keep.includes(i)).flat().map((b) => p.boxes[b]!);
  return (
    <span class="beside">
      {keep.map((i) => <span key={i} class="lane"><Lane {...p} lane={p.stage[i]!} /></span>)}
      {rest.length > 0 && <Rest n={rest.length} boxes={rest} onClick={() => p.unfold(p.name)} />}
    </span>
  );
}

const heavy = (p: Drawing & { stage: number[][] }, i: number) => Math.max(...p.stage[i]!.map((b) => weight(p.boxes[b]!)));

function Rest({ n, boxes, onClick, row }: { n: number; boxes?: Counted[]; onClick: () => void; row?: boolean }) {
  const sum = (f: (b: Counted) => boolean) => boxes?.filter(f).length ?? 0;
  const failed = sum((b) => b.failed > 0), open = sum((b) => b.open > 0);
  return (
    <span class={row ? "stage-line" : "lane"}>
      {row && <span class="arrow" aria-hidden="true" />}
      <button class="node rest" onClick={onClick}>{n} more{boxes && <span class="dim">
        {[n - failed - open > 0 && n - failed - open + " done", failed && failed + " failed", open && open + " open"].filter(Boolean).join(", ")}</span>}</button>
    </span>
  );
}

function Lane(p: Drawing & { lane: number[] }) {
  return <>{p.lane.map((b, i) => (
    <span key={b} class="stage-line">{i > 0 && <span class="arrow" aria-hidden="true" />}<Node {...p} box={p.boxes[b]!} /></span>))}</>;
}

function Node(p: Drawing & { box: Counted }) {
  const { box } = p;
  p.drawn.left--;
  const name = box.location.slice(box.location.lastIndexOf("/") + 1);
  const inside = box.stages?.length ?? 0;
  const state = box.state ?? (box.failed ? "failed" : box.open ? "open" : "done");
  const label = (
    <><span class={"dot is-" + stateColour(state)}><Icon name={state === "failed" ? "failed" : state} /></span>{name}
      {p.took.has(box.location) && <span class="dim small"> {span(p.took.get(box.location)!.took_us / 1000)}</span>}</>
  );
  const classes = "node is-" + stateColour(state) + (box.critical ? " critical" : "") + (p.at === box.location ? " chosen" : "");
  const words = <span class="unseen">, {box.kind ?? "scope"}, {state}{box.critical && ", on the critical path"}</span>;
  if (!inside || p.drawn.left < 0) {
    return box.state ? <button class={classes} title={box.location} onClick={() => p.open(box.location)}>{label}{words}</button>
      : <span class={classes} title={box.location}>{label}</span>;
  }
  return (
    <span class={"box" + (box.critical ? " critical" : "")}>
      <span class="box-name">{box.state ? <button class="as-link" onClick={() => p.open(box.location)}>{label}{words}</button> : label}
        <span class="dim small">{[box.done && box.done + " done", box.failed && box.failed + " failed", box.open && box.open + " open"].filter(Boolean).join(", ")}</span></span>
      <span class="box-in"><Stages {...p} box={box} /></span>
    </span>
  );
}

function CriticalPath({ shape, open }: { shape: Shape; open: (loc: string) => void }) {
  const [all, setAll] = useState(false);
  const total = Date.parse(shape.to) - Date.parse(shape.from) || 1;
  const long = shape.path.length > 30 && !all;
  const parts = useMemo(() => {
    if (!long) return shape.path;
    const keep = new Set([...shape.path].sort((a, b) => b.took_us + b.before_us - a.took_us - a.before_us).slice(0, 30));
    return shape.path.filter((p) => keep.has(p));
  }, [shape, long]);
  return (
    <section class="path" aria-label="Critical path">
      <h2>Critical path: {span(total)}</h2>
      <table>
        <thead><tr><th scope="col">Operation</th><th scope="col">Kind</th><th scope="col" class="num">Before it</th><th scope="col" class="num">Took</th><th scope="col" class="share-head">Share</th></tr></thead>
        <tbody>
          {parts.map((p) => {
            const share = ((p.took_us + p.before_us) / 1000 / total) * 100;
            return (
              <tr key={p.location}>
                <td><button class="as-link id" onClick={() => open(p.location)}>{p.location}</button></td>
                <td class="dim">{p.kind}, {p.state}</td><td class="num dim">{span(p.before_us / 1000)}</td><td class="num">{span(p.took_us / 1000)}</td>
                <td><span class="share"><span class="share-bar" style={{ width: Math.max(1, share) + "%" }} /></span> <span class="dim small">{share.toFixed(1)} %</span></td>
              </tr>
            );
          })}
          {shape.after_us >= 1000 && <tr><td class="dim">code after that</td><td /><td /><td class="num">{span(shape.after_us / 1000)}</td><td class="dim small">{((shape.after_us / 1000 / total) * 100).toFixed(1)} %</td></tr>}
        </tbody>
      </table>
      {long && <button class="button" onClick={() => setAll(true)}>Show all {shape.path.length}</button>}
    </section>
  );
}
