package script

import (
	"errors"
	"fmt"

	"github.com/dop251/goja"

	"github.com/stet-run/stet"
)

// held is a Go error in an error of the script.
type held struct{ err error }

// errorOf is the error of the script for what an operation has failed with.
func (r *run) errorOf(err error) *goja.Object {
	name, message, attempts := "TaskError", err.Error(), 0
	var step *stet.StepError
	if errors.As(err, &step) {
		attempts = step.Attempts
		if len(step.Causes) > 0 {
			message = step.Causes[len(step.Causes)-1].Error()
		}
	}
	code := ""
	var failure *stet.Failure
	if errors.As(err, &failure) {
		code = failure.Code
	}
	switch {
	case errors.Is(err, stet.ErrCancelled):
		name = "Cancelled"
	case errors.Is(err, stet.ErrTimeout):
		name = "Timeout"
	}
	e, newErr := r.vm.New(r.vm.Get("Error"), r.vm.ToValue(message))
	if newErr != nil {
		panic(newErr)
	}
	for key, value := range map[string]any{"name": name, "code": code, "attempts": attempts} {
		_ = e.DefineDataProperty(key, r.vm.ToValue(value), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	}
	_ = e.DefineDataPropertySymbol(r.errorKey, r.vm.ToValue(held{err}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
	return e
}

// thrown is the error with which a run fails whose script throws a value: that of the
// operation, if it is one, otherwise the message with the places.
func (r *run) thrown(value goja.Value) error {
	obj, ok := value.(*goja.Object)
	if !ok {
		return fmt.Errorf("script %s: %s", r.name, value.String())
	}
	if inner := obj.GetSymbol(r.errorKey); inner != nil {
		if h, ok := inner.Export().(held); ok {
			return h.err
		}
	}
	if stack := obj.Get("stack"); stack != nil && !goja.IsUndefined(stack) {
		return fmt.Errorf("script %s: %s", r.name, stack.String())
	}
	return fmt.Errorf("script %s: %s", r.name, value.String())
}

// failure is the error that the run fails with for one that leaves the interpreter.
func (r *run) failure(err error) error {
	var overflow *goja.StackOverflowError
	if errors.As(err, &overflow) {
		return fmt.Errorf("script %s: more than %d nested calls: %s", r.name, maxFrames, overflow.String())
	}
	var exception *goja.Exception
	if errors.As(err, &exception) {
		return r.thrown(exception.Value())
	}
	return err
}
