/// <reference no-default-lib="true" />
/// <reference lib="es2015.collection" />
/// <reference lib="es2015.generator" />
/// <reference lib="es2015.iterable" />
/// <reference lib="es2015.promise" />
/// <reference lib="es2015.reflect" />
/// <reference lib="es2015.symbol" />
/// <reference lib="es2015.symbol.wellknown" />
/// <reference lib="es2018.asyncgenerator" />
/// <reference lib="es2018.asynciterable" />
/// <reference lib="es2018.promise" />
/// <reference lib="es2019.array" />
/// <reference lib="es2019.object" />
/// <reference lib="es2020.promise" />
/// <reference lib="es2021.promise" />
// What a script of stet has: the language, as far as a script has it, and the tools of stet. There is nothing of a
// browser and nothing of Node. stet script init writes this file.

/** Options of a step. */
interface TaskOptions {
  /** Tells calls of one name apart, in place of their order. */
  key?: string | number;
  /** How often it is tried; 0 or none: as the program says. */
  attempts?: number;
  /** Seconds for one attempt. */
  timeout?: number;
  /** The queue of which each attempt holds a permit, and the priority there. */
  queue?: string;
  priority?: number;
  /** What undoes it, with its result: a Go function of the program, otherwise a task of workers on its queue. */
  undo?: string;
}

type Member<T> = PromiseLike<T> | (() => T | PromiseLike<T>);
type Values<L> = { -readonly [K in keyof L]: L[K] extends Member<infer T> ? T : never };

declare const Task: {
  /** A step. It begins at the call, not at the await. */
  run<T = any>(name: string, input?: unknown, options?: TaskOptions): Promise<T>;
  /** A durable sleep, whose deadline is fixed at the call. */
  delay(seconds: number): Promise<void>;
  /** The values in the order given; the first failure rejects. */
  all<L extends readonly Member<any>[] | []>(what: L): Promise<Values<L>>;
  all<L extends Record<string, Member<any>>>(what: L): Promise<Values<L>>;
  /** The first success; if all fail, an error with errors. */
  any<T>(what: readonly Member<T>[]): Promise<T>;
  any<L extends Record<string, Member<any>>>(what: L): Promise<{ key: keyof L; value: any }>;
  /** The first that ends. */
  race<T>(what: readonly Member<T>[]): Promise<T>;
  race<L extends Record<string, Member<any>>>(what: L): Promise<{ key: keyof L; value: any }>;
};

declare const Signal: {
  /** The oldest message of the name; rejects with Timeout after within seconds. */
  next<T = any>(name: string, options?: { within?: number }): Promise<T>;
};

/** If a run has the ID, it is the child if it has the same workflow and input; otherwise the call fails. */
interface ChildOptions {
  id?: string;
  tags?: Record<string, string>;
  headers?: Record<string, string>;
}

declare const Workflow: {
  /** A child that is awaited. */
  run<T = any>(name: string, input?: unknown, options?: ChildOptions): Promise<T>;
  /** An independent run: its ID. */
  start(name: string, input?: unknown, options?: ChildOptions): Promise<string>;
};

declare const Run: {
  readonly id: string;
  header(key: string): string;
  /** Operations of f work in a cancelled run. */
  cleanup<T>(f: () => T): T;
  /** Ends this incarnation; the next one has the input, and the current version. */
  continueAsNew(input: unknown): never;
};

declare const Value: { set(name: string, value: unknown): Promise<void> };
declare const Stream: { append(name: string, item: unknown): Promise<void> };
declare const Event: {
  next<T = any>(topic: string, options?: { within?: number }): Promise<T>;
  publish(topic: string, value: unknown): Promise<string>;
};
declare const Token: { create<T = any>(name: string): { token: string; promise: Promise<T> } };

/** What a failed operation throws. */
interface OperationError extends Error {
  name: "TaskError" | "Timeout" | "Cancelled";
  code: string;
  attempts: number;
  key?: string;
}

declare const console: Record<"log" | "info" | "debug" | "warn" | "error", (...what: unknown[]) => void>;

// The language. A script has no BigInt, no Intl, no Proxy, no WeakRef, no typed arrays, no eval, and makes no function of
// text. toLocaleString and localeCompare take no locale: a replay would depend on the machine.

