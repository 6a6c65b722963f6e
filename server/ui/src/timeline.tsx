// The timeline of a run: its operations as a tree of rows in a window, with an overview on a canvas.

import type * as preact from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { now } from "./api";
import { wasCut } from "./cut";
import { Icon } from "./icons";
import { busy, flatten, matching, scaleOf, treeOf, waits, type Node, type Scale } from "./model";
import { rowKeys, stateColour } from "./parts";
import { clock, plural, second, span } from "./time";
import type { Entry, Run, Shape, Why } from "./types";
import { place, reveal, Windowed } from "./windowed";

export function Timeline(p: {
  run: Run;
  entries: Map<string, Entry>;
  version: number;
  shape: Shape | undefined;
  at: string;
  open: (loc: string) => void;
}) {
  const [fold, setFold] = useState(true);
  const [failedOnly, setFailedOnly] = useState(false);
  const [critical, setCritical] = useState(false);
  const [find, setFind] = useState("");
  const [hide, setHide] = useState("");
  const [folded, setFolded] = useState<Map<string, boolean>>(new Map());
  const [view, setView] = useState<[number, number]>([0, 1]);
  const [active, setActive] = useState(0);
  const [seen, setSeen] = useState<[number, number]>([0, 20]);
  const holder = useRef<HTMLDivElement>(null);
  const live = !p.run.ended;
  if (live) second.value;
  const path = useMemo(() => new Set(p.shape?.path.map((x) => x.location)), [p.shape]);

  const root = useMemo(() => treeOf(p.entries.values()), [p.version]);
  const start = Date.parse(p.run.started ?? p.run.created);
  const end = p.run.ended ? Date.parse(p.run.ended) : now();
  // A running scale would make all bars creep; it is laid out anew when something happens, or each ten seconds.
  const tick = live ? Math.floor(second.value / 10) : 0;
  const scale = useMemo(() => {
    const first = Number.isNaN(root.from) ? start : Math.min(start, root.from);
    return scaleOf(p.entries.values(), first, Math.max(end, first), fold);
  }, [p.version, fold, tick, p.run.ended]);

  const many = p.entries.size > 200;
  const wanted = find.trim().toLowerCase();
  const shown = useMemo(() => {
    if (!wanted && !failedOnly && !critical) return null;
    return matching(root, (n) => (!wanted || n.loc.toLowerCase().includes(wanted)) &&
      (!failedOnly || n.entry?.state === "failed" || !!n.entry?.error || (n.entry?.attempts ?? 0) > 1) && (!critical || path.has(n.loc)));
  }, [root, wanted, failedOnly, critical, path]);
  const hidden = hide.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const isHidden = (n: Node) => hidden.some((h) => n.name.toLowerCase().includes(h));
  const permits = useMemo(() => new Map(p.run.why?.filter((w) => ["permit", "offered", "worker"].includes(w.code)).map((w) => [w.location!, w])), [p.run.why]);
  const isOpen = (n: Node) => folded.get(n.loc) ?? (shown !== null || !many || n.failed > 0 || n.depth < 1);
  const rows = useMemo(() => flatten(root, isOpen, (n) => (!shown || shown.has(n)) && !isHidden(n)), [root, folded, shown, many, hide]);
  const at = Math.min(active, Math.max(0, rows.length - 1));

  useEffect(() => { // a link to an operation opens what it stands in
    if (!p.at) return;
    const i = rows.findIndex((r) => r.loc === p.at);
    if (i >= 0) {
      setActive(i);
      reveal(holder.current, i, false);
    } else if (p.entries.has(p.at) && !shown) {
      const next = new Map(folded);
      for (let cut = p.at.indexOf("/"); cut > 0; cut = p.at.indexOf("/", cut + 1)) next.set(p.at.slice(0, cut), true);
      if (next.size !== folded.size || [...next].some(([k, v]) => folded.get(k) !== v)) setFolded(next);
    }
  }, [p.at, rows]);

  const turn = (n: Node, open: boolean) => setFolded(new Map(folded).set(n.loc, open));
  const zoom = (factor: number, middle = (view[0] + view[1]) / 2) => {
    const width = Math.min(1, Math.max(1e-4, (view[1] - view[0]) * factor));
    const from = Math.max(0, Math.min(1 - width, middle - (middle - view[0]) * (width / (view[1] - view[0]))));
    setView([from, from + width]);
  };
  const pan = (part: number) => {
    const width = view[1] - view[0];
    const from = Math.max(0, Math.min(1 - width, view[0] + part * width));
    setView([from, from + width]);
  };
  const move = (to: number) => {
    setActive(to);
    reveal(holder.current, to);
  };
  const keys = rowKeys(rows.length, at, move, (e) => {
    const n = rows[at];
    if (!n) return;
    switch (e.key) {
      case "Enter":
      case " ":
        e.preventDefault();
        if (n.entry) p.open(n.loc);
        else turn(n, !isOpen(n));
        break;
      case "ArrowRight":
        e.preventDefault();
        if (e.shiftKey) pan(0.2);
        else if (n.children.length && !isOpen(n)) turn(n, true);
        else if (n.children.length) move(at + 1);
        break;
      case "ArrowLeft":
        e.preventDefault();
        if (e.shiftKey) pan(-0.2);
        else if (n.children.length && isOpen(n)) turn(n, false);
        else {
          const above = rows.findLastIndex((r, i) => i < at && r.depth < n.depth);
          if (above >= 0) move(above);
        }
        break;
      case "+": zoom(0.5); break;
      case "-": zoom(2); break;
      case "0": setView([0, 1]); break;
    }
  });

  if (!p.entries.size) return <p class="dim pad">{p.run.ended || p.run.status === "stalled" ? "Nothing was recorded: no operation has begun." : "Nothing is recorded yet."}</p>;
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="tools">
        <Overview scale={scale} rows={rows} view={view} seen={seen} setView={setView} version={p.version} />
        <div class="tool-line">
          <span class="group">
            <button class="button square" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(0.5)}><Icon name="plus" /></button>
            <button class="button square" aria-label="Zoom out" title="Zoom out (-)" onClick={() => zoom(2)}><Icon name="minus" /></button>
            <button class="button square" aria-label="Earlier" title="Earlier (Shift and left)" onClick={() => pan(-0.4)}><Icon name="left" /></button>
            <button class="button square" aria-label="Later" title="Later (Shift and right)" onClick={() => pan(0.4)}><Icon name="right" /></button>
            <button class="button" disabled={view[0] === 0 && view[1] === 1} onClick={() => setView([0, 1])}>All</button>
          </span>
          <label class="check"><input type="checkbox" checked={fold} onChange={() => setFold(!fold)} />fold idle time</label>
          <label class="check"><input type="checkbox" checked={failedOnly} onChange={() => setFailedOnly(!failedOnly)} />failures only</label>
          {path.size > 0 && <label class="check"><input type="checkbox" checked={critical} onChange={() => setCritical(!critical)} />critical path only</label>}
          <label class="find">Find <input type="search" value={find} spellcheck={false} onInput={(e) => setFind(e.currentTarget.value)} /></label>
          <label class="find">Hide <input type="search" value={hide} spellcheck={false} placeholder="names" onInput={(e) => setHide(e.currentTarget.value)} /></label>
          <span class="dim">{plural(rows.length, "row")}</span>
        </div>
      </div>
      {rows.length === 0 ? <p class="dim pad">Nothing matches.</p> : (
        <Windowed count={rows.length} active={at} label="Operations" columns="timeline-rows" holder={holder} onKeyDown={keys}
          onWindow={(a, b) => setSeen((s) => (s[0] === a && s[1] === b ? s : [a, b]))}
          head={<>
            <span class="cell" role="columnheader">Operation</span><span class="cell" role="columnheader">Kind</span>
            <span class="cell num" role="columnheader">Took</span>
            <span class="cell axis" role="columnheader"><span class="unseen">When</span><Axis scale={scale} view={view} /></span>
          </>}
          row={(i) => <Row key={rows[i]!.loc} n={rows[i]!} i={i} focus={i === at} chosen={rows[i]!.loc === p.at} open={isOpen(rows[i]!)}
            critical={path.has(rows[i]!.loc)} permit={permits.get(rows[i]!.loc)} scale={scale} view={view}
            onOpen={() => { setActive(i); p.open(rows[i]!.loc); }} onTurn={() => { setActive(i); turn(rows[i]!, !isOpen(rows[i]!)); }}
            onFocus={() => setActive(i)} />} />
      )}
    </section>
  );
}

