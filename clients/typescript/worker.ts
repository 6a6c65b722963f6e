// A worker of stet's tasks, with fetch and nothing else. Copy it, or read how one is written.
//     const worker = new Worker(url, token, { resize: async (task) => ({ width: 128 }) }, { room: 4 });
//     await worker.run(); // until stop() is called
export type Fields = {
  lease: string; name: string; input: any; attempt: number; key: string; run: string; workflow: string;
  location: string; queue: string; headers?: Record<string, string>; detail?: any; expires_ms: number;
};
export type Task = Fields & {
  /** Ends when the task is wanted no more: give it to fetch and the like. */
  signal: AbortSignal;
  /** Notes where the work stands, for whoever has to do it again. Leases are renewed without it. */
  heartbeat(detail: unknown): void;
  /** Adds an item to a stream of the run, within 0.1 s. Await it: it waits while others are on their way. */
  append(stream: string, value: unknown, keep?: number): Promise<void>;
};
export type Options = { room?: number; name?: string; leaseMs?: number; waitMs?: number };
/** Says more of a failure: its code, whether another attempt may follow, and the least delay before it. */
export class Failed extends Error {
  code: string; retryable: boolean; retryAfterMs: number;
  constructor(message: string, o: { code?: string; retryable?: boolean; retryAfterMs?: number } = {}) {
    super(message);
    this.code = o.code ?? "error"; this.retryable = o.retryable ?? true; this.retryAfterMs = o.retryAfterMs ?? 0;
  }
}
/** The server has refused a request, and will again. */
export class Refused extends Error {}
/** JSON in which integers beyond 2^53 are BigInt: JSON.parse changes them, and JSON.stringify refuses BigInt. */
const mark = crypto.randomUUID(), marked = new RegExp(`"${mark}(-?\\d+)"`, "g");
const isLong = (token: string) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
export function parse(text: string): any {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let quoted = false;
  return JSON.parse(text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') quoted = !quoted;
    return !quoted && isLong(token) ? `"${mark}${token}"` : token;
  }), (_, v) => typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : v);
}
export const stringify = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, v) => typeof v === "bigint" ? mark + v : v)?.replace(marked, "$1");
type Held = { abort: AbortController; noted?: unknown; done: Promise<void> };
const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
export class Worker {
  private base: string; private token: string; private functions: Record<string, (task: Task) => unknown>;
  private room: number; private name: string; private leaseMs: number; private waitMs: number;
  private held = new Map<string, Held>(); private stopped = false;
  constructor(url: string, token: string, functions: Record<string, (task: Task) => unknown>, o: Options = {}) {
    this.base = url.replace(/\/$/, "") + "/api/v1/tasks/"; this.token = token; this.functions = functions;
    this.room = Math.min(o.room ?? 4, 100); this.name = o.name ?? "worker-" + crypto.randomUUID().slice(0, 8);
    this.leaseMs = o.leaseMs ?? 30_000; this.waitMs = o.waitMs ?? 20_000;
  }
  stop() { this.stopped = true; }
  /** Executes tasks until stop() is called. What has not ended after the grace is given back. */
  async run(graceMs = 10_000): Promise<void> {
    const beats = setInterval(() => this.beat().catch((e) => console.error("stet: heartbeat:", e)), this.leaseMs / 3);
    const ended = () => [...this.held.values()].map((h) => h.done);
    try {
      while (!this.stopped) {
        if (this.held.size >= this.room) {
          await Promise.race([sleep(1000), ...ended()]);
          continue;
        }
        const got = await this.call("lease", { worker: this.name, names: Object.keys(this.functions),
          max: this.room - this.held.size, wait_ms: this.waitMs, lease_ms: this.leaseMs, request: crypto.randomUUID() }, true);
        for (const lease of got?.cancelled ?? []) this.held.get(lease)?.abort.abort();
        for (const fields of got?.tasks ?? []) this.begin(fields);
      }
      await Promise.race([sleep(graceMs), Promise.all(ended())]);
      if (this.held.size > 0) await this.call("release", { leases: [...this.held.keys()] });
    } finally { clearInterval(beats); }
  }

  private begin(fields: Fields) {
    const held: Held = { abort: new AbortController(), done: Promise.resolve() }, { lease } = fields, items: object[] = [];
    let size = 0, number = 0, sent = Promise.resolve(); // one request at a time; by its number a repeat adds nothing
    const flush = () => sent = sent.then(async () => {
      for (size = 0; items.length > 0;) await this.call("append", { lease, number: ++number, items: items.splice(0, 1000) });
    });
    const task: Task = { ...fields, signal: held.abort.signal,
      heartbeat: (detail) => { held.noted = parse(stringify(detail) ?? "null"); },
      append: async (stream, value, keep) => {
        size += (stringify(value) ?? "").length;
        if (items.push({ stream, value, keep }) === 1) setTimeout(() => flush().catch(() => held.abort.abort()), 100);
        if (size > 1 << 16) await flush();
      } };
    this.held.set(lease, held);
    held.done = this.execute(task, flush).catch((e) => console.error(`stet: ${task.name} of ${task.run}:`, e.message))
      .then(() => { this.held.delete(lease); });
  }

  private async execute(task: Task, flush: () => Promise<void>, result?: unknown) {
    try {
      try { result = (await this.functions[task.name](task)) ?? null; } finally { await flush(); }
      stringify(result); // what is no JSON is a failed attempt
    } catch (e: any) {
      const error = { message: String(e?.message ?? e), code: String(e?.code ?? "error"), stack: String(e?.stack ?? ""),
        retryable: e?.retryable !== false, retry_after_ms: Number(e?.retryAfterMs) || 0 };
      return this.call("fail", { lease: task.lease, error });
    }
    await this.call("complete", { lease: task.lease, result });
  }
  private async beat() {
    const beats = [...this.held].map(([lease, h]) => ({ lease, detail: h.noted })); // undefined is left out
    const renew = (leases: object[]) => this.call("heartbeat", { leases, lease_ms: this.leaseMs });
    // If a detail is refused, it is too large, they are renewed without.
    const got = beats.length > 0 && await renew(beats).catch(() => renew(beats.map(({ lease }) => ({ lease }))));
    for (const s of got?.leases ?? []) if (s.state !== "held") this.held.get(s.lease)?.abort.abort();
  }

  /** Repeats after 429, 5xx and a broken connection, and after nothing else. */
  private async call(verb: string, body: object, giveUp = false): Promise<any> {
    const headers = { "Content-Type": "application/json", Authorization: "Bearer " + this.token };
    const text = stringify(body);
    for (let pause = 100; !(giveUp && this.stopped); pause = Math.min(pause * 2, 5000)) {
      try {
        const answer = await fetch(this.base + verb, { method: "POST", headers, body: text, redirect: "manual" });
        const got = await answer.text();
        if (answer.ok) return parse(got);
        if (answer.status !== 429 && answer.status < 500) throw new Refused(`${answer.status} ${got.slice(0, 500)}`);
      } catch (e) { if (e instanceof Refused) throw e; } // otherwise lost: a repeat has the answer that was given before
      await sleep(pause * (0.5 + Math.random() / 2));
    }
  }
}