declare var NaN: number;
declare var Infinity: number;
declare function parseInt(text: string, radix?: number): number;
declare function parseFloat(text: string): number;
declare function isNaN(n: number): boolean;
declare function isFinite(n: number): boolean;
declare function decodeURI(text: string): string;
declare function decodeURIComponent(text: string): string;
declare function encodeURI(text: string): string;
declare function encodeURIComponent(text: string | number | boolean): string;
/** @deprecated */
declare function escape(text: string): string;
/** @deprecated */
declare function unescape(text: string): string;

interface Symbol { toString(): string; valueOf(): symbol }
type PropertyKey = string | number | symbol;
interface PropertyDescriptor {
  configurable?: boolean;
  enumerable?: boolean;
  value?: any;
  writable?: boolean;
  get?(): any;
  set?(v: any): void;
}
interface PropertyDescriptorMap { [key: PropertyKey]: PropertyDescriptor }
interface TypedPropertyDescriptor<T> {
  enumerable?: boolean;
  configurable?: boolean;
  writable?: boolean;
  value?: T;
  get?: () => T;
  set?: (value: T) => void;
}

interface Object {
  constructor: Function;
  toString(): string;
  toLocaleString(): string;
  valueOf(): Object;
  hasOwnProperty(key: PropertyKey): boolean;
  isPrototypeOf(of: Object): boolean;
  propertyIsEnumerable(key: PropertyKey): boolean;
}
interface ObjectConstructor {
  new (value?: any): Object;
  (): any;
  (value: any): any;
  readonly prototype: Object;
  assign<T extends {}, U>(target: T, source: U): T & U;
  assign<T extends {}, U, V>(target: T, source1: U, source2: V): T & U & V;
  assign(target: object, ...sources: any[]): any;
  create(of: object | null): any;
  create(of: object | null, properties: PropertyDescriptorMap & ThisType<any>): any;
  defineProperty<T>(o: T, key: PropertyKey, attributes: PropertyDescriptor & ThisType<any>): T;
  defineProperties<T>(o: T, properties: PropertyDescriptorMap & ThisType<any>): T;
  entries<T>(o: { [s: string]: T } | ArrayLike<T>): [string, T][];
  entries(o: {}): [string, any][];
  freeze<T extends Function>(f: T): T;
  freeze<T extends { [i: string]: U | null | undefined | object }, U extends string | boolean | number | symbol>(o: T): Readonly<T>;
  freeze<T>(o: T): Readonly<T>;
  getOwnPropertyDescriptor(o: any, key: PropertyKey): PropertyDescriptor | undefined;
  getOwnPropertyDescriptors<T>(o: T): { [P in keyof T]: TypedPropertyDescriptor<T[P]> } & { [key: string]: PropertyDescriptor };
  getOwnPropertyNames(o: any): string[];
  getOwnPropertySymbols(o: any): symbol[];
  getPrototypeOf(o: any): any;
  hasOwn(o: object, key: PropertyKey): boolean;
  is(a: any, b: any): boolean;
  isExtensible(o: any): boolean;
  isFrozen(o: any): boolean;
  isSealed(o: any): boolean;
  keys(o: {}): string[];
  preventExtensions<T>(o: T): T;
  seal<T>(o: T): T;
  setPrototypeOf(o: any, proto: object | null): any;
  values<T>(o: { [s: string]: T } | ArrayLike<T>): T[];
  values(o: {}): any[];
}
declare var Object: ObjectConstructor;

interface Function {
  apply(this: Function, self: any, list?: any): any;
  call(this: Function, self: any, ...list: any[]): any;
  bind(this: Function, self: any, ...list: any[]): any;
  toString(): string;
  prototype: any;
  readonly length: number;
  readonly name: string;
}
type ThisParameterType<T> = T extends (this: infer U, ...list: never) => any ? U : unknown;
type OmitThisParameter<T> = unknown extends ThisParameterType<T> ? T : T extends (...list: infer A) => infer R ? (...list: A) => R : T;
interface CallableFunction extends Function {
  apply<T, R>(this: (this: T) => R, self: T): R;
  apply<T, A extends any[], R>(this: (this: T, ...list: A) => R, self: T, list: A): R;
  call<T, A extends any[], R>(this: (this: T, ...list: A) => R, self: T, ...list: A): R;
  bind<T>(this: T, self: ThisParameterType<T>): OmitThisParameter<T>;
  bind<T, A extends any[], B extends any[], R>(this: (this: T, ...list: [...A, ...B]) => R, self: T, ...list: A): (...list: B) => R;
}
interface NewableFunction extends Function {
  apply<T>(this: new () => T, self: T): void;
  apply<T, A extends any[]>(this: new (...list: A) => T, self: T, list: A): void;
  call<T, A extends any[]>(this: new (...list: A) => T, self: T, ...list: A): void;
  bind<T>(this: T, self: any): T;
  bind<A extends any[], B extends any[], R>(this: new (...list: [...A, ...B]) => R, self: any, ...list: A): new (...list: B) => R;
}
interface IArguments { [index: number]: any; length: number; callee: Function }

