// What all pages are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { chainOf, refocus } from "./focus";
import { Icon } from "./icons";
import { fields, Raw, write } from "./json";
import { say } from "./live";
import { toRun } from "./route";
import { age, bytes, exact, moment, second } from "./time";
import type { EntryState, Failure, Status } from "./types";

export function Badge({ status, marks }: { status: Status; marks?: string | undefined }) {
  return (
    <span class="badges">
      <span class={"badge is-" + status}><Icon name={status} />{status}</span>
      {(marks ?? "").split(",").filter(Boolean).map((m) => (
        <span class="badge is-mark" key={m}><Icon name={m.trim()} />{m.trim()}</span>
      ))}
    </span>
  );
}

/** The state of an entry, in its own word. */
export function StateOf({ state, undone }: { state: EntryState; undone?: boolean | undefined }) {
  return (
    <span class={"badge is-" + stateColour(state)}>
      <Icon name={state === "done" ? "succeeded" : state === "failed" ? "failed" : state} />
      {undone ? state + ", undone" : state}
    </span>
  );
}

const colours: Record<EntryState, Status> = { open: "suspended", done: "succeeded", failed: "failed", withdrawn: "cancelled" };

export const stateColour = (state: EntryState) => colours[state];

export function When({ time, ago }: { time?: string | undefined; ago?: boolean }) {
  if (!time) return null;
  if (ago) second.value;
  return <time dateTime={time} title={exact(time)}>{ago ? age(time) : moment(time)}</time>;
}

export function RunLink({ id, children }: { id: string; children?: ComponentChildren }) {
  return <a class="id" href={toRun(id)}>{children ?? id}</a>;
}

export function Trouble({ error, retry }: { error: unknown; retry?: () => void }) {
  const text = error instanceof Error ? error.message : String(error);
  return (
    <div class="note is-bad" role="alert">
      <Icon name="failed" />
      <div>
        <p class="plain">{text}</p>
        {error instanceof Problem && error.request && <p class="dim small">request {error.request}</p>}
        {retry && <button class="button" onClick={retry}>Try again</button>}
      </div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="strong">{title}</p>{children && <p class="dim">{children}</p>}</div>;
}

export const Loading = () => <p class="dim pad" aria-busy="true">Reading…</p>;

/**
 * Reads something when the page opens, and again when key changes. With keep a change of the key is news of the same
 * thing: until it is read what was known stands there.
 */
export function useLoad<T>(read: (stop: AbortSignal) => Promise<T>, key: string, keep = false) {
  const [state, setState] = useState<{ data?: T; error?: unknown; key: string }>({ key: "" });
  const latest = useRef(read);
  latest.current = read;
  const current = useRef("");
  const load = async () => {
    const stop = new AbortController();
    const mine = (current.current = key);
    try {
      const data = await latest.current(stop.signal);
      if (current.current === mine) setState({ data, key: mine });
    } catch (error) {
      if (current.current === mine) setState((s) => (s.key === mine && s.data ? { ...s, error } : { error, key: mine }));
    }
  };
  useEffect(() => {
    void load();
    return () => { current.current = "left"; };
  }, [key]);
  const fresh = keep || state.key === key;
  return { data: fresh ? state.data : undefined, error: fresh ? state.error : undefined, load };
}

/** Reads one page more. */
export function useMore(read: () => Promise<unknown>) {
  const [error, setError] = useState<unknown>(null);
  const [under, setUnder] = useState(false);
  const more = async () => {
    if (under) return;
    setUnder(true);
    setError(null);
    try {
      await read();
    } catch (e) {
      setError(e);
    }
    setUnder(false);
  };
  return { error, under, more };
}

/** The button that reads one page more. It stays where it is while it reads, and so does the focus. */
export function Older({ under, more }: { under: boolean; more: () => void }) {
  return <button class="button" aria-disabled={under} onClick={more}>{under ? "Reading…" : "Show older"}</button>;
}

/** A dialog over the page. Escape and Cancel close it. */
export function Dialog(p: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = chainOf(document.activeElement), dialog = ref.current!;
    const does = dialog.querySelector("form > p");
    if (does) dialog.setAttribute("aria-describedby", does.id = "dialog-does");
    dialog.showModal();
    const first = dialog.querySelector<HTMLInputElement>("form input, form textarea"); // and not what closes it
    first?.focus();
    first?.select();
    return () => refocus(opener);
  }, []);
  const cancel = (e: Event) => { // of Escape: at once, since the event of a close comes after the next key
    e.preventDefault();
    p.onClose();
  };
  return (
    <dialog ref={ref} class={p.wide ? "dialog wide" : "dialog"} aria-labelledby="dialog-title" onClose={p.onClose}
      onCancel={cancel}>
      <header class="bar"><h2 id="dialog-title">{p.title}</h2>
        <button class="button quiet square" aria-label="Close" onClick={p.onClose}><Icon name="close" /></button>
      </header>
      {p.children}
    </dialog>
  );
}