/** How an operation stands, in a word, where its bar alone would say it. */
function wordOf(n: Node, permit: Why | undefined): string {
  const e = n.entry;
  if (e && permit) return permit.text;
  if (!e) return [n.done && n.done + " done", n.failed && n.failed + " failed", n.open && n.open + " open"].filter(Boolean).join(", ");
  if (e.executing) return "executing, attempt " + ((e.attempts ?? 0) + 1);
  if (e.state === "open" && e.kind === "step" && e.wake) return "waits for its next attempt";
  return (e.undone ? "undone" : wasCut(e) ? "withdrawn, its body had begun" : e.state) + ((e.attempts ?? 0) > 1 ? ", " + e.attempts + " attempts" : "");
}

function Row(p: {
  n: Node; i: number; focus: boolean; chosen: boolean; open: boolean; critical: boolean; permit: Why | undefined; scale: Scale; view: [number, number];
  onOpen: () => void; onTurn: () => void; onFocus: () => void;
}) {
  const { n } = p, e = n.entry;
  const state = e?.state ?? (n.failed ? "failed" : n.open ? "open" : "done");
  const length = n.children.length;
  return (
    <div class={"row" + (p.chosen ? " chosen" : "") + (p.critical ? " critical" : "")} role="row" data-row={p.i} tabIndex={p.focus ? 0 : -1}
      aria-level={n.depth + 1} aria-rowindex={p.i + 2} aria-expanded={length ? p.open : undefined} aria-selected={p.chosen}
      style={place(p.i)} onFocus={p.onFocus} onClick={() => (e ? p.onOpen() : p.onTurn())}>
      <span class="cell clip name" role="gridcell" style={{ paddingLeft: 8 + n.depth * 16 + "px" }} title={n.loc}>
        {length ? <button class="turn" tabIndex={-1} aria-label={p.open ? "Fold" : "Unfold"} onClick={(x) => { x.stopPropagation(); p.onTurn(); }}>
          <Icon name={p.open ? "down" : "right"} /></button> : <span class="turn" />}
        <span class={"dot is-" + stateColour(state)}><Icon name={state === "failed" ? "failed" : state} /></span>
        <span class={"label" + (state === "failed" ? " why-bad" : "")}>{n.name}</span>
        <span class="unseen">{wordOf(n, p.permit)}{p.critical ? ", on the critical path" : ""}</span>
        {(e?.attempts ?? 0) > 1 && <span class="tag" aria-hidden="true">×{e!.attempts}</span>}
        {e?.undone && <span class="tag" aria-hidden="true">undone</span>}
      </span>
      <span class="cell dim clip" role="gridcell">{e?.kind ?? (length > 1 ? length + " inside" : "")}</span>
      <span class="cell num" role="gridcell">{Number.isNaN(n.from) || n.from < 0 ? "" : span((Number.isNaN(n.to) ? now() : n.to) - n.from)}</span>
      <span class="cell bars" role="gridcell"><Bars n={n} permit={p.permit} scale={p.scale} view={p.view} /></span>
    </div>
  );
}

