package sim

import (
	"time"

	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/wire"
)

// latency is how long a message takes.
func (w *world) latency() time.Duration {
	d := 50*time.Microsecond + time.Duration(w.Rand.IntN(400))*time.Microsecond
	if w.Rand.IntN(50) == 0 {
		d *= 20
	}
	return d
}

// connection returns the fate of the connection between a machine and the store.
func (w *world) connection(machine int) *fate {
	if n := w.of[machine]; n != nil {
		return &n.fate
	}
	return &w.clients
}

// send decides what becomes of a message between a machine and the store.
func (w *world) send(m box.Message) {
	w.messages++
	if m.To == 0 {
		m.To = w.store.ID // it has had other lives
	}
	outside := m.From // the machine that is not the store
	if outside == w.store.ID {
		outside = m.To
	}
	c, now, takes := w.connection(outside), w.Now(), w.latency()
	if c.slow > now && w.Rand.Float64() < c.share {
		takes += time.Duration(w.Rand.Int64N(int64(2 * time.Second)))
	}
	reset := func() {
		if w.Rand.IntN(4) > 0 { // otherwise: silence
			w.After(takes, func() { w.Deliver(box.Message{From: w.store.ID, To: outside, Kind: wire.Reset, Call: m.Call}) })
		}
	}
	switch m.Kind {
	case wire.Request:
		method, _ := wire.Method(m.Body)
		w.judge.Asked(m.From, m.Call, m.Body)
		if w.Log != nil {
			w.Logf("%s asks %d %s", w.Machine(m.From).Name, m.Call, method)
		}
		if w.away > now || c.lose > now && c.hits(method) && w.Rand.Float64() < c.share {
			w.Logf("lost: request %d of %s", m.Call, w.Machine(m.From).Name)
			w.judge.Count("request lost")
			w.judge.Lost()
			reset()
			return
		}
		if c.refuse > now && c.hits(method) && w.Rand.Float64() < c.share {
			w.Logf("refused: request %d of %s", m.Call, w.Machine(m.From).Name)
			w.judge.Count("request refused")
			w.judge.Lost()
			answer := wire.Refusal("the server takes no requests now")
			w.After(takes, func() {
				w.Deliver(box.Message{From: w.store.ID, To: outside, Kind: wire.Response, Call: m.Call, Body: answer})
			})
			return
		}
		if len(w.aimed) > 0 && w.aimed[0].Method == method && c.cut <= now {
			f := w.aimed[0]
			w.aimed = w.aimed[1:]
			w.After(takes, func() { w.cutPower(f, w.program) })
		}
	case wire.Response:
		method := w.judge.Answered(m.To, m.Call, m.Body)
		if w.Log != nil {
			w.Logf("store answers %s %d %s", w.Machine(m.To).Name, m.Call, method)
		}
		if w.away > now || c.mute > now || c.unheard > now && c.hits(method) && w.Rand.Float64() < c.share {
			w.Logf("lost: answer %d to %s", m.Call, w.Machine(m.To).Name)
			w.judge.Unheard(m.To, method, m.Body)
			if c.mute <= now {
				reset()
			}
			return
		}
	case wire.Hint:
		if c.hints > now || w.away > now {
			w.judge.Count("hint lost")
			return
		}
	}
	if c.cut > now {
		if w.Rand.IntN(2) == 0 || m.Kind == wire.Hint {
			w.judge.Count("message cut")
			w.judge.Lost()
			return
		}
		takes += c.cut - now // it is sent again
	}
	w.After(takes, func() { w.Deliver(m) })
}

func (f *fate) hits(method string) bool { return f.method == "" || f.method == method }
