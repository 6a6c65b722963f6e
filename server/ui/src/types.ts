// The types of the HTTP API, made of the table of its endpoints. Edit nothing here; after a change
// of the table or of package api: go test ./server -run Document -update

export interface Act {
  reason?: string;
  children?: boolean;
  any_build?: boolean;
}

export interface Answer {
  answer?: unknown;
  pending?: boolean;
}

export interface AppendItems {
  lease: string;
  number: number;
  items: TaskItem[];
}

export interface AppendedItems {
  appended: boolean;
}

export interface Attempt {
  number: number;
  began: string;
  ended: string;
  code?: string;
  message?: string;
}

export interface Audit {
  time: string;
  who?: string;
  verb: string;
  why?: string;
  detail?: string;
  about?: string;
}

export interface Audits {
  audit: Audit[];
  next?: string;
}

export interface Backfill {
  from: string;
  to: string;
  reason?: string;
}

export interface Body {
  run: string;
  workflow: string;
  location: string;
  attempt: number;
  since: string;
  long?: boolean;
}

export interface Bulk {
  token: string;
}

export interface BulkEnd {
  end: boolean;
  done: number;
  pending: number;
  refused: number;
  more?: boolean;
  code?: string;
  detail?: string;
}

export interface BulkExample {
  id: string;
  workflow: string;
  status: Status;
}

export interface BulkPreview {
  token: string;
  expires: string;
  runs: number;
  more?: boolean;
  examples: BulkExample[];
}

export interface BulkRequest {
  query: string;
  verb: BulkVerb;
  reason?: string;
  children?: boolean;
  any_build?: boolean;
}

export interface BulkResult {
  id: string;
  done?: boolean;
  pending?: boolean;
  code?: string;
  detail?: string;
}

export type BulkVerb = "cancel" | "terminate" | "pause" | "resume" | "nudge" | "retry";

export interface CompleteTask {
  lease: string;
  result?: unknown;
}

export interface CompletedTask {
  completed: boolean;
}

export interface Counts {
  counts: Tally[];
}

export interface CreateToken {
  name: string;
  role: Role;
  workflows?: string[];
  named?: string[];
  expires_in_ms?: number;
  reason?: string;
}

export interface CreatedToken {
  token: string;
}

export interface Decision {
  from: string;
  to: string;
  count: number;
  at: string;
  run?: string;
  reason?: string;
}

export interface Deleted {
  deleted: string[];
}

export interface Deletion {
  at: string;
  id: string;
  number: number;
  workflow: string;
  status: Status;
  by: string;
  reason?: string;
}

export interface Deletions {
  deletions: Deletion[];
}

export interface DeployScript {
  code: string;
  files?: ScriptFile[];
  reason?: string;
}

export interface DeployedScript {
  name: string;
  version: number;
}

export interface Done {
  done: boolean;
  pending?: boolean;
}

export interface Edit {
  reason?: string;
  children?: boolean;
  any_build?: boolean;
  step: string;
  result?: unknown;
  error?: string;
}

export interface Entry {
  location: string;
  kind: EntryKind;
  state: EntryState;
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
  messages?: Message[];
  run?: string;
  topic?: string;
  event?: string;
  error?: Failure;
  loop?: Loop;
  attempt_times?: Attempt[];
  undoable?: boolean;
  undone?: boolean;
  by?: string;
  why?: string;
}

export type EntryKind = "step" | "sleep" | "receive" | "promise" | "timer" | "cancel" | "wait" | "undo" | "loop" | "child" | "run" | "version" | "shown" | "record" | "event" | "publish" | "send" | "saga undo";

export type EntryState = "open" | "done" | "failed" | "withdrawn";

export interface Error {
  code: string;
  status: number;
  meaning: string;
}

export interface Errors {
  errors: Error[];
}

export interface Event {
  id: string;
  number: number;
  mode: TopicMode;
  sent: string;
  expires?: string;
  headers?: Record<string, string>;
  received?: number;
  in_flight?: boolean;
  size: number;
  value?: unknown;
}

