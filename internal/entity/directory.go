package entity

import (
	"crypto/rand"
	"slices"

	"github.com/stet-run/stet/store"
)

// Directory starts entities before they are used. It is safe for concurrent use. Both
// exported fields are required.
type Directory struct {
	Home func(id string) store.Shard // the shard of an entity
	Has  func(kind string) bool      // reports whether there are rules for the kind

	existing existing
}

// KindOf returns the workflow of the entity with the ID; "" if it is none of those that
// there are rules for.
func (d *Directory) KindOf(id string) string {
	for i := len(store.EntityPrefix); i < len(id); i++ {
		if id[i] == '/' && store.IsEntity(id) && d.Has(id[:i]) {
			return id[:i]
		}
	}
	return ""
}

// Introduce returns the commands with the starts of the entities before them that items go
// to, or the asks of starts, and that are not known to exist.
func (d *Directory) Introduce(commands []store.Command) []store.Command {
	var out []store.Command
	for i := range commands {
		id := commands[i].RunID
		if s := commands[i].Start; s != nil && s.Queue != nil {
			if id = s.Queue.Ask.RunID; s.Queue.Line != nil {
				id = s.Queue.Line.Queue
			}
		}
		if !store.IsEntity(id) || d.existing.has(id) {
			continue
		}
		starts := func(c store.Command) bool { return c.Start.ID == id }
		if kind := d.KindOf(id); kind != "" && !slices.ContainsFunc(out, starts) {
			start := &store.Start{ID: id, Workflow: kind, Shard: d.Home(id)}
			rand.Read(start.Seed[:])
			out = append(out, store.Command{Start: start})
		}
	}
	if out == nil {
		return commands
	}
	return append(out, commands...)
}

// Learn remembers the entities that commands have made or found.
func (d *Directory) Learn(commands []store.Command, answers []store.Answer) {
	for i := range answers {
		there := answers[i].Outcome == store.Applied || answers[i].Outcome == store.Exists
		if s := commands[i].Start; s != nil && store.IsEntity(s.ID) && there {
			d.existing.add(s.ID)
		}
	}
}

// Remove notes that an entity does not exist.
func (d *Directory) Remove(id string) { d.existing.remove(id) }

// Clear forgets all entities.
func (d *Directory) Clear() { d.existing.clear() }
