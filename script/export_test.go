package script

// Processor is the processor time of the process, for benchmarks.
var Processor = processor
