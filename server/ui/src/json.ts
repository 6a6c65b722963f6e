// JSON as it was written. JSON.parse changes numbers above 2^53, 1.10, and the order of names that are numbers.

/** JSON that is sent and shown as it is: what a person typed, or a number that JavaScript would change. */
export class Raw {
  constructor(readonly text: string) {}
  valueOf() { return Number(this.text); }
  toString() { return this.text; }
  toLocaleString() { return this.text; }
  toJSON() { return this.text; }
}

/** The fields of objects that have a name twice, or names that JavaScript would sort. */
const orders = new WeakMap<object, [string, unknown][]>();

/** The fields of an object in the order of its text, a name twice if the text has it twice. */
export const fields = (of: object): [string, unknown][] => [...orders.get(of) ?? Object.entries(of)];

/** What was typed into a form, for a request; nothing is null. Ask parses first. */
export const verbatim = (text: string) => text.trim() ? new Raw(text) : null;

/** Reports whether a text is JSON. */
export function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** An object or a list that is being read. A field's name is known before its value has ended. */
interface Open {
  list: unknown[] | null;
  fields: [string, unknown][];
  name: string | null;
  sorted: boolean;
}

/** Reads JSON as JSON.parse does, but numbers that it would change are Raw. Throws a SyntaxError. */
export function parse(text: string): unknown {
  JSON.parse(text); // throws; the rest relies on correct JSON
  const open: Open[] = []; // no recursion: a value may be deeper than the stack
  let result: unknown;
  const put = (value: unknown) => {
    const top = open.at(-1);
    if (!top) result = value;
    else if (top.list) top.list.push(value);
    else if (top.name === null) top.name = value as string;
    else {
      top.fields.push([top.name, value]);
      top.sorted ||= /^\d+$/.test(top.name);
      top.name = null;
    }
  };
  const close = ({ list, fields, sorted }: Open) => {
    if (list) return list;
    const object = Object.fromEntries(fields); // unlike an assignment it makes a field __proto__
    if (sorted || Object.keys(object).length < fields.length) orders.set(object, fields);
    return object;
  };
  for (let i = 0, end; i < text.length; i = end) {
    const c = text[i]!;
    end = i + 1;
    if (c === "{" || c === "[") open.push({ list: c === "[" ? [] : null, fields: [], name: null, sorted: false });
    else if (c === "}" || c === "]") put(close(open.pop()!));
    else if (c === '"') {
      end = endOfString(text, end);
      put(JSON.parse(text.slice(i, end)));
    } else if (!/[\s,:]/.test(c)) {
      while (end < text.length && !/[\s,\]}]/.test(text[end]!)) end++;
      const word = text.slice(i, end), value: unknown = JSON.parse(word);
      put(typeof value === "number" && String(value) !== word ? new Raw(word) : value);
    }
  }
  return result;
}

/** Returns the index behind the closing quote of a string whose content begins at an index. */
function endOfString(text: string, at: number): number {
  for (; ;) {
    const quote = text.indexOf('"', at);
    let slashes = 0;
    while (text[quote - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** Writes JSON as JSON.stringify does, with what is Raw as it is. */
export function write(value: unknown, indent = 0): string {
  const open: { list: boolean; left: [string, unknown][]; empty: boolean }[] = [];
  let text = "";
  const line = () => { if (indent) text += "\n" + " ".repeat(indent * open.length); };
  const put = (value: unknown) => {
    if (value instanceof Raw) text += value.text;
    else if (typeof value !== "object" || value === null) text += JSON.stringify(value) ?? "null";
    else {
      const list = Array.isArray(value);
      const left = list ? Object.entries(value) : fields(value).filter(([, v]) => v !== undefined);
      text += list ? "[" : "{";
      open.push({ list, left: left.reverse(), empty: !left.length });
    }
  };
  put(value);
  for (let top, first = true; (top = open.at(-1));) {
    const next = top.left.pop();
    if (!next) {
      open.pop();
      if (!top.empty) line();
      text += top.list ? "]" : "}";
      first = false;
      continue;
    }
    if (!first) text += ",";
    line();
    if (!top.list) text += JSON.stringify(next[0]) + (indent ? ": " : ":");
    const depth = open.length;
    put(next[1]);
    first = open.length > depth;
  }
  return text;
}
