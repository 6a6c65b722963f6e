// Package observe is what the modules observe/prom and observe/otel have alike, for authors of
// other ones: how an attempt has ended in one word, a bound for the names that become labels,
// and the gauges of a store, which are read within a share of the time.
//
// A user takes one of these modules; see docs/guide/metrics.md.
package observe
