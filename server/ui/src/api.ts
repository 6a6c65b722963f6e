// The HTTP API. All addresses are relative, so a prefix needs no setting.

import { signal } from "@preact/signals";
import { parse, write } from "./json";
import { go } from "./route";
import type { Endpoints, Info, Right } from "./types";

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

export const may = (right: Right) => info.value?.identity.rights.includes(right) ?? false;

/** Whether the server has a resource: an older one, or one for other uses, may not. */
export const has = (resource: string) => info.value?.resources.includes(resource) ?? false;

/** The store's time now. */
export const now = () => Date.now() + skew.peek();

/** An ID or name as one segment of a path: what a proxy might change is base64url behind ~. */
export function segment(id: string): string {
  if (/^[A-Za-z0-9._:@-][A-Za-z0-9._~:@-]*$/.test(id) && id !== "." && id !== "..") return id;
  let bytes = "";
  for (const b of new TextEncoder().encode(id)) bytes += String.fromCharCode(b);
  return "~" + btoa(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

type Method = "GET" | "POST" | "PUT" | "DELETE";
type PathOf<M extends Method, E = keyof Endpoints> = E extends `${M} ${infer P}` ? P : never;
type Endpoint<M extends Method, P extends string> = Endpoints[Extract<keyof Endpoints, `${M} ${P}`>];
type Params<M extends Method, P extends string> = Endpoint<M, P>["params"];
type Answer<M extends Method, P extends string> = Endpoint<M, P>["answer"];

/** The address of an endpoint: of the parameters some stand in its path, and the others are its query. */
function fill(path: string, params: object): string {
  const left = new Map<string, unknown>(Object.entries(params)), q = new URLSearchParams();
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(left.get(name));
    left.delete(name);
    return segment(value);
  });
  for (const [key, value] of left) {
    if (Array.isArray(value)) for (const v of value) q.append(key, String(v));
    else if (value !== undefined && value !== "" && value !== false) q.set(key, String(value));
  }
  const text = q.toString();
  return base + filled + (text && "?" + text);
}

export const address = <P extends PathOf<"GET">>(path: P, params: Params<"GET", P>) => fill(path, params);

async function call<T>(method: Method, path: string, params: object, body?: unknown, stop?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(fill(path, params), {
      method,
      signal: stop ?? null,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? null : write(body),
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
  const data = kind.includes("json") ? parse(await answer.text()) : await answer.text();
  if (!answer.ok) {
    if (answer.status === 401) signedOut.value = true;
    const p = ((typeof data === "object" && data) || {}) as Record<string, string | undefined>;
    throw new Problem(answer.status, p.code ?? "", p.detail || p.title || "the server answered " + answer.status,
      p.request_id);
  }
  return data as T;
}

/** Makes a request whose answer is a JSON value in each line, and hands each on as it arrives. */
export async function postLines<P extends PathOf<"POST">>(
  path: P, body: Endpoint<"POST", P>["body"], each: (line: Answer<"POST", P>) => void,
): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch(fill(path, {}), { method: "POST", headers: { "Content-Type": "application/json" }, body: write(body) });
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
    for (const line of lines) if (line.trim()) each(parse(line) as Answer<"POST", P>);
    if (done) return;
  }
}

const sends = <M extends Method>(method: M) =>
  <P extends PathOf<M>>(path: P, params: Params<M, P>, body: Endpoint<M, P>["body"]) =>
    call<Answer<M, P>>(method, path, params, body);

export const get = <P extends PathOf<"GET">>(path: P, params: Params<"GET", P>, stop?: AbortSignal) =>
  call<Answer<"GET", P>>("GET", path, params, undefined, stop);
export const post = sends("POST"), put = sends("PUT"), del = sends("DELETE");

/** Reads who I am. A token in the fragment, as a server prints it, becomes a cookie first. */
export async function begin(): Promise<void> {
  addEventListener("hashchange", opened);
  const token = given();
  await (token === null ? whoAmI() : signIn(token));
}

/** Signs in when an address with a token is opened in a tab that has the page open. */
function opened() {
  const token = given();
  if (token !== null) signIn(token).catch(() => { signedOut.value = true; });
}

/** The token of the fragment, or null. No history and no page keeps it. */
function given(): string | null {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return null;
  go("#/runs", true);
  try {
    return decodeURIComponent(found[1]!);
  } catch {
    return found[1]!;
  }
}

/** How to sign in: provider names where a browser may be sent. */
export const ways = () => get("login", {});

export async function signIn(token: string): Promise<void> {
  await post("login", {}, { token });
  signedOut.value = false;
  await whoAmI();
}

export async function signOut(): Promise<void> {
  await post("logout", {}, {});
  info.value = null;
  signedOut.value = true;
}

async function whoAmI(): Promise<void> {
  const i = await get("info", {});
  skew.value = Date.parse(i.now) - Date.now();
  info.value = i;
}
