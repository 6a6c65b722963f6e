package redis

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// SameNumbers makes handles know the numbers that each other has seen, as if all that
// they do came from one process: the numbers are then in the order of the acts.
func SameNumbers() Option {
	seen := &numbers{}
	return func(c *config) { c.seen = seen }
}

// Lanes makes so many lanes of a new store, on a single server too.
func Lanes(n int) Option { return func(c *config) { c.lanes = n } }

// Client changes how the store's client connects.
func Client(change func(*rueidis.ClientOption)) Option {
	return func(c *config) {
		former := c.client
		c.client = func(o *rueidis.ClientOption) {
			if former != nil {
				former(o)
			}
			change(o)
		}
	}
}

// Masters returns the address of each lane's master, as it was when the store was opened.
func Masters(s *Store) (addresses []string) {
	for _, l := range s.lanes {
		addresses = append(addresses, l.at)
	}
	return addresses
}

// Homes returns the key tag of each lane's home.
func Homes(s *Store) (tags []string) {
	for _, l := range s.lanes {
		tags = append(tags, s.tag(l.home()))
	}
	return tags
}

// SlotOf returns the slot of a run's ID.
func SlotOf(s *Store, id string) int { return s.slotOf(id) }

// RestCommitConn closes the line of a store, as is done when nothing was committed for a while.
func RestCommitConn(s *Store) { s.commitConn.rest() }

// Guard returns the text with which every script begins.
func Guard() string {
	text, err := luaFiles.ReadFile("lua/whole.lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Scripts returns the texts of all scripts by name.
func Scripts() map[string]string {
	all := map[string]string{}
	for _, sc := range scripts {
		all[sc.name] = sc.text().body
	}
	return all
}

// RestAlone sets how long the witness of a process that has found no other rests. It is for a
// store that has no node yet.
func RestAlone(s *Store, d time.Duration) {
	for _, l := range s.lanes {
		l.witnesses.Alone = d
	}
}

// ReadTime makes a store believe that it has just read a time from the server.
func ReadTime(s *Store, now store.Time) { s.observe(now) }

// ReadSign reads the sign of a witness.
func ReadSign(text string) (life string, s storekit.Sign, ok bool) { return readSign(text) }
