// The HTTP API. All addresses are relative, so a prefix needs no setting.

import { signal } from "@preact/signals";
import type { Info } from "./types";

const base = "api/v1/";

/** An error of the API: RFC 9457, with a code that never changes. */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string, readonly request?: string) {
    super(detail);
  }
}

/** Who I am and what the server serves; null until it has answered. */
export const info = signal<Info | null>(null);
/** No valid credential is there: the page asks for one. */
export const signedOut = signal(false);
/** The server did not answer the last request. */
export const away = signal(false);
/** How far this machine's clock is behind the store's, in milliseconds. */
export const skew = signal(0);

export const may = (right: string) => info.value?.identity.rights.includes(right) ?? false;

/** Whether the server has a resource: an older one, or one for other uses, may not. */
export const has = (resource: string) => info.value?.resources?.includes(resource) ?? false;

/** The store's time now. */
export const now = () => Date.now() + skew.peek();

/** An ID or name as one segment of a path: what a proxy might change is base64url behind ~. */
export function segment(id: string): string {
  if (/^[A-Za-z0-9._:@-][A-Za-z0-9._~:@-]*$/.test(id) && id !== "." && id !== "..") return id;
  let bytes = "";
  for (const b of new TextEncoder().encode(id)) bytes += String.fromCharCode(b);
  return "~" + btoa(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

export type Params = Record<string, string | number | boolean | string[] | undefined>;

export function address(path: string, params: Params = {}): string {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (Array.isArray(value)) for (const v of value) q.append(key, v);
    else if (value !== undefined && value !== "" && value !== false) q.set(key, String(value));
  }
  const text = q.toString();
  return base + path + (text && "?" + text);
}

async function call<T>(method: string, path: string, params?: Params, body?: unknown, stop?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address(path, params), {
      method,
      signal: stop ?? null,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch (e) {
    if (!stop?.aborted) away.value = true;
    throw e;
  }
  away.value = false;
  return read<T>(answer);
}

/** Reads an answer, which may be a problem. */
async function read<T>(answer: Response): Promise<T> {
  const kind = answer.headers.get("Content-Type") ?? "";
  const data = kind.includes("json") ? await answer.json() : await answer.text();
  if (!answer.ok) {
    if (answer.status === 401) signedOut.value = true;
    const p = (typeof data === "object" && data) || {};
    throw new Problem(answer.status, p.code ?? "", p.detail || p.title || "the server answered " + answer.status,
      p.request_id);
  }
  return data as T;
}

/** Makes a request whose answer is a JSON value in each line, and hands each on as it arrives. */
export async function postLines<T>(path: string, body: unknown, each: (line: T) => void): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch(address(path), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch (e) {
    away.value = true;
    throw e;
  }
  away.value = false;
  if (!answer.ok) await read(answer);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line.trim()) each(JSON.parse(line) as T);
    if (done) return;
  }
}

export const get = <T,>(path: string, params?: Params, stop?: AbortSignal) =>
  call<T>("GET", path, params, undefined, stop);
export const post = <T,>(path: string, body: unknown = {}) => call<T>("POST", path, {}, body);
export const put = <T,>(path: string, body: unknown = {}) => call<T>("PUT", path, {}, body);
export const del = <T,>(path: string, body: unknown = {}) => call<T>("DELETE", path, {}, body);

/** Reads who I am. A token in the fragment, as a server prints it, becomes a cookie first. */
export async function begin(): Promise<void> {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", "#/runs");
    await signIn(decodeURIComponent(given[1]!));
    return;
  }
  await whoAmI();
}

/** How to sign in: provider names where a browser may be sent. */
export const ways = () => get<{ provider?: string; token: boolean }>("login");

export async function signIn(token: string): Promise<void> {
  await post("login", { token });
  signedOut.value = false;
  await whoAmI();
}

export async function signOut(): Promise<void> {
  await post("logout");
  info.value = null;
  signedOut.value = true;
}

async function whoAmI(): Promise<void> {
  const i = await get<Info>("info");
  skew.value = Date.parse(i.now) - Date.now();
  info.value = i;
}
