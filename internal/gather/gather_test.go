package gather

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGather adds work while workers are free and while none is, and looks what each got.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		name string
		adds [][]int // all at once
		want string  // what the workers got, by the first of each
	}{
		{"one is done at once", [][]int{{1}}, "[[1]]"},
		{"nothing", [][]int{{}}, "[]"},
		{"each worker gets one", [][]int{{1}, {2}}, "[[1] [2]]"},
		{"what comes while all work waits", [][]int{{1}, {2}, {3}, {4}, {5}}, "[[1] [2] [3 4 5]]"},
		{"but no more than the most", [][]int{{1}, {2}, {3}, {4}, {5}, {6}, {7}}, "[[1] [2] [3 4 5] [6 7]]"},
		{"much at once is parted", [][]int{{1, 2, 3, 4, 5, 6, 7}}, "[[1 2 3] [4 5 6] [7]]"},
		{"what is left is done next", [][]int{{-1, 2, 3}, {4}, {5}, {6}}, "[[-1 2 3] [1] [4] [5 6]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var workers sync.WaitGroup
				got := [][]int{}
				g := &Gather[int]{Workers: 2, Most: 3, Go: workers.Go}
				g.Do = func(part []int) (again []int) {
					mu.Lock()
					got = append(got, part)
					n := time.Duration(len(got))
					mu.Unlock()
					time.Sleep(time.Second + n*time.Millisecond) // the workers are free one after the other
					if part[0] < 0 {
						again = []int{-part[0]}
					}
					return again
				}
				for _, add := range c.adds {
					g.Add(add...)
					synctest.Wait()
				}
				workers.Wait()
				slices.SortFunc(got, func(a, b []int) int { return a[0] - b[0] }) // two that begin at once have no order
				if fmt.Sprint(got) != c.want {
					t.Errorf("the workers got %v, expected %s", got, c.want)
				}
				got = [][]int{}
				g.Add(9) // a worker begins anew
				workers.Wait()
				if fmt.Sprint(got) != "[[9]]" {
					t.Errorf("afterwards they got %v, expected [[9]]", got)
				}
			})
		})
	}
}

// TestGatherTogether adds from many goroutines: all is done once.
func TestGatherTogether(t *testing.T) {
	const adders, each = 8, 500
	var mu sync.Mutex
	var workers, all sync.WaitGroup
	done := map[int]int{}
	g := &Gather[int]{Workers: 3, Most: 7, Go: workers.Go}
	g.Do = func(part []int) []int {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range part[:1] {
			done[n]++
		}
		return part[1:]
	}
	for a := range adders {
		all.Go(func() {
			for n := range each {
				g.Add(a*each + n)
			}
		})
	}
	all.Wait()
	workers.Wait()
	for n := range adders * each {
		if done[n] != 1 {
			t.Fatalf("%d was done %d times", n, done[n])
		}
	}
}