export interface FailTask {
  lease: string;
  error: TaskFailure;
}

export interface FailedTask {
  failed: boolean;
  retry: boolean;
}

export interface Failure {
  message: string;
  code?: string;
  location?: string;
  attempts?: number;
  stack?: string;
  causes?: Failure[];
}

export interface FirstMsg {
  name: string;
  value?: unknown;
}

export interface Fork {
  reason?: string;
  before: string;
  id?: string;
}

export interface Health {
  ok: boolean;
}

export interface History {
  entries: Entry[];
  next?: string;
}

export interface HistoryUse {
  entries: number;
  bytes: number;
  max_entries: number;
  max_bytes: number;
}

export interface Hook {
  name: string;
  scheme: HookScheme;
  header?: string;
  start?: string;
  send?: string;
  publish?: string;
  resolve?: boolean;
  target?: string;
  value?: string;
  created?: string;
  by?: string;
  why?: string;
}

export type HookScheme = "standard" | "github" | "stripe" | "hmac";

export interface Hooks {
  hooks: Hook[];
}

export interface Identity {
  name: string;
  role: Role;
  rights: Right[];
  workflows?: string[];
  named?: string[];
}

export interface Inbox {
  items: Item[];
}

export interface Info {
  version: string;
  store: Store;
  identity: Identity;
  workflows?: string[];
  now: string;
  resources: string[];
  links?: Link[];
}

export interface Instants {
  instants: string[];
}

export interface Item {
  kind: ItemKind;
  name?: string;
  location?: string;
  sent: string;
  size: number;
  seen: boolean;
  by?: string;
  why?: string;
  value?: unknown;
}

export type ItemKind = "message" | "resolution" | "cancel" | "terminate" | "resume" | "end" | "watch" | "update" | "pause" | "retry" | "rewind" | "edit" | "nudge" | "event" | "wait" | "withdraw" | "ack" | "return" | "delivery" | "ask" | "grant" | "give back";

export interface Lease {
  group: string;
  slot: number;
  node: string;
  boot: string;
  until: string;
}

export type LeaseState = "held" | "cancelled" | "gone" | "released";

export interface LeaseTasks {
  worker?: string;
  names: string[];
  max?: number;
  wait_ms?: number;
  lease_ms?: number;
  request?: string;
}

export interface LeasedTask {
  lease: string;
  name: string;
  input: unknown;
  attempt: number;
  key: string;
  run: string;
  workflow: string;
  location: string;
  headers?: Record<string, string>;
  queue: string;
  detail?: unknown;
  expires_ms: number;
}

export interface Letter {
  number: number;
  kind: ItemKind;
  name?: string;
  run: string;
  workflow: string;
  status: Status;
  sent: string;
  size: number;
  value?: unknown;
  error?: Failure;
  reason?: string;
  by?: string;
}

export interface Letters {
  letters: Letter[];
  next?: string;
}

export interface Limits {
  concurrency?: number;
  per_key?: number;
  rate?: number;
  rate_per_key?: number;
  per_ms?: number;
  group: string;
  release_while_suspended?: boolean;
}

export interface Link {
  name: string;
  url: string;
}

export interface LiveEvents {
  run: Run;
  entry: RunEntry;
  inbox: RunInbox;
  value: RunValue;
  item: RunItem;
  page: LivePage;
  nodes: Nodes;
  reset: RunReset;
}

export interface LivePage {
  query: string;
  runs: Run[];
}

export interface Login {
  token: string;
}

export interface Loop {
  completed: number;
  oldest: number;
}

export interface Message {
  name: string;
  sent: string;
  by?: string;
  value?: unknown;
}

export interface NamedValue {
  name: string;
  at: string;
  set: number;
  value?: unknown;
}

export interface Node {
  node: string;
  state: NodeState;
  build: string;
  groups?: string[];
  shards: number;
  workflows: string[];
  host: string;
  pid: number;
  seen: string;
  boot: string;
  lease_ms?: number;
  draining?: boolean;
  bodies?: Body[];
  zones?: string;
  lacks?: string[];
}

