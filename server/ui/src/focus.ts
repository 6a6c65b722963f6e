// Where what has the focus goes away, as a letter that is removed or a button that has been of use, what held it gets the
// focus: who works by keys stays at the place, and does not begin at the top again.

const holders = "li, ul, .buttons, .foot, .scroll, section, main";

/** An element and what holds it, from the inside. */
export function chainOf(element: Element | null): HTMLElement[] {
  const chain: HTMLElement[] = [];
  for (let x = element; x; x = x.parentElement) chain.push(x as HTMLElement);
  return chain;
}

/** Focuses the element of a chain, or the innermost of what held it that is still there. */
export function refocus(chain: HTMLElement[]) {
  const next = chain.find((x, i) => x.isConnected && (i === 0 || x.matches(holders))) ?? document.getElementById("main");
  if (!next) return;
  if (next !== chain[0] && !next.hasAttribute("tabindex")) next.tabIndex = -1;
  next.focus({ preventScroll: next !== chain[0] });
}

let last: HTMLElement[] = [];

document.addEventListener("focusin", (e) => { last = chainOf(e.target as Element); });

new MutationObserver(() => {
  if (document.activeElement === document.body && last.length && !last[0]!.isConnected) refocus(last);
}).observe(document.body, { childList: true, subtree: true });
