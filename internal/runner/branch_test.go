package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestPanicIsAFailureWithAStack(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		f := b.Go(at("bad"), func(b *Branch) (any, error) { panic("inside") })
		if _, err := b.Await(at("bad"), f); err == nil || err.Error() != "panic: inside" {
			return text("the branch gives %v", err)
		}
		panic(errors.New("outside"))
	})
	h.play()
	h.want(store.Failed, "panic: panic: outside")
	f, err := stored.DecodeFailure(h.r.Over().Output)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Stack, "branch_test.go") {
		t.Errorf("the stack does not show where: %s", f.Stack)
	}
}

func TestPanicOfAMapKeyIsTheCallers(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, _, err := b.Map(at("m"), 2, 1, func(i int) string { return [1]string{"k"}[i] },
			func(b *Branch, i int) (any, error) { return step(b, "s") })
		return result("", err)
	})
	h.play()
	h.want(store.Failed, "index out of range")
}

func TestGoexitIsAFailure(t *testing.T) {
	for _, place := range []string{"root", "branch"} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			if place == "root" {
				runtime.Goexit()
			}
			_, err := b.Await(at("b"), b.Go(at("b"), func(*Branch) (any, error) { runtime.Goexit(); return nil, nil }))
			return result("", err)
		})
		h.play()
		h.want(store.Failed, "runtime.Goexit")
	}
}

func TestMisuseOfAContext(t *testing.T) {
	elsewhere := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	for _, c := range []struct {
		name string
		code func(b *Branch) error
		want string
	}{
		{"in another branch", func(b *Branch) error {
			_, err := b.Await(at("x"), b.Go(at("x"), func(*Branch) (any, error) { return step(b, "s") }))
			return err
		}, "through the context of the workflow's function by the code of x"},
		{"of a branch that has ended", func(b *Branch) error {
			var inner *Branch
			_, _ = b.Await(at("x"), b.Go(at("x"), func(b *Branch) (any, error) { inner = b; return nil, nil }))
			_, err := step(inner, "s")
			return err
		}, "through the context of x by the code of the workflow's function"},
		{"in a foreign goroutine", func(b *Branch) (err error) {
			elsewhere(func() { _, err = step(b, "s") })
			return err
		}, "by a step body or a foreign goroutine"},
		{"in a foreign goroutine, after a good call", func(b *Branch) (err error) {
			if err := b.Sleep(at("nap"), 0); err != nil {
				return err
			}
			elsewhere(func() { _, err = b.Derive(at("random"), "random") })
			return err
		}, "by a step body or a foreign goroutine"},
		{"in a step", func(b *Branch) error {
			_, err := b.Step(Step{Call: at("s"), Policy: once, Func: func(context.Context, *Body) BodyResult {
				_, err := step(b, "inner")
				return BodyResult{Value: []byte(err.Error())}
			}})
			return err
		}, "by a step body or a foreign goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result("fine", c.code(b)) })
			h.finish()
			h.want(store.Failed, c.want)
		})
	}
}

// The stack of a branch is known however deep it is, and when it has moved. An
// iterator that is pulled runs in step with its caller and counts as its code.
func TestOwnCodeIsNoMisuse(t *testing.T) {
	var deep func(b *Branch, n int) (string, error)
	deep = func(b *Branch, n int) (string, error) {
		var room [512]byte
		if n > 0 {
			v, err := deep(b, n-1)
			return v + string(room[:0]), err
		}
		return step(b, "s")
	}
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for _, n := range []int{0, 300, 3, 2000, 0} {
			if _, err := deep(b, n); err != nil {
				return result("", err)
			}
		}
		next, stop := iter.Pull(func(yield func(string) bool) {
			v, _ := step(b, "pulled")
			yield(v)
		})
		defer stop()
		v, _ := next()
		return text("%s", v)
	})
	h.finish()
	h.want(store.Succeeded, "of pulled")
}

// callSites returns two call sites on two lines.
func callSites() [2]uintptr {
	var a, b [1]uintptr
	runtime.Callers(1, a[:])
	runtime.Callers(1, b[:])
	return [2]uintptr{a[0], b[0]}
}

