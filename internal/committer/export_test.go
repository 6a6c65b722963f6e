package committer

import "github.com/stet-run/stet/store"

// RowsOf returns how many rows a turn counts in a batch.
func RowsOf(t *store.Turn) int { return sizeOfTurn(t).rows }
