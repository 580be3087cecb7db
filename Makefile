# A bare `make` lists the targets. `make check` is exactly what CI runs.
SHELL   := bash
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/hardshell-dev/hardshell/internal/cli.version=$(VERSION)
FUZZTIME ?= 60s
export CGO_ENABLED = 0

.PHONY: help build test check guards race fuzz e2e e2e-local crash bench profile dist clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## one static binary: bin/hardshell
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/hardshell ./cmd/hardshell

test: ## the everyday loop, under two minutes
	$(GO) test ./...

guards: ## format, vet, staticcheck, floors, file length, cgo off
	tools/check/guards

check: ## everything CI runs: guards, suites as root and as an ordinary user, e2e, a part of crash, race and fuzz
	tools/check/all

race: ## every suite under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

fuzz: ## every fuzz target for FUZZTIME each (60s), and every round of the suites
	HARDSHELL_SUITES=all tools/check/fuzz $(FUZZTIME)

e2e: build ## the official SDKs against the built binary
	tools/check/e2e

e2e-local: build ## a tool turn with a real small model, or HARDSHELL_LOCAL_URL's or OLLAMA_HOST's; skipped by name without one
	tools/check/local

crash: ## kill -9 of the real binary at 200 points while 64 clients resume (CRASH_FLAGS="-seed N -v")
	tools/check/crash 200

bench: build ## every benchmark: a table each (BENCH_FLAGS=-json for objects)
	tools/check/bench $(BENCH_FLAGS)

profile: ## what the compiler is told of hot functions, made anew: cmd/hardshell/default.pgo
	tools/check/profile

dist: ## release archives for every platform that builds, with SHA256SUMS
	tools/check/dist '$(LDFLAGS)'

clean: ## remove what was built
	rm -rf bin dist e2e/npm/node_modules
