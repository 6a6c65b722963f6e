package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (rc runCommands) showCommand() *cobra.Command {
	var full, named, recorded, path bool
	cmd := &cobra.Command{
		Use:   "show RUN...",
		Short: "show runs: their waits, their operations, their errors",
		Long: `Shows everything that is recorded of runs: status, owner, what each waits for and
since when, its inbox, the tree of its operations, and its error with causes and
stacks. With - the IDs are read from standard input. Operations are listed as a tree,
in the order in which the code has asked for them, or with --by-name by name;
--recorded lists them in the order in which they completed.

--path shows the critical path instead: the one chain of operations that the run's time
went to, each requested because the one before it had ended. BEFORE is the time from
there until the operation began: code, commits, and waits for a permit or a place. What
is not on the path could be faster, and the run would not end earlier. A second table says
what the run's time was spent on; its rows add up to all of it.`,
		Args: someRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := rc.runIDs(args)
			if err != nil {
				return err
			}
			order := byTime
			switch {
			case named && recorded:
				return usage(errors.New("expected one of --by-name and --recorded, found both"))
			case path && (named || recorded || full):
				return usage(errors.New("expected --path alone, found it with --by-name, --recorded or --full"))
			case named:
				order = byName
			case recorded:
				order = asRecorded
			}
			width := 60
			if full {
				width = math.MaxInt
			}
			return rc.reading(cmd.Context(), func(from side) error {
				if path {
					return rc.showPaths(cmd.Context(), from, ids)
				}
				var problems []error
				for i, id := range ids {
					if i > 0 && rc.output == formTable {
						fmt.Fprintln(rc.out)
					}
					if err := rc.show(cmd.Context(), from, id, width, story{order: order, recorded: recorded}); err != nil {
						problems = append(problems, err)
					}
				}
				return joinRuns(problems)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "do not shorten values")
	cmd.Flags().BoolVar(&named, "by-name", false, "list operations by name")
	cmd.Flags().BoolVar(&path, "path", false, "show the critical path")
	cmd.Flags().BoolVar(&recorded, "recorded", false, "list operations in the order in which they completed")
	return cmd
}

// story is everything that show prints of a run.
type story struct {
	dead       int // letters; as many as are counted
	run        *api.Run
	info       *stet.RunInfo
	operations []operation
	order      func([]operation)
	recorded   bool // operations are in the order in which they completed, and no tree
	inbox      []api.Item
	shown      *api.Shown
	audit      []api.Audit
	used       api.HistoryUse
	cluster    *cluster
	queue      *stet.QueueInfo // of the run; nil: none
	missing    map[string]bool // queues that the run waits for and that do not exist
}

// show prints a run, its operations in the order of the story. Values in tables are cut to
// width characters.
func (rc runCommands) show(ctx context.Context, from side, id string, width int, it story) error {
	run, err := from.run(ctx, id)
	if err != nil {
		return err
	}
	it.run, it.info = run.Run, run.info
	if it.operations, err = from.operations(ctx, id); err != nil {
		return err
	}
	it.order(it.operations)
	if it.inbox, err = from.inbox(ctx, run); err != nil {
		return err
	}
	if it.info.Status.Terminal() { // the runs that wait for its end have been notified
		it.inbox = slices.DeleteFunc(it.inbox, func(i api.Item) bool { return i.Kind == store.ItemWatch.String() })
	}
	if it.shown, err = from.shown(ctx, run); err != nil {
		return err
	}
	if it.audit, err = from.audit(ctx, run); err != nil {
		return err
	}
	shape, err := from.shape(ctx, run.ID)
	if err != nil {
		return err
	}
	it.used = shape.Used
	letters, err := from.letters(ctx, store.DeadFilter{RunIDs: []string{run.ID}, Limit: pageRuns})
	if err != nil {
		return err
	}
	it.dead = len(letters.Letters)
	if it.cluster, err = from.nodes(ctx); err != nil {
		return err
	}
	for i := range it.operations {
		o := &it.operations[i]
		if o.on = it.cluster.executor(it.info); !o.Since.IsZero() {
			o.mark = it.cluster.mark(o.Since)
		}
	}
	if err := it.readQueues(ctx, from); err != nil {
		return err
	}
	switch rc.output {
	case formIDs:
		return rc.id(run.ID)
	case formJSON:
		return rc.json(it.view())
	}
	return rc.tell(&it, width)
}

// readQueues reads the queue that the run is on, and finds out which of those that it
// waits for are missing.
func (it *story) readQueues(ctx context.Context, from side) error {
	names := map[string]bool{} // true: the run's own
	for i := range it.info.WaitsFor {
		if name := it.info.WaitsFor[i].Queue; name != "" {
			names[name] = false
		}
	}
	if q := it.info.OnQueue; q != nil {
		names[q.Name] = true
	}
	it.missing = map[string]bool{}
	for name, own := range names {
		switch q, err := from.queue(ctx, name); {
		case errors.Is(err, stet.ErrNoQueue):
			it.missing[name] = !own || it.info.OnQueue.Waits
		case err != nil:
			return err
		case own:
			it.queue = q
		}
	}
	maps.DeleteFunc(it.missing, func(_ string, waits bool) bool { return !waits })
	return nil
}

// acts returns the table of operators' acts.
func acts(audit []api.Audit, width int) *grid {
	g := &grid{headers: []string{"ACT", "WHEN", "WHO", "WHY", "WHAT"}}
	for i := range audit {
		x := &audit[i]
		g.add(printable(x.Verb), moment(store.TimeOf(x.Time)), printable(x.Who), short(x.Why, width),
			short(x.Detail, max(width, 200)))
	}
	return g
}

// view returns the story as JSON.
func (it *story) view() any {
	return struct {
		*api.Run
		Owner      string           `json:"owner"`
		Lacks      string           `json:"lacks,omitempty"` // what it needs that no process has
		Inbox      []api.Item       `json:"inbox,omitempty"`
		Values     []api.NamedValue `json:"values,omitempty"`
		Streams    []api.Stream     `json:"streams,omitempty"`
		Operations []operation      `json:"operations"`
		Audit      []api.Audit      `json:"audit,omitempty"`
		Used       api.HistoryUse   `json:"used"` // of what its history may have
	}{
		it.run, it.cluster.owner(it.info.Shard), it.cluster.lacks(it.info),
		it.inbox, it.shown.Values, it.shown.Streams, it.operations, it.audit, it.used,
	}
}

// tell prints the story in tables.
func (rc runCommands) tell(it *story, width int) error {
	if err := rc.print(it.facts(width)); err != nil {
		return err
	}
	if len(it.operations) > 0 {
		fmt.Fprintln(rc.out)
		if err := rc.print(tree(it, width)); err != nil {
			return err
		}
	}
	if failed := tries(it.operations, width); len(failed.rows) > 0 {
		fmt.Fprintln(rc.out)
		if err := rc.print(failed); err != nil {
			return err
		}
	}
	if len(it.audit) > 0 {
		fmt.Fprintln(rc.out)
		if err := rc.print(acts(it.audit, width)); err != nil {
			return err
		}
	}
	failure := it.run.Error
	if failure == nil {
		return nil
	}
	_, err := fmt.Fprintf(rc.out, "\nERROR\n%s", printable(failure.String()))
	return err
}

// isVerb reports whether items of a kind ask for something of a run.
func isVerb(kind string) bool {
	for k := store.ItemKind(0); k < math.MaxUint8; k++ {
		if k.Verb() && k.String() == kind {
			return true
		}
	}
	return false
}

// why returns what a Why says, with the time and how long ago it was.
func (it *story) why(w *stet.Why) string {
	c := *it.cluster
	c.absolute = true
	text := c.why(w)
	if !w.Since.IsZero() && it.info.Ended.IsZero() {
		at := c.since(w.Since)
		text = strings.Replace(text, " since "+at, " since "+at+" ("+duration(c.Now.Time().Sub(w.Since))+")", 1)
	}
	return text
}

// maxShownItems is how many items of an inbox show lists; the rest are counted.
const maxShownItems = 20

// facts returns the upper table: the run itself.
func (it *story) facts(width int) *grid {
	info, now := it.info, it.cluster.Now
	g := &grid{}
	fact := func(name, value string) {
		if value != "" {
			g.add(name, value)
		}
	}
	statusRow := 2
	fact("run", printable(info.ID))
	fact("workflow", printable(info.Workflow))
	fact("status", statusText(info))
	fact("cause", string(info.Cause))
	fact("reason", short(info.Reason, math.MaxInt))
	fact("not undone", printable(strings.Join(it.run.Owed, ", ")))
	fact("created", moment(store.TimeOf(info.Created)))
	fact("forked", it.origin())
	if !info.Started.IsZero() {
		fact("started", moment(store.TimeOf(info.Started)))
	}
	if !info.Ended.IsZero() {
		fact("ended", moment(store.TimeOf(info.Ended)))
	}
	if !info.Started.IsZero() {
		fact("duration", took(info, now.Time()))
	}
	if !info.Wake.IsZero() {
		fact("wakes at", moment(store.TimeOf(info.Wake)))
	}
	if info.OnQueue != nil {
		fact("queue", printable(info.OnQueue.String()))
	}
	if q := it.queue; q != nil && info.OnQueue.Waits {
		fact("", printable(queueText(q)))
	}
	for i := range info.Why {
		w := &info.Why[i]
		fact("why", printable(it.why(w)))
		fact("help", w.Help)
	}
	for _, name := range slices.Sorted(maps.Keys(it.missing)) {
		fact("", printable(fmt.Sprintf(
			"there is no queue %s: the application declares queues, or stet queue create makes one", name)))
	}
	permits := map[string]int{} // that steps hold, by queue
	shown, held, bytes := 0, 0, 0
	for i := range it.inbox {
		item := &it.inbox[i]
		if item.Kind == store.ItemGrant.String() && item.Location != "" {
			permits[item.Name]++
			continue
		}
		held, bytes = held+1, bytes+item.Size
		if shown++; shown > maxShownItems {
			continue
		}
		what := strings.TrimSpace(fmt.Sprintf("%s %s", item.Kind, item.Name))
		if isVerb(item.Kind) && item.Name != "" {
			what = fmt.Sprintf("%s by %s", item.Kind, item.Name)
		}
		if item.By != "" {
			what += " by " + item.By
		}
		fact("in its inbox", printable(what)+", sent "+moment(store.TimeOf(item.Sent)))
	}
	if held > 1 {
		fact("inbox", strings.TrimSuffix(fmt.Sprintf("%d items, %s", held, amount(bytes)), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(permits)) {
		fact("has permits", printable(fmt.Sprintf("%d of queue %s", permits[name], name)))
	}
	if it.dead > 0 {
		fact("dead letters", fmt.Sprintf("%d, see stet deadletters ls", it.dead))
	}
	if info.Suspect > 0 {
		fact("suspect", fmt.Sprintf("%d times its process ended while it was executed", info.Suspect))
	}
	fact("owner", printable(it.cluster.owner(info.Shard)))
	fact("build", printable(info.Build))
	fact("number", positive(int64(info.Number)))
	if info.Parent != 0 {
		fact("parent", printable(fmt.Sprintf("%s (number %d)", cmp.Or(info.ParentID, "deleted"), info.Parent)))
		fact("place", printable(placeOf(info)))
	}
	fact("incarnation", positive(int64(info.Incarnation)))
	fact("generation", positive(int64(info.Generation)))
	for _, key := range slices.Sorted(maps.Keys(info.Tags)) {
		fact("tag", printable(key+"="+info.Tags[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(info.Headers)) {
		fact("header", printable(key+"="+info.Headers[key]))
	}
	fact("policy", info.Policy.String())
	for _, v := range it.shown.Values {
		fact("value", printable(v.Name)+" "+short(string(v.Value), width)+", set "+moment(store.TimeOf(v.At)))
	}
	for _, f := range it.shown.Streams {
		kept := ""
		if f.Dropped > 0 {
			kept = fmt.Sprintf(", of which the newest %d are kept", f.Last-f.Dropped)
		}
		fact("stream", printable(fmt.Sprintf("%s, %d items%s, the last one %s", f.Name, f.Last, kept,
			moment(store.TimeOf(f.At)))))
	}
	fact("history", usedText(&it.used))
	fact("input", short(string(it.run.Input), width))
	fact("input size", amount(info.InputSize))
	if info.Status == store.Succeeded {
		fact("result", short(string(it.run.Output), width))
		fact("result size", amount(info.OutputSize))
	}
	g.style = func(row, column int) lipgloss.Style {
		switch {
		case column == 0:
			return lipgloss.NewStyle().Faint(true)
		case row == statusRow:
			return statusStyle(info.Status)
		}
		return lipgloss.NewStyle()
	}
	return g
}

// tree returns the table of operations, each under the branches in which it stands. As
// recorded they are no tree, and each has its whole location.
func tree(it *story, width int) *grid {
	operations, now := it.operations, it.cluster.Now.Time()
	const stateColumn = 2
	g := &grid{headers: []string{"OPERATION", "KIND", "STATE", "ORDER", "ATTEMPTS", "DURATION", "SIZE", "VALUE"}}
	var open []string // the path of the row above
	for i := range operations {
		o := &operations[i]
		path := strings.Split(o.Location, "/")
		if it.recorded {
			path = []string{o.Location}
		}
		base := len(path) - 1
		shared := 0
		for shared < min(base, len(open)) && open[shared] == path[shared] {
			shared++
		}
		for depth := shared; depth < base; depth++ {
			g.add(strings.Repeat("  ", depth)+printable(path[depth])+"/", "", "", "", "", "", "", "")
		}
		g.add(strings.Repeat("  ", base)+printable(path[base]), o.Kind, o.state(), positive(o.Number),
			positive(int64(o.Attempts)), o.took(now), amount(o.Size), short(o.result(), width))
		open = path
	}
	g.style = func(row, column int) lipgloss.Style {
		if column == stateColumn && g.rows[row][column] == store.FailedEntry.String() {
			return lipgloss.NewStyle().Foreground(lipgloss.Red)
		}
		return lipgloss.NewStyle()
	}
	return g
}

// origin says of which run this one is a fork, or "".
func (it *story) origin() string {
	i := slices.IndexFunc(it.audit, func(a api.Audit) bool { return a.Verb == "fork" })
	if i < 0 {
		return ""
	}
	return short(it.audit[i].Detail, math.MaxInt)
}

// usedText says how much of its budget a history has used. With half of it or more it says what happens at the end.
func usedText(u *api.HistoryUse) string {
	if u.Entries == 0 || u.MaxEntries <= 0 || u.MaxBytes <= 0 {
		return ""
	}
	entries, bytes := u.Entries*100/u.MaxEntries, u.Bytes*100/u.MaxBytes
	text := fmt.Sprintf("%d of %d entries (%d%%), %s of %s (%d%%)",
		u.Entries, u.MaxEntries, entries, cmp.Or(amount(u.Bytes), "0 B"), amount(u.MaxBytes), bytes)
	if max(entries, bytes) >= 50 {
		text += "; when all is used it stalls until Config.MaxEntries or MaxBytes is raised"
	}
	return text
}

// positive returns n as text, or nothing for 0.
func positive(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
