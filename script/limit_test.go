package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// runaways are pieces of code that would take a process down, or a core for ever. Each ends in
// one of the ways of the table of limits.
var runaways = map[string]struct{ code, want string }{
	"endless loop":       {`for (;;) {}`, "stall"},
	"endless callbacks":  {`const p = () => Promise.resolve().then(p); await p()`, "stall"},
	"endless recursion":  {`const f = n => f(n + 1); try { f(0) } catch (e) { return "caught" }`, "nested calls"},
	"endless array":      {`const a = []; for (;;) a.push({ n: a.length, s: "x".repeat(100) })`, "stall"},
	"endless string":     {`let s = "x"; for (;;) s += s`, "RangeError"},
	"doubled string":     {`let s = "x"; for (;;) s = s + ("" + s)`, "RangeError"},
	"doubled template":   {"let s = \"x\"; for (;;) s = `${s}${s}`", "RangeError"},
	"doubled property":   {`const o = { s: "x" }; for (;;) o.s += o.s`, "RangeError"},
	"growing string":     {`let s = "x".repeat(4e6); const t = s; for (;;) s += t`, "stall"},
	"endless map":        {`const m = new Map(); for (let i = 0;; i++) m.set(i, "x".repeat(100))`, "stall"},
	"endless iterator":   {`Array.from((function* () { for (;;) yield {} })())`, "stall"},
	"endless spread":     {`[...(function* () { for (;;) yield {} })()]`, "stall"},
	"repeat":             {`"x".repeat(2 ** 30)`, "RangeError"},
	"padStart":           {`"x".padStart(2 ** 30)`, "RangeError"},
	"concat":             {`const s = "x".repeat(1e7); s.concat(s, s, s, s)`, "RangeError"},
	"array":              {`new Array(1e8).fill(0)`, "RangeError"},
	"length":             {`const a = []; a.length = 4e9; a.indexOf(1)`, "RangeError"},
	"length of another":  {`Array.prototype.reverse.call({ length: 4e9 })`, "RangeError"},
	"arguments":          {`Math.max.apply(null, { length: 4e9 })`, "RangeError"},
	"reflected":          {`Reflect.apply(Math.max, null, { length: 4e9 })`, "RangeError"},
	"join":               {`const a = ["x".repeat(1e7)]; [a, a, a].join()`, "RangeError"},
	"nested join":        {`let a = ["x".repeat(1e5)]; for (let i = 0; i < 60; i++) a = [a, a]; String(a)`, "RangeError"},
	"circular join":      {`const a = []; a.push(a); String(a)`, "RangeError"},
	"flat":               {`let a = Array(1e5).fill(1); for (let i = 0; i < 60; i++) a = [a, a]; a.flat(Infinity)`, "RangeError"},
	"replace":            {`"a".repeat(1e5).replace(/a/g, "b".repeat(1e5))`, "RangeError"},
	"replace with $":     {"\"a\".repeat(1e5).replace(/a/g, \"$`\")", "RangeError"},
	"replaceAll":         {`"a".repeat(1e5).replaceAll("a", "b".repeat(1e5))`, "RangeError"},
	"split":              {`"a".repeat(16e6).split("")`, "RangeError"},
	"deep JSON":          {`let o = {}; for (let i = 0; i < 1e3; i++) o = { o }; JSON.stringify(o)`, "RangeError"},
	"wide JSON":          {`let o = ["x".repeat(1e5)]; for (let i = 0; i < 8; i++) o = [o, o]; JSON.stringify(o)`, "RangeError"},
	"long JSON":          {`const s = "x".repeat(1e7); JSON.stringify([s, s])`, "RangeError"},
	"circular JSON":      {`const o = {}; o.o = o; JSON.stringify(o)`, "RangeError"},
	"deep value":         {`let o = {}; for (let i = 0; i < 1e3; i++) o = { o }; await Task.run("echo", o)`, "RangeError"},
	"backtracking":       {`/(x+x+)+y/.test("x".repeat(1e5)); new RegExp("(?=a)")`, "SyntaxError"},
	"repeated repeat":    {`new RegExp("^(x+){1,2000}$").test("x".repeat(40))`, "SyntaxError"},
	"match of a text":    {`"x".match("^(x+){1,2000}$")`, "SyntaxError"},
	"matches of a text":  {`[..."x".matchAll("(?=a)")]`, "SyntaxError"},
	"search of a text":   {`"x".search("(?=a)")`, "SyntaxError"},
	"compiled again":     {`/a/.compile("(?=a)")`, "TypeError"},
	"behind the start":   {`const re = /(x+x+)+y/g; re.lastIndex = 1; re.test("x".repeat(60)); throw Error("in time")`, "in time"},
	"next match":         {`[...("xxy" + "x".repeat(60)).matchAll(/(x+x+)+y/g)]; throw Error("in time")`, "in time"},
	"beyond ASCII":       {`("ä" + "x".repeat(60)).replace(/(x+x+)+y/g, "").match(/(x+x+)+y/g); throw Error("in time")`, "in time"},
	"split beyond ASCII": {`("ä" + "x".repeat(60)).split(/(x+x+)+y/); throw Error("in time")`, "in time"},
	"many matches":       {`"a".repeat(1e6).match(/a*b|a/g)`, "stall"},
	"computed name":      {`const n = "rep"; "x"[n + "eat"](2 ** 30)`, "RangeError"},
	"computed, taken":    {`const { ["rep" + "eat"]: f } = "x"; f.call("x", 2 ** 30)`, "RangeError"},
	"escaped name":       {`"x".\u0072epeat(2 ** 30)`, "RangeError"},
	"escaped text":       {`"x"["\x72epeat"](2 ** 30)`, "RangeError"},
	"reflected name":     {`Reflect.get("x".constructor.prototype, "rep" + "eat").call("x", 2 ** 30)`, "RangeError"},
	"alias":              {`const f = "".repeat; f.bind("x")(2 ** 30)`, "RangeError"},
	"deep text of JSON":  {`JSON.parse("[".repeat(101) + "]".repeat(101))`, "RangeError"},
	"wide text of JSON":  {`JSON.parse("[" + "0,".repeat(1000001) + "0]")`, "RangeError"},
	"toJSON":             {`let n = 0; const o = { toJSON: () => n++ < 200 ? { o } : 1 }; JSON.stringify(o)`, "RangeError"},
	"toJSON of a result": {`let n = 0; const o = { toJSON: () => n++ < 200 ? { o } : 1 }; return o`, "RangeError"},
	"search":             {`("ä".repeat(1e5)).indexOf("ä".repeat(5e4) + "b")`, "RangeError"},
	"sort":               {`Array.from({ length: 200001 }, (_, i) => i).sort()`, "RangeError"},
	"keys of a text":     {`Object.keys("x".repeat(1000001))`, "RangeError"},
	"entries of a text":  {`Object.entries(new String("x".repeat(1000001)))`, "RangeError"},
	"indented JSON": {`let v = Array(20000).fill(1); for (let i = 0; i < 98; i++) v = [v]; JSON.stringify(v, null, 10)`,
		"RangeError"},
	"normalize":         {`"\u00e9".repeat(1048577).normalize("NFD")`, "RangeError"},
	"localeCompare":     {`"a".localeCompare("b".repeat(1048577))`, "RangeError"},
	"parseFloat":        {`parseFloat("1".repeat(1048577))`, "RangeError"},
	"Number.parseFloat": {`Number.parseFloat("1".repeat(1048577))`, "RangeError"},
	"characters":        {`[..."ä".repeat(1000001)]`, "RangeError"},
	"set of characters": {`new Set("ä".repeat(1000001))`, "RangeError"},
	"endless result":    {`let n = 0; const o = { toJSON: () => { if (n++) for (;;) {} } }; return o`, "executed for"},
	"raw":               {`String.raw({ raw: { length: 1000001 } })`, "RangeError"},
	"computed eval":     {`const e = "ev"; globalThis[e + "al"]("1")`, "TypeError"},
	"computed BigInt":   {`const b = "Big"; globalThis[b + "Int"](1)`, "TypeError"},
	"operations":        {`for (let i = 0; i < 10001; i++) Task.delay(1)`, "TypeError"},
	"code from text":    {`(() => {}).constructor("for (;;) {}")()`, "TypeError"},
}