interface Boolean { valueOf(): boolean }
interface BooleanConstructor {
  new (value?: any): Boolean;
  <T>(value?: T): boolean;
  readonly prototype: Boolean;
}
declare var Boolean: BooleanConstructor;

interface Number {
  toString(radix?: number): string;
  toFixed(digits?: number): string;
  toExponential(digits?: number): string;
  toPrecision(precision?: number): string;
  toLocaleString(): string;
  valueOf(): number;
}
interface NumberConstructor {
  new (value?: any): Number;
  (value?: any): number;
  readonly prototype: Number;
  readonly MAX_VALUE: number;
  readonly MIN_VALUE: number;
  readonly NaN: number;
  readonly NEGATIVE_INFINITY: number;
  readonly POSITIVE_INFINITY: number;
  readonly EPSILON: number;
  readonly MAX_SAFE_INTEGER: number;
  readonly MIN_SAFE_INTEGER: number;
  isFinite(n: unknown): boolean;
  isInteger(n: unknown): boolean;
  isNaN(n: unknown): boolean;
  isSafeInteger(n: unknown): boolean;
  parseFloat(text: string): number;
  parseInt(text: string, radix?: number): number;
}
declare var Number: NumberConstructor;

interface String {
  toString(): string;
  valueOf(): string;
  readonly length: number;
  readonly [index: number]: string;
  at(index: number): string | undefined;
  charAt(at: number): string;
  charCodeAt(at: number): number;
  codePointAt(at: number): number | undefined;
  concat(...texts: string[]): string;
  endsWith(text: string, end?: number): boolean;
  includes(text: string, from?: number): boolean;
  indexOf(text: string, from?: number): number;
  lastIndexOf(text: string, from?: number): number;
  localeCompare(other: string): number;
  match(what: string | RegExp): RegExpMatchArray | null;
  matchAll(what: RegExp): IterableIterator<RegExpMatchArray>;
  normalize(form?: "NFC" | "NFD" | "NFKC" | "NFKD"): string;
  padEnd(length: number, fill?: string): string;
  padStart(length: number, fill?: string): string;
  repeat(n: number): string;
  replace(what: string | RegExp, by: string): string;
  replace(what: string | RegExp, by: (found: string, ...parts: any[]) => string): string;
  replaceAll(what: string | RegExp, by: string): string;
  replaceAll(what: string | RegExp, by: (found: string, ...parts: any[]) => string): string;
  search(what: string | RegExp): number;
  slice(from?: number, to?: number): string;
  split(at: string | RegExp, most?: number): string[];
  startsWith(text: string, from?: number): boolean;
  /** @deprecated */
  substr(from: number, length?: number): string;
  substring(from: number, to?: number): string;
  toLocaleLowerCase(): string;
  toLocaleUpperCase(): string;
  toLowerCase(): string;
  toUpperCase(): string;
  trim(): string;
  trimEnd(): string;
  trimStart(): string;
}
interface StringConstructor {
  new (value?: any): String;
  (value?: any): string;
  readonly prototype: String;
  fromCharCode(...codes: number[]): string;
  fromCodePoint(...points: number[]): string;
  raw(template: { raw: readonly string[] | ArrayLike<string> }, ...values: any[]): string;
}
declare var String: StringConstructor;