function Bars({ n, permit, scale, view }: { n: Node; permit: Why | undefined; scale: Scale; view: [number, number] }) {
  const e = n.entry, out: preact.JSX.Element[] = [];
  const x = (t: number) => (scale.at(t) - view[0]) / (view[1] - view[0]) * 100;
  const bar = (from: number, to: number, kind: string, key: string, title?: string) => {
    if (Number.isNaN(from)) return;
    const a = Math.max(-1, x(from)), b = Math.min(101, x(Number.isNaN(to) ? now() : to));
    if (b < 0 || a > 100 || b < a) return;
    out.push(<span key={key} class={"bar " + kind} title={title} style={{ left: `min(${a}%, 100% - 3px)`, width: Math.max(b - a, 0) + "%" }} />);
  };
  for (const [i, g] of scale.pieces.entries()) if (g.folded) bar(g.from, g.to, "break", "g" + i, span(g.to - g.from) + " folded");
  if (!e) bar(n.from, n.to, "scope" + (n.failed ? " is-failed" : n.open ? " is-suspended" : " is-succeeded"), "s");
  else if (e.kind === "step" || e.kind.endsWith("undo")) {
    const works = busy(e);
    const start = Date.parse(e.started ?? ""), end = e.state === "open" ? (e.wake ? Math.min(Date.parse(e.wake), now()) : now()) : Date.parse(e.ended ?? "");
    if (permit) bar(Date.parse(permit.since ?? e.started ?? ""), now(), "permit", "p", permit.text);
    else if (works.length > 1 || e.state === "open") bar(start, end, "pause", "p", "pause before the next attempt");
    const tries = e.attempt_times ?? [], first = tries[0]?.number ?? 1;
    if (wasCut(e) && !e.ended) bar(start, start, "withdrawn", "w", "attempt " + e.attempts + " had begun; its end is not known");
    works.forEach(([a, b], i) => {
      const last = i === works.length - 1;
      const kind = !last || e.state === "failed" || (e.state === "open" && !e.executing) ? "is-failed" : e.state === "open" ? "is-running" : "is-" + stateColour(e.state);
      bar(a, b, kind + (e.state === "failed" && last ? " end" : ""), "a" + i,
        `attempt ${first + i}: ${span(b - a)}` + (tries[i]?.message ? ", " + tries[i]!.message : ""));
    });
  } else if (waits(e)) bar(n.from, now(), "wait is-suspended", "w");
  else if (e.state === "withdrawn") bar(Date.parse(e.started ?? ""), Date.parse(e.ended ?? e.started ?? ""), "withdrawn", "w");
  else if (e.kind !== "loop" || n.children.length === 0) bar(n.from, n.to, "wait is-" + stateColour(e.state), "w");
  else bar(n.from, n.to, "scope is-succeeded", "s");
  return <>{out}</>;
}

