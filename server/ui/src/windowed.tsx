// A list of which only the rows that are seen are in the page: 10,000 rows cost what 40 cost.

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export const rowHeight = 28;
const beyond = 8; // rows above and below

export function Windowed(p: {
  count: number;
  active: number;
  label: string;
  columns: string; // class of the grid
  role?: "treegrid" | "grid";
  head: ComponentChildren;
  row: (i: number) => ComponentChildren;
  onKeyDown: (e: KeyboardEvent) => void;
  onWindow?: (from: number, to: number) => void;
  holder: RefObject<HTMLDivElement | null>;
}) {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const frame = useRef(0);
  useEffect(() => {
    const el = p.holder.current!;
    const measure = new ResizeObserver(() => setHeight(el.clientHeight));
    measure.observe(el);
    const scroll = () => {
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        setTop(el.scrollTop);
      });
    };
    el.addEventListener("scroll", scroll, { passive: true });
    return () => {
      measure.disconnect();
      el.removeEventListener("scroll", scroll);
      cancelAnimationFrame(frame.current);
    };
  }, []);
  const from = Math.max(0, Math.floor(top / rowHeight) - beyond);
  const to = Math.min(p.count, Math.ceil((top + height) / rowHeight) + beyond);
  useLayoutEffect(() => p.onWindow?.(Math.floor(top / rowHeight), Math.ceil((top + height) / rowHeight)), [top, height, p.count]);
  const rows = [];
  for (let i = from; i < to; i++) rows.push(p.row(i));
  // The row with the focus stays in the page, so that keys go on working when it is scrolled away.
  if (p.active >= 0 && p.active < p.count && (p.active < from || p.active >= to)) rows.push(p.row(p.active));
  return (
    <div class={"windowed " + p.columns} role={p.role ?? "treegrid"} aria-label={p.label} aria-rowcount={p.count + 1} onKeyDown={p.onKeyDown}>
      <div class="row head" role="row" aria-rowindex={1}>{p.head}</div>
      <div class="window" ref={p.holder} role="rowgroup" style={{ "--rows": String(Math.min(p.count, 400)) }}>
        <div role="presentation" class="tall" style={{ height: p.count * rowHeight + "px" }}>{rows}</div>
      </div>
    </div>
  );
}

/** Scrolls so that a row is seen, and gives it the focus. */
export function reveal(holder: HTMLElement | null, i: number, focus = true) {
  if (!holder) return;
  const at = i * rowHeight;
  if (at < holder.scrollTop) holder.scrollTop = at;
  else if (at + rowHeight > holder.scrollTop + holder.clientHeight) holder.scrollTop = at + rowHeight - holder.clientHeight;
  if (focus) requestAnimationFrame(() => holder.querySelector<HTMLElement>(`[data-row="${i}"]`)?.focus({ preventScroll: true }));
}

export const place = (i: number) => ({ transform: `translateY(${i * rowHeight}px)` });
