package judge

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zones of schedules, as the machines have them

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// schedules judges what schedules start and skip: each instant once, in its time, and by the
// rule of what overlaps.
type schedules struct {
	*oracle
	ends    *ends
	called  map[string]time.Duration // when a schedule was asked for
	made    map[string]time.Duration // when that was acknowledged
	paused  map[string]time.Duration // when the pause at the end was requested
	starts  map[string][]string      // the runs that a schedule has started
	decided map[string]*plan.Planned
}

// byName returns the schedule that starts runs with such an ID.
func (s *schedules) byName(id string) (of plan.Schedule, instant time.Time, ok bool) {
	name, at, _ := strings.Cut(id, "/")
	i := slices.IndexFunc(s.plan.Schedules, func(s plan.Schedule) bool { return s.Name == name })
	instant, err := time.Parse(time.RFC3339Nano, at)
	if i < 0 || err != nil {
		return of, instant, false
	}
	return s.plan.Schedules[i], instant, true
}

// started takes the start of a run by the store.
func (s *schedules) started(c *store.Start, answer store.Answer) {
	of, instant, ok := s.byName(c.ID)
	if !ok || answer.Outcome != store.Applied || answer.Repeated {
		return
	}
	s.count("run of a schedule")
	if slices.Contains(s.starts[of.Name], c.ID) {
		s.violated("21: %s is started twice", c.ID)
	}
	if early := instant.Sub(Begin(s.plan).Add(s.now() + s.ahead())); early > 0 {
		s.violated("21: %s is started %s early", c.ID, early)
	}
	for _, former := range s.starts[of.Name] {
		if !s.ends.known(former) && of.Overlap != "allow" {
			s.violated("21: %s is started while %s has not ended", c.ID, former)
		}
	}
	s.starts[of.Name] = append(s.starts[of.Name], c.ID)
}

func (s *schedules) note(n plan.Note) {
	switch {
	case n.Kind == plan.Called && n.Op == plan.Restart:
		s.called[n.Value] = s.now()
	case n.Kind == plan.Done && n.Op == plan.Restart:
		s.made[n.Value] = s.now()
	case n.Kind == plan.Called && n.Op == plan.PauseAll:
		s.paused[n.Value] = s.now()
	case n.Kind == plan.Refused:
		s.violated("21: schedule %s: %s: %s", n.Value, n.Op, n.Err)
	}
}

// judge looks at what schedules say of their past.
func (s *schedules) judge() {
	for _, of := range s.plan.Schedules {
		d := s.decided[of.Name]
		if d == nil {
			if _, ok := s.made[of.Name]; ok {
				s.violated("1: schedule %s was acknowledged, and there is none", of.Name)
			}
			continue
		}
		s.past(of, d)
		for _, id := range s.starts[of.Name] {
			if !slices.ContainsFunc(d.Past, func(d plan.Decision) bool { return d.Run == id }) {
				s.violated("21: %s was started, and %s does not know it", id, of.Name)
			}
			if r := s.dumps[id]; r != nil {
				s.ended(plan.Run{ID: id, Program: of.Program}, r)
			}
		}
	}
}

func (s *schedules) past(of plan.Schedule, d *plan.Planned) {
	triggered := slices.ContainsFunc(s.plan.Acts, func(a plan.Act) bool {
		return a.Kind == plan.Trigger && a.Name == of.Name && s.acts[a.No] != nil
	})
	past := slices.Clone(d.Past)
	if d.Buffered != 0 {
		past = append(past, plan.Decision{From: d.Buffered, To: d.Buffered, Count: 1})
	}
	// What was buffered is decided later than instants after it.
	slices.SortStableFunc(past, func(a, b plan.Decision) int { return int(a.From - b.From) })
	last := int64(0)
	for _, p := range past {
		at := time.UnixMicro(p.From).Sub(Begin(s.plan))
		nominal := s.isDue(of, p.From)
		switch {
		case triggered: // instants of triggers are among those of the schedule
		case !nominal:
			s.violated("21: %s has decided of %s, which is none of its instants", of.Name, at)
		case s.between(of, p.From, p.To) != p.Count:
			s.violated("21: %s has decided of %d instants from %s to %d us later", of.Name, p.Count, at, p.To-p.From)
		case last != 0 && p.From <= last:
			s.violated("21: %s has decided of %s twice", of.Name, at)
		case last != 0 && s.next(of, last) < p.From:
			s.violated("21: %s has decided of %s, and of no instant in the %d us before", of.Name, at, p.From-last)
		case last == 0 && s.made[of.Name] > 0 && s.next(of, s.micros(s.made[of.Name]+of.Every)) < p.From:
			s.late(of, at)
		}
		last = max(last, p.To)
		s.count("instants " + p.Reason)
		if of.Cron != "" && nominal {
			s.count("instant of a zone whose clocks are changed")
		}
		if p.Run != "" && nominal {
			s.pauses(of, p.Run, at)
		}
	}
	_, made := s.made[of.Name]
	since := max(last, s.micros(s.made[of.Name]+of.Every))
	if until := s.paused[of.Name] - of.Every; made && s.prompt() && !s.isPaused(of) &&
		s.next(of, since) < s.micros(until-5*time.Second) {
		s.violated("21: %s has decided of no instant after %s, and was paused at %s",
			of.Name, time.UnixMicro(last).Sub(Begin(s.plan)), s.paused[of.Name])
	}
}