export type NodeState = "working" | "standing by" | "draining" | "drained" | "silent" | "lost";

export interface Nodes {
  nodes: Node[];
  now: string;
  slots: number;
  leases?: Lease[];
}

export type Overlap = "skip" | "buffer-one" | "allow" | "cancel-previous";

export interface PathPart {
  location: string;
  kind: EntryKind;
  state: EntryState;
  began: string;
  before_us: number;
  took_us: number;
}

export interface Policy {
  max_run_time_ms?: number;
  max_suspension_ms?: number;
  on_failure?: string;
  on_bug?: string;
  keep_succeeded_ms?: number;
  keep_failed_ms?: number;
  keep_cancelled_ms?: number;
}

export interface Preview {
  id: string;
  from: string;
  taken_back?: string[];
  owed?: string[];
  messages?: number;
  cancelled?: string[];
  retried?: string[];
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail?: string;
  request_id: string;
}

export interface Promise {
  run: string;
  location: string;
  state: PromiseState;
  at?: string;
  token?: string;
}

export type PromiseState = "open" | "resolved" | "rejected";

export interface Promises {
  promises: Promise[];
}

export interface Publish {
  value?: unknown;
  headers?: Record<string, string>;
  expires_in_ms?: number;
  mode?: TopicMode;
  expiry_ms?: number;
  retention_ms?: number;
  cap?: number;
  cap_bytes?: number;
}

export interface Published {
  id: string;
}

export interface Queue {
  name: string;
  concurrency?: number;
  per_key?: number;
  rate?: number;
  rate_per_key?: number;
  per_ms?: number;
  group: string;
  release_while_suspended?: boolean;
  paused?: boolean;
  held: number;
  waiting: number;
  delayed: number;
  granted: number;
  declared?: Limits;
  declared_by?: Source;
  overridden?: Source;
  paused_by?: Source;
  tasks?: TaskCount[];
  locks?: QueueLock[];
  lacks?: string;
}

export interface QueueLock {
  key?: string;
  held: number;
  holders: string[];
  waiting: string[];
}

export interface QueuePlace {
  name: string;
  key?: string;
  priority?: number;
  waits?: boolean;
  holds?: boolean;
}

export interface Queues {
  queues: Queue[];
}

export interface Reason {
  reason?: string;
}

export interface Received {
  again?: boolean;
  ignored?: string;
}

export interface Reject {
  token: string;
  message?: string;
  reason?: string;
}

export interface ReleaseTasks {
  leases: string[];
}

export interface Replay {
  run?: string;
  reason?: string;
}

export interface Resolve {
  token: string;
  value?: unknown;
  reason?: string;
}

export interface Rewind {
  reason?: string;
  children?: boolean;
  any_build?: boolean;
  before: string;
}

export type Right = "read" | "values" | "call" | "operate" | "admin" | "work";

export type Role = "worker" | "viewer" | "caller" | "operator" | "admin";

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
  why?: Why[];
  waits_for?: WaitInfo[];
  lacks?: string;
  tags?: Record<string, string>;
  headers?: Record<string, string>;
  policy?: Policy;
  queue?: QueuePlace;
  group?: string;
  slot: number;
  suspect?: number;
  parent_location?: string;
  input_size?: number;
  output_size?: number;
  refused?: Record<string, string>;
  rewind_before?: string;
}

export interface RunEntry {
  run_id: string;
  entry: Entry | null;
}

export interface RunInbox {
  run_id: string;
  items: Item[];
}

export interface RunItem {
  run_id: string;
  stream: string;
  position: number;
  at: string;
  skipped?: number;
  rewound?: boolean;
  location?: string;
  attempt?: number;
  again?: boolean;
  value?: unknown;
}

export interface RunReset {
  run_id: string;
}

export interface RunScript {
  name: string;
  version: number;
  files: ScriptFile[];
  current: number;
  stands: ScriptPlace[];
  unknown?: string;
}

