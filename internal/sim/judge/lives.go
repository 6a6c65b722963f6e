package judge

import (
	"strconv"
	"strings"
)

// lives are the newest lives of nodes that were heard of. One that goes on beside a later one was to be dead, as
// Config.Replaces has said: until it looks at its lease it executes bodies of runs that the later one has taken.
type lives map[string]int

// seen takes a sign of life of a machine, such as node1-2.
func (l lives) seen(machine string) {
	if name, life, ok := lifeOf(machine); ok {
		l[name] = max(l[name], life)
	}
}

// replaced says whether a machine goes on beside a later life of its node.
func (l lives) replaced(machine string) bool {
	name, life, ok := lifeOf(machine)
	return ok && life < l[name]
}

func lifeOf(machine string) (name string, life int, ok bool) {
	i := strings.LastIndexByte(machine, '-')
	if i < 0 {
		return "", 0, false
	}
	life, err := strconv.Atoi(machine[i+1:])
	return machine[:i], life, err == nil
}
