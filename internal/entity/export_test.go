package entity

// Known returns how many items the machine remembers to have been delivered.
func Known(m *Machine) int { return len(m.known) }
