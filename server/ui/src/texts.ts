// Texts of runs, names and reasons, as pages show them. A character that turns the direction of text is shown as its
// escape, as the command line does: no name turns what stands after it, or looks like another.

import { options, type VNode } from "preact";

const turning = /[\u202a-\u202e\u2066-\u2069]/g;

/** A text as a page shows it. */
export const visible = (text: string) => text.replace(turning, (c) => "\\u" + c.charCodeAt(0).toString(16));

function all(children: unknown): unknown {
  if (typeof children === "string") return visible(children);
  return Array.isArray(children) ? children.map(all) : children;
}

// Every text on a page is a child of a node, whatever made it.
const before = options.vnode;
options.vnode = (node: VNode) => {
  const props = node.props as { children?: unknown };
  if (props.children !== undefined) props.children = all(props.children);
  before?.(node);
};
