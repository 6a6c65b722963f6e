package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Describe implements store.Store.
func (l *lane) Describe(ctx context.Context) (store.Description, error) {
	replies, err := l.run(ctx, describeScript, "describe the store", onAll(l.parts)...)
	if err != nil {
		return store.Description{}, err
	}
	d := store.Description{ID: l.id, Kind: "redis", Schema: l.schema, Slots: l.slots, Durable: l.durable()}
	var r reader
	for k, m := range replies {
		f := r.tuple(m, 4)
		d.Now = l.observe(r.time(f[0]))
		leases := r.list(f[1])
		for i := 0; i+1 < len(leases); i += 2 {
			if held := r.lease(r.text(leases[i]), r.text(leases[i+1])); held.Node != "" {
				d.Leases = append(d.Leases, held)
			}
		}
		if l.parts[k] != l.home() {
			continue
		}
		nodes := r.list(f[2])
		for i := 0; i+1 < len(nodes); i += 2 {
			d.Nodes = append(d.Nodes, r.node(r.text(nodes[i]), r.text(nodes[i+1])))
		}
		for _, w := range r.list(f[3]) {
			d.Workflows = append(d.Workflows, r.text(w))
		}
	}
	slices.Sort(d.Workflows)
	slices.SortFunc(d.Nodes, func(a, b store.Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Leases, func(a, b store.Lease) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot))
	})
	lengths := map[[2]string]store.Delay{} // by node and boot
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.Gone = l.witnesses.Dead(storekit.Boot{Node: n.ID, Boot: n.Boot})
		lengths[[2]string{n.ID, n.Boot}] = n.TTL
	}
	for i := range d.Leases {
		held := &d.Leases[i]
		ended := l.ahead.Look(held, d.Now, lengths[[2]string{held.Node, held.Boot}])
		if !ended && held.Until > d.Now && l.witnesses.Dead(storekit.Boot{Node: held.Node, Boot: held.Boot}) {
			l.ahead.End(held)
			ended = true
		}
		if ended {
			held.Until = d.Now
		}
	}
	return d, r.err
}

// about is the stored form of a node, without its ID, boot and time.
type about struct {
	Build     string      `json:"build,omitempty"`
	Host      string      `json:"host,omitempty"`
	PID       int         `json:"pid,omitempty"`
	Workflows []string    `json:"workflows,omitempty"`
	Groups    []string    `json:"groups,omitempty"`
	TTL       store.Delay `json:"ttl,omitempty"`
	Needs     []need      `json:"needs,omitempty"`
	Bodies    []body      `json:"bodies,omitempty"`
	Tasks     []string    `json:"tasks,omitempty"`
	Lost      []loss      `json:"lost,omitempty"`
	Zones     string      `json:"zones,omitempty"`
	Lacks     []string    `json:"lacks,omitempty"`
	Lines     bool        `json:"lines,omitempty"`
}

type loss struct {
	Node string     `json:"node"`
	Boot string     `json:"boot"`
	Seen store.Time `json:"seen"`
}

type body struct {
	Run      string     `json:"run"`
	Workflow string     `json:"workflow"`
	Location string     `json:"location"`
	Attempt  int        `json:"attempt"`
	Since    store.Time `json:"since"`
}

type need struct {
	Group    string     `json:"group"`
	Slot     int        `json:"slot"`
	Workflow string     `json:"workflow"`
	Build    string     `json:"build,omitempty"`
	Until    store.Time `json:"until"`
}

func (r *reader) node(id, kept string) store.Node {
	at, rest, _ := strings.Cut(kept, ";")
	boot, text, ok := strings.Cut(rest, "\n")
	if !ok || text == "" {
		r.bad("a node cannot be read")
		return store.Node{}
	}
	var a about
	if err := json.Unmarshal([]byte(text[1:]), &a); err != nil {
		r.bad("a node cannot be read: " + err.Error())
	}
	n := store.Node{
		ID: id, Boot: boot, Build: a.Build, Host: a.Host, PID: a.PID, Workflows: a.Workflows, Groups: a.Groups, TTL: a.TTL,
		Draining: text[0] == 'd', Tasks: a.Tasks, Zones: a.Zones, Lacks: a.Lacks, Lines: a.Lines,
		SeenAt: store.Time(r.number(at)),
	}
	for _, b := range a.Bodies {
		n.Bodies = append(n.Bodies, store.Body{RunID: b.Run, Workflow: b.Workflow, Location: b.Location, Attempt: b.Attempt,
			Since: b.Since})
	}
	for _, l := range a.Lost {
		n.Lost = append(n.Lost, store.Loss{Node: l.Node, Boot: l.Boot, SeenAt: l.Seen})
	}
	for _, need := range a.Needs {
		n.Requirements = append(n.Requirements, store.Requirement{
			Shard: store.Shard{Group: need.Group, Slot: need.Slot}, Workflow: need.Workflow, Build: need.Build,
			Until: need.Until,
		})
	}
	return n
}