function Axis({ scale, view }: { scale: Scale; view: [number, number] }) {
  const count = 5, ticks: preact.JSX.Element[] = [];
  const range = scale.back(view[1]) - scale.back(view[0]);
  for (let i = 0; i < count; i++) {
    const at = scale.back(view[0] + ((view[1] - view[0]) * i) / count);
    const since = at - scale.from;
    ticks.push(<span key={i} class="tick" aria-hidden="true" style={{ left: (i * 100) / count + "%" }}>
      {range < 120_000 ? "+" + span(since).replace(/^0 s$/, "0 s") : clock(at).slice(0, range < 7_200_000 ? 8 : 5)}
    </span>);
  }
  return <>{ticks}</>;
}

/** The whole run in a strip. It shows nothing that the rows do not say, so it is hidden from screen readers. */
function Overview(p: {
  scale: Scale; rows: Node[]; view: [number, number]; seen: [number, number]; version: number; setView: (v: [number, number]) => void;
}) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState(0);
  const [, paint] = useState(0);
  useEffect(() => { // the canvas does not see that colours have changed
    const again = () => paint((n) => n + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)"), theme = new MutationObserver(again);
    dark.addEventListener("change", again);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      dark.removeEventListener("change", again);
      theme.disconnect();
    };
  }, []);
  useEffect(() => {
    const measure = new ResizeObserver(() => setSize(ref.current?.clientWidth ?? 0));
    measure.observe(ref.current!);
    return () => measure.disconnect();
  }, []);
  useEffect(() => {
    const frame = requestAnimationFrame(() => draw(ref.current, p.scale, p.rows, p.view, p.seen));
    return () => cancelAnimationFrame(frame);
  });
  const drag = (e: PointerEvent) => {
    if (e.type === "pointermove" && !e.buttons) return;
    const box = ref.current!.getBoundingClientRect();
    const x = (e.clientX - box.left) / box.width, width = p.view[1] - p.view[0];
    if (width >= 1) return;
    const from = Math.max(0, Math.min(1 - width, x - width / 2));
    p.setView([from, from + width]);
  };
  return <canvas ref={ref} class="overview" height={36} width={size} aria-hidden="true" onPointerDown={drag} onPointerMove={drag} />;
}

function draw(canvas: HTMLCanvasElement | null, scale: Scale, rows: Node[], view: [number, number], seen: [number, number]) {
  const c = canvas?.getContext("2d");
  if (!canvas || !c || !canvas.clientWidth) return;
  const w = canvas.clientWidth, h = canvas.clientHeight, dots = devicePixelRatio || 1;
  canvas.width = w * dots;
  canvas.height = h * dots;
  c.scale(dots, dots);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue("--" + name).trim();
  const colours: Record<string, string> = { failed: colour("failed"), open: colour("suspended"), done: colour("succeeded"), withdrawn: colour("cancelled") };
  const t = now(), inner = h - 4, step = Math.max(1, Math.ceil(rows.length / 4000));
  for (const g of scale.pieces) {
    if (!g.folded) continue;
    c.fillStyle = colour("line");
    c.fillRect(g.x * w, 0, g.width * w, h);
  }
  for (let i = 0; i < rows.length; i += step) {
    const n = rows[i]!;
    if (!n.entry || Number.isNaN(n.from)) continue;
    c.fillStyle = colours[n.entry.state] ?? colours.done!;
    const a = scale.at(n.from) * w, b = scale.at(Number.isNaN(n.to) ? t : n.to) * w;
    c.fillRect(a, 2 + (i / rows.length) * inner, Math.max(1.5, b - a), Math.max(1, Math.min(5, inner / rows.length - 0.5)));
  }
  c.strokeStyle = colour("accent");
  c.lineWidth = 1.5;
  const y0 = 2 + (Math.max(0, seen[0]) / rows.length) * inner, y1 = 2 + (Math.min(rows.length, seen[1]) / rows.length) * inner;
  c.strokeRect(view[0] * w + 0.75, Math.max(0.75, y0), (view[1] - view[0]) * w - 1.5, Math.max(4, Math.min(h - 1.5, y1 - y0)));
}
