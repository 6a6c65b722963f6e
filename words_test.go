package stet_test

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// enumerations are those of the public packages, by name, with their values.
var enumerations = map[string]any{
	"stet.ChildFailure":    []stet.ChildFailure{stet.FailAwaiter, stet.FailScope},
	"stet.Existing":        []stet.Existing{stet.UseExisting, stet.RefuseExisting, stet.ReplaceFailed, stet.ReplaceEnded},
	"stet.OnBug":           []stet.OnBug{stet.StallOnBug, stet.FailOnBug},
	"stet.OnFailure":       []stet.OnFailure{stet.EndOnFailure, stet.StallOnFailure},
	"stet.Overlap":         []stet.Overlap{stet.SkipOverlap, stet.BufferOne, stet.AllowOverlap, stet.CancelPrevious},
	"stet.ParentClose":     []stet.ParentClose{stet.CancelChild, stet.LeaveChild},
	"stet.PayloadRequire":  []stet.PayloadRequire{stet.RequireNothing, stet.RequireEncrypted, stet.RequireBound},
	"stet.TopicMode":       []stet.TopicMode{stet.Broadcast, stet.Consumed},
	"stet.UndoOn":          []stet.UndoOn{stet.UndoOnFailure, stet.UndoOnCancel, stet.UndoOnRollback},
	"stet.Visibility":      []stet.Visibility{stet.SinceRun, stet.SinceWait, stet.Retained},
	"store.EntryState":     []store.EntryState{store.Open, store.Done, store.FailedEntry, store.Withdrawn},
	"store.ExistingPolicy": []store.ExistingPolicy{store.KeepExisting, store.ReplaceFailed, store.ReplaceEnded},
	"store.ItemKind": []store.ItemKind{store.ItemMessage, store.ItemResolution, store.ItemCancel, store.ItemTerminate,
		store.ItemResume, store.ItemEnd, store.ItemWatch, store.ItemUpdate, store.ItemPause, store.ItemRetry,
		store.ItemRewind, store.ItemEdit, store.ItemNudge, store.ItemEvent, store.ItemWait, store.ItemWithdraw,
		store.ItemAck, store.ItemReturn, store.ItemDelivery, store.ItemAsk, store.ItemGrant, store.ItemGiveBack},
	"store.ItemState": []store.ItemState{store.New, store.Seen, store.Consumed, store.Dead},
	"store.Kind": []store.Kind{store.KindStep, store.KindSleep, store.KindReceive, store.KindPromise, store.KindTimer,
		store.KindCancel, store.KindWait, store.KindUndo, store.KindLoop, store.KindChild, store.KindRun, store.KindVersion,
		store.KindShown, store.KindEntity, store.KindEvent, store.KindPublish, store.KindSend, store.KindSagaUndo},
	"store.Marks": []store.Marks{store.Paused, store.Cancelling, store.Undoing, store.Expiring, store.Held, store.Failing, store.Admitted,
		store.Locked},
	"store.Outcome": []store.Outcome{store.Applied, store.Exists, store.Duplicate, store.NotFound, store.Ended,
		store.Undecided, store.Posted},
	"store.Status":  store.AllStatuses(),
	"store.Verdict": []store.Verdict{store.Committed, store.StillReady, store.Fenced, store.Refused, store.Busy},
}

// quantities are numbers with constants that are no enumerations.
var quantities = []string{"store.Time", "store.Delay"}

// alwaysSet are times that are never zero.
var alwaysSet = []string{"stet.WaitInfo.Since"}

// publicPackages are the directories whose types users get.
var publicPackages = []string{".", "store", "client", "api", "schedule"}

// sources calls each with the files of the public packages.
func sources(t *testing.T, each func(pkg string, file *ast.File)) {
	t.Helper()
	for _, dir := range publicPackages {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: expected source files, found %d (%v)", dir, len(names), err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			each(file.Name.Name, file)
		}
	}
}

