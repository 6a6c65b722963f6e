// Package prom makes Prometheus metrics of what stet does. New registers them and returns an
// observer for stet.Config:
//
//	observer, err := prom.New(prometheus.DefaultRegisterer, prom.Options{})
//	engine, err := stet.New(ctx, stet.Config{Store: s, Workflows: w, Observer: observer})
//
// Labels are workflows, steps, groups, queues and words of a fixed set; never an ID, a key, a
// tenant or a text. A metric has 1,000 sets of labels at most: names that come later are
// counted as "other".
//
// The gauges of the store (Options.Store) read it, for at most one part in a hundred of the
// time: between two readings their values are those of the last one. One process of a store
// should have them, such as its server.
package prom