// register notes a node's heartbeat. of counts its batches.
func (l *lane) register(ctx context.Context, n store.Node, of boot) (store.Time, error) {
	if err := n.Validate(); err != nil {
		return 0, err
	}
	kept := about{Build: n.Build, Host: n.Host, PID: n.PID, Workflows: n.Workflows, Groups: n.Groups, TTL: n.TTL,
		Tasks: n.Tasks, Zones: n.Zones, Lacks: n.Lacks, Lines: n.Lines}
	for _, of := range n.Requirements {
		kept.Needs = append(kept.Needs, need{of.Shard.Group, of.Shard.Slot, of.Workflow, of.Build, of.Until})
	}
	for _, b := range n.Bodies {
		kept.Bodies = append(kept.Bodies, body{b.RunID, b.Workflow, b.Location, b.Attempt, b.Since})
	}
	for _, lost := range n.Lost {
		kept.Lost = append(kept.Lost, loss{lost.Node, lost.Boot, lost.SeenAt})
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return 0, err
	}
	holders, err := l.holders(ctx)
	if err != nil {
		return 0, err
	}
	var a args
	a.text(n.ID, n.Boot, flag(n.Stopped), flag(n.Draining), string(text))
	a.int(l.told(of, l.home(), n.LastBatch))
	each(&a, n.Workflows, func(w string) { a.text(w) })
	each(&a, holders, func(h string) { a.text(h) })
	m, err := l.one(ctx, registerScript, "register node "+n.ID, l.home(), a.list...)
	if err != nil {
		return 0, err
	}
	var r reader
	f := r.tuple(m, 3)
	if r.text(f[1]) == "1" {
		l.hints.tell(store.Change{Nodes: true})
	}
	now := l.observe(r.time(f[0]))
	if boot := (storekit.Boot{Node: n.ID, Boot: n.Boot}); n.Stopped {
		l.witnesses.End(boot)
	} else if r.err == nil {
		witness{l, storekit.LifeOf(&n)}.keep()
	}
	var boots []string
	for _, b := range r.list(f[2]) {
		boots = append(boots, r.text(b))
	}
	if r.err != nil || len(boots) == 0 {
		return now, r.err
	}
	return now, l.forget(ctx, boots)
}

// forget forgets the last batches of boots (node, newline, boot): no process repeats them
// any more. The part that keeps the nodes comes last, so that an act that fails is
// done again.
func (l *lane) forget(ctx context.Context, boots []string) error {
	l.mu.Lock()
	for _, b := range boots {
		node, name, _ := strings.Cut(b, "\n")
		for _, of := range []boot{{node, name, -1}, {node, name, l.index}} {
			delete(l.batches, of)
			delete(l.acked, of)
		}
		l.fences.forget(node, name)
	}
	l.mu.Unlock()
	var a args
	each(&a, boots, func(b string) { a.text(b) })
	var others []call
	for _, part := range l.parts[1:] {
		others = append(others, call{part, a.list})
	}
	if len(others) > 0 {
		if _, err := l.run(ctx, forgetScript, "forget boots", others...); err != nil {
			return err
		}
	}
	_, err := l.one(ctx, forgetScript, "forget boots", l.home(), a.list...)
	return err
}

// holders returns the holders of leases in other parts than the first, which keeps the
// nodes, each as node, newline, boot.
func (l *lane) holders(ctx context.Context) ([]string, error) {
	if len(l.parts) == 1 {
		return nil, nil
	}
	d, err := l.Describe(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, held := range d.Leases {
		if h := held.Node + "\n" + held.Boot; !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list, nil
}
