package storetest

import (
	"reflect"
	"slices"
	"time"
)

// patientShrink bounds the time for which a failure is made shorter.
const patientShrink = 20 * time.Second

// shrink makes a list of operations short that still fails: first by leaving out
// runs of operations, of half the list and then of smaller parts, then by leaving
// out parts of operations. It returns the error of the shortest, or nil if the
// given list does not fail.
func shrink(ops []op, failure func([]op) (int, error), patience time.Duration) ([]op, error) {
	at, cause := failure(ops)
	if cause == nil {
		return ops, nil
	}
	ops = ops[:at+1]
	end := time.Now().Add(patience)
	try := func(candidate []op) bool {
		if time.Now().After(end) {
			return false
		}
		at, err := failure(candidate)
		if err == nil {
			return false
		}
		ops, cause = candidate[:at+1], err
		return true
	}
	for again := true; again; {
		again = false
		for size := max(len(ops)/2, 1); size > 0; size /= 2 {
			for i := len(ops) - size; i >= 0; i -= size {
				if i+size <= len(ops) && try(slices.Delete(slices.Clone(ops), i, i+size)) {
					again = true
				}
			}
		}
		for i := len(ops) - 1; i >= 0; i-- {
			for n := 0; i < len(ops); {
				less := simpler(ops[i], n)
				if less == nil {
					break
				}
				candidate := slices.Clone(ops)
				candidate[i] = less
				if try(candidate) {
					again = true
				} else {
					n++
				}
			}
		}
	}
	return ops, cause
}

// simpler returns an operation without its nth part, or nil if it has not so
// many. Parts are elements of lists and everything that is not zero.
func simpler(o op, n int) op {
	ops, err := parseScript(printScript([]op{o})) // a deep copy
	if err != nil || !leaveOut(reflect.ValueOf(ops[0]).Elem(), &n) {
		return nil
	}
	return ops[0]
}

// leaveOut leaves out the nth part of a struct. It reports whether there is one;
// if not, n is how many are missing.
func leaveOut(v reflect.Value, n *int) bool {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() {
			continue
		}
		if *n == 0 {
			f.SetZero()
			return true
		}
		*n--
		switch {
		case f.Kind() == reflect.Pointer:
			if leaveOut(f.Elem(), n) {
				return true
			}
		case f.Kind() == reflect.Struct:
			if leaveOut(f, n) {
				return true
			}
		case f.Kind() == reflect.Slice && f.Type() != bytesType:
			for k := range f.Len() {
				if *n == 0 {
					f.Set(reflect.AppendSlice(f.Slice(0, k), f.Slice(k+1, f.Len())))
					return true
				}
				*n--
				if element := f.Index(k); element.Kind() == reflect.Struct && leaveOut(element, n) {
					return true
				}
			}
		case f.Type() == bytesType && f.Len() > 1:
			if *n == 0 {
				f.SetBytes(f.Bytes()[:1])
				return true
			}
			*n--
		}
	}
	return false
}
