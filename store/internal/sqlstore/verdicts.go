package sqlstore

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-run/stet/store"
)

const (
	// maxTurns bounds how many turns DecodeVerdicts believes a batch to have.
	maxTurns = 1 << 20
	// lastVerdict is the highest verdict.
	lastVerdict = store.Busy
)

// EncodeVerdicts returns the stored form of verdicts. It begins with their number. Each
// verdict other than Committed follows as its index, its number, and its reason with the
// length before it. Numbers are varints.
func EncodeVerdicts(turns []store.TurnResult) []byte {
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

// DecodeVerdicts is the inverse of EncodeVerdicts. The error wraps store.ErrDamaged.
func DecodeVerdicts(data []byte) ([]store.TurnResult, error) {
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