interface Math {
  readonly E: number;
  readonly LN10: number;
  readonly LN2: number;
  readonly LOG2E: number;
  readonly LOG10E: number;
  readonly PI: number;
  readonly SQRT1_2: number;
  readonly SQRT2: number;
  abs(x: number): number;
  acos(x: number): number;
  acosh(x: number): number;
  asin(x: number): number;
  asinh(x: number): number;
  atan(x: number): number;
  atan2(y: number, x: number): number;
  atanh(x: number): number;
  cbrt(x: number): number;
  ceil(x: number): number;
  clz32(x: number): number;
  cos(x: number): number;
  cosh(x: number): number;
  exp(x: number): number;
  expm1(x: number): number;
  floor(x: number): number;
  fround(x: number): number;
  hypot(...values: number[]): number;
  imul(x: number, y: number): number;
  log(x: number): number;
  log10(x: number): number;
  log1p(x: number): number;
  log2(x: number): number;
  max(...values: number[]): number;
  min(...values: number[]): number;
  pow(x: number, y: number): number;
  random(): number;
  round(x: number): number;
  sign(x: number): number;
  sin(x: number): number;
  sinh(x: number): number;
  sqrt(x: number): number;
  tan(x: number): number;
  tanh(x: number): number;
  trunc(x: number): number;
}
declare var Math: Math;

/** Times are UTC: a script has no other zone. */
interface Date {
  toString(): string;
  toDateString(): string;
  toTimeString(): string;
  toLocaleString(): string;
  toLocaleDateString(): string;
  toLocaleTimeString(): string;
  valueOf(): number;
  getTime(): number;
  getFullYear(): number;
  getUTCFullYear(): number;
  getMonth(): number;
  getUTCMonth(): number;
  getDate(): number;
  getUTCDate(): number;
  getDay(): number;
  getUTCDay(): number;
  getHours(): number;
  getUTCHours(): number;
  getMinutes(): number;
  getUTCMinutes(): number;
  getSeconds(): number;
  getUTCSeconds(): number;
  getMilliseconds(): number;
  getUTCMilliseconds(): number;
  getTimezoneOffset(): number;
  setTime(ms: number): number;
  setMilliseconds(ms: number): number;
  setUTCMilliseconds(ms: number): number;
  setSeconds(s: number, ms?: number): number;
  setUTCSeconds(s: number, ms?: number): number;
  setMinutes(min: number, s?: number, ms?: number): number;
  setUTCMinutes(min: number, s?: number, ms?: number): number;
  setHours(h: number, min?: number, s?: number, ms?: number): number;
  setUTCHours(h: number, min?: number, s?: number, ms?: number): number;
  setDate(day: number): number;
  setUTCDate(day: number): number;
  setMonth(month: number, day?: number): number;
  setUTCMonth(month: number, day?: number): number;
  setFullYear(year: number, month?: number, day?: number): number;
  setUTCFullYear(year: number, month?: number, day?: number): number;
  toUTCString(): string;
  toISOString(): string;
  toJSON(key?: any): string;
}
interface DateConstructor {
  new (): Date;
  new (value: number | string | Date): Date;
  new (year: number, month: number, day?: number, h?: number, min?: number, s?: number, ms?: number): Date;
  (): string;
  readonly prototype: Date;
  parse(text: string): number;
  UTC(year: number, month?: number, day?: number, h?: number, min?: number, s?: number, ms?: number): number;
  now(): number;
}
declare var Date: DateConstructor;

interface RegExpMatchArray extends Array<string> {
  index?: number;
  input?: string;
  0: string;
  groups?: { [key: string]: string };
}
interface RegExpExecArray extends Array<string> {
  index: number;
  input: string;
  0: string;
  groups?: { [key: string]: string };
}
interface RegExp {
  exec(text: string): RegExpExecArray | null;
  test(text: string): boolean;
  toString(): string;
  readonly source: string;
  readonly flags: string;
  readonly global: boolean;
  readonly ignoreCase: boolean;
  readonly multiline: boolean;
  readonly dotAll: boolean;
  readonly sticky: boolean;
  readonly unicode: boolean;
  lastIndex: number;
}
interface RegExpConstructor {
  new (pattern: RegExp | string, flags?: string): RegExp;
  (pattern: RegExp | string, flags?: string): RegExp;
  readonly prototype: RegExp;
}
declare var RegExp: RegExpConstructor;

