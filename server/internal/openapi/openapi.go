// Package openapi makes the OpenAPI 3.1 document of a table of endpoints, from the types of
// their functions.
package openapi

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// object is a JSON object; its keys are written in order, so that equal tables give equal
// documents.
type object = map[string]any

// components is where the schemas of types stand in a document.
const components = "#/components/schemas/"

// Document returns the document, indented, with a newline at its end.
func Document(table []endpoint.Endpoint) ([]byte, error) {
	d := documentOf(table)
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "stet", "version": "v1",
			"description": "Durable runs of a store: see them and steer them. Fields are only ever added.",
		},
		"paths": d.paths,
		"components": object{
			"schemas": d.schemas,
			"responses": object{"problem": object{
				"description": "an error, which the endpoint errors explains",
				"content":     object{"application/problem+json": object{"schema": d.problem}},
			}},
			"securitySchemes": object{
				"token":  object{"type": "http", "scheme": "bearer"},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": "stet_session"},
			},
		},
	}, "", " ")
	return append(text, '\n'), err
}

// document gathers the schemas that operations refer to.
type document struct {
	paths, schemas object
	problem        object              // the schema of errors
	types          map[string]any      // what each schema is of
	fields         map[string][]string // the names of fields, in the order of the type
}

// documentOf gathers what there is to say of a table.
func documentOf(table []endpoint.Endpoint) *document {
	d := &document{paths: object{}, schemas: object{}, types: map[string]any{}, fields: map[string][]string{}}
	for i := range table {
		e := &table[i]
		path := endpoint.Base + e.Path
		item, ok := d.paths[path].(object)
		if !ok {
			item = object{}
			d.paths[path] = item
		}
		item[strings.ToLower(e.Method)] = d.operation(e)
	}
	d.problem = d.schema(reflect.TypeFor[api.Problem]())
	return d
}

// add adds a schema under the name of what it is of, which no other one may have.
func (d *document) add(name string, schema object) {
	if of, ok := d.types[name]; ok && of != any(name) {
		panic(fmt.Sprintf("two schemas are called %s", name))
	}
	d.types[name], d.schemas[name] = name, schema
}

func (d *document) operation(e *endpoint.Endpoint) object {
	op := object{
		"summary": e.Summary, "operationId": operationID(e), "x-stet-right": e.Right.String(),
		"security": []object{{"token": []string{}}, {"cookie": []string{}}},
	}
	if e.Right == access.Public {
		op["security"] = []object{}
	}
	parameters := []object{}
	for _, f := range endpoint.Fields(e.In) {
		if f.Place == "body" && f.Name == endpoint.RawBody {
			op["requestBody"] = object{"content": object{"*/*": object{"schema": object{}}}}
			continue
		}
		if f.Place == "body" {
			op["requestBody"] = object{"content": object{endpoint.JSON: object{"schema": d.schema(f.Type)}}}
			continue
		}
		parameter := object{"name": f.Name, "in": f.Place, "schema": parameterSchema(f.Type)}
		if f.Name == endpoint.All {
			parameter = object{"name": "all", "in": "query", "style": "form", "explode": true,
				"schema": object{"type": "object", "additionalProperties": object{"type": "string"}}}
		}
		if f.Doc != "" {
			parameter["description"] = f.Doc
		}
		if f.Place == "path" {
			parameter["required"] = true
		}
		parameters = append(parameters, parameter)
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	ok := object{"description": e.Summary, "content": object{e.Media: object{"schema": d.answer(e)}}}
	usual := "2XX"
	if e.Status >= 300 {
		usual, ok = "3XX", object{"description": e.Summary}
	}
	op["responses"] = object{
		usual: ok, "default": object{"$ref": "#/components/responses/problem"},
	}
	return op
}

// answer returns the schema of an answer: of a stream, that of each part of it.
func (d *document) answer(e *endpoint.Endpoint) object {
	switch {
	case e.Out == nil:
		return object{}
	case e.Media == endpoint.Events:
		s := d.schema(e.Out)
		s["description"] = "of each event: the field data has, as JSON, what stands here under its name"
		return s
	case e.Media == endpoint.Lines:
		forms := []object{}
		for _, f := range reflect.VisibleFields(e.Out) {
			forms = append(forms, d.schema(f.Type))
		}
		return object{"description": "each line is one of these, as JSON", "oneOf": forms}
	}
	return d.schema(e.Out)
}

// operationID makes a name like get_runs_id_history.
func operationID(e *endpoint.Endpoint) string {
	replace := strings.NewReplacer("/", "_", "{", "", "}", "", ".", "_")
	return strings.ToLower(e.Method) + "_" + replace.Replace(e.Path)
}

// parameterSchema is the schema of a parameter, which is written as text.
func parameterSchema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "string", "examples": []string{"30s"}}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": object{"type": "string"}}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	}
	return object{"type": "integer"}
}