export interface RunValue {
  run_id: string;
  name: string;
  at: string;
  set: number;
  value?: unknown;
}

export interface Runs {
  runs: Run[];
  next?: string;
}

export interface Schedule {
  name: string;
  workflow: string;
  cron?: string;
  zone?: string;
  every_ms?: number;
  offset_ms?: number;
  overlap: Overlap;
  catch_up_ms: number | null;
  input?: unknown;
  tags?: Record<string, string>;
  headers?: Record<string, string>;
  queue?: QueuePlace;
  policy?: Policy;
  paused: boolean;
  paused_at?: string;
  reason?: string;
  stalled?: string;
  lacks?: string;
  next: string[];
  running: string[];
  buffered?: string;
  backfills: number;
  started: number;
  skipped: number;
  past?: Decision[];
}

export interface Schedules {
  schedules: Schedule[];
}

export interface Script {
  name: string;
  current: number;
  by?: string;
  why?: string;
  at?: string;
  versions?: ScriptVersion[];
}

export interface ScriptFile {
  name: string;
  text: string;
}

export interface ScriptPlace {
  file: string;
  line: number;
  column: number;
  location: string;
}

export interface ScriptSource {
  name: string;
  version: number;
  files: ScriptFile[];
}

export interface ScriptVersion {
  number: number;
  hash: string;
  size: number;
  by?: string;
  why?: string;
  at: string;
  left?: string;
}

export interface Scripts {
  scripts: Script[];
}

export interface Send {
  value?: unknown;
  headers?: Record<string, string>;
  expires_in_ms?: number;
}

export interface SetHook {
  scheme: HookScheme;
  header?: string;
  secrets: string[];
  start?: string;
  send?: string;
  publish?: string;
  resolve?: boolean;
  target?: string;
  value?: string;
  replace?: boolean;
  reason?: string;
}

export interface SetQueue {
  concurrency?: number;
  per_key?: number;
  rate?: number;
  rate_per_key?: number;
  per_ms?: number;
  group: string;
  release_while_suspended?: boolean;
  reason?: string;
  create?: boolean;
}

export interface SetSchedule {
  workflow: string;
  cron?: string;
  zone?: string;
  every_ms?: number;
  offset_ms?: number;
  overlap?: Overlap;
  catch_up_ms?: number;
  input?: unknown;
  tags?: Record<string, string>;
  headers?: Record<string, string>;
  queue?: QueuePlace;
  policy?: Policy;
  paused?: boolean;
  refuse_existing?: boolean;
  reason?: string;
}

export interface Shape {
  from: string;
  to: string;
  path: PathPart[];
  after_us: number;
  cut?: boolean;
  spent: TimeSpent[];
  boxes?: ShapeBox[];
  used: HistoryUse;
}

export interface ShapeBox {
  location: string;
  kind?: EntryKind;
  state?: EntryState;
  critical?: boolean;
  parent: number;
  stages?: number[][][];
  open?: number;
  done?: number;
  failed?: number;
  withdrawn?: number;
  from?: string;
  to?: string;
}

export interface Shown {
  values: NamedValue[];
  streams: Stream[];
}

export interface Source {
  by: string;
  build?: string;
  why?: string;
  at: string;
}

export interface Start {
  workflow: string;
  input?: unknown;
  id?: string;
  at?: string;
  after_ms?: number;
  existing?: string;
  messages?: FirstMsg[];
  tags?: Record<string, string>;
  headers?: Record<string, string>;
  queue?: QueuePlace;
  policy?: Policy;
}

export interface Started {
  id?: string;
  runs?: StartedRun[];
}

export interface StartedRun {
  id?: string;
  code?: string;
}

export type Status = "queued" | "running" | "suspended" | "succeeded" | "failed" | "cancelled" | "stalled";

export interface Store {
  id: string;
  kind: string;
  schema: number;
  slots: number;
  durable: string;
}

