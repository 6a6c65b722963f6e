package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
)

// numbers translates the numbers of runs and items and the epochs of the
// specification into those of the store under test, which may leave some out.
// They are learned by the order in which they appear.
type numbers struct {
	runs   map[store.RunNo]store.RunNo // specification's to store's, and back
	items  map[store.ItemNo]store.ItemNo
	epochs map[leaseRef]int64

	runsBack   map[store.RunNo]store.RunNo
	itemsBack  map[store.ItemNo]store.ItemNo
	epochsBack map[leaseRef]int64
}

func newNumbers() *numbers {
	return &numbers{
		runs: map[store.RunNo]store.RunNo{}, items: map[store.ItemNo]store.ItemNo{}, epochs: map[leaseRef]int64{},
		runsBack: map[store.RunNo]store.RunNo{}, itemsBack: map[store.ItemNo]store.ItemNo{}, epochsBack: map[leaseRef]int64{},
	}
}

// unknown is added to a number that has no counterpart, so that it meets none,
// and taken away when the store gives it back.
const unknown = 1 << 40

func counterpart[T ~int64](no T) T {
	switch {
	case no <= 0:
		return no
	case no > unknown:
		return no - unknown
	}
	return no + unknown
}

// learn relates new numbers.
func (n *numbers) learn(spec, subject *state) error {
	if len(spec.Runs) != len(subject.Runs) {
		return fmt.Errorf("expected %d runs, found %d", len(spec.Runs), len(subject.Runs))
	}
	for i := range spec.Runs {
		a, b := spec.Runs[i].No, subject.Runs[i].No
		if known, ok := n.runs[a]; ok && known != b {
			return fmt.Errorf("run number %d comes where %d was: numbers of later runs must be higher", b, known)
		}
		n.runs[a], n.runsBack[b] = b, a
		for k := range min(len(spec.Items[a]), len(subject.Items[b])) {
			x, y := spec.Items[a][k].No, subject.Items[b][k].No
			if known, ok := n.items[x]; ok && known != y {
				return fmt.Errorf("item number %d of run number %d comes where %d was", y, b, known)
			}
			n.items[x], n.itemsBack[y] = y, x
		}
	}
	return nil
}

// took relates the epochs of a shard that was taken.
func (n *numbers) took(spec, subject store.Lease) {
	n.epochs[leaseRef{spec.Shard, spec.Epoch}] = subject.Epoch
	n.epochsBack[leaseRef{spec.Shard, subject.Epoch}] = spec.Epoch
}

// withoutLater returns a copy for the specification in which commands name no run that is
// not there yet. A repeat has the numbers of the batch: one that becomes a run's in one
// store alone would find it there.
func (n *numbers) withoutLater(o *commitOp) *commitOp {
	c := *o
	hide := func(list []store.Command) []store.Command {
		list = slices.Clone(list)
		for i := range list {
			if _, known := n.runs[list[i].RunNo]; !known {
				list[i].RunNo = counterpart(list[i].RunNo)
			}
		}
		return list
	}
	c.Commands, c.Turns = hide(o.Commands), slices.Clone(o.Turns)
	for i := range c.Turns {
		t := &c.Turns[i]
		t.Sends = hide(t.Sends)
		if t.Update != nil {
			u := *t.Update
			u.Sends = hide(u.Sends)
			t.Update = &u
		}
	}
	return &c
}

// forSubject returns a copy with the store's numbers.
func (n *numbers) forSubject(v any) any {
	return (&translator{n.runs, n.items, n.epochs}).copy(reflect.ValueOf(v)).Interface()
}

// forSpec returns a copy with the specification's numbers.
func (n *numbers) forSpec(v any) any {
	return (&translator{n.runsBack, n.itemsBack, n.epochsBack}).copy(reflect.ValueOf(v)).Interface()
}

// translator copies values and translates the numbers in them.
type translator struct {
	runs   map[store.RunNo]store.RunNo
	items  map[store.ItemNo]store.ItemNo
	epochs map[leaseRef]int64
}

func (t *translator) copy(v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case []byte:
		return reflect.ValueOf(bytes.Clone(x))
	case store.RunNo:
		return reflect.ValueOf(look(t.runs, x))
	case store.ItemNo:
		return reflect.ValueOf(look(t.items, x))
	case leaseRef:
		x.Epoch = t.epoch(x)
		return reflect.ValueOf(x)
	case store.Lease:
		x.Epoch = t.epoch(leaseRef{x.Shard, x.Epoch})
		return reflect.ValueOf(x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(t.copy(v.Elem()))
		return c
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return t.copy(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(t.copy(v.Index(i)))
		}
		return c
	case reflect.Map:
		c := reflect.MakeMap(v.Type())
		for _, key := range v.MapKeys() {
			c.SetMapIndex(t.copy(key), t.copy(v.MapIndex(key)))
		}
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			f := t.copy(v.Field(i))
			if name := v.Type().Field(i).Name; name == "ID" || name == "RunID" || name == "IDs" {
				f = t.names(f)
			}
			c.Field(i).Set(f)
		}
		return c
	}
	return v
}

// names translates the numbers in names that replaced runs have, ID@N, and in those of
// refused resolutions.
func (t *translator) names(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			v.Index(i).Set(t.names(v.Index(i)))
		}
		return v
	}
	if refused, ok := strings.CutPrefix(v.String(), "refused:"); ok {
		if no, err := strconv.ParseInt(refused, 10, 64); err == nil {
			return reflect.ValueOf(store.RefusedID(look(t.items, store.ItemNo(no))))
		}
	}
	parts := strings.Split(v.String(), "@")
	for i := 1; i < len(parts); i++ {
		no, err := strconv.ParseInt(parts[i], 10, 64)
		if other, ok := t.runs[store.RunNo(no)]; ok && err == nil {
			parts[i] = strconv.FormatInt(int64(other), 10)
		}
	}
	return reflect.ValueOf(strings.Join(parts, "@"))
}

// look translates a number.
func look[T ~int64](known map[T]T, no T) T {
	if other, ok := known[no]; ok {
		return other
	}
	return counterpart(no)
}

func (t *translator) epoch(of leaseRef) int64 {
	if other, ok := t.epochs[of]; ok {
		return other
	}
	return counterpart(of.Epoch)
}
