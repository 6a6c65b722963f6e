package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// cost is what the process of a package's tests took, with its children, without the shared servers.
type cost struct {
	Dir       string
	Processor time.Duration
	Wall      time.Duration
	Waited    time.Duration // for a processor, by its own threads; 0 where the system does not tell
}

// starved reports whether the process waited for processors longer than it had them.
func (c cost) starved() bool { return c.Waited > c.Processor }

// costsVariable is the file that costs are added to.
const costsVariable = "STET_PROVE_COSTS"

// measure runs the program of a package's tests, which go test gives with its arguments, and notes what it costs. It
// returns the program's exit code.
func measure(program []string) int {
	command := exec.Command(program[0], program[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	begun := time.Now()
	if err := command.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signals := make(chan os.Signal, 4) // go test sends SIGQUIT to a program that takes too long
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s) // it may have ended
		}
	}()
	watch := watchWaits(command.Process.Pid)
	err := command.Wait()
	state := command.ProcessState
	c := cost{Processor: state.UserTime() + state.SystemTime(), Wall: time.Since(begun), Waited: watch.end()}
	if note := c.note(); note != nil {
		fmt.Fprintln(os.Stderr, note)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	return 2 // a signal
}

// note appends the cost to the file of the run.
func (c cost) note() error {
	file := os.Getenv(costsVariable)
	if file == "" {
		return nil
	}
	var err error
	if c.Dir, err = os.Getwd(); err != nil { // that of the package
		return err
	}
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// readCosts returns the costs in a file, by the folder of the package. Those of several runs of one package are added.
func readCosts(file string) (map[string]cost, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	costs := map[string]cost{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c cost
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, err
		}
		sum := costs[c.Dir]
		sum.Dir = c.Dir
		sum.Processor += c.Processor
		sum.Wall += c.Wall
		sum.Waited += c.Waited
		costs[c.Dir] = sum
	}
	return costs, nil
}

// waits adds up how long the threads of a process have waited for a processor, as Linux counts it: the second number of
// /proc/PID/task/TID/schedstat, in nanoseconds. It looks twice a second, since a thread that has ended is gone.
type waits struct {
	stop chan struct{}
	done sync.WaitGroup
	by   map[string]time.Duration
}

func watchWaits(pid int) *waits {
	w := &waits{stop: make(chan struct{}), by: map[string]time.Duration{}}
	pattern := filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat")
	w.done.Go(func() {
		again := time.NewTicker(time.Second / 2)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-w.stop:
				return
			}
			files, _ := filepath.Glob(pattern) // the pattern is well formed
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil {
					if f := strings.Fields(string(text)); len(f) == 3 {
						n, _ := strconv.ParseInt(f[1], 10, 64)
						w.by[file] = time.Duration(n)
					}
				}
			}
		}
	})
	return w
}

func (w *waits) end() time.Duration {
	close(w.stop)
	w.done.Wait()
	var sum time.Duration
	for _, d := range w.by {
		sum += d
	}
	return sum
}

// calibrate does a fixed piece of work: hashing, allocation, maps. Its processor time says how fast the machine is now.
func calibrate() {
	block := make([]byte, 1<<16)
	for range 1 << 11 {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
	}
	for range 8 {
		m := map[string][]byte{}
		for i := range 1 << 15 {
			m[strconv.Itoa(i)] = make([]byte, 64)
		}
	}
}

// slowness returns the processor time of the fixed piece of work.
func slowness() (time.Duration, error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	command := exec.Command(program, "-calibrate")
	if err := command.Run(); err != nil {
		return 0, err
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}