// numbersWithConstants returns the exported types of the public packages that are numbers, with
// how many exported constants each has, where that is more than none.
func numbersWithConstants(t *testing.T) map[string]int {
	numbers, constants := map[string]bool{}, map[string]int{}
	sources(t, func(pkg string, file *ast.File) {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			of := "" // the type of the constants, which those below it have too
			for _, spec := range group.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					under, ok := s.Type.(*ast.Ident)
					if ok && s.Name.IsExported() && strings.Contains(under.Name, "int") {
						numbers[pkg+"."+s.Name.Name] = true
					}
				case *ast.ValueSpec:
					if group.Tok != token.CONST {
						continue
					}
					if typed := typeOfConstant(s); typed != "" || len(s.Values) > 0 {
						of = typed
					}
					for _, name := range s.Names {
						if of != "" && name.IsExported() {
							constants[pkg+"."+of]++
						}
					}
				}
			}
		}
	})
	maps.DeleteFunc(constants, func(name string, _ int) bool { return !numbers[name] })
	return constants
}

// typeOfConstant returns the type that a constant is given, "" if it is not given one of its
// package: "Status" of `A Status = 1`, `A = Status(1)`.
func typeOfConstant(s *ast.ValueSpec) string {
	if typed, ok := s.Type.(*ast.Ident); ok {
		return typed.Name
	}
	if len(s.Values) > 0 {
		if call, ok := s.Values[0].(*ast.CallExpr); ok {
			if typed, ok := call.Fun.(*ast.Ident); ok {
				return typed.Name
			}
		}
	}
	return ""
}

func TestEveryEnumerationIsKnownHere(t *testing.T) {
	found := numbersWithConstants(t)
	for _, name := range quantities {
		delete(found, name)
	}
	for name, n := range found {
		values, ok := enumerations[name]
		if !ok {
			t.Errorf("%s has %d constants: expected MarshalText, UnmarshalText and a row in enumerations, found no row", name, n)
		} else if got := reflect.ValueOf(values).Len(); got != n {
			t.Errorf("%s: expected its %d constants in enumerations, found %d", name, n, got)
		}
	}
	for name := range enumerations {
		if found[name] == 0 {
			t.Errorf("enumerations has %s: expected a type with constants of a public package, found none", name)
		}
	}
}

func TestEnumerationsAreWrittenAsWords(t *testing.T) {
	for name, values := range enumerations {
		t.Run(name, func(t *testing.T) {
			all, seen := reflect.ValueOf(values), map[string]bool{}
			for i := range all.Len() {
				v := all.Index(i)
				text, err := json.Marshal(v.Interface())
				if err != nil {
					t.Fatalf("%v: %v", v, err)
				}
				if len(text) < 3 || text[0] != '"' || text[1] < 'a' || text[1] > 'z' || seen[string(text)] {
					t.Fatalf("%v: expected a word of its own, found %s", v, text)
				}
				seen[string(text)] = true
				back := reflect.New(v.Type())
				if err := json.Unmarshal(text, back.Interface()); err != nil || back.Elem().Interface() != v.Interface() {
					t.Fatalf("%s: expected %v again, found %v (%v)", text, v, back.Elem(), err)
				}
				err = json.Unmarshal([]byte(`"nonsense"`), back.Interface())
				if err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "expected") {
					t.Fatalf("nonsense: expected an error that says what was expected and found, found %v", err)
				}
				if back.Elem().Interface() != v.Interface() {
					t.Fatalf("nonsense: expected the value to stay %v, found %v", v, back.Elem())
				}
			}
			unknown := reflect.New(all.Type().Elem()).Elem()
			if unknown.Type() == reflect.TypeFor[store.Marks]() {
				return // each bit is a mark
			}
			if unknown.CanUint() {
				unknown.SetUint(0b1110_0000)
			} else {
				unknown.SetInt(-7)
			}
			if text, err := unknown.Interface().(encoding.TextMarshaler).MarshalText(); err == nil {
				t.Fatalf("%v: expected an error, as it has no word, found %q", unknown, text)
			}
		})
	}
}

func TestSeveralMarksAndEndsAreOneText(t *testing.T) {
	type several struct {
		Marks store.Marks
		On    stet.UndoOn
	}
	for text, want := range map[string]several{
		`{"Marks":"paused,held","On":"failure,rollback"}`: {store.Paused | store.Held, stet.UndoOnFailure | stet.UndoOnRollback},
		`{"Marks":"","On":""}`:                            {},
	} {
		got, err := json.Marshal(want)
		if err != nil || string(got) != text {
			t.Errorf("expected %s, found %s (%v)", text, got, err)
		}
		var back several
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != want {
			t.Errorf("%s: expected %v, found %v (%v)", text, want, back, err)
		}
	}
}

