package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// What a process of the workload restart prints, each on a line.
const (
	stepLine = "step " // and its number
	endLine  = "end"
)

// takeRestart is one of the two lives of a process. In the first one the run stands still in the middle until the
// process is killed. In the second one it goes on, and its end is printed.
func takeRestart(ctx context.Context, s *spec, r runner, w *work, out io.Writer) error {
	w.hold = func(step int) {
		_, _ = fmt.Fprintln(out, stepLine+strconv.Itoa(step)) // without it the conductor waits, and says so
		if !s.Again && step == s.Steps/2 {
			select {}
		}
	}
	stop, err := r.serve(ctx, 1)
	if err != nil {
		return err
	}
	if !s.Again {
		_, err = r.execute(ctx, restartID, newInput(0, s.Steps))
		return errors.Join(err, errors.New("expected to be killed"))
	}
	if _, err := r.await(ctx, restartID); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, endLine)
	return stop()
}

// measureRestart kills a process with a run half done and starts it again: it returns the time from that start to the
// end of the run.
func measureRestart(ctx context.Context, s spec) (*outcome, error) {
	executed := make([]int, s.Steps)
	s.Again = false
	if _, err := follow(ctx, &s, func(line string) bool {
		return noteStep(executed, line) == s.Steps/2
	}); err != nil {
		return nil, err
	}
	s.Again = true
	took, err := follow(ctx, &s, func(line string) bool {
		noteStep(executed, line)
		return line == endLine
	})
	if err != nil {
		return nil, err
	}
	for i, n := range executed {
		want := 1
		if i == s.Steps/2 {
			want = 2 // the kill has interrupted it
		}
		if n != want {
			return nil, fmt.Errorf("expected that step %d was executed %d times, found %d", i, want, n)
		}
	}
	var o outcome
	o.duration(fmt.Sprintf("start after kill -9 to the end of a run with %d of %d steps done", s.Steps/2, s.Steps), took)
	return &o, nil
}

// noteStep counts the step that a line names, and returns it; -1: none.
func noteStep(executed []int, line string) int {
	step, ok := strings.CutPrefix(line, stepLine)
	if !ok {
		return -1
	}
	i, err := strconv.Atoi(step)
	if err != nil || i >= len(executed) {
		return -1
	}
	executed[i]++
	return i
}

// follow starts a process and kills it when a line of its output is the last one. It returns the time until then.
func follow(ctx context.Context, s *spec, last func(line string) bool) (time.Duration, error) {
	command, err := process(ctx, s)
	if err != nil {
		return 0, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := command.Start(); err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if last(lines.Text()) {
			took := time.Since(begun)
			err := command.Process.Kill()
			_ = command.Wait() // killed, it says
			return took, err
		}
	}
	return 0, errors.Join(errors.New("the process has ended early"), command.Wait())
}

// measureArg is the first argument of a process that measures. The second one is its spec.
const measureArg = "measure"

// process returns the command of a process that measures.
func process(ctx context.Context, s *spec) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, measureArg, string(text))
	command.Stderr = os.Stderr
	return command, nil
}
