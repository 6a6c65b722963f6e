// Package script makes workflows of JavaScript: a function that somebody writes in an
// afternoon, whose steps are Go functions that the program gives.
//
//	export default async function (order) {
//	  const charge = await Task.run("charge", order, { attempts: 8, undo: "refund" });
//	  const parcels = await Task.all(order.lines.map(l => () => Task.run("pick", l, { key: l.sku })));
//	  const r = await Task.race({ ok: Signal.next("approved"), late: Task.delay(72 * 3600) });
//	  if (r.key === "late") throw new Error("nobody has decided");
//	  return { charge, parcels };
//	}
//
// Compile gives an ordinary definition. The interpreter is goja, and executes in the run's
// own branch; each operation is a branch with a name of its own, so order is that of stet's
// branches, and a replay takes the same way. Package script/bundle makes a script of files
// with imports, and of TypeScript.
//
// A script reaches no file, network or environment. Its limits protect from accidents, not
// from malice: a program executes scripts of those that may change the program.
package script
