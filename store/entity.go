package store

import "strings"

// SystemGroup is the group of entities. Every node serves it.
const SystemGroup = "system"

// EntityPrefix begins the ID, and the name of the workflow, of every entity: a run that is
// a topic, a queue or a schedule. Nothing else has such a name.
const EntityPrefix = "stet."

// AfterEntityPrefix is the least string greater than all strings that begin with
// EntityPrefix.
const AfterEntityPrefix = "stet/"

// IsEntity reports whether the name of a workflow, or the ID of a run, is an entity's.
func IsEntity(name string) bool { return strings.HasPrefix(name, EntityPrefix) }