interface ErrorOptions { cause?: unknown }
interface Error { name: string; message: string; stack?: string; cause?: unknown }
interface ErrorConstructor {
  new (message?: string, options?: ErrorOptions): Error;
  (message?: string, options?: ErrorOptions): Error;
  readonly prototype: Error;
}
declare var Error: ErrorConstructor;
interface EvalError extends Error {}
declare var EvalError: ErrorConstructor;
interface RangeError extends Error {}
declare var RangeError: ErrorConstructor;
interface ReferenceError extends Error {}
declare var ReferenceError: ErrorConstructor;
interface SyntaxError extends Error {}
declare var SyntaxError: ErrorConstructor;
interface TypeError extends Error {}
declare var TypeError: ErrorConstructor;
interface URIError extends Error {}
declare var URIError: ErrorConstructor;

interface JSON {
  parse(text: string, reviver?: (this: any, key: string, value: any) => any): any;
  stringify(value: any, replacer?: (this: any, key: string, value: any) => any, space?: string | number): string;
  stringify(value: any, replacer?: (number | string)[] | null, space?: string | number): string;
}
declare var JSON: JSON;

interface ConcatArray<T> {
  readonly length: number;
  readonly [n: number]: T;
  join(by?: string): string;
  slice(from?: number, to?: number): T[];
}
interface ReadonlyArray<T> {
  readonly length: number;
  readonly [n: number]: T;
  toString(): string;
  toLocaleString(): string;
  at(index: number): T | undefined;
  concat(...items: ConcatArray<T>[]): T[];
  concat(...items: (T | ConcatArray<T>)[]): T[];
  every<S extends T>(f: (value: T, index: number, array: readonly T[]) => value is S, self?: any): this is readonly S[];
  every(f: (value: T, index: number, array: readonly T[]) => unknown, self?: any): boolean;
  filter<S extends T>(f: (value: T, index: number, array: readonly T[]) => value is S, self?: any): S[];
  filter(f: (value: T, index: number, array: readonly T[]) => unknown, self?: any): T[];
  find<S extends T>(f: (value: T, index: number, array: readonly T[]) => value is S, self?: any): S | undefined;
  find(f: (value: T, index: number, array: readonly T[]) => unknown, self?: any): T | undefined;
  findIndex(f: (value: T, index: number, array: readonly T[]) => unknown, self?: any): number;
  forEach(f: (value: T, index: number, array: readonly T[]) => void, self?: any): void;
  includes(value: T, from?: number): boolean;
  indexOf(value: T, from?: number): number;
  join(by?: string): string;
  lastIndexOf(value: T, from?: number): number;
  map<U>(f: (value: T, index: number, array: readonly T[]) => U, self?: any): U[];
  reduce(f: (sum: T, value: T, index: number, array: readonly T[]) => T): T;
  reduce(f: (sum: T, value: T, index: number, array: readonly T[]) => T, first: T): T;
  reduce<U>(f: (sum: U, value: T, index: number, array: readonly T[]) => U, first: U): U;
  reduceRight(f: (sum: T, value: T, index: number, array: readonly T[]) => T): T;
  reduceRight(f: (sum: T, value: T, index: number, array: readonly T[]) => T, first: T): T;
  reduceRight<U>(f: (sum: U, value: T, index: number, array: readonly T[]) => U, first: U): U;
  slice(from?: number, to?: number): T[];
  some(f: (value: T, index: number, array: readonly T[]) => unknown, self?: any): boolean;
}
interface Array<T> {
  length: number;
  [n: number]: T;
  toString(): string;
  toLocaleString(): string;
  at(index: number): T | undefined;
  concat(...items: ConcatArray<T>[]): T[];
  concat(...items: (T | ConcatArray<T>)[]): T[];
  copyWithin(to: number, from: number, end?: number): this;
  every<S extends T>(f: (value: T, index: number, array: T[]) => value is S, self?: any): this is S[];
  every(f: (value: T, index: number, array: T[]) => unknown, self?: any): boolean;
  fill(value: T, from?: number, to?: number): this;
  filter<S extends T>(f: (value: T, index: number, array: T[]) => value is S, self?: any): S[];
  filter(f: (value: T, index: number, array: T[]) => unknown, self?: any): T[];
  find<S extends T>(f: (value: T, index: number, array: T[]) => value is S, self?: any): S | undefined;
  find(f: (value: T, index: number, array: T[]) => unknown, self?: any): T | undefined;
  findIndex(f: (value: T, index: number, array: T[]) => unknown, self?: any): number;
  forEach(f: (value: T, index: number, array: T[]) => void, self?: any): void;
  includes(value: T, from?: number): boolean;
  indexOf(value: T, from?: number): number;
  join(by?: string): string;
  lastIndexOf(value: T, from?: number): number;
  map<U>(f: (value: T, index: number, array: T[]) => U, self?: any): U[];
  pop(): T | undefined;
  push(...items: T[]): number;
  reduce(f: (sum: T, value: T, index: number, array: T[]) => T): T;
  reduce(f: (sum: T, value: T, index: number, array: T[]) => T, first: T): T;
  reduce<U>(f: (sum: U, value: T, index: number, array: T[]) => U, first: U): U;
  reduceRight(f: (sum: T, value: T, index: number, array: T[]) => T): T;
  reduceRight(f: (sum: T, value: T, index: number, array: T[]) => T, first: T): T;
  reduceRight<U>(f: (sum: U, value: T, index: number, array: T[]) => U, first: U): U;
  reverse(): T[];
  shift(): T | undefined;
  slice(from?: number, to?: number): T[];
  some(f: (value: T, index: number, array: T[]) => unknown, self?: any): boolean;
  sort(compare?: (a: T, b: T) => number): this;
  splice(from: number, n?: number): T[];
  splice(from: number, n: number, ...items: T[]): T[];
  unshift(...items: T[]): number;
}
interface ArrayConstructor {
  new (length?: number): any[];
  new <T>(length: number): T[];
  new <T>(...items: T[]): T[];
  (length?: number): any[];
  <T>(length: number): T[];
  <T>(...items: T[]): T[];
  isArray(value: any): value is any[];
  from<T>(list: ArrayLike<T>): T[];
  from<T, U>(list: ArrayLike<T>, f: (value: T, index: number) => U, self?: any): U[];
  of<T>(...items: T[]): T[];
  readonly prototype: any[];
}
declare var Array: ArrayConstructor;
interface ArrayLike<T> { readonly length: number; readonly [n: number]: T }
interface TemplateStringsArray extends ReadonlyArray<string> { readonly raw: readonly string[] }

