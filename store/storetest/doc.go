// Package storetest checks that a store keeps the contract of package store. Every store must pass it, in this
// repository or elsewhere:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//
// It has three parts, each a subtest of its own name:
//
//   - Law01 to Law29, and Claims, Starts, Reads, Nodes, Changed for the promises of single
//     methods: one case for each rule, which prints the rule when it fails;
//   - Scripts: sequences of operations kept in files, those of this package and
//     those in testdata/scripts of the package under test;
//   - Differential: random operations.
//
// Scripts and random operations are carried out in lock-step on the store and on store/memory, which is the
// specification. Every answer is compared, and after every operation the visible state of the two; the invariants of a
// store at rest are checked on both. Numbers of runs and items, and epochs, may differ between stores: they are
// translated by the order in which they appear.
//
// A random sequence that fails is made as short as possible and written to testdata/scripts of the package under test,
// where Scripts finds it from then on. The environment variable STET_SOAK multiplies their number, and STET_SEED tries
// one seed alone.
package storetest
