// Steps that were withdrawn after a body of theirs had begun: they may have had an effect, so pages say so.

import type { Entry } from "./types";

/** Whether the step was withdrawn after a body of it had begun. */
export const wasCut = (e: Entry) => e.state === "withdrawn" && e.kind === "step" && !!e.attempts;

/** What an entry that was read with its values says of a body that was cut. */
export function cutText(e: Entry): string {
  const end = !e.ended ? "Its end is not known" : e.error ? "It failed" : "It succeeded, and its result was dropped";
  return "The body had begun when the step was withdrawn, so it may have had an effect. " + end + ".";
}
