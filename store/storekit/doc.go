// Package storekit helps those who write a store: what several stores do in the same
// way, and callers of a store never need. The contract itself is package store, the
// suite that a store must pass is package store/storetest.
//
//   - [Claimable] decides whether a command claims its run in the same act (law 14).
//   - [UnwatchableEnd] answers a watch that no run gets (law 15).
//   - [ValidateCommands], [ValidateShards] check what callers give, before anything changes.
//   - [ChangeOf], [EncodeChange], [DecodeChange], [Changes] make, send and collect hints.
//   - [Monotonic] is a clock that goes on when the machine's is set back.
package storekit