type PromiseConstructorLike = new <T>(
  executor: (resolve: (value: T | PromiseLike<T>) => void, reject: (reason?: any) => void) => void,
) => PromiseLike<T>;
interface PromiseLike<T> {
  then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null, failed?: ((reason: any) => B | PromiseLike<B>) | null,
  ): PromiseLike<A | B>;
}
interface Promise<T> {
  then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null, failed?: ((reason: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B>;
  catch<B = never>(failed?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B>;
}
type Awaited<T> = T extends null | undefined ? T
  : T extends object & { then(f: infer F, ...list: infer _): any } ? F extends (value: infer V, ...list: infer _) => any ? Awaited<V> : never
  : T;

type Partial<T> = { [P in keyof T]?: T[P] };
type Required<T> = { [P in keyof T]-?: T[P] };
type Readonly<T> = { readonly [P in keyof T]: T[P] };
type Pick<T, K extends keyof T> = { [P in K]: T[P] };
type Record<K extends keyof any, T> = { [P in K]: T };
type Exclude<T, U> = T extends U ? never : T;
type Extract<T, U> = T extends U ? T : never;
type Omit<T, K extends keyof any> = Pick<T, Exclude<keyof T, K>>;
type NonNullable<T> = T & {};
type Parameters<F extends (...list: any) => any> = F extends (...list: infer P) => any ? P : never;
type ConstructorParameters<F extends abstract new (...list: any) => any> = F extends abstract new (...list: infer P) => any ? P : never;
type ReturnType<F extends (...list: any) => any> = F extends (...list: any) => infer R ? R : any;
type InstanceType<F extends abstract new (...list: any) => any> = F extends abstract new (...list: any) => infer R ? R : any;
type Uppercase<S extends string> = intrinsic;
type Lowercase<S extends string> = intrinsic;
type Capitalize<S extends string> = intrinsic;
type Uncapitalize<S extends string> = intrinsic;
interface ThisType<T> {}
interface WeakKeyTypes { object: object }
type WeakKey = WeakKeyTypes[keyof WeakKeyTypes];

// Names that the compiler's own files use. There are no such values.
interface ArrayBuffer {}
interface SharedArrayBuffer {}
type ArrayBufferLike = ArrayBuffer;
interface ImportMeta {}