export interface Stream {
  name: string;
  at: string;
  last: number;
  dropped?: number;
}

export interface StreamItem {
  position: number;
  at: string;
  skipped?: number;
  rewound?: boolean;
  location?: string;
  attempt?: number;
  again?: boolean;
  value?: unknown;
}

export interface StreamItems {
  items: StreamItem[];
}

export interface Tally {
  workflow?: string;
  status?: Status;
  runs: number;
  more?: boolean;
}

export interface Task {
  queue: string;
  name: string;
  state: TaskState;
  run: string;
  location: string;
  attempt: number;
  key?: string;
  priority?: number;
  worker?: string;
  since: string;
  until?: string;
  lost?: number;
  cancelling?: boolean;
}

export interface TaskBeat {
  lease: string;
  detail?: unknown;
}

export interface TaskBeats {
  leases: TaskBeat[];
  lease_ms?: number;
}

export interface TaskCount {
  name: string;
  offered: number;
  leased: number;
}

export interface TaskFailure {
  message: string;
  code?: string;
  stack?: string;
  retryable?: boolean;
  retry_after_ms?: number;
}

export interface TaskItem {
  stream: string;
  value?: unknown;
  keep?: number;
}

export interface TaskLease {
  lease: string;
  state: LeaseState;
  expires_ms?: number;
}

export interface TaskLeases {
  tasks: LeasedTask[];
  cancelled: string[];
}

export interface TaskList {
  tasks: Task[];
}

export type TaskState = "offered" | "leased" | "expired";

export interface TaskStates {
  leases: TaskLease[];
}

export interface TimeSpent {
  on: string;
  queue?: string;
  text: string;
  took_us: number;
  grows?: boolean;
}

export interface Token {
  id: string;
  name: string;
  role: Role;
  workflows?: string[];
  named?: string[];
  created: string;
  expires?: string;
  by: string;
}

export interface Tokens {
  tokens: Token[];
}

export interface Topic {
  name: string;
  mode: TopicMode;
  expiry_ms?: number;
  retention_ms?: number;
  cap?: number;
  cap_bytes?: number;
  accepted: number;
  received: number;
  pending: number;
  had: number;
  in_flight: number;
  expired: number;
  refused: number;
  bytes: number;
  had_bytes: number;
  waiting: number;
  events?: Event[];
  waits?: TopicWait[];
  lacks?: string;
}

export interface TopicEvents {
  events: Event[];
  next?: number;
}

export type TopicMode = "broadcast" | "consumed";

export interface TopicWait {
  run: string;
  location: string;
  since: string;
  until?: string;
}

export interface Topics {
  topics: Topic[];
}

export interface WaitInfo {
  location: string;
  kind: string;
  names?: string[];
  update?: boolean;
  run?: string;
  topic?: string;
  queue?: string;
  task?: string;
  worker?: string;
  task_since?: string;
  lease_until?: string;
  task_unasked?: boolean;
  since: string;
  until?: string;
  failed?: number;
  error?: string;
}

export interface Ways {
  provider?: string;
  token: boolean;
}

export interface Why {
  code: string;
  text: string;
  location?: string;
  quote?: string;
  since?: string;
  until?: string;
  help?: string;
}

