// Package sqlstore holds the rules that the SQL stores share: what a turn may do to
// its run, how commands, sweeps and feeds are carried out, and the stored forms of
// verdicts, tags and origins. A law of the contract that both stores keep stands here
// once.
//
// The package executes statements through small interfaces that each store fulfils.
// Where both databases take the same statement, it stands here as well; where they
// differ (a hint, a cast, values kept in a table of their own) the store supplies the
// act. Connections, claims, leases and the fast ways to write a batch are the stores'
// own. The memory store shares nothing with this package: it is the oracle against
// which the SQL stores are tested.
package sqlstore
