package store

import "strings"

// SystemGroup is the group of records, which every node serves.
const SystemGroup = "system"

// EntityPrefix begins the workflow's name and the ID of every record: a run that
// is a topic, a queue or a schedule. Nothing else has such a name.
const EntityPrefix = "stet."

// AfterEntityPrefix is the least string that is greater than all that begin with
// EntityPrefix.
const AfterEntityPrefix = "stet/"

// IsEntity reports whether the name of a workflow, or the ID of a run, is a
// record's.
func IsEntity(name string) bool { return strings.HasPrefix(name, EntityPrefix) }