/** The endpoints, by method and path. */
export interface Endpoints {
  "GET audit": { params: { who?: string; verb?: string; about?: string; limit?: number; cursor?: string }; body: undefined; answer: Audits };
  "POST bulk": { params: Record<string, never>; body: Bulk; answer: BulkResult | BulkEnd };
  "POST bulk/preview": { params: Record<string, never>; body: BulkRequest; answer: BulkPreview };
  "GET counts": { params: { query?: string; by?: string; age?: string; exact?: boolean }; body: undefined; answer: Counts };
  "GET deadletters": { params: { run?: string[]; workflow?: string[]; name?: string[]; number?: number; limit?: number; cursor?: string }; body: undefined; answer: Letters };
  "DELETE deadletters/{number}": { params: { number: number }; body: Reason; answer: Done };
  "POST deadletters/{number}/replay": { params: { number: number }; body: Replay; answer: Done };
  "GET deletions": { params: Record<string, never>; body: undefined; answer: Deletions };
  "GET errors": { params: Record<string, never>; body: undefined; answer: Errors };
  "GET events": { params: { run?: string[]; stream?: string[]; runs?: string[]; nodes?: boolean }; body: undefined; answer: LiveEvents };
  "GET health/live": { params: Record<string, never>; body: undefined; answer: Health };
  "GET health/ready": { params: Record<string, never>; body: undefined; answer: Health };
  "GET hooks": { params: Record<string, never>; body: undefined; answer: Hooks };
  "DELETE hooks/{name}": { params: { name: string }; body: Reason; answer: Done };
  "POST hooks/{name}": { params: { name: string }; body: unknown; answer: Received };
  "PUT hooks/{name}": { params: { name: string }; body: SetHook; answer: Done };
  "GET info": { params: Record<string, never>; body: undefined; answer: Info };
  "GET login": { params: Record<string, never>; body: undefined; answer: Ways };
  "POST login": { params: Record<string, never>; body: Login; answer: Identity };
  "GET login/callback": { params: Record<string, never>; body: undefined; answer: undefined };
  "GET login/provider": { params: Record<string, never>; body: undefined; answer: undefined };
  "POST logout": { params: Record<string, never>; body: Reason; answer: Done };
  "GET nodes": { params: { leases?: boolean }; body: undefined; answer: Nodes };
  "POST nodes/{name}/drain": { params: { name: string }; body: Reason; answer: Done };
  "GET openapi.json": { params: Record<string, never>; body: undefined; answer: unknown };
  "POST promises/reject": { params: Record<string, never>; body: Reject; answer: Done };
  "POST promises/resolve": { params: Record<string, never>; body: Resolve; answer: Done };
  "GET queues": { params: Record<string, never>; body: undefined; answer: Queues };
  "DELETE queues/{name}": { params: { name: string }; body: Reason; answer: Done };
  "GET queues/{name}": { params: { name: string }; body: undefined; answer: Queue };
  "PUT queues/{name}": { params: { name: string }; body: SetQueue; answer: Done };
  "POST queues/{name}/pause": { params: { name: string }; body: Reason; answer: Done };
  "POST queues/{name}/reset": { params: { name: string }; body: Reason; answer: Done };
  "POST queues/{name}/resume": { params: { name: string }; body: Reason; answer: Done };
  "GET queues/{name}/tasks": { params: { name: string; limit?: number }; body: undefined; answer: TaskList };
  "GET runs": { params: { query?: string; limit?: number; cursor?: string; order?: string; values?: string }; body: undefined; answer: Runs };
  "POST runs": { params: Record<string, never>; body: Start | Start[]; answer: Started };
  "DELETE runs/{id}": { params: { id: string }; body: Act; answer: Deleted };
  "GET runs/{id}": { params: { id: string; wait?: string }; body: undefined; answer: Run };
  "GET runs/{id}/audit": { params: { id: string }; body: undefined; answer: Audits };
  "POST runs/{id}/cancel": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "GET runs/{id}/children": { params: { id: string; limit?: number; cursor?: string }; body: undefined; answer: Runs };
  "GET runs/{id}/deletable": { params: { id: string; children?: boolean }; body: undefined; answer: Deleted };
  "POST runs/{id}/edit": { params: { id: string; wait?: string }; body: Edit; answer: Done };
  "GET runs/{id}/export": { params: { id: string }; body: undefined; answer: unknown };
  "POST runs/{id}/fork": { params: { id: string }; body: Fork; answer: Started };
  "GET runs/{id}/history": { params: { id: string; after?: string; limit?: number; above?: number; values?: string; at?: string[] }; body: undefined; answer: History };
  "GET runs/{id}/inbox": { params: { id: string }; body: undefined; answer: Inbox };
  "POST runs/{id}/messages/{name}": { params: { id: string; name: string }; body: Send; answer: Done };
  "POST runs/{id}/nudge": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "POST runs/{id}/pause": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "GET runs/{id}/preview": { params: { id: string; verb?: string; before?: string }; body: undefined; answer: Preview };
  "GET runs/{id}/promises": { params: { id: string }; body: undefined; answer: Promises };
  "POST runs/{id}/resume": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "POST runs/{id}/retry": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "POST runs/{id}/rewind": { params: { id: string; wait?: string }; body: Rewind; answer: Done };
  "GET runs/{id}/script": { params: { id: string }; body: undefined; answer: RunScript };
  "GET runs/{id}/shape": { params: { id: string }; body: undefined; answer: Shape };
  "GET runs/{id}/streams/{name}": { params: { id: string; name: string; after?: number; limit?: number }; body: undefined; answer: StreamItems };
  "POST runs/{id}/terminate": { params: { id: string; wait?: string }; body: Act; answer: Done };
  "POST runs/{id}/updates/{name}": { params: { id: string; name: string; wait?: string }; body: Send; answer: Answer };
  "GET runs/{id}/value": { params: { id: string; at?: string }; body: undefined; answer: unknown };
  "GET runs/{id}/values": { params: { id: string; name?: string }; body: undefined; answer: Shown };
  "GET schedules": { params: Record<string, never>; body: undefined; answer: Schedules };
  "DELETE schedules/{name}": { params: { name: string }; body: Reason; answer: Done };
  "GET schedules/{name}": { params: { name: string }; body: undefined; answer: Schedule };
  "PUT schedules/{name}": { params: { name: string }; body: SetSchedule; answer: Done };
  "POST schedules/{name}/backfill": { params: { name: string }; body: Backfill; answer: Done };
  "GET schedules/{name}/next": { params: { name: string; n?: number; from?: string; until?: string }; body: undefined; answer: Instants };
  "POST schedules/{name}/pause": { params: { name: string }; body: Reason; answer: Done };
  "POST schedules/{name}/resume": { params: { name: string }; body: Reason; answer: Done };
  "POST schedules/{name}/trigger": { params: { name: string }; body: Reason; answer: Started };
  "GET scripts": { params: Record<string, never>; body: undefined; answer: Scripts };
  "GET scripts/{name}": { params: { name: string }; body: undefined; answer: Script };
  "POST scripts/{name}": { params: { name: string; wait?: string }; body: DeployScript; answer: DeployedScript };
  "GET scripts/{name}/source": { params: { name: string; version?: number }; body: undefined; answer: ScriptSource };
  "POST tasks/append": { params: Record<string, never>; body: AppendItems; answer: AppendedItems };
  "POST tasks/complete": { params: Record<string, never>; body: CompleteTask; answer: CompletedTask };
  "POST tasks/fail": { params: Record<string, never>; body: FailTask; answer: FailedTask };
  "POST tasks/heartbeat": { params: Record<string, never>; body: TaskBeats; answer: TaskStates };
  "POST tasks/lease": { params: Record<string, never>; body: LeaseTasks; answer: TaskLeases };
  "POST tasks/release": { params: Record<string, never>; body: ReleaseTasks; answer: TaskStates };
  "GET tokens": { params: Record<string, never>; body: undefined; answer: Tokens };
  "POST tokens": { params: Record<string, never>; body: CreateToken; answer: CreatedToken };
  "DELETE tokens/{id}": { params: { id: string }; body: Reason; answer: Done };
  "GET topics": { params: Record<string, never>; body: undefined; answer: Topics };
  "GET topics/{name}": { params: { name: string }; body: undefined; answer: Topic };
  "GET topics/{name}/events": { params: { name: string; limit?: number; before?: number; number?: number }; body: undefined; answer: TopicEvents };
  "POST topics/{name}/events": { params: { name: string }; body: Publish; answer: Published };
  "DELETE topics/{name}/events/{event}": { params: { name: string; event: string; wait?: string }; body: Reason; answer: Done };
}
