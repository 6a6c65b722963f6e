package payload

import (
	"testing"

	"github.com/stet-run/stet/store"
)

// BenchmarkSealTurn seals the turn of one step with a value of 100 bytes.
func BenchmarkSealTurn(b *testing.B) {
	turn := &store.Turn{Run: 17, Entries: []store.Entry{{Loc: "fetch", Value: random(100)}}}
	for name, p := range map[string]*Policy{"nothing": New(Config{}), "encrypt": New(Config{Keys: []Key{testKey("k")}}),
		"compress": New(Config{Compress: 50})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.SealTurn(b.Context(), turn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
