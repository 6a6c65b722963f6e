// The filter's text: the one language of the command line, the API and this page. Chips and buttons edit the text.

/** The terms of a query: spaces part them, but not within double quotes. */
export function terms(query: string): string[] {
  return query.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
}

export const field = (term: string) => /^[^=<>]*[=<>]?/.exec(term)![0];

/** The values of a field's term: of status=failed,stalled with "status=" both. */
export function values(query: string, of: string): string[] {
  const term = terms(query).find((t) => field(t) === of);
  return term ? term.slice(of.length).match(/(?:"(?:\\.|[^"\\])*"?|[^,"])+/g) ?? [] : [];
}

/** The query with other values of a field; without any, the term goes. */
export function withValues(query: string, of: string, list: string[]): string {
  const rest = terms(query);
  const at = rest.findIndex((t) => field(t) === of);
  const term = list.length ? [of + list.join(",")] : [];
  if (at < 0) return [...rest, ...term].join(" ");
  rest.splice(at, 1, ...term);
  return rest.join(" ");
}

export const without = (query: string, term: string) => terms(query).filter((t) => t !== term).join(" ");

/** A value as the language takes it: in quotes where it must be. */
export const quoted = (v: string) => /^[^\s",*\u0000-\u001f]+$/.test(v) ? v : JSON.stringify(v);

export function toggled(query: string, of: string, value: string): string {
  const list = values(query, of);
  return withValues(query, of, list.includes(value) ? list.filter((v) => v !== value) : [...list, value]);
}
