// Package stet runs durable workflows: ordinary Go functions that survive
// crashes, deploys and machine loss.
//
// Every durable operation of a workflow, such as a [Step] or a [Sleep], is
// written to a store when it completes. If the process dies, any process that has
// the code takes the run up, replays what stands, and goes on from there.
package stet