// TestPublicStructsHaveAForm holds what a new field or type forgets: a zero time is left out, an
// error and a value that is not exported are written.
func TestPublicStructsHaveAForm(t *testing.T) {
	methods := map[string]bool{} // "stet.RunInfo.MarshalJSON"
	sources(t, func(pkg string, file *ast.File) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			switch of := f.Recv.List[0].Type.(type) {
			case *ast.Ident:
				methods[pkg+"."+of.Name+"."+f.Name.Name] = true
			case *ast.StarExpr:
				if of, ok := of.X.(*ast.Ident); ok {
					methods[pkg+".*"+of.Name+"."+f.Name.Name] = true
				}
			}
		}
	})
	checked := 0
	sources(t, func(pkg string, file *ast.File) {
		if pkg != "stet" && pkg != "client" {
			return // a store's structs are no answers, and those of api say what is required
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			name := pkg + "." + spec.Name.Name
			if !slices.ContainsFunc(fields.Fields.List, func(f *ast.Field) bool {
				return slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
			}) {
				return false // a handle
			}
			written := methods[name+".MarshalJSON"]
			isError := methods[name+".Error"] || methods[pkg+".*"+spec.Name.Name+".Error"]
			for _, f := range fields.Fields.List {
				typ, tag := typeText(f.Type), ""
				if f.Tag != nil {
					tag = f.Tag.Value
				}
				for _, field := range f.Names {
					checked++
					switch {
					case field.IsExported() && typ == "time.Time" && !strings.Contains(tag, "omitzero") &&
						!slices.Contains(alwaysSet, name+"."+field.Name):
						t.Errorf("%s.%s: expected `json:\",omitzero\"`, found %q: JSON shows the year 1 for a zero time",
							name, field, tag)
					case field.IsExported() && typ == "error" && !written && !isError:
						t.Errorf("%s.%s: expected a MarshalJSON of %s, found none: JSON shows {} for an error", name, field, name)
					case !field.IsExported() && (typ == "codecs" || typ == "RawValue") && !written:
						t.Errorf("%s.%s: expected a MarshalJSON of %s, found none: JSON drops the value", name, field, name)
					}
				}
			}
			return false
		})
	})
	if checked < 300 {
		t.Errorf("expected more than 300 fields, found %d", checked)
	}
}

func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	}
	return ""
}

func TestRunAsJSON(t *testing.T) {
	type order struct {
		Account int64  `json:"account"`
		Note    string `json:"note"`
	}
	db := memory.New()
	pay := stet.Define("pay", func(ctx stet.Context, in order) (order, error) {
		_, err := stet.Step(ctx, "charge", func(context.Context) (order, error) { return in, nil })
		if err == nil && in.Note == "bad" {
			err = errors.New("no money")
		}
		return in, err
	})
	ctx := t.Context()
	e, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{pay}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serve(t, e))
	for id, note := range map[string]string{"good": "a <b>", "bad": "bad"} {
		run, err := pay.Start(ctx, e, order{9007199254740993, note}, stet.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(ctx); (err != nil) != (id == "bad") {
			t.Fatal(err)
		}
	}
	form := func(v any) map[string]json.RawMessage {
		t.Helper()
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "0001-01-01") {
			t.Errorf("expected no zero time, found %s", text)
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	expect := func(fields map[string]json.RawMessage, want map[string]string) {
		t.Helper()
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got := string(fields[name]); got != want[name] {
				t.Errorf("%s: expected %s, found %s", name, want[name], got)
			}
		}
	}
	info := func(id string) *stet.RunInfo {
		t.Helper()
		info, err := e.Runs().Info(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	const value = `{"account":9007199254740993,"note":"a \u003cb\u003e"}`
	expect(form(info("good")), map[string]string{"ID": `"good"`, "Status": `"succeeded"`, "Input": value, "Output": value,
		"Wake": "", "Marks": "", "Err": "", "Unserved": ""})
	expect(form(*info("bad")), map[string]string{"Status": `"failed"`, "Err": `"run \"bad\" failed: no money"`})
	entries, err := e.Runs().History(ctx, "good", stet.HistoryQuery{Values: true})
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	expect(form(entries[0]), map[string]string{"Kind": `"step"`, "State": `"done"`, "Value": value, "Wake": "", "Err": ""})

	text, err := json.Marshal(info("good"))
	if err != nil {
		t.Fatal(err)
	}
	if again := fmt.Sprint(info("good").Created.Format(time.RFC3339Nano)); !strings.Contains(string(text), again) {
		t.Errorf("expected the time %s, found %s", again, text)
	}
}
