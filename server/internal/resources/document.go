package resources

import _ "embed"

// Document is the OpenAPI document of the table. go test ./server -update writes it.
//
//go:embed openapi.json
var Document []byte
