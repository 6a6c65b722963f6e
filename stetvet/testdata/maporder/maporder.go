package maporder

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/stet-run/stet"
)

func nothing(context.Context) error { return nil }

func operations(ctx stet.Context, m map[string]int) error {
	for k := range m {
		if err := stet.Do(ctx, k, nothing); err != nil { // want `maporder: stet.Do`
			return err
		}
		if err := helper(ctx, k); err != nil { // want `maporder: helper`
			return err
		}
	}
	return nil
}

func helper(ctx stet.Context, k string) error { return stet.Do(ctx, k, nothing) }

func appends(ctx stet.Context, m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k) // want `maporder: append to keys`
	}
	return keys
}

func first(ctx stet.Context, m map[string]int) (found string) {
	for k := range m {
		found = k // want `maporder: what comes first`
		break
	}
	for k, v := range m {
		if v > 3 {
			return k // want `maporder: a return`
		}
	}
	_ = unsorted(m)                    // want `maporder: unsorted → append`
	_ = slices.Collect(maps.Values(m)) // want `maporder: slices.Collect`
	return found
}

func last(ctx stet.Context, m map[string]int) (text string, k string) {
	var b strings.Builder
	for key := range maps.Keys(m) {
		text += key        // want `maporder: text in text`
		k = key            // want `maporder: what comes last`
		b.WriteString(key) // want `maporder: strings.Builder.WriteString`
	}
	return text + b.String(), k
}

func unsorted(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func good(ctx stet.Context, m map[string]int) (int, error) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := stet.Do(ctx, k, nothing); err != nil {
			return 0, err
		}
	}
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	again := slices.Collect(maps.Keys(m))
	slices.Sort(again)
	count, greatest, sum, copied := 0, 0, 0, map[string]int{}
	for k, v := range m {
		count++
		sum += v
		copied[k] = v
		if v > greatest {
			greatest = v
		}
		if v < 0 {
			return 0, nil
		}
	}
	for k, v := range m {
		if k == "wanted" {
			return v, nil
		}
	}
	_ = len(slices.Collect(maps.Keys(m)))
	return count + sum + greatest, nil
}
