/// <reference no-default-lib="true" />
/// <reference lib="es2022" />
// What a script of stet has beside the language: the first lines leave out what a browser has, whose Event and console are
// others. stet script init writes this file.

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

declare const Workflow: {
  /** A child that is awaited. */
  run<T = any>(name: string, input?: unknown): Promise<T>;
  /** An independent run: its ID. */
  start(name: string, input?: unknown): Promise<string>;
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
