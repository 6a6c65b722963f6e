package runner

// What has arrived for a live run, or is due, waits in the queue of its kind until every
// branch is blocked and it is handed over. This file has the order of the queues.

// nextArrival hands over one completion that has arrived or is due. It reports whether
// there was one. What comes by the inbox goes before the timers, because it has lost
// against an earlier deadline only if it is late; and ends of attempts come last.
func (r *Interpreter) nextArrival() bool {
	return r.loops.next() || r.sends.Next() ||
		r.promises.arrived.Next() || r.runs.Next() || r.topics.Next() || r.mail.next() || r.steps.NextGrant() ||
		r.j.Timers.Next(r.j.Bound(), r.j.InboxAt()) ||
		r.steps.NextEnd()
}

// hasArrivals reports whether something has arrived that was not looked at.
func (r *Interpreter) hasArrivals() bool {
	return r.loops.entering.Len()+r.sends.Arrived()+len(r.promises.arrived)+r.runs.Arrived()+r.topics.Arrived()+
		r.mail.Unlooked()+r.steps.Arrived() > 0
}
