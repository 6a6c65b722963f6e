// Package memory is a store in the process's memory: the executable
// specification of the contract in package store, and the store for tests.
// Nothing survives the process.
//
// One mutex guards everything, and every act is a straight reading of the
// contract; where another store needs an index, this one looks at every run
// that could matter. It is the oracle that other stores are compared with.
//
// # Several processes
//
// [Store.Join] returns a further handle on the same data, as another process
// would have. Changed of one handle reports the acts of the others. A handle that is
// closed while its node holds leases is a process that was killed: its leases can be
// taken at once and its runs become suspect.
package memory
