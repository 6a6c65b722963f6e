// worker.ts without its types, for what does not read TypeScript.
export class Failed extends Error {
  code;
  retryable;
  retryAfterMs;
  constructor(message, o = {}) {
    super(message);
    this.code = o.code ?? "error";
    this.retryable = o.retryable ?? true;
    this.retryAfterMs = o.retryAfterMs ?? 0;
  }
}
export class Refused extends Error {
}
const mark = crypto.randomUUID(), marked = new RegExp(`"${mark}(-?\\d+)"`, "g");
const isLong = (token) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let quoted = false;
  return JSON.parse(text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') quoted = !quoted;
    return !quoted && isLong(token) ? `"${mark}${token}"` : token;
  }), (_, v) => typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : v);
}
export const stringify = (value) => JSON.stringify(value, (_, v) => typeof v === "bigint" ? mark + v : v)?.replace(marked, "$1");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export class Worker {
  base;
  token;
  functions;
  room;
  name;
  leaseMs;
  waitMs;
  held = /* @__PURE__ */ new Map();
  stopped = false;
  constructor(url, token, functions, o = {}) {
    this.base = url.replace(/\/$/, "") + "/api/v1/tasks/";
    this.token = token;
    this.functions = functions;
    this.room = Math.min(o.room ?? 4, 100);
    this.name = o.name ?? "worker-" + crypto.randomUUID().slice(0, 8);
    this.leaseMs = o.leaseMs ?? 3e4;
    this.waitMs = o.waitMs ?? 2e4;
  }
  stop() {
    this.stopped = true;
  }
  /** Executes tasks until stop() is called. What has not ended after the grace is given back. */
  async run(graceMs = 1e4) {
    const beats = setInterval(() => this.beat().catch((e) => console.error("stet: heartbeat:", e)), this.leaseMs / 3);
    const ended = () => [...this.held.values()].map((h) => h.done);
    try {
      while (!this.stopped) {
        if (this.held.size >= this.room) {
          await Promise.race([sleep(1e3), ...ended()]);
          continue;
        }
        const got = await this.call("lease", {
          worker: this.name,
          names: Object.keys(this.functions),
          max: this.room - this.held.size,
          wait_ms: this.waitMs,
          lease_ms: this.leaseMs,
          request: crypto.randomUUID()
        }, true);
        for (const lease of got?.cancelled ?? []) this.held.get(lease)?.abort.abort();
        for (const fields of got?.tasks ?? []) this.begin(fields);
      }
      await Promise.race([sleep(graceMs), Promise.all(ended())]);
      if (this.held.size > 0) await this.call("release", { leases: [...this.held.keys()] });
    } finally {
      clearInterval(beats);
    }
  }
  begin(fields) {
    const held = { abort: new AbortController(), done: Promise.resolve() }, { lease } = fields, items = [];
    let size = 0, number = 0, sent = Promise.resolve();
    const flush = () => sent = sent.then(async () => {
      for (size = 0; items.length > 0; ) await this.call("append", { lease, number: ++number, items: items.splice(0, 1e3) });
    });
    const task = {
      ...fields,
      signal: held.abort.signal,
      heartbeat: (detail) => {
        held.noted = parse(stringify(detail) ?? "null");
      },
      append: async (stream, value, keep) => {
        size += (stringify(value) ?? "").length;
        if (items.push({ stream, value, keep }) === 1) setTimeout(() => flush().catch(() => held.abort.abort()), 100);
        if (size > 1 << 16) await flush();
      }
    };
    this.held.set(lease, held);
    held.done = this.execute(task, flush).catch((e) => console.error(`stet: ${task.name} of ${task.run}:`, e.message)).then(() => {
      this.held.delete(lease);
    });
  }
  async execute(task, flush, result) {
    try {
      try {
        result = await this.functions[task.name](task) ?? null;
      } finally {
        await flush();
      }
      stringify(result);
    } catch (e) {
      const error = {
        message: String(e?.message ?? e),
        code: String(e?.code ?? "error"),
        stack: String(e?.stack ?? ""),
        retryable: e?.retryable !== false,
        retry_after_ms: Number(e?.retryAfterMs) || 0
      };
      return this.call("fail", { lease: task.lease, error });
    }
    await this.call("complete", { lease: task.lease, result });
  }
  async beat() {
    const beats = [...this.held].map(([lease, h]) => ({ lease, detail: h.noted }));
    const renew = (leases) => this.call("heartbeat", { leases, lease_ms: this.leaseMs });
    const got = beats.length > 0 && await renew(beats).catch(() => renew(beats.map(({ lease }) => ({ lease }))));
    for (const s of got?.leases ?? []) if (s.state !== "held") this.held.get(s.lease)?.abort.abort();
  }
  /** Repeats after 429, 5xx and a broken connection, and after nothing else. */
  async call(verb, body, giveUp = false) {
    const headers = { "Content-Type": "application/json", Authorization: "Bearer " + this.token };
    const text = stringify(body);
    for (let pause = 100; !(giveUp && this.stopped); pause = Math.min(pause * 2, 5e3)) {
      try {
        const answer = await fetch(this.base + verb, { method: "POST", headers, body: text, redirect: "manual" });
        const got = await answer.text();
        if (answer.ok) return parse(got);
        if (answer.status !== 429 && answer.status < 500) throw new Refused(`${answer.status} ${got.slice(0, 500)}`);
      } catch (e) {
        if (e instanceof Refused) throw e;
      }
      await sleep(pause * (0.5 + Math.random() / 2));
    }
  }
}
