# stet: build and test. `make` prints the targets.

# All packages of all modules of go.work.
MODULES := $(shell go list -m -f '{{.Dir}}/...')
GOTEST  := go test -vet=off -shuffle=on
# Runs tests, prints what they cost, and holds their budget.
PROVE   := go run ./internal/testing/prove
# How long make faults may begin further tests: as many days of seven as fit, today's first; 0s: all.
WITHIN  := 0s
# SQLite's own code, translated, is for one goroutine at a time, which our code around
# it shows: the detector inside it would only make it five times slower.
RACED   := ./...
RACE    := -race -short -gcflags=github.com/ncruces/go-sqlite3-wasm/...=-race=false
CROSS   := linux/arm64 darwin/arm64 windows/amd64

# The linters stand in a module of their own, outside of go.work, so that what they
# need never raises a version for stet; -n builds one and prints where it is.
TOOL    := GOWORK=off go tool -modfile=tools/go.mod -n

# The compiler that checks types. What is built needs none.
TYPESCRIPT := 5.9.3

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: servers
servers: ## install the servers that the tests start, where that can be done
	@tools/servers

.PHONY: services
services: servers ## start a Postgres and a Redis server for local work, until an interrupt
	@go run ./internal/testing/servers/services

.PHONY: test
test: servers ## what a change must pass at once: the tests of all modules, in six minutes; STET_SOAK and STET_TEST_FAULTS add to them
	$(PROVE)

.PHONY: faults
faults: servers ## the tests that kill, move, cut and promote real servers and processes, and those in a browser: fifteen minutes
	$(PROVE) -faults -within $(WITHIN)

.PHONY: check
check: export STET_SOAK ?= 1
check: export STET_TEST_FAULTS = 1
check: servers fmt lint vet types tidy cross race ## all that tells right from wrong: formats, linters, house rules, cross builds, every test with all random cases, races
	go vet $(MODULES)
	$(PROVE) -timeout 60m

.PHONY: race
race: ## the tests of the library with fewer random cases, with the race detector, where there is a C compiler
	@if command -v "$$(go env CC)" >/dev/null; then \
		echo "$(GOTEST) $(RACE) $(RACED)"; \
		CGO_ENABLED=1 $(GOTEST) $(RACE) -timeout 60m $(RACED); \
	elif [ "$$STET_TEST_STRICT" = 1 ]; then \
		echo "race: expected a C compiler, as STET_TEST_STRICT=1 says; found no $$(go env CC)"; exit 1; \
	else \
		echo "race: skipped, there is no C compiler ($$(go env CC))"; \
	fi

.PHONY: soak
soak: ## all tests with ten times the random cases, those of all modules with the race detector, then each fuzz target for a minute
	STET_SOAK=10 STET_TEST_FAULTS=1 $(GOTEST) -count=1 -timeout 4h $(MODULES)
	$(MAKE) race RACED="$(MODULES)"
	tools/fuzz 60s

.PHONY: bench
bench: ## the benchmarks
	go test -run '^$$' -bench . -benchmem $(MODULES)

.PHONY: build
build: ## the command line, in bin/
	go build -o bin/ ./cmd/stet

.PHONY: ui
ui: ## bundle the dashboard's sources, server/ui/src, into server/ui/dist
	GOWORK=off go -C tools run ./ui

.PHONY: types
types: ## check the types of the dashboard, of scripts and of the worker in TypeScript, where there is npm: it brings the compiler
	@if command -v npx >/dev/null; then \
		for of in server/ui script/testdata/types clients/testdata/types; do \
			npx --yes --package typescript@$(TYPESCRIPT) tsc -p $$of || exit 1; \
		done; \
	elif [ "$$STET_TEST_STRICT" = 1 ]; then \
		echo "types: expected npx, as STET_TEST_STRICT=1 says; found none: install npm"; exit 1; \
	else \
		echo "types: skipped, there is no npx (install npm)"; \
	fi

.PHONY: cross
cross: ## compile and vet everything, tests included, for each system
	@for target in $(CROSS); do \
		echo "cross $$target"; \
		export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
		go vet $(MODULES) || exit 1; \
	done

.PHONY: fmt
fmt: ## fail if a file is not formatted
	@files=$$(gofmt -l .); test -z "$$files" || { echo "$$files"; echo "run gofmt -w on these files"; exit 1; }

.PHONY: lint
lint: ## staticcheck, errcheck, and the rules of the house: who imports whom, sizes of types, packages and lines
	$$($(TOOL) staticcheck) $(MODULES)
	$$($(TOOL) errcheck) -exclude tools/errcheck.txt $(MODULES)
	go test -count=1 -tags house ./internal/testing/budget ./stetvet/cmd/stetvet # the latter runs go vet: see its test

.PHONY: vet
vet: ## stetvet on this repository: what the code of a workflow must not do
	go build -o bin/stetvet ./stetvet/cmd/stetvet
	go vet -vettool=$(CURDIR)/bin/stetvet $(MODULES)

.PHONY: tidy
tidy: ## fail if a go.mod or go.sum is not what its module needs
	tools/tidy
