// A worker of stet's tasks, with fetch and nothing else. Copy it, or read how one is written.
//
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

type Held = { abort: AbortController; noted?: unknown; done: Promise<void> };
const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

export class Worker {
  private base: string; private token: string; private functions: Record<string, (task: Task) => unknown>;
  private room: number; private name: string; private leaseMs: number; private waitMs: number;
  private held = new Map<string, Held>(); private stopped = false;

  constructor(url: string, token: string, functions: Record<string, (task: Task) => unknown>, o: Options = {}) {
    this.base = url.replace(/\/$/, "") + "/api/v1/tasks/";
    this.token = token; this.functions = functions;
    this.room = o.room ?? 4; this.name = o.name ?? "worker-" + crypto.randomUUID().slice(0, 8);
    this.leaseMs = o.leaseMs ?? 30_000; this.waitMs = o.waitMs ?? 20_000;
  }

  stop() { this.stopped = true; }
  /** Executes tasks until stop() is called. What has not ended after the grace is given back. */
  async run(graceMs = 10_000): Promise<void> {
    const beats = setInterval(() => this.beat().catch((e) => console.error("stet: heartbeat:", e)), this.leaseMs / 3);
    try {
      while (!this.stopped) {
        if (this.held.size >= this.room) {
          await Promise.race([sleep(1000), ...[...this.held.values()].map((h) => h.done)]);
          continue;
        }
        const got = await this.call("lease", { worker: this.name, names: Object.keys(this.functions),
          max: this.room - this.held.size, wait_ms: this.waitMs, lease_ms: this.leaseMs, request: crypto.randomUUID() }, true);
        for (const lease of got?.cancelled ?? []) this.held.get(lease)?.abort.abort();
        for (const fields of got?.tasks ?? []) this.begin(fields);
      }
      await Promise.race([sleep(graceMs), Promise.all([...this.held.values()].map((h) => h.done))]);
      const left = [...this.held.keys()];
      for (let i = 0; i < left.length; i += 100) await this.call("release", { leases: left.slice(i, i + 100) });
    } finally {
      clearInterval(beats);
    }
  }

  private begin(fields: Fields) {
    const held: Held = { abort: new AbortController(), done: Promise.resolve() };
    const task: Task = { ...fields, signal: held.abort.signal, heartbeat: (detail) => { held.noted = detail; } };
    this.held.set(fields.lease, held);
    held.done = this.execute(task).catch((e) => console.error(`stet: ${task.name} of ${task.run}:`, e.message))
      .then(() => { this.held.delete(fields.lease); });
  }

  private async execute(task: Task) {
    let result: unknown;
    try {
      result = (await this.functions[task.name](task)) ?? null;
    } catch (e: any) {
      const error = { message: String(e?.message ?? e), code: e?.code ?? "error", stack: e?.stack ?? "",
        retryable: e?.retryable ?? true, retry_after_ms: e?.retryAfterMs ?? 0 };
      await this.call("fail", { lease: task.lease, error });
      return;
    }
    await this.call("complete", { lease: task.lease, result });
  }

  private async beat() {
    const all = [...this.held].map(([lease, h]) => (h.noted === undefined ? { lease } : { lease, detail: h.noted }));
    for (let i = 0; i < all.length; i += 100) {
      const got = await this.call("heartbeat", { leases: all.slice(i, i + 100), lease_ms: this.leaseMs });
      for (const s of got.leases) if (s.state !== "held") this.held.get(s.lease)?.abort.abort();
    }
  }

  /** Repeats after 429, 5xx and a broken connection, and after nothing else. */
  private async call(verb: string, body: object, giveUp = false): Promise<any> {
    const headers = { "Content-Type": "application/json", Authorization: "Bearer " + this.token };
    for (let pause = 100; !(giveUp && this.stopped); pause = Math.min(pause * 2, 5000)) {
      try {
        const answer = await fetch(this.base + verb, { method: "POST", headers, body: JSON.stringify(body) });
        const text = await answer.text();
        if (answer.ok) return JSON.parse(text);
        if (answer.status !== 429 && answer.status < 500) throw new Refused(`${answer.status} ${text.slice(0, 500)}`);
      } catch (e) {
        if (e instanceof Refused) throw e; // otherwise lost: a repeat has the answer that was given before
      }
      await sleep(pause * (0.5 + Math.random() / 2));
    }
  }
}
