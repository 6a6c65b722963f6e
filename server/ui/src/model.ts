// A run's history as a tree, and the scale of its timeline.

import { now } from "./api";
import type { Entry } from "./types";

export interface Node {
  loc: string;
  name: string;
  depth: number;
  children: Node[];
  entry?: Entry;
  born: number; // of the first operation at or in it
  from: number;
  to: number; // NaN: something in it is open
  open: number;
  done: number;
  failed: number;
}

const time = (t?: string) => (t ? Date.parse(t) : NaN);

/** The names of a location may not hold a slash, so slashes part them. */
export function treeOf(entries: Iterable<Entry>): Node {
  const root: Node = { loc: "", name: "", depth: -1, children: [], born: Infinity, from: NaN, to: -Infinity, open: 0, done: 0, failed: 0 };
  const nodes = new Map<string, Node>([["", root]]);
  const nodeAt = (loc: string): Node => {
    const known = nodes.get(loc);
    if (known) return known;
    const cut = loc.lastIndexOf("/");
    const above = nodeAt(cut < 0 ? "" : loc.slice(0, cut));
    const node: Node = { ...root, loc, name: loc.slice(cut + 1), depth: above.depth + 1, children: [] };
    nodes.set(loc, node);
    above.children.push(node);
    return node;
  };
  for (const e of entries) nodeAt(e.location).entry = e;
  sum(root);
  return root;
}

export const waits = (e: Entry) => e.state === "open" && e.kind !== "loop" && e.kind !== "version" && e.kind !== "shown";

function sum(n: Node) {
  const e = n.entry;
  if (e && !(e.kind.endsWith("undo"))) {
    n.born = e.born ?? 0;
    n.from = time(e.started);
    n.to = waits(e) ? NaN : Math.max(n.from, time(e.ended) || n.from);
  }
  if (e) count(n, e);
  for (const c of n.children) {
    sum(c);
    n.born = Math.min(n.born, c.born);
    if (!(n.from <= c.from)) n.from = Number.isNaN(c.from) ? n.from : c.from;
    n.to = Math.max(n.to, c.to); // NaN wins
    n.open += c.open;
    n.done += c.done;
    n.failed += c.failed;
  }
  n.children.sort((a, b) => a.born - b.born || natural(a.name, b.name));
}

function count(n: Node, e: Entry) {
  if (e.state === "failed") n.failed++;
  else if (waits(e)) n.open++;
  else if (e.state === "done") n.done++;
}

const order = new Intl.Collator("en", { numeric: true });
const natural = order.compare;

/** The rows of a tree, with what is folded left out. */
export function flatten(root: Node, isOpen: (n: Node) => boolean, shows: (n: Node) => boolean): Node[] {
  const rows: Node[] = [];
  const walk = (n: Node) => {
    for (const c of n.children) {
      if (!shows(c)) continue;
      rows.push(c);
      if (c.children.length && isOpen(c)) walk(c);
    }
  };
  walk(root);
  return rows;
}

/** Of the nodes that match, those that must be shown: they and what is around them. */
export function matching(root: Node, match: (n: Node) => boolean): Set<Node> {
  const found = new Set<Node>();
  const walk = (n: Node): boolean => {
    let any = n.depth >= 0 && match(n);
    for (const c of n.children) if (walk(c)) any = true;
    if (any) found.add(n);
    return any;
  };
  walk(root);
  return found;
}

interface Piece {
  from: number;
  to: number;
  x: number; // of 0 to 1
  width: number;
  folded: boolean;
}

export interface Scale {
  from: number;
  to: number;
  pieces: Piece[];
  at: (t: number) => number;
  back: (x: number) => number;
}

/** When the code of the run's steps was executed. */
export function busy(e: Entry): [number, number][] {
  if (e.kind !== "step" && !e.kind.endsWith("undo")) return [];
  const start = time(e.started), tried = time(e.tried), executing = time(e.executing), end = time(e.ended);
  if (e.attempt_times?.length) {
    const list = e.attempt_times.map((a): [number, number] => [time(a.began), time(a.ended)]);
    const last = list[list.length - 1]![1];
    if (e.state === "open") {
      if (!Number.isNaN(executing)) list.push([executing, now()]);
    } else if (end > last && (e.attempts ?? 0) > list.length) list.push([Math.max(last, executing || last), end]);
    return list.filter(([a, b]) => !Number.isNaN(a) && !Number.isNaN(b));
  }
  const out: [number, number][] = [];
  if (!Number.isNaN(tried)) out.push([start, tried]);
  if (!Number.isNaN(executing)) out.push([executing, now()]);
  if (e.state !== "open" && !Number.isNaN(end)) out.push([start, end]);
  return out;
}

const foldFrom = 0.08; // of the whole time: from there on idle time is folded
const foldedTo = 0.03;

/** Where a moment stands between 0 and 1. Long times in which nothing was executed and nothing happened are folded. */
export function scaleOf(entries: Iterable<Entry>, from: number, to: number, fold: boolean): Scale {
  if (!(to > from)) to = from + 1;
  const points: number[] = [from, to];
  const works: [number, number][] = [];
  for (const e of entries) {
    for (const t of [time(e.started), time(e.ended), time(e.tried)]) if (t > from && t < to) points.push(t);
    for (const [a, b] of busy(e)) if (b > a) works.push([a, b]);
  }
  const gaps: [number, number][] = [];
  if (fold) {
    points.sort((a, b) => a - b);
    works.sort((a, b) => a[0] - b[0]);
    let w = 0, until = -Infinity;
    for (let i = 1; i < points.length; i++) {
      const a = points[i - 1]!, b = points[i]!;
      while (w < works.length && works[w]![0] <= a) until = Math.max(until, works[w++]![1]);
      const works_here = until > a || (w < works.length && works[w]![0] < b);
      if (!works_here && b - a > (to - from) * foldFrom && b - a > 300) gaps.push([a, b]);
    }
  }
  const left = to - from - gaps.reduce((s, [a, b]) => s + b - a, 0);
  const room = 1 - gaps.length * foldedTo;
  const pieces: Piece[] = [];
  let x = 0, t = from;
  const add = (end: number, width: number, folded: boolean) => {
    if (end <= t) return;
    pieces.push({ from: t, to: end, x, width, folded });
    x += width;
    t = end;
  };
  for (const [a, b] of gaps) {
    add(a, left > 0 ? ((a - t) / left) * room : 0, false);
    add(b, left > 0 ? foldedTo : 1 / gaps.length, true);
  }
  add(to, left > 0 ? ((to - t) / left) * room : 0, false);
  const find = (test: (p: Piece) => boolean) => {
    let low = 0, high = pieces.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (test(pieces[mid]!)) high = mid;
      else low = mid + 1;
    }
    return pieces[low]!;
  };
  return {
    from, to, pieces,
    at: (at) => {
      const p = find((q) => at <= q.to);
      return p.x + Math.max(0, Math.min(1, (at - p.from) / (p.to - p.from))) * p.width;
    },
    back: (at) => {
      const p = find((q) => at <= q.x + q.width);
      return p.width > 0 ? p.from + Math.max(0, Math.min(1, (at - p.x) / p.width)) * (p.to - p.from) : p.from;
    },
  };
}
