# Everything that is built, checked and measured. Tools are pinned and live in ./.tools and ./.venv.

GO            ?= go
PYTHON        ?= python3
FUZZTIME      ?= 60s
GOTESTFLAGS   ?=
PYTEST        := ../.venv/bin/python -m pytest
OUT           := .out

MAKEFLAGS     += --no-builtin-rules
.SUFFIXES:

GOLANGCI_LINT := v2.15.0
GOFUMPT       := v0.12.0
PROTOC_GEN_GO := v1.36.12
JDBC_DRIVER   := 18.3.0

VERSION       := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.DEFAULT_GOAL := help
.PHONY: help build test race lint fmt check fuzz-short conformance memory-proof bench demo rules generate venv tools jdbc
.PHONY: clean
.PHONY: unit referee

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/flightblob
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/flightblob ./cmd/flightblob

test: unit referee ## all Go tests, then the short run of the referee against pylance

race: ## all Go tests under the race detector
	@$(MAKE) --no-print-directory unit GOTESTFLAGS=-race

unit: .venv/ready | $(OUT)
	@$(GO) build -o $(OUT)/verdict ./tools/verdict && \
	  $(GO) test -json -timeout 20m $(GOTESTFLAGS) ./... 2>&1 | $(OUT)/verdict -save $(OUT)/go.json

referee: build .venv/ready jdbc | $(OUT)
	cd conformance && $(PYTEST) -q --junit-xml=../$(OUT)/referee.xml

check: build lint ## build, lint and Go tests: within two minutes when warm
	@$(MAKE) --no-print-directory unit

lint: .tools/golangci-lint-$(GOLANGCI_LINT) .venv/ready ## house rules, formatting, import direction
	.tools/golangci-lint-$(GOLANGCI_LINT) run ./...
	.venv/bin/ruff check -q conformance bench
	.venv/bin/ruff format -q --check conformance bench

fmt: .tools/gofumpt-$(GOFUMPT) .venv/ready ## formats Go and Python
	git ls-files '*.go' | grep -v '\.pb\.go$$' | xargs .tools/gofumpt-$(GOFUMPT) -w
	.venv/bin/ruff check -q --fix conformance bench
	.venv/bin/ruff format -q conformance bench

fuzz-short: ## every fuzz target for FUZZTIME (60s)
	@set -e; for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package; \
	  done; \
	done

conformance: build .venv/ready jdbc ## the whole matrix against pylance and the long runs; SEED=n replays
	cd conformance && $(PYTEST) -q --full $(if $(SEED),--seed=$(SEED)) $(if $(ONLY),-k '$(ONLY)')

memory-proof: build .venv/ready ## 1, 2 and 4 GiB read and written, one value of 10 GiB, through a budget of 64 MiB
	cd conformance && $(PYTEST) -q -s --full test_memory.py test_write_memory.py

bench: build .venv/bench ## the benchmark kit beside the peer; writes .out/bench/run.md
	PYTHON=.venv/bin/python bench/run.sh

demo: build ## a demo table, served
	bin/flightblob demo

rules: ## rules of the Blob v2 sheet without a passing test, by the last run of test
	@$(GO) run ./tools/rules $(OUT)/go.json $(OUT)/referee.xml

generate: .tools/protoc-gen-go-$(PROTOC_GEN_GO) .venv-generate/ready ## Go code of internal/lancepb
	cd internal/lancepb && ../../.venv-generate/bin/python -m grpc_tools.protoc -I . \
	  --plugin=protoc-gen-go=../../.tools/protoc-gen-go-$(PROTOC_GEN_GO) --go_out=. --go_opt=paths=source_relative *.proto

venv: .venv/ready ## ./.venv with the referee's packages

tools: .tools/golangci-lint-$(GOLANGCI_LINT) .tools/gofumpt-$(GOFUMPT) .tools/protoc-gen-go-$(PROTOC_GEN_GO) ## ./.tools

jdbc: | .tools ## the JDBC driver for the referee, where Java and Maven are
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
	  echo "no Java or no Maven: no JDBC driver"; \
	elif [ ! -f .tools/flight-sql-jdbc-driver-$(JDBC_DRIVER).jar ]; then \
	  mvn -q -B dependency:copy -Dartifact=org.apache.arrow:flight-sql-jdbc-driver:$(JDBC_DRIVER) \
	    -DoutputDirectory=.tools || echo "the JDBC driver cannot be fetched: its tests will be skipped"; \
	fi

clean: ## what make made, tools and packages excepted
	rm -rf bin $(OUT)

.venv/ready: conformance/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -q --disable-pip-version-check -r conformance/requirements.txt
	@touch $@

.venv/bench: bench/requirements.txt .venv/ready
	.venv/bin/python -m pip install -q --disable-pip-version-check -r bench/requirements.txt
	@touch $@

.venv-generate/ready: conformance/requirements-generate.txt
	$(PYTHON) -m venv .venv-generate
	.venv-generate/bin/python -m pip install -q --disable-pip-version-check -r conformance/requirements-generate.txt
	@touch $@

# A tool's version is in its file name, so a new pin installs anew.
define tool
.tools/$(1)-$(3):
	GOBIN=$$(CURDIR)/.tools/install $$(GO) install $(2)@$(3)
	mv .tools/install/$(1) $$@
endef
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT)))
$(eval $(call tool,gofumpt,mvdan.cc/gofumpt,$(GOFUMPT)))
$(eval $(call tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go,$(PROTOC_GEN_GO)))

$(OUT) .tools:
	@mkdir -p $@
