// Package storetest checks that a store keeps the contract of package store.
// Every store must pass it, ours or one of somebody else:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//
// Law01 to Law12, and Claims, Starts, Reads, Nodes, Changed for what single
// methods promise, are subtests of these names: one case for each rule, which
// prints the rule when it fails.
package storetest
