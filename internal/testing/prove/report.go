package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// budgetFile has what the tests of each package may cost, from the root of the repository: a line for a package, with
// seconds of processor of its own process and its children. Its first line is the calibration of the machine that
// measured them.
const budgetFile = "internal/testing/budget/seconds.txt"

// budget is the content of budgetFile.
type budget struct {
	calibration time.Duration
	figures     map[string]time.Duration
}

const modulePath = "github.com/stet-run/stet"

// relative returns a package's folder from the root of the repository.
func relative(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	return strings.TrimPrefix(pkg, modulePath+"/")
}

func budgetPath() (string, error) {
	root, err := repository()
	return filepath.Join(root, filepath.FromSlash(budgetFile)), err
}

func readBudget() (budget, error) {
	b := budget{figures: map[string]time.Duration{}}
	path, err := budgetPath()
	if err != nil {
		return b, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			return b, fmt.Errorf("%s: expected a package and seconds, found %q", budgetFile, line)
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return b, fmt.Errorf("%s: %w", budgetFile, err)
		}
		if d := time.Duration(seconds * float64(time.Second)); f[0] == "calibration" {
			b.calibration = d
		} else {
			b.figures[f[0]] = d
		}
	}
	return b, nil
}

func (b budget) write() error {
	path, err := budgetPath()
	if err != nil {
		return err
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "calibration\t%.2f\n", b.calibration.Seconds())
	for _, name := range slices.Sorted(maps.Keys(b.figures)) {
		fmt.Fprintf(w, "%s\t%.1f\n", name, b.figures[name].Seconds())
	}
	return errors.Join(w.Flush(), os.WriteFile(path, []byte(text.String()), 0o644))
}

// Above tolerance times its figure, and slack more, a package is over its budget.
const (
	tolerance = 1.5
	slack     = time.Second
)

// measured returns the processor time of each package's tests.
func (r *runner) measured() (map[string]time.Duration, error) {
	costs, err := readCosts(r.costs)
	if err != nil {
		return nil, err
	}
	found := map[string]time.Duration{}
	for dir, c := range costs {
		found[r.name(dir)] = c.Processor
	}
	return found, nil
}

// holdBudget compares what each package cost with its figure, or writes the figures. A machine that takes longer for a
// fixed piece of work may take as much longer for the tests. The same work costs more processor time beside other work,
// which has the other half of a processor and its cache. So a package that is over its budget is measured once more,
// alone, and the second cost counts.
func (r *runner) holdBudget() error {
	found, err := r.measured()
	if err != nil {
		return err
	}
	now, b, err := thisMachine()
	if err != nil {
		return err
	}
	if r.o.update {
		if r.o.only == nil {
			b.figures = map[string]time.Duration{}
		}
		maps.Copy(b.figures, found)
		b.calibration = now
		return b.write()
	}
	if os.Getenv("STET_SOAK") != "" || os.Getenv("STET_TEST_FAULTS") != "" {
		return nil // more cases than the budget is for
	}
	over := b.over(found, now)
	if len(over) > 0 && len(over) <= mostAlone {
		if found, err = r.costAlone(over); err != nil {
			return err
		}
		if now, err = slowness(); err != nil {
			return err
		}
		over = b.over(found, now)
	}
	if len(over) > 0 {
		text := "over the budget of tests:"
		for _, x := range over {
			text += "\n" + x.why
		}
		return errors.New(text)
	}
	return nil
}

// costAlone measures packages that are over their budget once more, one at a time.
func (r *runner) costAlone(over []excess) (map[string]time.Duration, error) {
	all := r.costs
	defer func() { r.costs = all }()
	f, err := os.CreateTemp("", "stet-costs")
	if err != nil {
		return nil, err
	}
	r.costs = f.Name()
	defer os.Remove(r.costs)
	if err := f.Close(); err != nil {
		return nil, err
	}
	r.o.packages = 1
	for _, x := range over {
		fmt.Printf("over its budget beside other packages: %s; once more, alone\n", x.name)
		dir, pkg := "", path.Join(modulePath, x.name)
		if name, ok := strings.CutPrefix(x.name, "tools/"); ok {
			dir, pkg = filepath.Join(r.root, "tools"), "./"+name
		}
		if err := r.run(dir, nil, []string{pkg}); err != nil {
			return nil, err
		}
	}
	return r.measured()
}

