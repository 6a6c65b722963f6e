package redis

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
)

// args builds the arguments of a script.
type args struct{ list []string }

func (a *args) text(values ...string)   { a.list = append(a.list, values...) }
func (a *args) int(n int64)             { a.list = append(a.list, strconv.FormatInt(n, 10)) }
func (a *args) count(n int)             { a.int(int64(n)) }
func (a *args) value(b []byte)          { a.list = append(a.list, value(b)) }
func (a *args) bool(is bool)            { a.list = append(a.list, flag(is)) }
func (a *args) seed(s store.Seed)       { a.list = append(a.list, string(s[:])) }
func (a *args) items(n []store.ItemNo)  { each(a, n, func(no store.ItemNo) { a.int(int64(no)) }) }
func (a *args) shard(shard store.Shard) { a.list = append(a.list, shardText(shard)) }

// each adds a list with its length.
func each[T any](a *args, list []T, add func(T)) {
	a.count(len(list))
	for _, x := range list {
		add(x)
	}
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// value is how bytes that may be missing are kept: nothing, or v and the bytes.
func value(b []byte) string {
	if b == nil {
		return ""
	}
	return "v" + string(b)
}

// bytesOf is the inverse of value.
func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s[1:])
}

func shardText(s store.Shard) string { return strconv.Itoa(s.Slot) + ":" + s.Group }

func parseShard(text string) store.Shard {
	slot, group, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(slot) // written by shardText
	return store.Shard{Group: group, Slot: n}
}

// head is the kept form of an entry, and its value if that is large. The first byte
// is the state, as a digit or, with a large value, as a letter; then follow, for the
// scripts, number and time of the completion, then the rest in varints and the value.
func head(e *store.Entry) (head string, large []byte) {
	first := byte('0') + byte(e.State)
	kind := byte('n')
	switch {
	case len(e.Value) >= store.LargeValue:
		first, kind, large = largeState(e.State), 'l', e.Value
	case e.Value != nil:
		kind = 'i'
	}
	b := make([]byte, 0, 96+len(e.Value))
	b = append(b, first)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(e.At), 10)
	b = append(b, ';')
	for _, n := range [...]int64{int64(e.Kind), e.Born, int64(e.Wake), int64(e.Attempt), int64(e.Generation),
		int64(e.Started), int64(e.Ended), int64(len(e.Value))} {
		b = binary.AppendVarint(b, n)
	}
	b = append(b, flag(e.Owes)[0], kind)
	if kind == 'i' {
		b = append(b, e.Value...)
	}
	return rueidis.BinaryString(b), large // which are not changed any more
}

// largeState is the letter for the state of an entry with a large value.
func largeState(s store.EntryState) byte { return 'a' - 1 + byte(s) }

// entryOf is the inverse of head. A large value is left out.
func entryOf(loc, head string) (store.Entry, error) {
	bad := fmt.Errorf("%w: the entry at %q cannot be read", store.ErrDamaged, loc)
	e := store.Entry{Loc: loc}
	numbers, rest, ok := strings.Cut(head, ";")
	if !ok || len(numbers) < 4 {
		return e, bad
	}
	first := numbers[0]
	if e.State = store.EntryState(first - '0'); first >= largeState(store.Open) {
		e.State = store.Open + store.EntryState(first-largeState(store.Open))
	}
	seq, at, _ := strings.Cut(numbers[1:], ",")
	var err error
	if e.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
		return e, bad
	}
	t, err := strconv.ParseInt(at, 10, 64)
	if err != nil || e.State < store.Open || e.State > store.Withdrawn {
		return e, bad
	}
	e.At = store.Time(t)
	data := []byte(rest)
	var n [8]int64
	for i := range n {
		v, size := binary.Varint(data)
		if size <= 0 {
			return e, bad
		}
		n[i], data = v, data[size:]
	}
	if len(data) < 2 {
		return e, bad
	}
	e.Kind, e.Born, e.Wake, e.Attempt = store.Kind(n[0]), n[1], store.Time(n[2]), int(n[3])
	e.Generation, e.Started, e.Ended, e.Size = int(n[4]), store.Time(n[5]), store.Time(n[6]), int(n[7])
	e.Owes = data[0] == '1'
	switch data[1] {
	case 'i':
		e.Value = data[2:]
		if len(e.Value) != e.Size {
			return e, bad
		}
	case 'n', 'l':
	default:
		return e, bad
	}
	return e, nil
}

func (a *args) entries(list []store.Entry) {
	a.count(len(list))
	for i := range list {
		h, large := head(&list[i])
		a.text(list[i].Loc, h)
		if large != nil {
			a.value(large)
		}
	}
}

// class returns the class of an item's kind, by which the scripts treat items alike.
func class(k store.ItemKind) string {
	switch {
	case k.Verb():
		return verbItem
	case k == store.ItemUpdate:
		return updateItem
	case k.CanBeDead():
		return letterItem
	}
	return otherItem
}

func (a *args) item(it *store.Item) {
	a.int(int64(it.Kind))
	a.text(class(it.Kind), it.ID, it.Name, it.Origin)
	a.int(int64(it.Incarnation))
	a.int(int64(it.Generation))
	a.text(it.Loc)
	a.bool(it.Failed)
	a.value(it.Value)
	a.value(it.Headers)
}

// start adds the seed, and the hash of the input, with which a later start is compared.
func (a *args) start(st *store.Start) {
	sum := sha256.Sum256(st.Input)
	a.text(string(append(st.Seed[:], sum[:]...)))
}

// origin is the kept form of how a run began.
func origin(o *store.Origin) string { return string(o.Seed[:]) + string(o.Input[:]) + o.Workflow }

func originOf(s string) (o store.Origin) {
	if len(s) < len(o.Seed)+len(o.Input) {
		return o
	}
	copy(o.Seed[:], s)
	copy(o.Input[:], s[len(o.Seed):])
	o.Workflow = s[len(o.Seed)+len(o.Input):]
	return o
}

// audit is the kept form of an operator's act, without number and time.
func audit(e *store.Audit) string {
	var b []byte
	for _, s := range [...]string{e.Who, e.Verb, e.Why, e.Detail} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return string(b)
}

func auditOf(kept string) (e store.Audit, err error) {
	bad := fmt.Errorf("%w: an audit cannot be read", store.ErrDamaged)
	no, rest, _ := strings.Cut(kept, ";")
	at, packed, ok := strings.Cut(rest, ";")
	t, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return e, bad
	}
	if e.No, err = strconv.Atoi(no); err != nil {
		return e, bad
	}
	e.Time = store.Time(t)
	data := []byte(packed)
	for _, field := range [...]*string{&e.Who, &e.Verb, &e.Why, &e.Detail} {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return e, bad
		}
		*field, data = string(data[size:size+int(n)]), data[size+int(n):]
	}
	return e, nil
}

func (a *args) audit(list []store.Audit) {
	a.count(len(list))
	for i := range list {
		a.text(audit(&list[i]))
	}
}