export interface Choice {
  label: string;
  hint?: string;
  danger?: boolean;
  off?: string | undefined; // why it cannot be chosen
  run: () => void;
}

/** A button with a menu. Arrow keys move, Escape closes. */
export function Menu({ label, choices, icon }: { label: string; choices: Choice[]; icon?: string }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
  useEffect(() => {
    if (!open) return;
    items()[0]?.focus();
    const away = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const close = () => {
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  const key = (e: KeyboardEvent) => {
    const all = items(), at = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === "Escape" && open) {
      e.stopPropagation();
      close();
    } else if (open && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      all[(at + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
    } else if (!open && e.key === "ArrowDown") {
      e.preventDefault();
      setOpen(true);
    } else if (e.key === "Tab") setOpen(false);
  };
  return (
    <span class="menu" ref={box} onKeyDown={key}>
      <button class="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        {icon && <Icon name={icon} />}{label}<Icon name="down" />
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {choices.map((c) => (
            <button key={c.label} role="menuitem" tabIndex={-1} class={c.danger ? "is-danger" : ""}
              aria-disabled={c.off ? true : undefined} title={c.off ?? ""}
              onClick={() => {
                if (c.off) return;
                close();
                c.run();
              }}>
              <span>{c.label}</span>
              {(c.off ?? c.hint) && <span class="dim small">{c.off ?? c.hint}</span>}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    say(what + " copied");
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button class="button quiet small" onClick={copy} aria-label={"Copy " + what}>
      <Icon name={done ? "succeeded" : "copy"} />{done ? "copied" : "copy"}
    </button>
  );
}

const shownBytes = 64 * 1024;

/** A JSON value: small ones at once, large ones folded, the largest cut with a download. */
export function Value({ value, name, href }: { value: unknown; name: string; href?: string }) {
  if (value === undefined) return <p class="dim">none</p>;
  if (isRedacted(value)) return <p class="dim">hidden: your role does not show values ({bytes(value.bytes)})</p>;
  if (isCut(value)) return (
    <p class="dim">too large for this page: {bytes(value.bytes)} {href && <a class="button quiet small" href={href} download><Icon name="download" />download</a>}</p>
  );
  const text = write(value, 2);
  const large = text.length > shownBytes;
  return (
    <div class="value">
      <div class="value-bar">
        <span class="dim small">{bytes(new Blob([write(value)]).size)}</span>
        <Copy text={text} what={name} />
        {href && <a class="button quiet small" href={href} download><Icon name="download" />download</a>}
      </div>
      <div class="json" tabIndex={0} role="group" aria-label={name}>
        {large ? text.slice(0, shownBytes) : <Tree value={value} depth={0} />}
      </div>
      {large && <p class="dim small">The first {bytes(shownBytes)} are shown.</p>}
    </div>
  );
}

/** What an answer has in place of a value that is too large for it. */
export const isCut = (v: unknown): v is { cut: true; bytes: number } =>
  typeof v === "object" && v !== null && (v as { cut?: unknown }).cut === true &&
  typeof (v as { bytes?: unknown }).bytes === "number" && Object.keys(v).length === 2;

export const isRedacted = (v: unknown): v is { redacted: true; bytes: number } =>
  typeof v === "object" && v !== null && (v as { redacted?: unknown }).redacted === true &&
  typeof (v as { bytes?: unknown }).bytes === "number";

function Tree({ value, name, depth }: { value: unknown; name?: string; depth: number }) {
  const label = name === undefined ? null : <span class="json-key">{JSON.stringify(name)}: </span>;
  if (typeof value !== "object" || value === null || value instanceof Raw) {
    const kind = value === null ? "null" : value instanceof Raw ? "number" : typeof value;
    return <div class="json-line">{label}<span class={"json-" + kind}>{write(value)}</span></div>;
  }
  const list = Array.isArray(value);
  const entries: [string, unknown][] = list ? Object.entries(value) : fields(value);
  if (!entries.length) return <div class="json-line">{label}{list ? "[]" : "{}"}</div>;
  return (
    <details open={depth < 2 && entries.length <= 50}>
      <summary>{label}<span class="dim">{list ? `[ ${entries.length} ]` : `{ ${entries.length} }`}</span></summary>
      <div class="json-in">
        {entries.slice(0, 500).map(([k, v], i) => <Tree key={i} value={v} depth={depth + 1} {...(list ? {} : { name: k })} />)}
        {entries.length > 500 && <div class="dim">{entries.length - 500} more</div>}
      </div>
    </details>
  );
}

/** An error with its causes: the first line says what, the rest is there to open. */
export function FailureView({ failure, open = true }: { failure: Failure; open?: boolean }) {
  return (
    <div class="failure">
      <pre class="message">{failure.message}</pre>
      {failure.stack && <details open={open}><summary>stack</summary><pre class="stack">{failure.stack}</pre></details>}
      {failure.causes?.map((c, i) => {
        if (!failure.attempts && failure.message.includes(c.message) && !c.stack && !c.causes?.length) return null;
        const n = failure.attempts ? failure.attempts - failure.causes!.length + i + 1 : 0;
        if (failure.attempts && n < 1 && failure.causes!.some((other, j) => j > i && other.message === c.message)) return null;
        return (
          <details key={i} open={open && (!n || i === failure.causes!.length - 1)}>
            <summary>{n ? "attempt " + n : "caused by"}</summary>
            <div class="json-in"><FailureView failure={c} open={open} /></div>
          </details>
        );
      })}
    </div>
  );
}

/** Facts in two columns; what is empty is left out. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false)
        .map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}
    </dl>
  );
}

/**
 * Keys of a list with one tab stop: arrows, Home, End and Page move to the row, by its index; the list calls back for all
 * else. Returns the handler.
 */
export function rowKeys(count: number, active: number, move: (to: number) => void, other: (e: KeyboardEvent) => void) {
  return (e: KeyboardEvent) => {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: count - 1, PageDown: active + 15, PageUp: active - 15 }[e.key];
    if (to === undefined) {
      other(e);
      return;
    }
    e.preventDefault();
    move(Math.max(0, Math.min(count - 1, to)));
  };
}

/** A plain table of a few columns, for pages that only list. */
export function Table(p: { label: string; head: string[]; children: ComponentChildren; numbers?: number[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={p.label}>
      <table>
        <thead><tr>{p.head.map((h, i) => <th key={h + i} class={p.numbers?.includes(i) ? "num" : ""} scope="col">{h || <span class="unseen">Actions</span>}</th>)}</tr></thead>
        <tbody>{p.children}</tbody>
      </table>
    </div>
  );
}