// TestRunaways: each of a corpus of runaways ends in its way, and the process goes on with other
// runs meanwhile, and takes no more memory than a second gives it.
func TestRunaways(t *testing.T) { bothForms(t, testRunaways) }

func testRunaways(t *testing.T) {
	script.LimitsUnderRace(t)
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: isolates(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	engine, err := stet.New(ctx, stet.Config{
		Store: memory.New(), Library: lib, Logger: slog.New(slog.DiscardHandler),
		LeaseTTL: time.Hour, // runaways leave the engine little time, and a busy machine less
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		defer stop() // so that nothing waits for an engine that has ended
		over <- engine.Run(ctx)
	}()
	defer func() {
		stop()
		if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	var peak atomic.Uint64
	go func() {
		sample := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for tick := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-tick.C {
			metrics.Read(sample[:])
			peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
		}
	}()
	n := 0
	launch := func(name string) *stet.Run[json.RawMessage] {
		n++
		id := fmt.Sprint("r", n)
		deploy(ctx, t, engine, id, runaways[name].code)
		return begin(t, ctx, engine, id)
	}
	ended := func(name string, run *stet.Run[json.RawMessage]) {
		_, err := run.Wait(ctx)
		info, infoErr := run.Info(ctx)
		entries, histErr := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
		if infoErr != nil || histErr != nil {
			t.Fatal(infoErr, histErr)
		}
		switch want := runaways[name].want; {
		case want == "stall":
			placed := strings.Contains(info.Reason, ".js:") ||
				isolates(t) && strings.Contains(info.Reason, "its process was ended") // on a busy machine
			if info.Cause != stet.CauseCode || !placed || len(entries) != 0 {
				t.Errorf("%s: expected a stall with its place, without entries; found %s, %s, %v, %d entries", name, info.Status,
					info.Reason, err, len(entries))
			}
		case want != "in time" && (info.Cause != stet.CauseCode || !strings.Contains(info.Reason, want)):
			t.Errorf("%s: expected a stall with %s, found %s, %s, %v", name, want, info.Status, info.Reason, err)
		case want == "in time" && (info.Status != store.Failed || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: expected a failure with %s, found %v", name, want, err)
		}
	}
	stalling := map[string]*stet.Run[json.RawMessage]{}
	for name, r := range runaways {
		if r.want == "stall" {
			stalling[name] = launch(name)
		}
	}
	deploy(ctx, t, engine, "fine", `return await Task.run("add", [1, 2])`)
	for range 20 {
		want(t, ctx, begin(t, ctx, engine, "fine"), "3")
	}
	for name, run := range stalling {
		ended(name, run)
	}
	for name, r := range runaways { // one at a time: they are to end before their second is over
		if r.want != "stall" && !isolates(t) { // what the interpreter itself refuses is the same in a child
			ended(name, launch(name))
		}
	}
	t.Logf("the heap had at most %d MiB", peak.Load()>>20)
	if peak.Load() > 2<<30 {
		t.Errorf("the heap had %d MiB", peak.Load()>>20)
	}
}
