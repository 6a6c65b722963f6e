// What comes out of the language itself goes into the names and the order of steps: texts, numbers, dates, sorts.
async function workflow(order) {
  const seen = [];
  const at = new Date();
  const lines = order.lines.toSorted((a, b) => a.sku.localeCompare(b.sku));
  const parcels = await Task.all(lines.map(l => async () => {
    const label = `${l.sku.toUpperCase().padStart(4, "-")}/${(l.n / 3).toFixed(2)}/${at.toISOString().slice(0, 4)}`;
    await Task.delay(Math.floor(Math.random() * 100));
    return Task.run("echo", label, { key: label });
  }));
  for (const [, key, value] of "k=1;größe=22;k=333".matchAll(/([\wß-ö]+)=(\d+)/g)) {
    seen.push(await Task.run("add", [Number(value), key.length], { key }));
  }
  const words = "one, two ;three".split(/\s*[,;]\s*/).map(w => w.replace(/o(.)?/g, (_, c) => c ?? "0"));
  for (const word of new Set(words.concat(words))) seen.push(await Task.run("echo", word, { key: word }));
  const counted = Object.entries(Object.groupBy?.(words, w => w.length) ?? { none: words });
  for (const [k, list] of counted) seen.push(await Task.run("echo", list, { key: "length " + k }));
  const r = await Task.race({ ok: Signal.next("approved"), late: Task.delay(72 * 3600) });
  if (r.key === "ok") seen.push(await Task.run("echo", r.value, { key: r.key + String([1, [2, 3]]) + 0.1 * 3 + 1e21 + -0 }));
  return { seen, parcels, twice: await Workflow.run("double", seen.length) };
}
