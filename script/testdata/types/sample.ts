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
  try { await Workflow.run("child", 1); } catch (e) {
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
