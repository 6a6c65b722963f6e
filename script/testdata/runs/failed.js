// Errors, losers and a clean-up: who ends first, and in which order what is caught goes on.
async function workflow(order) {
  const notes = [];
  const caught = async (name, f) => {
    try { return await f(); } catch (e) { notes.push([name, e.name, e.message, e.attempts ?? 0, e.key ?? ""].join(" ")); }
  };
  await caught("any", () => Task.any({
    a: Task.run("refuse", "a", { attempts: 2 }), b: async () => { await Task.delay(3); throw new TypeError("b"); },
  }));
  await caught("all", () => Task.all({ c: Task.delay(60), d: Task.run("refuse", "d", { attempts: 1 }) }));
  await caught("signal", () => Signal.next("none", { within: 90 }));
  await caught("null", () => null.x);
  await caught("range", () => "x".repeat(-1));
  for (const note of notes) await Task.run("echo", note, { key: note });
  try {
    await Task.run("echo", order.id, { undo: "nothing" });
    await Task.run("refuse", "the last one", { attempts: 1 });
  } finally {
    await Run.cleanup(() => Task.run("echo", notes.length, { key: "clean" }));
  }
}
