//go:build !wasip1

// Package link connects a machine with its world.
package link

import "errors"

var errOutside = errors.New("a machine exists in a world only, which is for wasip1")

// outside is a variable so that tools see no function that never returns.
var outside = func() { panic(errOutside) }

// Send sends a message to another machine.
func Send(to int, kind byte, call uint32, body []byte) { outside() }

// Arguments returns the arguments of the machine, its name first.
func Arguments() []string { outside(); return nil }

// Note reports to the world, at once.
func Note(b []byte) { outside() }

// Receive waits for the next message.
func Receive() (from int, kind byte, call uint32, body []byte, err error) {
	return 0, 0, 0, nil, errOutside
}
