package resources

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// Table returns all endpoints. It is called once: the places of what is under way are made with it.
func (s *Server) Table() []endpoint.Endpoint {
	const (
		get, put, post, del = "GET", "PUT", "POST", "DELETE"
		read, call, operate = access.Read, access.Call, access.Operate
	)
	s.followers, s.bulks = endpoint.NewShares(maxFollowers), endpoint.NewShares(maxBulks)
	s.exports, s.lists = endpoint.NewShares(maxExports), endpoint.NewDistinct(maxLists)
	table := append(slices.Concat(tasks{s}.table(), hooks{s}.table(), scripts{s}.table()), []endpoint.Endpoint{
		endpoint.New(get, "info", read, s.info, "the store, the version, who I am and what I may"),
		endpoint.New(get, "errors", read, s.errors, "the codes of errors and what they mean"),
		endpoint.Raw(get, "openapi.json", read, endpoint.JSON, s.openAPI, "this document"),
		endpoint.New(get, "health/live", access.Public, s.live, "200 while the process answers"),
		endpoint.New(get, "health/ready", access.Public, s.ready, "200 if the store can be read; otherwise 503"),
		endpoint.New(get, "login", access.Public, logins{s}.ways, "how to log in"),
		endpoint.Raw(get, "login/provider", access.Public, endpoint.JSON, logins{s}.elsewhere,
			"send a browser to the identity provider").Answers(http.StatusSeeOther),
		endpoint.Raw(get, "login/callback", access.Public, endpoint.JSON, logins{s}.returned,
			"begin a session of a browser that comes from the identity provider").Answers(http.StatusSeeOther),
		endpoint.New(post, "login", access.Public, s.login, "change a token for a cookie"),
		endpoint.New(post, "logout", access.Public, s.logout, "take the cookie away"),
		endpoint.New(get, "tokens", access.Admin, s.tokens, "the access tokens, without their secrets"),
		endpoint.New(post, "tokens", access.Admin, s.createToken, "create an access token"),
		endpoint.New(del, "tokens/{id}", access.Admin, s.revoke, "revoke an access token"),
		endpoint.New(get, "audit", access.Admin, logins{s}.audit,
			"what was done to the store and not to a run, newest first"),
		endpoint.Raw(get, "events", read, endpoint.Events, s.events, "what changes, as server-sent events").
			Sends(reflect.TypeFor[api.LiveEvents]()).IsLong(),

		endpoint.New(get, "runs", read, s.listRuns, "a page of the runs that match, newest first").IsHeavy(),
		endpoint.New(post, "runs", call, s.start, "start a run, or several of one workflow in one commit"),
		endpoint.New(get, "counts", read, s.countRuns, "how many runs match, by workflow and status").IsHeavy(),
		endpoint.New(get, "runs/{id}", read, s.getRun, "how a run stands; with wait, once it has ended").IsLong(),
		endpoint.New(del, "runs/{id}", operate, s.remove, "delete a run that has ended"),
		endpoint.New(get, "runs/{id}/history", read, s.history, "what is recorded of the run's operations"),
		endpoint.New(get, "runs/{id}/shape", read, s.shape, "groups of operations, and the critical path"),
		endpoint.New(get, "runs/{id}/inbox", read, s.inbox, "what was sent to the run and not taken"),
		endpoint.New(get, "runs/{id}/audit", read, s.audit, "what operators did to the run"),
		endpoint.New(get, "runs/{id}/children", read, s.children, "a page of the run's children").IsHeavy(),
		endpoint.New(get, "runs/{id}/values", read, s.values, "the values and streams that the run shows"),
		endpoint.New(get, "runs/{id}/streams/{name}", read, s.items, "items of a stream"),
		endpoint.New(get, "runs/{id}/promises", read, s.promises, "the promises of the run; tokens need operate"),
		endpoint.Raw(get, "runs/{id}/value", access.Values, endpoint.Binary, s.value, "one value, as a download"),
		endpoint.Raw(get, "runs/{id}/export", access.Values, endpoint.Binary, s.export,
			"the run as a file, as stet export writes it").IsLong(),
		endpoint.New(get, "runs/{id}/preview", read, s.preview, "what a retry, rewind or edit would do"),
		endpoint.New(get, "runs/{id}/deletable", operate, s.deletable, "which runs a deletion would delete"),

		endpoint.New(post, "runs/{id}/messages/{name}", call, s.send, "send a message to the run"),
		endpoint.New(post, "runs/{id}/updates/{name}", call, s.update, "send an update and wait for its answer").IsLong(),
		endpoint.New(post, "runs/{id}/cancel", operate, act(stet.Runs.Cancel),
			"cancel the run; its code cleans up").IsLong(),
		endpoint.New(post, "runs/{id}/terminate", operate, act(stet.Runs.Terminate), "end the run at once").IsLong(),
		endpoint.New(post, "runs/{id}/pause", operate, act(stet.Runs.Pause), "pause the run until it is resumed").IsLong(),
		endpoint.New(post, "runs/{id}/resume", operate, act(stet.Runs.Resume), "resume a paused or stalled run").IsLong(),
		endpoint.New(post, "runs/{id}/nudge", operate, act(stet.Runs.Nudge),
			"execute the code of a suspended run").IsLong(),
		endpoint.New(post, "runs/{id}/retry", operate, act(stet.Runs.Retry),
			"repeat the failed operations of a failed run").IsLong(),
		endpoint.New(post, "runs/{id}/rewind", operate, s.rewind, "let the run go on from before a location").IsLong(),
		endpoint.New(post, "runs/{id}/edit", operate, s.edit, "replace the outcome of a step").IsLong(),
		endpoint.New(post, "runs/{id}/fork", operate, s.fork, "start a run from a copy of this one's history").IsLong(),
		endpoint.New(post, "bulk/preview", operate, bulks{s}.preview,
			"which runs a verb on all that match would reach").IsHeavy(),
		endpoint.Raw(post, "bulk", operate, endpoint.Lines, bulks{s}.act,
			"act on the runs of a preview; a line of JSON for each").Sends(reflect.TypeFor[bulkLine]()).IsLong(),
		endpoint.New(get, "deletions", operate, s.deletions, "which runs were deleted, and by whom"),

		endpoint.New(post, "promises/resolve", call, s.resolve, "assign a value to a promise by its token"),
		endpoint.New(post, "promises/reject", call, s.reject, "assign a failure to a promise by its token"),

		endpoint.New(get, "topics", read, s.topics, "the topics"),
		endpoint.New(get, "topics/{name}", read, s.topic, "how a topic stands, and who waits at it"),
		endpoint.New(get, "topics/{name}/events", read, s.topicEvents, "the events that a topic keeps"),
		endpoint.New(post, "topics/{name}/events", call, s.publish, "publish an event"),
		endpoint.New(del, "topics/{name}/events/{event}", operate, s.removeEvent, "remove an event").IsLong(),

		endpoint.New(get, "queues", read, s.queues, "the queues"),
		endpoint.New(get, "queues/{name}", read, s.queue, "how a queue stands"),
		endpoint.New(put, "queues/{name}", operate, s.setQueue, "create a queue, or override its limits"),
		endpoint.New(del, "queues/{name}", operate, onQueue(stet.Queues.Delete), "delete a queue"),
		endpoint.New(post, "queues/{name}/pause", operate, onQueue(stet.Queues.Pause), "grant no permits"),
		endpoint.New(post, "queues/{name}/resume", operate, onQueue(stet.Queues.Resume), "grant permits again"),
		endpoint.New(post, "queues/{name}/reset", operate, onQueue(stet.Queues.Reset),
			"let the declared limits count again"),

		endpoint.New(get, "schedules", read, s.schedules, "the schedules"),
		endpoint.New(get, "schedules/{name}", read, s.schedule, "how a schedule stands, and what became of its instants"),
		endpoint.New(get, "schedules/{name}/next", read, s.next, "the next instants of a schedule").IsHeavy(),
		endpoint.New(put, "schedules/{name}", operate, s.setSchedule, "make or change a schedule"),
		endpoint.New(del, "schedules/{name}", operate, onSchedule(stet.Schedules.Delete), "delete a schedule"),
		endpoint.New(post, "schedules/{name}/pause", operate, onSchedule(stet.Schedules.Pause), "start no runs"),
		endpoint.New(post, "schedules/{name}/resume", operate, onSchedule(stet.Schedules.Resume), "start runs again"),
		endpoint.New(post, "schedules/{name}/trigger", operate, s.trigger, "start a run now"),
		endpoint.New(post, "schedules/{name}/backfill", operate, s.backfill, "start the runs of a past time"),

		endpoint.New(get, "deadletters", read, s.letters, "a page of the dead letters, newest first").IsHeavy(),
		endpoint.New(del, "deadletters/{number}", operate, s.removeLetter, "remove a dead letter"),
		endpoint.New(post, "deadletters/{number}/replay", operate, s.replayLetter, "send a dead letter again"),

		endpoint.New(get, "nodes", read, s.nodes, "the processes that work on the store"),
		endpoint.New(post, "nodes/{name}/drain", access.Admin, s.drain, "have a node give its shards back"),
	}...)
	for i := range table {
		first, _, _ := strings.Cut(table[i].Path, "/")
		s.first = append(s.first, first)
	}
	slices.Sort(s.first)
	s.first = slices.Compact(s.first)
	return table
}
