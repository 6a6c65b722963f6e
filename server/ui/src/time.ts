// Times and amounts as people read them.

import { signal } from "@preact/signals";
import { now } from "./api";

/** Counts seconds, for what shows an age. */
export const second = signal(0);
setInterval(() => {
  if (!document.hidden) second.value++;
}, 1000);

/** A duration in milliseconds with about three digits: 38 ms, 3.1 s, 12 m 3 s, 2 d 4 h. */
export function span(ms: number): string {
  if (!(ms > 0)) return "0 s";
  if (ms < 1) return Math.max(1, Math.round(ms * 1000)) + " µs";
  if (ms < 10) return ms.toFixed(1) + " ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  const s = ms / 1000;
  if (s < 9.995) return s.toFixed(2).replace(/0$/, "") + " s";
  if (s < 59.95) return s.toFixed(1) + " s";
  const two = (big: number, unit: string, small: number, inner: string) =>
    big + " " + unit + (small ? " " + small + " " + inner : "");
  const r = Math.round(s);
  if (r < 3600) return two(Math.floor(r / 60), "m", r % 60, "s");
  const m = Math.round(s / 60);
  if (m < 1440) return two(Math.floor(m / 60), "h", m % 60, "m");
  const h = Math.round(s / 3600);
  return two(Math.floor(h / 24), "d", h % 24, "h");
}

/** How long ago, in one unit: 12 m, 2 d. */
export function age(time: string): string {
  const s = Math.max(0, (now() - Date.parse(time)) / 1000);
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " m";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

const pad = (n: number, size = 2) => String(n).padStart(size, "0");
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function clock(t: number, precise = false): string {
  const d = new Date(t);
  return pad(d.getHours()) + ":" + pad(d.getMinutes()) + ":" + pad(d.getSeconds()) +
    (precise ? "." + pad(d.getMilliseconds(), 3) : "");
}

/** A moment in the viewer's zone: 10:04:05 today, otherwise with the day. */
export function moment(time: string | number, precise = false): string {
  const t = typeof time === "number" ? time : Date.parse(time);
  const d = new Date(t), today = new Date(now());
  if (Number.isNaN(t)) return "";
  if (d.toDateString() === today.toDateString()) return clock(t, precise);
  const year = d.getFullYear() === today.getFullYear() ? "" : " " + d.getFullYear();
  return d.getDate() + " " + months[d.getMonth()] + year + " " + (precise ? clock(t, true) : clock(t).slice(0, 5));
}

/** The same for a title: with the zone, and in UTC. */
export function exact(time: string): string {
  const t = Date.parse(time);
  if (Number.isNaN(t)) return "";
  return moment(t, true) + " (" + new Date(t).toISOString() + ")";
}

export function bytes(n: number): string {
  if (n < 1024) return n + " B";
  if (n < 1024 * 1024) return (n / 1024).toFixed(1) + " KiB";
  return (n / 1024 / 1024).toFixed(1) + " MiB";
}

export const took = (from?: string, to?: string) =>
  from ? span((to ? Date.parse(to) : now()) - Date.parse(from)) : "";

export const plural = (n: number, one: string, many = one + "s") => n.toLocaleString("en") + " " + (n === 1 ? one : many);
