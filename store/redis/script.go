package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is an act that the server carries out. It is named by its file.
type script struct {
	name string
	text func() scriptText // composed at its first use: a process may have no Redis store
	read bool              // changes nothing
}

type scriptText struct{ body, sha string }

// scripts are all scripts.
var scripts []*script

// newScript returns the script of a file with the libraries that it needs.
func newScript(name string, read bool, libraries ...string) *script {
	return newScriptWithRest(name, read, libraries, nil)
}

// newScriptWithRest is newScript of a script that seldom needs some of its files: these are the function rest.
//
// A server executes all of a script for each call. To define the functions of a long one is most of its work then: to
// find a variable of the same function that another one refers to, Lua passes by all that were referred to since. So
// what follows the base is a function of its own, which has the base's variables at hand.
func newScriptWithRest(name string, read bool, libraries, rest []string) *script {
	sc := &script{name: name, read: read, text: sync.OnceValue(func() scriptText {
		var body strings.Builder
		add := func(files ...string) {
			for _, file := range files {
				text, err := luaFiles.ReadFile("lua/" + file + ".lua")
				if err != nil {
					panic(err) // the files are compiled in
				}
				body.Write(text)
				body.WriteByte('\n')
			}
		}
		add("whole", "base")
		body.WriteString("return (function()\n")
		add(libraries...)
		if len(rest) > 0 {
			body.WriteString("local function rest()\n")
			add(rest...)
			body.WriteString("end\n")
		}
		add(name)
		body.WriteString("end)()\n")
		text := words.Lua(body.String(), protocol)
		sum := sha1.Sum([]byte(text))
		return scriptText{text, hex.EncodeToString(sum[:])}
	})}
	scripts = append(scripts, sc)
	return sc
}

var (
	commitScript = newScriptWithRest("commit", false, []string{"leases", "batch"},
		[]string{"inbox", "apply", "turn", "rest"})
	deliverScript  = newScript("deliver", false, "leases", "inbox", "apply")
	outboxScript   = newScript("outbox", false, "waiting")
	claimScript    = newScript("claim", false, "inbox")
	acquireScript  = newScript("acquire", false, "full", "giveback")
	renewScript    = newScript("renew", false, "full", "waiting")
	releaseScript  = newScript("release", false, "full", "giveback")
	registerScript = newScript("register", false, "full")
	forgetScript   = newScript("forget", false)
	describeScript = newScript("describe", true)
	loadScript     = newScript("load", true, "inbox")
	listScript     = newScript("list", true)
	countScript    = newScript("count", true)
	historyScript  = newScript("history", true)
	itemsScript    = newScript("items", true, "inbox")
	pendingScript  = newScript("pending", true, "inbox")
	feedsScript    = newScript("feeds", true)
	auditScript    = newScript("audit", true)
	streamScript   = newScript("stream", true)
	deadScript     = newScript("dead", true, "inbox")
	discardScript  = newScript("discard", false, "full", "inbox")
	sweepScript    = newScript("sweep", false, "full", "keeps", "drop")
	removeScript   = newScript("remove", false, "full", "keeps", "drop")
	parentsScript  = newScript("parents", true, "keeps")
	currentScript  = newScript("current", true)
	openScript     = newScript("open", false)
	noteScript     = newScript("note", false)
	doctorScript   = newScript("doctor", true, "inbox")
	numbersScript  = newScript("numbers", true)
	roomScript     = newScript("room", true)
)

// call is one execution of a script on one part.
type call struct {
	part int
	args []string
}

// reply is the answer of a script.
type reply = rueidis.RedisMessage

