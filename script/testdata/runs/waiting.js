// A run in the midst of a loop: generators, closures, classes, and numbers of the run.
class Shelf {
  #n = 0;
  static of(lines) { return new Shelf(...lines); }
  constructor(...lines) { this.lines = new Map(lines.map(({ sku, ...rest }) => [sku, rest])); }
  *[Symbol.iterator]() { for (const [sku, { n }] of this.lines) yield [sku, n, this.#n++]; }
}
async function workflow(order) {
  const token = Token.create("by hand");
  await Value.set("token", token.token.length > 0);
  for (const [sku, n, i] of Shelf.of(order.lines)) {
    const share = Math.round(1e6 * Math.random() * n) % 7;
    await Stream.append("log", { sku, i, share });
    await Task.run("echo", [sku, share], { key: `${sku} ${share} ${i ** 2}` });
    if (i === 1) await Event.publish("shelves", { [sku]: n });
  }
  const approved = await Signal.next("approved");
  const days = [1, 2, 3].map(d => new Date(Date.UTC(2026, 1, 27 + d)).toISOString().slice(5, 10)).reverse();
  for (const day of days) await Task.run("echo", approved, { key: day });
  return await Task.race([token.promise, Signal.next("never")]);
}
