package postgres

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-run/stet/store"
)

// A batch is applied once although its answer may be lost: its number and
// verdicts stand in the node's row, written by the same transaction.

// encodeVerdicts returns the stored form of verdicts: how many there are, then of
// each that is not Committed its index, the verdict, and the reason with its
// length. Numbers are varints.
func encodeVerdicts(turns []store.TurnResult) []byte {
	out := binary.AppendUvarint(nil, uint64(len(turns)))
	for i, r := range turns {
		if r.Verdict == store.Committed {
			continue
		}
		out = binary.AppendUvarint(out, uint64(i))
		out = binary.AppendUvarint(out, uint64(r.Verdict))
		out = binary.AppendUvarint(out, uint64(len(r.Reason)))
		out = append(out, r.Reason...)
	}
	return out
}

const (
	// maxTurns bounds what decodeVerdicts believes.
	maxTurns = 1 << 20
	// lastVerdict is the highest verdict.
	lastVerdict = store.Busy
)

func decodeVerdicts(data []byte) ([]store.TurnResult, error) {
	damaged := fmt.Errorf("%w: the verdicts of the last batch cannot be read", store.ErrDamaged)
	next := func(limit uint64) uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > limit {
			data = nil
			return limit + 1
		}
		data = data[n:]
		return v
	}
	count := next(maxTurns)
	if count > maxTurns {
		return nil, damaged
	}
	results := make([]store.TurnResult, count)
	for i := range results {
		results[i].Verdict = store.Committed
	}
	for len(data) > 0 {
		i, verdict := next(count-1), next(uint64(lastVerdict))
		length := next(uint64(len(data)))
		if i >= count || verdict > uint64(lastVerdict) || length > uint64(len(data)) {
			return nil, damaged
		}
		results[i] = store.TurnResult{Verdict: store.Verdict(verdict), Reason: string(data[:length])}
		data = data[length:]
	}
	return results, nil
}
