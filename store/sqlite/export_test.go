package sqlite

// RestAt sets how many items that make no run ready are put to rest.
func RestAt(n int) Option { return func(c *config) { c.restAt = n } }
