// What keeps pages fresh: the server's stream of events, and questions at intervals where there is none.

import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { address, away, has, info } from "./api";
import { parse } from "./json";
import type { LiveEvents } from "./types";

/** Whether pages hear of changes at once ("live"), ask now and then ("polling"), or not at all. */
export const liveness = signal<"live" | "polling" | "paused" | "still">("still");

/** The server has no events: all pages ask. */
let noEvents = false;

export interface Subject {
  run?: string;
  stream?: string[]; // as ID/NAME
  runs?: string[]; // filters
  nodes?: boolean;
}

/** An event, with its data. */
export type Told = { [E in keyof LiveEvents]: { event: E; data: LiveEvents[E] } }[keyof LiveEvents];

/** What a page does with an event itself; true: nothing is to be read again. */
export type Hear = (told: Told) => boolean;

const heardOf: (keyof LiveEvents)[] = ["run", "entry", "inbox", "value", "item", "page", "nodes", "reset"];

/**
 * Calls refresh when something about the subject may have changed: at most once per second, never while the tab is
 * hidden, and not before the last call is done.
 */
export function useLive(subject: Subject | null, refresh: () => Promise<unknown>, interval = 2000, hear?: Hear) {
  const latest = useRef(refresh);
  latest.current = refresh;
  const hearing = useRef(hear);
  hearing.current = hear;
  const key = JSON.stringify(subject);
  useEffect(() => {
    if (!subject) liveness.value = "still";
    if (!subject || !info.value) return;
    let stopped = false, timer = 0, source: EventSource | null = null, under = false, dirty = false, last = 0;
    const turn = async () => {
      timer = 0;
      if (stopped || document.hidden) return;
      if (under) {
        dirty = true;
        return;
      }
      under = true;
      last = Date.now();
      try {
        await latest.current();
      } catch {
        // the page shows it; the next turn asks again
      }
      under = false;
      if (dirty) {
        dirty = false;
        plan(0);
      } else if (!source) plan(away.value ? 5000 : interval);
    };
    const plan = (ms: number) => {
      if (!timer && !stopped) timer = window.setTimeout(turn, Math.max(ms, last + 1000 - Date.now()));
    };
    const open = () => {
      if (noEvents || !has("events") || (subject.run === undefined && !subject.runs?.length && !subject.nodes)) {
        liveness.value = "polling";
        plan(interval);
        return;
      }
      const run = subject.run === undefined ? [] : [subject.run];
      source = new EventSource(address("events", { ...subject, run }));
      let heard = false;
      const event = (e: MessageEvent<string>) => {
        heard = true;
        liveness.value = "live";
        if (!hearing.current?.({ event: e.type, data: parse(e.data) } as Told)) plan(0);
      };
      source.onopen = () => { heard = true; liveness.value = "live"; };
      for (const name of heardOf) source.addEventListener(name, event);
      source.onerror = () => {
        if (!heard) noEvents = true; // there is no such endpoint, or it is full
        if (!heard || source?.readyState === EventSource.CLOSED) {
          close();
          liveness.value = "polling";
          plan(interval);
        }
      };
    };
    const close = () => {
      source?.close();
      source = null;
    };
    const seen = () => {
      clearTimeout(timer);
      timer = 0;
      close();
      if (document.hidden) liveness.value = "paused"; // a browser allows six connections to a host
      else {
        open();
        plan(0);
      }
    };
    document.addEventListener("visibilitychange", seen);
    if (!document.hidden) open();
    return () => {
      stopped = true;
      clearTimeout(timer);
      close();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, interval, info.value !== null]);
}

let said = 0, waiting = "", later = 0;

/** Says something to a screen reader, at most each 5 seconds; the latest counts. */
export function say(text: string) {
  waiting = text;
  if (later) return;
  later = window.setTimeout(() => {
    later = 0;
    said = Date.now();
    const region = document.getElementById("say");
    if (region) region.textContent = waiting;
  }, Math.max(0, said + 5000 - Date.now()));
}
