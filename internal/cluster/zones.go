package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// digested are zones whose rules have changed in recent releases of the zone data, or are like to, and some others.
var digested = []string{
	"Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Mexico_City", "America/New_York", "America/Nuuk",
	"America/Santiago", "America/Sao_Paulo", "America/Vancouver", "Asia/Almaty", "Asia/Amman", "Asia/Beirut", "Asia/Gaza",
	"Asia/Kolkata", "Asia/Manila", "Asia/Tehran", "Australia/Sydney", "Europe/Berlin", "Europe/Kyiv", "Europe/London",
	"Europe/Moscow", "Pacific/Apia", "Pacific/Auckland", "Pacific/Fiji",
}

// Zones returns a digest of the data of some time zones that this process has: each change of their offsets from 2020
// to 2039. Nodes whose digests differ may find different instants for a schedule.
var Zones = sync.OnceValue(func() string {
	sum := sha256.New()
	from, to := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range digested {
		zone, err := time.LoadLocation(name)
		if err != nil {
			fmt.Fprintf(sum, "%s unknown\n", name) // a hash returns no error
			continue
		}
		for at := from.In(zone); at.Before(to); {
			_, offset := at.Zone()
			fmt.Fprintf(sum, "%s %d %d\n", name, at.Unix(), offset) // a hash returns no error
			_, next := at.ZoneBounds()
			if !next.After(at) {
				break // nothing changes later
			}
			at = next
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
})

// sayZones logs it if a living node has other data of time zones than this one.
func sayZones(log *slog.Logger, own *store.Node, d *store.Description) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.ID != own.ID && own.Zones != "" && n.Zones != "" && n.Zones != own.Zones && d.Alive(n) {
			log.Warn("two nodes have different data of time zones: a schedule may start at different times on them; give both "+
				"the same system image, or none with zone data", "node", own.ID, "zones", own.Zones, "other", n.ID,
				"other_zones", n.Zones)
			return
		}
	}
}
