package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
)

// TestServeScripts: a server executes scripts whose tasks a worker leases by HTTP; nobody has
// written a program.
func TestServeScripts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	db := filepath.Join(dir, "s.db")
	command := func(args ...string) string {
		t.Helper()
		var out, complaints bytes.Buffer
		if code := execute(ctx, append([]string{"--db", db}, args...), nil, &out, &complaints); code != 0 {
			t.Fatalf("stet %s ends with %d: %s", strings.Join(args, " "), code, &complaints)
		}
		return strings.TrimSpace(out.String())
	}
	command("migrate")
	caller := command("token", "create", "ada", "--role", "operator")
	worker := command("token", "create", "w", "--role", "worker", "--named", "task:resize")
	serving, stop := context.WithCancel(ctx)
	out, address := io.Pipe()
	ended := make(chan int, 1)
	var log lockedBuffer
	go func() {
		args := []string{"--db", db, "serve", "--scripts", "--addr", "127.0.0.1:0"}
		ended <- execute(serving, args, nil, address, &log)
		_ = address.Close() // its reader sees the end
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(strings.TrimSpace(line), "#token=")
	album := `export default async function (names: string[]) {
		return await Task.all(names.map((name) => () => Task.run("resize", { name }, { key: name })));
	}`
	if err := os.WriteFile(filepath.Join(dir, "album.ts"), []byte(album), 0o644); err != nil {
		t.Fatal(err)
	}
	command("script", "deploy", filepath.Join(dir, "album.ts"))
	c, err := client.New(url, client.Options{Token: caller})
	if err != nil {
		t.Fatal(err)
	}
	start := api.Start{ID: "album-1", Workflow: "album", Input: json.RawMessage(`["a","b"]`)}
	if _, err := c.Start(ctx, "", start); err != nil {
		t.Fatal(err)
	}
	post := func(verb string, body, into any) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"api/v1/tasks/"+verb, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+worker)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", verb, answer.StatusCode, err)
		}
	}
	for done := 0; done < 2; {
		var got api.TaskLeases
		post("lease", api.LeaseTasks{Worker: "w", Names: []string{"resize"}, Max: 2, WaitMS: 20_000}, &got)
		for _, task := range got.Tasks {
			var completed api.CompletedTask
			post("complete", api.CompleteTask{Lease: task.Lease, Result: task.Input}, &completed)
			done++
		}
	}
	if got := command("wait", "album-1"); !strings.Contains(got, `[{"name":"a"},{"name":"b"}]`) {
		t.Errorf("the run has ended with %s", got)
	}
	if got := status(t, ctx, http.MethodGet, url+"api/v1/runs/album-1/script", caller, ""); got != http.StatusOK {
		t.Errorf("its script: status %d", got)
	}
	leave := waitingWorker(t, url, worker)
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the server ends with %d", code)
	}
	leave()
	if strings.Contains(log.String(), "ERROR") {
		t.Errorf("a clean stop logs an error:\n%s", log.String())
	}
}

// waitingWorker has a worker wait for tasks. leave waits until it has its answer.
func waitingWorker(t *testing.T, url, token string) (leave func()) {
	t.Helper()
	sent, answered := make(chan struct{}), make(chan struct{})
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}
	body, err := json.Marshal(api.LeaseTasks{Worker: "w", Names: []string{"resize"}, Max: 1, WaitMS: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost,
		url+"api/v1/tasks/lease", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	go func() {
		defer close(answered)
		if answer, err := http.DefaultClient.Do(r); err == nil { // otherwise the server has ended first
			_ = answer.Body.Close()
		}
	}()
	<-sent
	return func() { <-answered }
}
