// What is done to the language before a script begins, and how promises are combined. `native` is
// what Go gives; everything here is kept in variables before the script can change it.
//
// Most of the time that an interpreter takes to begin would go into this, so a script gets what it
// names: lines from "//? A B" to "//." are for a script that has one of these words anywhere in its
// text, those after "//@ A" are there if other lines that are have the word, and of the list after
// "/*?*/" it gets the words that it has.
(function (native) {
  "use strict";
  // Limits of what one native call may take: inside of one nothing can interrupt it.
  const maxText = 16 << 20, maxArray = 1000000, maxDepth = 100, maxSearch = 1e9;
  const maxBrief = 1 << 20, maxSorted = 200000;
  //@ text
  const text = n => { if (n > maxText) throw new RangeError("a string may have 16 MiB, not " + n + " characters"); };
  //.
  //@ list
  const list = n => { if (n > maxArray) throw new RangeError("an array may have 1,000,000 elements, not " + n); };
  //.
  //@ Str
  const Str = String;
  //.
  //@ S
  const S = String.prototype;
  //.
  //@ A
  const A = Array.prototype;
  //.
  //@ isArray
  const isArray = Array.isArray;
  //.
  //@ keys
  const keys = Object.keys;
  //.
  //@ apply
  const apply = Reflect.apply;
  //.
  //@ replaced
  const replaced = (o, name, f) => Object.defineProperty(o, name, { configurable: true, writable: true, value: f });
  //.
  //@ guard
  const guard = (o, name, check) => {
    const f = o[name];
    if (f !== undefined) replaced(o, name, { [name](...a) { check(this, a); return apply(f, this, a); } }[name]);
  };
  //.
  //? at copyWithin every fill filter find findIndex findLast findLastIndex flatMap forEach includes indexOf lastIndexOf map pop reduce reduceRight reverse shift slice some sort splice toReversed toSorted toSpliced unshift with
  for (const name of /*?*/["at", "copyWithin", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex", "flatMap", "forEach", "includes", "indexOf", "lastIndexOf", "map", "pop", "reduce", "reduceRight", "reverse", "shift", "slice", "some", "sort", "splice", "toReversed", "toSorted", "toSpliced", "unshift", "with"]) {
    const f = A[name];
    if (f === undefined) continue;
    replaced(A, name, { [name](...a) { if (this.length > maxArray) list(this.length); return apply(f, this, a); } }[name]);
  }
  //.
  //? sort toSorted
  for (const name of /*?*/["sort", "toSorted"]) guard(A, name, (a, [by]) => {
    if (by === undefined && a.length > maxSorted)
      throw new RangeError("200,000 elements may be sorted without a function, not " + a.length);
  });
  //.
  //? keys values entries getOwnPropertyNames getOwnPropertyDescriptors assign
  for (const name of /*?*/["keys", "values", "entries", "getOwnPropertyNames", "getOwnPropertyDescriptors", "assign"]) guard(Object, name, (_, a) => {
    for (let i = 0; i < a.length; i++) if (typeof a[i] === "string" || a[i] instanceof Str) list(a[i].length);
  });
  //.
  //@ count
  const indexOf = S.indexOf;
  const count = (s, what, all) => { // of what is replaced or split at
    if (what instanceof RegExp) {
      return !what.global && !all ? 1 : native.count(what, s);
    }
    what = Str(what);
    if (!all) return 1;
    if (what === "") return s.length + 1;
    let n = 0;
    for (let i = apply(indexOf, s, [what, 0]); i >= 0; i = apply(indexOf, s, [what, i + what.length])) n++;
    return n;
  };
  //.
  //? replace replaceAll
  for (const name of /*?*/["replace", "replaceAll"]) guard(S, name, (s, [what, by]) => {
    if (typeof by === "function") return;
    s = Str(s); by = Str(by);
    let one = by.length;
    for (let i = 0; i < by.length; i++) if (by[i] === "$") one += s.length;
    if (one * (s.length + 1) > maxText) text(s.length + one * count(s, what, name === "replaceAll"));
  });
  //.
  //? split
  guard(S, "split", (s, [at]) => {
    s = Str(s);
    if (s.length >= maxArray && at !== undefined) list(1 + count(s, at, true));
  });
  //.
  //? match
  guard(S, "match", (s, [what]) => { if (what instanceof RegExp && what.global && Str(s).length > maxArray) list(Str(s).length); });
  //.
  //? raw
  guard(Str, "raw", (_, [a]) => { if (a && a.raw) list(a.raw.length); });
  //.
  //? includes indexOf lastIndexOf
  for (const name of /*?*/["includes", "indexOf", "lastIndexOf"]) guard(S, name, (s, [what]) => {
    const n = s.length, m = typeof what === "string" ? what.length : 0;
    if (n * m > maxSearch && m < n) throw new RangeError("a search may compare 1,000,000,000 characters, not " + n + " times " + m);
  });
  //.
  //@ brief
  const brief = s => {
    s = Str(s);
    if (s.length > maxBrief) throw new RangeError("normalize, localeCompare and parseFloat take 1,048,576 characters, not " + s.length);
  };
  //.
  //? normalize
  guard(S, "normalize", s => brief(s));
  //.
  //? localeCompare
  guard(S, "localeCompare", (s, [other]) => { brief(s); brief(other); });
  //.
  //? parseFloat
  guard(globalThis, "parseFloat", (_, [s]) => brief(s));
  Number.parseFloat = parseFloat;
  //.
  //? repeat
  guard(S, "repeat", (s, [n]) => text(Str(s).length * (n > 0 ? n : 0)));
  //.
  //? padStart padEnd
  for (const name of /*?*/["padStart", "padEnd"]) guard(S, name, (s, [n]) => text(n));
  //.
  //? concat
  guard(S, "concat", (s, more) => { let n = Str(s).length; for (let i = 0; i < more.length; i++) text(n += Str(more[i]).length); });
  //.
  //? toLocaleString
  const join = A.join;
  let within = 0; // nested calls: an array that contains itself has no end
  replaced(A, "toLocaleString", { toLocaleString() {
    if (within > maxDepth) throw new RangeError("arrays may be joined 100 levels deep");
    within++;
    try {
      list(this.length);
      const parts = [];
      let n = this.length;
      for (let i = 0; i < this.length; i++) {
        const v = this[i];
        text(n += (parts[i] = v === undefined || v === null ? "" : Str(v.toLocaleString())).length);
      }
      return apply(join, parts, [","]);
    } finally { within--; }
  } }.toLocaleString);
  //.
  //? from
  guard(Array, "from", (_, [a]) => { if (a && typeof a.length === "number") list(a.length); });
  //.
  //? flat
  const flat = (a, depth, n) => {
    list(n + a.length);
    for (let i = 0; i < a.length; i++) n = depth > 0 && isArray(a[i]) ? flat(a[i], depth - 1, n) : n + 1;
    return n;
  };
  guard(A, "flat", (a, [depth]) => flat(a, depth === undefined ? 1 : Math.min(depth, maxDepth), 0));
  //.
  //? concat
  guard(A, "concat", (a, more) => {
    let n = a.length; for (const m of more) n += isArray(m) ? m.length : 1; list(n);
  });
  //.
  //? apply
  guard(Function.prototype, "apply", (_, [, a]) => { if (a && a.length > maxArray) list(a.length); });
  guard(Reflect, "apply", (_, [, , a]) => { if (a && a.length > maxArray) list(a.length); });
  //.
  //? construct Array
  const construct0 = Reflect.construct;
  //.
  //? construct
  guard(Reflect, "construct", (_, [, a]) => { if (a && a.length > maxArray) list(a.length); });
  //.
  //@ depth
  const depth = (value, indent) => {
    let level = [value], n = 0, nodes = 0;
    for (let d = 0; level.length > 0; d++) {
      if (d > maxDepth) throw new RangeError("a value may be 100 levels deep, or refers to itself");
      const next = [];
      for (let i = 0; i < level.length; i++) {
        let v = level[i];
        if (v !== null && typeof v === "object" && typeof v.toJSON === "function") v = v.toJSON("");
        if (typeof v === "string") { text(n += v.length); continue; }
        if (v === null || typeof v !== "object") continue;
        if (isArray(v)) list(v.length);
        const own = keys(v);
        text(n += own.length * indent * (d + 1));
        for (let k = 0; k < own.length; k++) {
          const inner = v[own[k]];
          if (typeof inner === "string") text(n += inner.length);
          else if (inner !== null && typeof inner === "object") next[next.length] = inner;
        }
        if (next.length > maxArray) list(next.length);
      }
      list(nodes += next.length);
      level = next;
    }
  };
  //.
  //? parse
  guard(JSON, "parse", (_, [s]) => native.parse(Str(s)));
  //.
  //? stringify
  guard(JSON, "stringify", (_, [v, , space]) => {
    const indent = typeof space === "string" ? space.length : typeof space === "number" && space > 0 ? space : 0;
    depth(v, Math.min(indent, 10));
  });
  //.
  //? Array
  const OldArray = Array, newObject = construct0;
  const construct = (a, target) => {
    if (a.length === 1 && typeof a[0] === "number") list(a[0]);
    return target ? newObject(OldArray, a, target === NewArray ? OldArray : target) : OldArray(...a);
  };
  function NewArray(...a) { return construct(a, new.target); }
  NewArray.prototype = OldArray.prototype;
  for (const k of ["from", "of", "isArray"]) NewArray[k] = OldArray[k];
  Object.defineProperty(NewArray, Symbol.species, { get() { return this; } });
  Object.defineProperty(OldArray.prototype, "constructor", { value: NewArray, writable: true, configurable: true });
  globalThis.Array = NewArray;
  //.

  //? RegExp
  const OldRegExp = RegExp;
  function NewRegExp(p, f) {
    const source = p instanceof OldRegExp ? p.source : p === undefined ? "" : String(p);
    const flags = f === undefined ? (p instanceof OldRegExp ? p.flags : "") : String(f);
    const bad = native.regexp(source, flags);
    if (bad) throw new SyntaxError(bad);
    return new OldRegExp(source, flags);
  }
  NewRegExp.prototype = OldRegExp.prototype;
  Object.defineProperty(OldRegExp.prototype, "constructor", { value: NewRegExp, writable: true, configurable: true });
  globalThis.RegExp = NewRegExp;
  //.

  // Dates are UTC whatever the zone of the node.
  //? Date
  const OldDate = Date;
  const local = s => {
    const t = OldDate.parse(s);
    if (t !== t || /(Z|[+-]\d\d:?\d\d|GMT|UTC)\s*(\(.*\))?$/i.test(s) || /^[+-]?\d{4,6}(-\d\d(-\d\d)?)?$/.test(s)) return t;
    const d = new OldDate(t);
    return OldDate.UTC(own.getFullYear.call(d), own.getMonth.call(d), own.getDate.call(d), own.getHours.call(d),
      own.getMinutes.call(d), own.getSeconds.call(d), own.getMilliseconds.call(d));
  };
  const own = {}, D = OldDate.prototype;
  {
    for (const part of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
      own["get" + part] = D["get" + part];
      D["get" + part] = D["getUTC" + part];
      if (part !== "Day") D["set" + part] = D["setUTC" + part];
    }
    D.getTimezoneOffset = () => 0;
    D.toString = D.toUTCString;
    D.toLocaleString = D.toUTCString;
    D.toDateString = D.toLocaleDateString = function () { return this.toISOString().slice(0, 10); };
    D.toTimeString = D.toLocaleTimeString = function () { return this.toISOString().slice(11, 19) + " GMT"; };
  }
  function NewDate(...a) {
    if (!new.target) return new OldDate().toString();
    if (a.length === 0) return new OldDate();
    if (a.length > 1) {
      const t = OldDate.UTC(...a);
      return new OldDate(t);
    }
    const v = a[0] instanceof OldDate ? a[0].getTime() : a[0];
    return new OldDate(typeof v === "string" ? local(v) : Number(v));
  }
  NewDate.prototype = D;
  NewDate.now = OldDate.now;
  NewDate.UTC = OldDate.UTC;
  NewDate.parse = s => local(String(s));
  Object.defineProperty(D, "constructor", { value: NewDate, writable: true, configurable: true });
  globalThis.Date = NewDate;
  //.

  //? all any race
  const P = Promise, then = P.prototype.then, call = Function.prototype.call;
  const hook = (p, ok, bad) => call.call(then, p, ok, bad);

  // Combining: each member has a scope, whose operations end when another member wins.
  const members = what => {
    if (isArray(what)) return what.map((value, key) => ({ key, value, named: false }));
    if (what === null || typeof what !== "object") throw new TypeError("expected a list or an object of promises or functions");
    return keys(what).map(key => ({ key, value: what[key], named: true }));
  };
  const begin = m => {
    if (typeof m.value === "function") {
      m.scope = native.scope();
      m.promise = native.within(m.scope, () => {
        try { return P.resolve(m.value()); } catch (e) { return P.reject(e); }
      });
    } else {
      m.promise = P.resolve(m.value);
    }
  };
  const stop = (list, winner) => {
    for (const m of list) {
      if (m === winner || m.done) continue;
      if (m.scope !== undefined) native.cancelScope(m.scope); else native.cancel(m.value);
    }
  };
  const label = (m, e) => { if (m.named && e !== null && typeof e === "object") { try { e.key = m.key; } catch (_) { /* frozen */ } } return e; };
  const combine = (what, settled) => new P((resolve, reject) => {
    const list = members(what);
    let over = false;
    const end = (f, value, winner) => { over = true; stop(list, winner); f(value); };
    settled.begin(list, v => end(resolve, v), e => end(reject, e));
    if (over) return;
    for (const m of list) begin(m);
    for (const m of list) hook(m.promise, v => {
      m.done = true;
      if (!over) settled.won(list, m, v, r => end(resolve, r, m));
    }, e => {
      m.done = true;
      if (!over) settled.lost(list, m, label(m, e), r => end(reject, r, m));
    });
  });
  const win = (m, value) => m.named ? { key: m.key, value } : value;
  const E = Error, fail = message => new E(message);
  const all = what => { let left; const values = isArray(what) ? [] : {};
    return combine(what, {
      begin(list, ok) { left = list.length; for (const m of list) values[m.key] = undefined; if (left === 0) ok(values); },
      won(list, m, v, ok) { values[m.key] = v; if (--left === 0) ok(values); },
      lost(list, m, e, bad) { bad(e); },
    });
  };
  const any = what => { let left; const errors = [];
    return combine(what, {
      begin(list, ok, bad) { left = list.length; if (left === 0) bad(fail("any of nothing")); },
      won(list, m, v, ok) { ok(win(m, v)); },
      lost(list, m, e, bad) { errors[list.indexOf(m)] = e; if (--left === 0) { const all = fail("all have failed"); all.errors = errors; bad(all); } },
    });
  };
  const race = what => combine(what, {
    begin(list, ok, bad) { if (list.length === 0) bad(fail("race of nothing")); },
    won(list, m, v, ok) { ok(win(m, v)); },
    lost(list, m, e, bad) { bad(e); },
  });

  native.combine(all, any, race);
  //.

  //? constructor
  const none = function () { throw new TypeError("code from text is not allowed in a script"); };
  for (const f of [function () {}, async function () {}, function* () {}]) {
    Object.defineProperty(Object.getPrototypeOf(f), "constructor", { value: none, writable: false, configurable: false });
  }
  //.
})