func TestTwoPlacesWithOneName(t *testing.T) {
	sites := callSites()
	ask := func(b *Branch, i int, name, key string) (string, error) {
		v, err := b.Step(Step{Call: Call{Name: name, Key: key, Site: sites[i]}, Policy: once})
		return string(v), err
	}
	t.Run("is an error", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			_, _ = ask(b, 0, "fetch", "")
			return result(ask(b, 1, "fetch", ""))
		})
		h.finish()
		h.want(store.Failed, `two places in the code use the name "fetch"`)
	})
	t.Run("unless they have keys", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			_, _ = ask(b, 0, "fetch", "a")
			return result(ask(b, 1, "fetch", "b"))
		})
		h.finish()
		h.want(store.Succeeded, "of fetch/[b]")
	})
	t.Run("or are in two scopes", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			f := b.Go(at("x"), func(b *Branch) (any, error) { return ask(b, 0, "fetch", "") })
			_, _ = b.Await(at("x"), f)
			return result(ask(b, 1, "fetch", ""))
		})
		h.finish()
		h.want(store.Succeeded, "of fetch")
	})
	t.Run("a map and a branch with one of its keys", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			_, _, err := b.Map(Call{Name: "m", Site: sites[0]}, 1, 1, func(int) string { return "k" },
				func(b *Branch, _ int) (any, error) { return step(b, "s") })
			if err != nil {
				return result("", err)
			}
			_, err = b.Await(at("m"), b.Go(Call{Name: "m", Key: "k", Site: sites[1]},
				func(b *Branch) (any, error) { return step(b, "s") }))
			return result("", err)
		})
		h.finish()
		h.want(store.Failed, `two places in the code use the name "m"`)
	})
}

func TestOneNameInALoop(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for range 3 {
			if _, err := step(b, "s"); err != nil {
				return result("", err)
			}
		}
		return text("")
	})
	h.finish()
	h.wantOrder("s", "s#2", "s#3")
	h.replays()
}

func TestEvictionRunsDeferredFunctionsAndNoOperations(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		b.OnExit(func() { trace = append(trace, "exit") })
		defer func() {
			trace = append(trace, fmt.Sprint("recover ", recover()))
			_, err := b.Step(Step{Call: shielded("clean"), Policy: once})
			trace = append(trace, fmt.Sprint("cleaned ", err))
		}()
		settled := b.Go(at("x"), func(*Branch) (any, error) { return nil, nil })
		_, _ = b.Await(at("x"), settled)
		defer func() {
			trace = append(trace, "deferred")
			_, _ = b.Await(at("x"), settled)
			trace = append(trace, "an operation returned")
		}()
		_, err := receive(b, "mail", 0)
		return result("", err)
	})
	h.play()
	h.leave()
	if want := []string{"deferred", "recover <nil>", "exit"}; !slices.Equal(trace, want) {
		t.Fatalf("at the eviction: %q, want %q", trace, want)
	}
	trace = nil
	h.send("mail", "v")
	h.end("clean", "")
	if want := []string{"deferred", "an operation returned", "recover <nil>", "cleaned <nil>",
		"exit"}; !slices.Equal(trace, want) {
		t.Fatalf("at the end: %q, want %q", trace, want)
	}
}

// Branches are unwound one at a time, the youngest first.
func TestOrderOfUnwinding(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		defer func() { trace = append(trace, "root") }()
		for i := range 3 {
			b.Go(at(fmt.Sprint("x", i)), func(b *Branch) (any, error) {
				defer func() { trace = append(trace, b.At().String()) }()
				b.Go(at("y"), func(b *Branch) (any, error) {
					defer func() { trace = append(trace, b.At().String()) }()
					return receive(b, "mail", 0)
				})
				return receive(b, "mail", 0)
			})
		}
		return result(receive(b, "mail", 0))
	})
	h.play()
	h.leave()
	if want := []string{"x2/y", "x1/y", "x0/y", "x2", "x1", "x0", "root"}; !slices.Equal(trace, want) {
		t.Errorf("unwound as %q, want %q", trace, want)
	}
}

// A panic in a deferred function does not end the process, live or unwound.
func TestPanicWhileUnwinding(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for i := range 3 {
			b.Go(at(fmt.Sprint("x", i)), func(b *Branch) (any, error) {
				defer func() { panic("while unwinding") }()
				return receive(b, "mail", 0)
			})
		}
		defer func() { panic("while unwinding") }()
		return result(receive(b, "mail", 0))
	})
	h.play()
	h.leave()
}

func TestDeadlockNamesThePlaces(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var first *Future
		second := b.Go(at("second"), func(b *Branch) (any, error) { return b.Await(at("first"), first) })
		first = b.Go(at("first"), func(b *Branch) (any, error) { return b.Await(at("second"), second) })
		_, err := b.Await(at("first"), first)
		return result("", err)
	})
	h.play()
	h.want(store.Failed, "no operation is open: first, second, the workflow's function")
}