// thisMachine returns what a fixed piece of work takes here, and the budget with what it took where that was made.
func thisMachine() (now time.Duration, b budget, err error) {
	if b, err = readBudget(); err == nil {
		now, err = slowness()
	}
	return now, b, err
}

// excess is a package whose tests cost more than their budget.
type excess struct {
	name string // the package's folder from the root of the repository
	why  string
}

// over returns the packages whose cost is above their budget. now is the calibration of this machine.
func (b budget) over(found map[string]time.Duration, now time.Duration) (over []excess) {
	factor := max(1, float64(now)/float64(b.calibration))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		figure, ok := b.figures[name]
		limit := time.Duration(tolerance*factor*float64(figure)) + slack
		switch {
		case !ok:
			why := fmt.Sprintf("%s has no figure in %s: run prove -update %[1]s", name, budgetFile)
			over = append(over, excess{name, why})
		case found[name] > limit:
			why := fmt.Sprintf("%s: expected at most %.1f s of processor (%.1f × %.1f × %.2f for this machine), found %.1f: "+
				"make its tests lighter, or say in the commit why it costs more", name, limit.Seconds(), figure.Seconds(),
				tolerance, factor, found[name].Seconds())
			over = append(over, excess{name, why})
		}
	}
	return over
}

// report prints where the time went, what was skipped, and the sums.
func (r *runner) report(out io.Writer, parts []part) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\npart\tseconds\t")
	for _, p := range parts {
		fmt.Fprintf(w, "%s\t%.1f\t\n", p.name, p.took.Seconds())
	}
	if costs, err := readCosts(r.costs); err == nil {
		var sum time.Duration
		list := slices.Collect(maps.Values(costs))
		for _, c := range list {
			sum += c.Processor
		}
		slices.SortFunc(list, func(a, b cost) int { return cmp.Compare(b.Processor, a.Processor) })
		fmt.Fprintf(w, "\nslowest packages\tprocessor\twall\twaited\t\n")
		for _, c := range list[:min(10, len(list))] {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t\n", r.name(c.Dir), c.Processor.Seconds(), c.Wall.Seconds(),
				c.Waited.Seconds())
		}
		fmt.Fprintf(w, "all %d packages\t%.1f\t\t\t\n", len(list), sum.Seconds())
	}
	if now, b, err := thisMachine(); err == nil {
		fmt.Fprintf(w, "this machine\t%.2f\tfor %.2f\t\t\n", now.Seconds(), b.calibration.Seconds())
	}
	slices.SortFunc(r.ended, func(a, b result) int { return cmp.Compare(b.elapsed, a.elapsed) })
	fmt.Fprintf(w, "\nslowest tests\twall\t\n")
	for _, t := range r.ended[:min(10, len(r.ended))] {
		fmt.Fprintf(w, "%s %s\t%.1f\t\n", relative(t.pkg), t.test, t.elapsed.Seconds())
	}
	_ = w.Flush() // it writes to the terminal
	skipped := 0
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		skipped += r.skipped[reason]
		fmt.Fprintf(out, "skipped: %d: %s\n", r.skipped[reason], reason)
	}
	for _, t := range r.rescued {
		fmt.Fprintf(out, "starved: %s failed, and passed alone\n", t)
	}
	for _, t := range r.failed {
		fmt.Fprintf(out, "failed: %s\n", t)
	}
	fmt.Fprintf(out, "starved: %d\n", len(r.rescued))
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), skipped)
}

// name returns a package's folder from the root of the repository.
func (r *runner) name(dir string) string {
	name, err := filepath.Rel(r.root, dir)
	if err != nil {
		return dir
	}
	return filepath.ToSlash(name)
}
