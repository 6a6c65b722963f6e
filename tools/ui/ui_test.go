package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// maxCompressed is how many bytes a browser loads at most for the dashboard.
const maxCompressed = 60 << 10

func root(t *testing.T) string {
	t.Helper()
	root, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestDistIsWhatTheSourcesSay: nobody edits dist, and no change of src is forgotten in it.
func TestDistIsWhatTheSourcesSay(t *testing.T) {
	root := root(t)
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadDir(filepath.Join(root, "dist"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range committed {
		names = append(names, f.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(names, want) {
		t.Errorf("dist: expected %v, found %v", want, names)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, "dist", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s is not what the sources say (%v): run GOWORK=off go -C tools run ./ui", name, err)
		}
	}
}

// TestBuildSaysTheSameElsewhere: no path of a machine, and nothing of chance, is in the files.
func TestBuildSaysTheSameElsewhere(t *testing.T) {
	here := root(t)
	there := filepath.Join(t.TempDir(), "other", "ui")
	for _, part := range []string{"src", "vendor"} {
		if err := os.CopyFS(filepath.Join(there, part), os.DirFS(filepath.Join(here, part))); err != nil {
			t.Fatal(err)
		}
	}
	first, err := build(here)
	if err != nil {
		t.Fatal(err)
	}
	second, err := build(there)
	if err != nil {
		t.Fatal(err)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs when it is built in another folder", name)
		}
	}
}

func TestDistIsSmall(t *testing.T) {
	files, err := build(root(t))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, content := range files {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		total += packed.Len()
		t.Logf("%s: %d bytes, %d compressed", name, len(content), packed.Len())
	}
	if total > maxCompressed {
		t.Errorf("expected at most %d bytes compressed, found %d", maxCompressed, total)
	}
}

// TestVendorIsUnchanged compares each vendored file with the sum that was written down when
// it was taken over.
func TestVendorIsUnchanged(t *testing.T) {
	vendor := filepath.Join(root(t), "vendor")
	list, err := os.ReadFile(filepath.Join(vendor, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"README.md": "", "SHA256SUMS": ""}
	for line := range strings.Lines(string(list)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		sums[name] = sum
	}
	err = filepath.WalkDir(vendor, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(vendor, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		want, known := sums[name]
		delete(sums, name)
		if !known {
			t.Errorf("%s is not in SHA256SUMS", name)
			return nil
		}
		content, err := os.ReadFile(file)
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); want != "" && got != want {
			t.Errorf("%s has changed: expected the sum %s, found %s", name, want, got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range sums {
		t.Errorf("%s is in SHA256SUMS and is missing", name)
	}
	for _, folder := range []string{"preact", "signals", "signals-core"} {
		if licence, err := os.ReadFile(filepath.Join(vendor, folder, "LICENSE")); err != nil ||
			!bytes.Contains(licence, []byte("MIT")) {
			t.Errorf("%s: expected its MIT licence, found %.40q (%v)", folder, licence, err)
		}
	}
}

// forbidden are ways of a page to make markup or code from text. The server's content
// security policy refuses them when they happen; here they are not even written.
var forbidden = regexp.MustCompile(
	`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|localStorage\.setItem\("token`)

func TestSourcesMakeNoMarkupFromText(t *testing.T) {
	src := filepath.Join(root(t), "src")
	err := filepath.WalkDir(src, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		for i, line := range strings.Split(string(content), "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: found %s", filepath.Base(file), i+1, found)
			}
			if ext := filepath.Ext(file); (ext == ".tsx" || ext == ".ts") && strings.Contains(line, "http://") ||
				strings.Contains(line, "https://") {
				t.Errorf("%s:%d: names a foreign address", filepath.Base(file), i+1)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestJSONKeepsItsText: the dashboard's reader of JSON takes what JSON.parse takes. Its writer returns the digits and
// the order of names that JSON.parse changes.
func TestJSONKeepsItsText(t *testing.T) { executesInNode(t, "json.ts", jsonProgram) }

// TestCutSaysWhatIsKnown: the pages say of a body that was cut that it had begun, and what is known of its end.
func TestCutSaysWhatIsKnown(t *testing.T) { executesInNode(t, "cut.ts", cutProgram) }

const cutProgram = `
import assert from "node:assert/strict";
import { cutText, wasCut } from "./cut.mjs";

const step = { location: "charge", kind: "step", state: "withdrawn", size: 0, attempts: 1 };
for (const [more, is] of [
  [{}, true], [{ attempts: 0 }, false], [{ state: "done" }, false], [{ state: "open" }, false],
  [{ kind: "sleep" }, false],
]) assert.equal(wasCut({ ...step, ...more }), is, JSON.stringify(more));
const begun = "The body had begun when the step was withdrawn, so it may have had an effect. ";
assert.equal(cutText(step), begun + "Its end is not known.");
const ended = { ...step, ended: "2026-01-01T00:00:09Z" };
assert.equal(cutText(ended), begun + "It succeeded, and its result was dropped.");
assert.equal(cutText({ ...ended, error: { code: "error", message: "no" } }), begun + "It failed.");
console.log("as expected");
`

// executesInNode executes a program beside a module of the dashboard that imports no other one.
func executesInNode(t *testing.T, source, program string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STET_TEST_STRICT") == "1" {
			t.Fatal("expected node in the PATH, found none: apt-get install nodejs")
		}
		t.Skip("there is no node")
	}
	src, folder := filepath.Join(root(t), "src"), t.TempDir()
	module := strings.TrimSuffix(source, ".ts") + ".mjs"
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(src, source)}, Outfile: filepath.Join(folder, module), Write: true,
		Format: api.FormatESModule, TsconfigRaw: "{}",
	})
	if err := problems(result.Errors, result.Warnings); err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(folder, "main.mjs")
	if err := os.WriteFile(main, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, main).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "as expected" {
		t.Fatalf("%v\n%s", err, out)
	}
}

// jsonProgram compares the reader and the writer with JSON.parse and JSON.stringify.
const jsonProgram = `
import assert from "node:assert/strict";
import { fields, parse, parses, Raw, verbatim, write } from "./json.mjs";

for (const text of [
  '{"account":9007199254740993,"price":1.10}', "-0", "1e400", "1E5", "0.1234567890123456789",
  "[1.0,[2.50,{}],{\"a\":[]}]",
  '{"20":1,"10":2,"a":3}', '{"a":1,"a":2}', '{"__proto__":{"x":1}}', '{"a":{"7":{"3":1e400,"1":[]}}}',
  '{"":"\\\\","\\"":"\\\\\\""}', '"\\\\"', '""', "true", "null", "[]", "{}",
]) {
  assert.equal(write(parse(text)), text);
  assert.equal(write(parse(" " + write(parse(text), 2) + "\n")), text);
  assert.equal(write(verbatim(text)), text);
}
const plain = [
  '{"a":[1,-2.5,1e+21,1e-7,"x\\ny\\u00e9\\ud83d\\ude00",true,false,null,{"b":{}}]}', " [ 1 , 2 ] ", "7", '"a"',
];
for (const text of plain) {
  assert.deepEqual(parse(text), JSON.parse(text));
  assert.equal(write(parse(text)), JSON.stringify(JSON.parse(text)));
  assert.equal(write(parse(text), 2), JSON.stringify(JSON.parse(text), null, 2));
}
for (const text of ["", "{", "[1,]", "{a:1}", "01", "1.", "'a'", '"\n"', "NaN", "1 2", '{"a"}', "\u00a01"]) {
  assert.throws(() => parse(text), SyntaxError);
  assert.equal(parses(text), false);
}
const count = parse('{"n":9007199254740993}').n; // what the dashboard computes with stays a number of sorts
assert.ok(count instanceof Raw && count > 9007199254740991 && count + 0 === 9007199254740992);
assert.equal(count.toLocaleString("en") + " " + String(count), "9007199254740993 9007199254740993");
assert.deepEqual(fields(parse('{"2":0,"1":0}')).map(([k]) => k), ["2", "1"]);
assert.equal(write({ a: undefined, b: [undefined], c: new Raw("1.10") }), '{"b":[null],"c":1.10}');
assert.equal(verbatim(" "), null);
parse("[".repeat(10000) + "]".repeat(10000)); // as deep as the server takes
write(parse("[".repeat(10000) + "]".repeat(10000)));
const long = '"' + '\\"'.repeat(1 << 19) + '"';
assert.equal(write(parse(long)), long);
console.log("as expected");
`
