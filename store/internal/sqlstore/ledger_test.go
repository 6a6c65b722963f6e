package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stet-run/stet/store"
)

// steps are the texts of migrations, as files.
func steps(texts ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i, text := range texts {
		files["migrations/000"+string(rune('1'+i))+"_x.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestMigrationsAreReadInTheirOrder(t *testing.T) {
	list, err := Migrations(steps("-- oldest: 1\na", "-- oldest: 2\nb", "-- oldest: 2\nc"))
	if err != nil || len(list) != 3 {
		t.Fatalf("got %d, %v", len(list), err)
	}
	for i, want := range []struct {
		name, end string
		oldest    int
	}{{"0001_x.sql", "a", 1}, {"0002_x.sql", "b", 2}, {"0003_x.sql", "c", 2}} {
		if m := list[i]; m.Name != want.name || !strings.HasSuffix(m.SQL, want.end) || m.Oldest != want.oldest ||
			len(m.Sum) != 64 {
			t.Errorf("expected %v, got %+v", want, m)
		}
	}
}

func TestAMigrationSaysWhichBinariesMayGoOn(t *testing.T) {
	for _, text := range []string{"", "a", "-- oldest: 0\n", "-- oldest: 2\n", "-- oldest: x\n"} {
		if _, err := Migrations(steps(text)); err == nil || !strings.Contains(err.Error(), "0001_x.sql") {
			t.Errorf("%q: expected an error that names the file, got %v", text, err)
		}
	}
}

func TestALedgerIsComparedWithWhatThisBinaryKnows(t *testing.T) {
	type row struct {
		number int
		sum    string
		oldest int
	}
	known := []Migration{{Sum: "a"}, {Sum: "b"}}
	for _, c := range []struct {
		name, says string
		rows       []row
	}{
		{"none", "", nil},
		{"older", "", []row{{1, "a", 1}}},
		{"equal", "", []row{{1, "a", 1}, {2, "b", 1}}},
		{"newer that keeps this binary", "", []row{{1, "a", 1}, {2, "b", 1}, {3, "c", 2}}},
		{"newer", "needs a binary that knows schema 3; this one knows 2", []row{{1, "a", 1}, {2, "b", 1}, {3, "c", 3}}},
		{"a newer one that was the first to need it", "knows schema 3", []row{{1, "a", 1}, {2, "b", 1}, {3, "c", 3}, {4, "d", 1}}},
		{"a hole", "the ledger of here lacks migration 2", []row{{1, "a", 1}, {3, "c", 1}}},
		{"another text", "another text", []row{{1, "x", 1}}},
	} {
		l := Ledger{Where: "here", Known: known}
		var err error
		for _, r := range c.rows {
			if err = l.Add(r.number, "m", r.sum, r.oldest); err != nil {
				break
			}
		}
		if err == nil {
			err = l.Check()
		}
		switch {
		case c.says == "" && (err != nil || l.Version != len(c.rows)):
			t.Errorf("%s: version %d, %v", c.name, l.Version, err)
		case c.says != "" && (!errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: expected an error that says %q, got %v", c.name, c.says, err)
		}
	}
}
