package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/server/internal/endpoint"
)

const heading = `// The types of the HTTP API, made of the table of its endpoints. Edit nothing here; after a change
// of the table or of package api: go test ./server -run Document -update
`

// TypeScript returns the types of a table for TypeScript: what its document says. Endpoints has,
// by method and path, the parameters, the body and the answer of each endpoint; of one that
// streams, what each part of it is.
func TypeScript(table []endpoint.Endpoint) []byte {
	d := documentOf(table)
	var b strings.Builder
	b.WriteString(heading)
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		schema := d.schemas[name].(object)
		if schema["type"] != "object" {
			fmt.Fprintf(&b, "\nexport type %s = %s;\n", name, typeOf(schema))
			continue
		}
		fmt.Fprintf(&b, "\nexport interface %s {\n", name)
		required, _ := schema["required"].([]string)
		for _, field := range d.fields[name] {
			writeField(&b, field, slices.Contains(required, field), schema["properties"].(object)[field])
		}
		b.WriteString("}\n")
	}
	b.WriteString("\n/** The endpoints, by method and path. */\nexport interface Endpoints {\n")
	sorted := slices.SortedFunc(slices.Values(table), func(a, b endpoint.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	for i := range sorted {
		d.writeEndpoint(&b, &sorted[i])
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

func writeField(b *strings.Builder, name string, required bool, schema any) {
	if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		name = strconv.Quote(name)
	}
	if !required {
		name += "?"
	}
	fmt.Fprintf(b, "  %s: %s;\n", name, typeOf(schema))
}

// writeEndpoint writes the types of an endpoint. Headers are not among its parameters.
func (d *document) writeEndpoint(b *strings.Builder, e *endpoint.Endpoint) {
	op := d.paths[endpoint.Base+e.Path].(object)[strings.ToLower(e.Method)].(object)
	var parameters []string
	if list, ok := op["parameters"].([]object); ok {
		for _, p := range list {
			if p["in"] == "header" || p["explode"] == true {
				continue
			}
			mark := "?"
			if p["required"] == true {
				mark = ""
			}
			parameters = append(parameters, p["name"].(string)+mark+": "+typeOf(p["schema"]))
		}
	}
	body := "undefined"
	if request, ok := op["requestBody"].(object); ok {
		body = ofMedia(request)
	}
	answer := "undefined" // a redirection
	if response, ok := op["responses"].(object)["2XX"].(object); ok {
		answer = ofMedia(response)
	}
	all := "Record<string, never>"
	if parameters != nil {
		all = "{ " + strings.Join(parameters, "; ") + " }"
	}
	fmt.Fprintf(b, "  \"%s %s\": { params: %s; body: %s; answer: %s };\n", e.Method, e.Path, all, body, answer)
}

// ofMedia returns the type of what stands under the one media type of a body.
func ofMedia(body object) string {
	for _, media := range body["content"].(object) {
		return typeOf(media.(object)["schema"])
	}
	return "undefined"
}

// typeOf returns the type of a schema of the forms that document makes.
func typeOf(of any) string {
	schema, _ := of.(object)
	if reference, ok := schema["$ref"].(string); ok {
		return strings.TrimPrefix(reference, components)
	}
	if names, ok := schema["enum"].([]string); ok {
		quoted := make([]string, len(names))
		for i, name := range names {
			quoted[i] = strconv.Quote(name)
		}
		return strings.Join(quoted, " | ")
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if choices, ok := schema[key].([]object); ok {
			types := make([]string, len(choices))
			for i, c := range choices {
				types[i] = typeOf(c)
			}
			return strings.Join(types, " | ")
		}
	}
	switch schema["type"] {
	case "object":
		return "Record<string, " + typeOf(schema["additionalProperties"]) + ">"
	case "array":
		item := typeOf(schema["items"])
		if strings.Contains(item, " | ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case "integer":
		return "number"
	case "string", "boolean", "null":
		return schema["type"].(string)
	}
	return "unknown"
}
