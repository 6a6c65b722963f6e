// Icons: one path each, in a square of 16. The word always stands beside, so all are hidden from screen readers.

import type * as preact from "preact";

const paths: Record<string, preact.ComponentChild> = {
  queued: <circle cx="8" cy="8" r="5.6" />,
  running: <><circle cx="8" cy="8" r="5.6" /><path d="M8 2.4a5.6 5.6 0 0 1 0 11.2z" fill="currentColor" stroke="none" /></>,
  suspended: <><circle cx="8" cy="8" r="5.8" /><path d="M8 4.8V8l2.2 1.6" /></>,
  succeeded: <path d="M3 8.6l3.2 3.2L13 4.8" />,
  failed: <path d="M3.8 3.8l8.4 8.4m0-8.4l-8.4 8.4" />,
  cancelled: <><circle cx="8" cy="8" r="5.8" /><path d="M4 12L12 4" /></>,
  stalled: <><path d="M8 2.4L14.2 13.4H1.8z" /><path d="M8 6.6v3.2m0 1.6v.2" /></>,
  paused: <path d="M5.4 3.6v8.8m5.2-8.8v8.8" />,
  cancelling: <path d="M2.6 3v10M6 8h7.4m-3-3l3 3-3 3" />,
  undoing: <path d="M6 3.4L2.8 6.6 6 9.8M3 6.6h6.2a3.6 3.6 0 0 1 0 7.2H7" />,
  expiring: <path d="M4 2.4h8M4 13.6h8M4.8 2.6c0 3.4 6.4 6.4 6.4 10.8m0-10.8c0 3.4-6.4 6.4-6.4 10.8" />,
  held: <path d="M2.4 5h11.2v2a1 1 0 0 0 0 2v2H2.4V9a1 1 0 0 0 0-2zM9.6 5v6" />,
  open: <circle cx="8" cy="8" r="4.6" />,
  done: <circle cx="8" cy="8" r="5" fill="currentColor" />,
  withdrawn: <circle cx="8" cy="8" r="4.8" stroke-dasharray="2 2" />,
  more: <path d="M3.5 8h.1M8 8h.1m4.3 0h.1" stroke-width="2.4" />,
  down: <path d="M4 6.2l4 4 4-4" />,
  right: <path d="M6.2 4l4 4-4 4" />,
  left: <path d="M9.8 4l-4 4 4 4" />,
  plus: <path d="M8 3.4v9.2M3.4 8h9.2" />,
  minus: <path d="M3.4 8h9.2" />,
  close: <path d="M4 4l8 8m0-8l-8 8" />,
  copy: <path d="M5.6 5.6h7v7.6h-7zM3.4 10.4V2.8h7" />,
  download: <path d="M8 2.6v7.2m-3-3l3 3 3-3M3 13.2h10" />,
  theme: <><circle cx="8" cy="8" r="5.6" /><path d="M8 2.4a5.6 5.6 0 0 0 0 11.2z" fill="currentColor" stroke="none" /></>,
  find: <><circle cx="7" cy="7" r="4.2" /><path d="M10.2 10.2l3.4 3.4" /></>,
  child: <path d="M3.4 2.6v5.8a2 2 0 0 0 2 2h7m-2.6-2.8l2.8 2.8-2.8 2.8" />,
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      {paths[name] ?? paths.open}
    </svg>
  );
}
