// What the HTTP API answers, as package api has it. Fields that a page does not show are left out.

export type Status = "queued" | "running" | "suspended" | "succeeded" | "failed" | "cancelled" | "stalled";
export type State = "open" | "done" | "failed" | "withdrawn";

export interface Failure {
  message: string;
  code?: string;
  location?: string;
  attempts?: number;
  stack?: string;
  causes?: Failure[];
}

export interface Wait {
  location: string;
  kind: string;
  names?: string[];
  run?: string;
  topic?: string;
  queue?: string;
  since: string;
  until?: string;
}

export interface Run {
  id: string;
  number: number;
  workflow: string;
  status: Status;
  marks?: string;
  incarnation?: number;
  generation?: number;
  build?: string;
  parent?: number;
  parent_id?: string;
  created: string;
  started?: string;
  ended?: string;
  wake_at?: string;
  input?: unknown;
  output?: unknown;
  error?: Failure;
  reason?: string;
  cause?: string;
  owed?: string[];
  waits_for?: Wait[];
  tags?: Record<string, string>;
  headers?: Record<string, string>;
  queue?: { name: string; key?: string; priority?: number; waits?: boolean; holds?: boolean };
  lacks?: string;
  owner?: string;
}

export interface RunPage {
  runs: Run[];
  next?: string;
}

export interface Tally {
  workflow?: string;
  status?: Status;
  runs: number;
  more?: boolean;
}

export interface Attempt {
  number: number;
  began?: string;
  ended?: string;
  code?: string;
  message?: string;
}

export interface Entry {
  location: string;
  kind: string;
  state: State;
  number?: number;
  born?: number;
  attempts?: number;
  started?: string;
  ended?: string;
  wake?: string;
  executing?: string;
  tried?: string;
  size: number;
  value?: unknown;
  messages?: { name: string; sent: string; by?: string; value?: unknown }[];
  by?: string;
  why?: string;
  run?: string;
  topic?: string;
  event?: string;
  error?: Failure;
  loop?: { completed: number; oldest: number };
  undoable?: boolean;
  undone?: boolean;
  attempt_times?: Attempt[];
}

export interface EntryPage {
  entries: Entry[];
  next?: string;
}

export interface PathPart {
  location: string;
  kind: string;
  state: State;
  began: string;
  before_us: number;
  took_us: number;
}

export interface Box {
  location: string;
  kind?: string;
  state?: State;
  critical?: boolean;
  parent: number;
  stages?: number[][][];
}

export interface Shape {
  from: string;
  to: string;
  cut?: boolean;
  after_us: number;
  path: PathPart[];
  boxes?: Box[];
}

export interface Info {
  version: string;
  store: { id: string; kind: string; schema: number; slots: number; durable: string };
  identity: { name: string; role: string; rights: string[] };
  workflows?: string[];
  now: string;
  resources?: string[];
  links?: { name: string; url: string }[];
}

export interface Audit {
  time: string;
  who?: string;
  verb: string;
  why?: string;
  detail?: string;
  run?: string;
  about?: string;
}

export interface Preview {
  from?: string;
  taken_back?: string[];
  owed?: string[];
  messages?: number;
  cancelled?: string[];
}
