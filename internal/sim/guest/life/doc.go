// Package life begins the life of a machine. Until then its program has initialised itself, once for
// all machines: they are alike but for what life gives them.
package life