// schema returns the schema of a type as it is written in JSON.
func (d *document) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return object{"description": "any JSON"}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[api.Starts]():
		one := d.schema(reflect.TypeFor[api.Start]())
		return object{"oneOf": []object{one, {"type": "array", "items": one}}}
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && t.Kind() != reflect.Pointer {
		if of := ofText(t); of != nil {
			return d.set(t.Name(), of)
		}
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Struct:
		return d.structure(t)
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

// structure returns a reference to the schema of a struct, which it makes once.
func (d *document) structure(t reflect.Type) object {
	name := t.Name()
	reference := object{"$ref": components + name}
	if of, ok := d.types[name]; ok {
		if of != any(t) {
			panic(fmt.Sprintf("%s: two schemas are called %s", t, name))
		}
		return reference
	}
	properties, required := object{}, []string{}
	d.types[name] = t // it may refer to itself
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || tag == "-" || tag == "" {
			continue
		}
		s := d.field(f)
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if f.Type.Kind() == reflect.Pointer && !optional {
			s = object{"anyOf": []object{s, {"type": "null"}}}
		}
		properties[tag] = s
		d.fields[name] = append(d.fields[name], tag)
		if !optional {
			required = append(required, tag)
		}
	}
	slices.Sort(required)
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	d.schemas[name] = s
	return reference
}

// field returns the schema of a field, whose tag words may say which words it has.
func (d *document) field(f reflect.StructField) object {
	name, ok := f.Tag.Lookup("words")
	switch {
	case !ok:
		return d.schema(f.Type)
	case f.Type.Kind() == reflect.Slice:
		return object{"type": "array", "items": d.set(name, words[name])}
	}
	return d.set(name, words[name])
}

// Read reads a document, for Check.
func Read(doc []byte) (document any, err error) {
	err = json.Unmarshal(doc, &document)
	return document, err
}

// Check returns what is wrong with the body of an answer: where it has another form than the
// document says, which Read has returned.
func Check(document any, method, pattern string, status int, body []byte) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	responses := []string{
		"paths", pattern, strings.ToLower(method), "responses", "2XX", "content", endpoint.JSON, "schema",
	}
	if status < http.StatusOK || status >= http.StatusMultipleChoices {
		responses = []string{"components", "schemas", "Problem"}
	}
	schema, ok := at(document, responses...).(object)
	if !ok {
		return fmt.Errorf("the document has no answer of %s %s with status %d", method, pattern, status)
	}
	return check(document, schema, value, "answer")
}

// CheckLine returns what is wrong with a line of an answer.
func CheckLine(document any, method, pattern string, line []byte) error {
	var value any
	if err := json.Unmarshal(line, &value); err != nil {
		return err
	}
	schema, ok := at(document, "paths", pattern, strings.ToLower(method), "responses", "2XX", "content",
		endpoint.Lines, "schema").(object)
	if !ok {
		return fmt.Errorf("the document has no lines of %s %s", method, pattern)
	}
	return check(document, schema, value, "line")
}

// CheckEvent returns what is wrong with an event of the stream.
func CheckEvent(document any, name string, data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	schema, ok := at(document, "components", "schemas", "LiveEvents", "properties", name).(object)
	if !ok {
		return fmt.Errorf("the document has no event %q", name)
	}
	return check(document, schema, value, "event "+name)
}

// at returns what stands in a document under the keys.
func at(value any, keys ...string) any {
	for _, key := range keys {
		o, _ := value.(object)
		value = o[key]
	}
	return value
}

// check compares a value with a schema of the forms that Document makes.
func check(document any, schema object, value any, place string) error {
	if reference, ok := schema["$ref"].(string); ok {
		schema, _ = at(document, strings.Split(strings.TrimPrefix(reference, "#/"), "/")...).(object)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if choices, ok := schema[key].([]any); ok {
			fits := func(c any) bool { return check(document, c.(object), value, place) == nil }
			if slices.ContainsFunc(choices, fits) {
				return nil
			}
			return fmt.Errorf("%s: none of the forms fits %v", place, value)
		}
	}
	wrong := func() error { return fmt.Errorf("%s: expected %v, found %T %v", place, schema["type"], value, value) }
	switch schema["type"] {
	case "object":
		o, ok := value.(object)
		if !ok {
			return wrong()
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := o[name.(string)]; !ok {
				return fmt.Errorf("%s: expected the field %s, found none", place, name)
			}
		}
		properties, closed := schema["properties"].(object)
		for name, field := range o {
			inner, ok := properties[name].(object)
			if !ok && closed {
				return fmt.Errorf("%s: the document has no field %s", place, name)
			}
			if !ok {
				inner, _ = schema["additionalProperties"].(object)
			}
			if err := check(document, inner, field, place+"."+name); err != nil {
				return err
			}
		}
	case "array":
		list, ok := value.([]any)
		if !ok {
			return wrong()
		}
		items, _ := schema["items"].(object)
		for i, item := range list {
			if err := check(document, items, item, place+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	case "string":
		text, ok := value.(string)
		if !ok {
			return wrong()
		}
		if names, ok := schema["enum"].([]any); ok && !slices.Contains(names, any(text)) {
			return fmt.Errorf("%s: expected one of %v, found %q", place, names, text)
		}
		if schema["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
		}
	case "integer":
		if n, ok := value.(float64); !ok || n != float64(int64(n)) {
			return wrong()
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return wrong()
		}
	case "null":
		if value != nil {
			return wrong()
		}
	}
	return nil
}
