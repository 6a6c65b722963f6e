package postgres

// Slow makes the Store write every batch turn by turn.
func Slow() Option { return func(c *config) { c.slow = true } }
