# stet: build and test. `make` prints the targets.

MODULES  := $(shell go list -m -f '{{.Dir}}/...' 2>/dev/null)
TOOL     := GOWORK=off go tool -modfile=tools/go.mod
NESTED   := cmd/stet examples
CROSS    := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
GOTEST   := go test -shuffle=on

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## everything a change must pass at once: vet and all tests of all modules
	go vet $(MODULES)
	$(GOTEST) -timeout 15m $(MODULES)

.PHONY: check
check: fmt test lint race cross ## all of test, race detector, linters, builds for all systems

.PHONY: race
race: ## all tests with the race detector
	$(GOTEST) -race -timeout 20m $(MODULES)

.PHONY: soak
soak: ## the random tests with ten times the count, and every fuzz target for a minute
	STET_SOAK=10 $(GOTEST) -count=1 -timeout 4h $(MODULES)
	tools/fuzz 60s

.PHONY: bench
bench: ## the benchmarks
	go test -run '^$$' -bench . -benchmem $(MODULES)

.PHONY: build
build: ## the command line, in bin/
	go build -o bin/ ./cmd/stet

.PHONY: fmt
fmt: ## fail if a file is not formatted
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on these files"; exit 1; }

.PHONY: lint
lint: ## staticcheck and errcheck
	$(TOOL) staticcheck ./...
	$(TOOL) errcheck -exclude tools/errcheck.txt ./...

.PHONY: cross
cross: ## build for all systems
	@for target in $(CROSS); do \
		echo "build $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go build -o /dev/null ./... || exit 1; \
		for dir in $(NESTED); do \
			CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go vet ./$$dir/... || exit 1; \
		done; \
	done
