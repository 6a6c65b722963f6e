// What make types checks stet.d.ts with: each of its names is used as the guide says, in an editor's default settings.
type Line = { sku: string; n: number };
export default async function (order: { id: string; lines: Line[] }) {
  const charge = await Task.run<string>("charge", order, { attempts: 8, undo: "refund", key: order.id });
  const parcels: number[] = await Task.all(order.lines.map((l) => () => Task.run<number>("pack", l, { key: l.sku })));
  const both = await Task.all({ a: Task.run<string>("a"), b: async () => 1 });
  const a: string = both.a, b: number = both.b;
  const r = await Task.race({ ok: Signal.next<boolean>("approved"), late: Task.delay(72 * 3600) });
  if (r.key === "late") throw new Error("nobody has decided");
  const first: string = await Task.any([Task.run<string>("x"), () => Task.run<string>("y")]);
  const news = await Event.next<number>("news", { within: 5 });
  const id: string = await Event.publish("answers", news + 1);
  const { token, promise } = Token.create<boolean>("approval");
  console.log("said", token, a, b, first, id);
  await Value.set("n", 1); await Stream.append("lines", { at: Run.header("place") });
  try { await Workflow.run("child", 1, { id: "kid-1", tags: { file: "a" } }); } catch (e) {
    const failed = e as OperationError;
    await Run.cleanup(() => Task.run("refund", failed.code));
  }
  if (await promise) Run.continueAsNew({ of: Run.id, from: await Workflow.start("other") });
  return { charge, parcels };
}

// @ts-expect-error a key is a text or a number
export const key = () => Task.run("pack", 1, { key: {} });
// @ts-expect-error there is no document in a script
export const title = () => document.title;
// @ts-expect-error the value of a promise of a list is no text
export const text = async (): Promise<string> => (await Task.all([Task.run<number>("n")]))[0];

// The language that a script has, and what it lacks.
export function language(lines: readonly Line[], at: Date) {
  const sums = new Map<string, number>();
  for (const { sku, n } of lines) sums.set(sku, (sums.get(sku) ?? 0) + n);
  const names = [...new Set([...sums.keys()].map((s) => s.trim().padEnd(3)))].sort((a, b) => a.localeCompare(b));
  const found = [..."a-1 b-2".matchAll(/([a-z])-(?<n>\d)/g)].map((m) => m.groups!.n!);
  const text: string = names.at(-1) + found.join() + at.toLocaleString() + (1.5).toLocaleString() + [1].toLocaleString();
  const once = new WeakMap<object, number>([[sums, 1]]), all = Object.fromEntries(Object.entries({ a: 1 }).flatMap((e) => [e]));
  return { text, one: once.get(sums), all, json: JSON.parse(JSON.stringify(Reflect.ownKeys(all))), cause: new Error("x", { cause: 1 }).cause };
}
async function* counts() { for (const n of [1, 2]) yield n; }
export async function counted() {
  let sum = 0;
  for await (const n of counts()) sum += n;
  const settled = await Promise.allSettled([Promise.resolve(sum), Promise.reject(new AggregateError([], "no"))]);
  return settled.filter((s) => s.status === "fulfilled").length;
}
// @ts-expect-error there is no BigInt
export const big = () => BigInt(1);
// @ts-expect-error there is no Intl
export const price = (n: number) => new Intl.NumberFormat("de").format(n);
// @ts-expect-error toLocaleString takes no locale
export const local = (n: number) => n.toLocaleString("de");
// @ts-expect-error nor does a date
export const day = (d: Date) => d.toLocaleDateString("de", { weekday: "long" });
// @ts-expect-error nor does a list
export const list = () => [1].toLocaleString("de");
// @ts-expect-error there is no Proxy
export const proxy = () => new Proxy({}, {});
// @ts-expect-error there are no typed arrays
export const bytes = () => new Uint8Array(1);
// @ts-expect-error there are no buffers
export const buffer = () => new ArrayBuffer(1);
// @ts-expect-error there are no weak references
export const weak = () => new WeakRef({});
// @ts-expect-error no text becomes code
export const evaluated = () => eval("1");
// @ts-expect-error no text becomes a function
export const made = () => new Function("return 1");