// prompt says whether nothing keeps schedules waiting: no fault, and no full memory.
func (s *schedules) prompt() bool {
	return s.calm() && !slices.ContainsFunc(s.plan.Nodes, func(n plan.Node) bool { return n.MaxRuns > 0 })
}

// late takes the first instant of a schedule, which is long after it was acknowledged. The owner
// makes the schedule, and may have been away.
func (s *schedules) late(of plan.Schedule, at time.Duration) {
	if s.prompt() {
		s.violated("21: %s was made at %s, and its first instant is %s", of.Name, s.made[of.Name], at)
	}
}

// isPaused says whether the schedule may have been paused, by an operator.
func (s *schedules) isPaused(of plan.Schedule) bool {
	return slices.ContainsFunc(s.plan.Acts, func(a plan.Act) bool {
		return a.Kind == plan.PauseAll && a.Name == of.Name && s.acts[a.No] != nil
	})
}

// pauses looks whether a run was started for an instant while the schedule was paused.
func (s *schedules) pauses(of plan.Schedule, run string, at time.Duration) {
	for _, a := range s.plan.Acts {
		if a.Kind != plan.PauseAll || a.Name != of.Name || s.acts[a.No] == nil || s.acts[a.No].Kind != plan.Done {
			continue
		}
		from, until := s.when[a.No].ended, s.paused[of.Name]
		for _, b := range s.plan.Acts {
			if b.Kind == plan.ResumeAll && b.Name == of.Name && s.acts[b.No] != nil {
				until = min(until, s.when[b.No].begun)
			}
		}
		if until > from {
			s.count("schedule was paused")
		}
		if from+s.plan.Ahead(from) < at && at < until {
			s.violated("21: %s is for an instant at %s, and %s was paused from %s to %s", run, at, of.Name, from, until)
		}
	}
}

// micros returns a time of the world in microseconds since 1970.
func (s *schedules) micros(at time.Duration) int64 { return Begin(s.plan).Add(at).UnixMicro() }

// isDue says whether the time is an instant of the schedule.
func (s *schedules) isDue(of plan.Schedule, micros int64) bool {
	if of.Cron == "" {
		return (micros-of.Offset.Microseconds())%of.Every.Microseconds() == 0
	}
	return micros%1e6 == 0 && shows(of, micros/1e6)
}

// farAway is when a schedule is next due that is not due as long as any world lasts.
const farAway = int64(1 << 62)

// next returns the first instant after a time.
func (s *schedules) next(of plan.Schedule, micros int64) int64 {
	if of.Cron == "" {
		every, offset := of.Every.Microseconds(), of.Offset.Microseconds()
		return (micros-offset)/every*every + every + offset
	}
	for second := micros/1e6 + 1; second < micros/1e6+int64(2*Limit/time.Second); second++ {
		if shows(of, second) {
			return second * 1e6
		}
	}
	return farAway
}

// between counts the instants from one to another.
func (s *schedules) between(of plan.Schedule, from, to int64) (n int64) {
	for at := from; at <= to; at = s.next(of, at) {
		n++
	}
	return n
}

var zones sync.Map // of *time.Location, by name

func zoneOf(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	zones.Store(name, zone)
	return zone
}

// shows says whether the schedule is due in a second since 1970: by what the clocks of its zone show
// then, and what they have shown or skipped. It is what package schedule says, computed in another way.
func shows(of plan.Schedule, second int64) bool {
	zone := zoneOf(of.Zone)
	fields := strings.Fields(of.Cron) // "*/5 * 1,2 * * *"
	step, err := strconv.Atoi(strings.TrimPrefix(fields[0], "*/"))
	if err != nil {
		panic(err)
	}
	at := time.Unix(second, 0).In(zone)
	matches := func(wall time.Time) bool {
		return wall.Second()%step == 0 &&
			(fields[2] == "*" || slices.Contains(strings.Split(fields[2], ","), strconv.Itoa(wall.Hour())))
	}
	if fields[2] == "*" {
		return matches(at)
	}
	// By how much the clocks were changed in the last hours: the first time of day after that is
	// skipped, or is shown again.
	_, now := at.Zone()
	_, before := at.Add(-2 * time.Hour).Zone()
	changed := time.Duration(now-before) * time.Second
	switch {
	case changed > 0:
		_, then := at.Add(-changed).Zone()
		skipped := then == before // it is less than that since the change
		return matches(at) || skipped && matches(at.In(time.FixedZone("before", before)))
	case changed < 0:
		_, then := at.Add(changed).Zone()
		again := then == before // what the clocks show they have shown then
		return matches(at) && !again
	}
	return matches(at)
}
