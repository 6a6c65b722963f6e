package main

import (
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// TestSurvivesACrashAtEveryCommit kills the process at each commit of a run and lets another one finish it. The real
// program is killed in kill_test.go; here no moment is left out.
func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	const files = 2*batchFiles + batchFiles/2
	dir := writeTree(t, manyFiles(files))
	want := sumOf(t, "--db", t.TempDir()+"/sum.db", dir).Sum
	sum, err := stettest.CrashEverywhere(t, stet.Define("treesum", new(tree).sum), Job{Path(dir)})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Files != files || sum.Digest != want.Digest || sum.Bytes != want.Bytes || sum.Lines != want.Lines {
		t.Errorf("the sum is %+v, want %+v", sum, want)
	}
}
