package postgres

import "time"

// Slow makes the Store write every batch turn by turn.
func Slow() Option { return func(c *config) { c.slow = true } }

// Patient lets transactions stand still for long: for tests that a slow machine is no
// part of, and that do not try again what was cut off.
func Patient() Option { return func(c *config) { c.idle = time.Minute } }
