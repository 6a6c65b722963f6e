// Package budget tests what the module costs those who import it, and that the
// arrows between its packages run one way.
package budget
