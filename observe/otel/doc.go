// Package otel makes OpenTelemetry traces and metrics of what stet does. It uses the API of
// OpenTelemetry, never its SDK: the application configures that.
//
//	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(otel.IDs{}))
//	observer, err := otel.New(otel.Tracer(provider), otel.IDs{}, otel.Cut(time.Hour))
//	engine, err := stet.New(ctx, stet.Config{Store: s, Workflows: w, Observer: observer})
//
// # Traces
//
// A start and a message carry the caller's trace in the headers traceparent and tracestate,
// which children inherit. So a trace goes on across processes and days:
//
//	start W         the caller's start of a run of workflow W
//	  run W         the run, emitted once, at its end, with both times
//	    attempt S   one attempt of step S
//	    wait S      a wait that is over: a sleep, a message, a child, …
//	    send M      a message that the run's code has sent
//	send M          a message that a caller sends
//
// No span is open while a run waits, and none is emitted when a run is replayed. A message
// that was received is a link of the wait for it, and the run before a rewind is one of the
// run after it. Attributes are stet.workflow, stet.run.id, stet.location and stet.attempt, and
// stet.node, the process that has executed the attempt or ended the run or its wait.
//
// With Cut a run that has waited for long goes on in another trace, which is linked.
//
// The ID of a run's span is derived from random bytes of the run, in every process the same.
// If the provider makes IDs by IDs, the run's attempts are children of the span that is
// emitted at its end; otherwise they are children of the start's, beside it.
package otel
