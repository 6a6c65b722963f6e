package main

import (
	"testing"

	"github.com/stet-run/stet/api"
)

// TestShowSaysHowMuchOfItsBudgetAHistoryHasUsed: from a half on it says what happens at the end.
func TestShowSaysHowMuchOfItsBudgetAHistoryHasUsed(t *testing.T) {
	ends := "; when all is used it stalls until Config.MaxEntries or MaxBytes is raised"
	for _, row := range []struct {
		used api.HistoryUse
		want string
	}{
		{api.HistoryUse{MaxEntries: 100, MaxBytes: 1 << 20}, ""},
		{api.HistoryUse{Entries: 3, MaxEntries: 100, MaxBytes: 1 << 20}, "3 of 100 entries (3%), 0 B of 1.0 MiB (0%)"},
		{api.HistoryUse{Entries: 49, Bytes: 2048, MaxEntries: 100, MaxBytes: 1 << 20},
			"49 of 100 entries (49%), 2.0 KiB of 1.0 MiB (0%)"},
		{api.HistoryUse{Entries: 50, Bytes: 2048, MaxEntries: 100, MaxBytes: 1 << 20},
			"50 of 100 entries (50%), 2.0 KiB of 1.0 MiB (0%)" + ends},
		{api.HistoryUse{Entries: 1, Bytes: 850 << 10, MaxEntries: 100, MaxBytes: 1000 << 10},
			"1 of 100 entries (1%), 850.0 KiB of 1000.0 KiB (85%)" + ends},
		{api.HistoryUse{Entries: 1, Bytes: 1}, ""}, // a server of a former version
	} {
		if got := usedText(&row.used); got != row.want {
			t.Errorf("%+v: expected %q, found %q", row.used, row.want, got)
		}
	}
}
