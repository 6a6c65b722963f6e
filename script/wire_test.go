package script

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// FuzzReply: whatever a child writes, the program reads replies or an error, and no more than a reply may have.
func FuzzReply(f *testing.F) {
	var wire bytes.Buffer
	child := newPipe[reply, request](&wire, strings.NewReader(""), 0)
	for _, r := range []*reply{
		{Ask: &ask{Kind: askToken, Text: "approval"}}, {Missing: missingProgram},
		{Left: &left{Calls: []call{{Number: 1, Act: runTask, Name: "echo", Input: "1"}}, State: resultFulfilled, Result: "2"}},
		{Left: &left{Failure: &failure{Problem: &problem{Number: 7}}}},
	} {
		if err := child.send(r); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(wire.Bytes()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPipe[request, reply](io.Discard, bytes.NewReader(data), maxReply)
		for {
			if _, err := p.receive(); err != nil {
				return
			}
		}
	})
}

// TestRepliesAreBounded: a reply that is too long is refused before it takes memory. The bound is that of each
// reply, and not of all together.
func TestRepliesAreBounded(t *testing.T) {
	var wire bytes.Buffer
	child := newPipe[reply, request](&wire, strings.NewReader(""), 0)
	send := func(n int) {
		t.Helper()
		if err := child.send(&reply{Left: &left{Result: strings.Repeat("x", n)}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		send(3000)
	}
	send(5000)
	program := newPipe[request, reply](io.Discard, &wire, 4096)
	for range 3 {
		if r, err := program.receive(); err != nil || len(r.Left.Result) != 3000 {
			t.Fatalf("expected a reply of 3,000 bytes, found %v", err)
		}
	}
	if _, err := program.receive(); !errors.Is(err, errTooLong) {
		t.Errorf("expected %v, found %v", errTooLong, err)
	}
}

// TestMessagesKeepValues: a request and a reply arrive as they were sent, with texts of any bytes and empty ones.
func TestMessagesKeepValues(t *testing.T) {
	var wire bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	to := newPipe[request, reply](&wire, strings.NewReader(""), 0)
	sent := &request{Run: 3, Ended: []uint64{1, 2}, Limit: time.Second, Entry: &entry{Now: now, Settle: &outcome{
		Number: 1, Value: []byte("{\"a\":\"\xff\u2028<\"}"), Problem: &problem{Name: "Timeout", Number: 4},
	}}}
	if err := to.send(sent); err != nil {
		t.Fatal(err)
	}
	got, err := newPipe[reply, request](io.Discard, &wire, 0).receive()
	if err != nil {
		t.Fatal(err)
	}
	settled := got.Entry.Settle
	if got.Run != 3 || len(got.Ended) != 2 || got.Limit != time.Second || !got.Entry.Now.Equal(now) ||
		!bytes.Equal(settled.Value, sent.Entry.Settle.Value) || *settled.Problem != *sent.Entry.Settle.Problem {
		t.Errorf("expected %+v, found %+v", sent, got)
	}
}
