// Routes stand in the fragment: #/runs/ID/graph?at=charge. So no prefix and no rewriting is needed.

import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => { hash.value = location.hash; });

export interface Route {
  path: string[];
  query: URLSearchParams;
}

export const route = computed<Route>(() => {
  const text = hash.value.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const path = (cut < 0 ? text : text.slice(0, cut)).split("/").filter(Boolean).map(unescape);
  return { path: path.length ? path : ["runs"], query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
});

function unescape(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) q.set(key, value);
  const text = q.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text && "?" + text);
}

export const toRun = (id: string, tab?: string, at?: string) => link(tab ? ["runs", id, tab] : ["runs", id], { at });
export const toRuns = (query: string) => link(["runs"], { query });

export function go(to: string, replace = false) {
  if (replace) {
    history.replaceState(null, "", to);
    hash.value = location.hash;
  } else location.hash = to;
}