// run executes a script on parts, in one pipeline. Calls for one part are carried
// out in their order. what names the act for errors.
func (s *Store) run(ctx context.Context, sc *script, what string, calls ...call) ([]reply, error) {
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !sc.read {
		if err := s.promised(ctx, what); err != nil {
			return nil, err
		}
	}
	replies, errs := s.attempt(ctx, sc, calls)
	if sc.read && slices.ContainsFunc(errs, wasClosed) && ctx.Err() == nil {
		replies, errs = s.attempt(ctx, sc, calls) // on a new connection
	}
	for i, err := range errs {
		if err != nil {
			return nil, classify(ctx, at(s, what, calls[i].part), err, !sc.read && len(calls) > 1)
		}
	}
	if !sc.read {
		if err := s.kept(ctx, what); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// wasClosed reports whether this process has closed the connection of a call, because it was silent: for the call, or
// for one before it.
func wasClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// at names an act on a part for errors.
func at(s *Store, what string, part int) string {
	if len(s.lanes) < 2 {
		return what
	}
	return what + ": " + s.lanes[s.laneOf[part]].String()
}

// attempt is run. Each call has its own error.
func (s *Store) attempt(ctx context.Context, sc *script, calls []call) ([]reply, []error) {
	replies, errs := make([]reply, len(calls)), make([]error, len(calls))
	todo := make([]int, len(calls))
	for i := range todo {
		todo[i] = i
	}
	// A server that does not have the script gets it with the first call. Behind it the others
	// are repeated; which server they are on is not known, so the first of each lane has it.
	for try := 0; len(todo) > 0; try++ {
		var whole []int
		switch {
		case try == 0:
		case try == 1 && len(s.lanes) > 0:
			whole = firstOfLanes(s, calls, todo)
		default: // a lane's parts have moved, or the store is being opened
			whole = todo
		}
		if len(whole) > 0 && len(whole) < len(todo) {
			s.execute(ctx, sc, calls, whole, true, replies, errs)
			todo = slices.DeleteFunc(todo, func(i int) bool { return slices.Contains(whole, i) })
			whole = nil
		}
		s.execute(ctx, sc, calls, todo, len(whole) > 0, replies, errs)
		todo = slices.DeleteFunc(todo, func(i int) bool {
			redisErr, ok := rueidis.IsRedisErr(errs[i])
			return !ok || !redisErr.IsNoScript() || try == 3
		})
	}
	return replies, errs
}

// firstOfLanes returns the first calls of each lane.
func firstOfLanes(s *Store, calls []call, which []int) (first []int) {
	seen := map[int]bool{}
	for _, i := range which {
		if lane := s.laneOf[calls[i].part]; !seen[lane] {
			seen[lane] = true
			first = append(first, i)
		}
	}
	return first
}

// execute sends calls, by the name of the script or with its whole text, and waits for their answers.
func (s *Store) execute(ctx context.Context, sc *script, calls []call, which []int, whole bool, replies []reply,
	errs []error) {
	commands := make(rueidis.Commands, len(which))
	text := sc.text()
	for k, i := range which {
		args, key := append(slices.Clip(s.head()), calls[i].args...), s.tag(calls[i].part)+"n"
		if whole {
			commands[k] = s.client.B().Eval().Script(text.body).Numkeys(1).Key(key).Arg(args...).Build()
		} else {
			commands[k] = s.client.B().Evalsha().Sha1(text.sha).Numkeys(1).Key(key).Arg(args...).Build()
		}
	}
	if len(commands) == 1 {
		replies[which[0]], errs[which[0]] = s.client.Do(ctx, commands[0]).ToMessage()
		return
	}
	for k, result := range s.client.DoMulti(ctx, commands...) {
		replies[which[k]], errs[which[k]] = result.ToMessage()
	}
}

// one executes a script on one part.
func (s *Store) one(ctx context.Context, sc *script, what string, part int, args ...string) (reply, error) {
	replies, err := s.run(ctx, sc, what, call{part, args})
	if err != nil {
		return reply{}, err
	}
	return replies[0], nil
}

// everywhere executes a script with the same arguments on all parts.
func (s *Store) everywhere(ctx context.Context, sc *script, what string, args ...string) ([]reply, error) {
	all := make([]int, s.parts)
	for i := range all {
		all[i] = i
	}
	return s.run(ctx, sc, what, onAll(all, args...)...)
}

// onAll returns calls with the same arguments on parts.
func onAll(parts []int, args ...string) []call {
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = call{part, args}
	}
	return calls
}

// classes are the answers of a server that cannot carry out an act now, by their
// first word. Nothing has happened then.
var classes = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "READONLY", "MISCONF", "OOM",
	"NOREPLICAS", "MOVED", "ASK", "NOSCRIPT"}

// classify gives an error of the client or the server its class in the contract.
// several says that the act had more than one part, so that some may stand. The client has deadlines of its own, for a
// server that is silent: the caller's context tells whether a deadline was the caller's.
func classify(ctx context.Context, what string, err error, several bool) error {
	redisErr, ok := rueidis.IsRedisErr(err)
	if !ok {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w: %w", what, store.ErrUnknown, err)
		}
		return fmt.Errorf("%s: %w: %w: %w", what, store.ErrUnavailable, store.ErrUnknown, err)
	}
	text := redisErr.Error()
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case word == "STET" && strings.HasPrefix(rest, "former"):
		return fmt.Errorf("%s: %w: expected a number above that of the last batch, found %s", what, store.ErrInvalid, rest)
	case word == "STET" && strings.HasPrefix(rest, "behind "):
		return fmt.Errorf("%s: %w: expected the node's last batch that was acknowledged, found %s as the last one",
			what, store.ErrWentBack, strings.TrimPrefix(rest, "behind "))
	case slices.Contains(classes, word) && several:
		return fmt.Errorf("%s: %w: %w: %w", what, store.ErrUnavailable, store.ErrUnknown, redisErr)
	case slices.Contains(classes, word):
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, redisErr)
	}
	return fmt.Errorf("%s: %w", what, redisErr)
}
