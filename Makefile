# What a newcomer needs. Each target does its own set-up from the package registries.

CARGO ?= cargo

.PHONY: demo cluster-demo test quick check bench help

help:
	@echo "make demo           build, start on a local directory, ship real logs into it, print queries to try"
	@echo "make cluster-demo   three nodes on one bucket: one is killed, one is stopped, and nothing is lost"
	@echo "make test           every test, against a real S3 server too"
	@echo "make quick          the unit tests and the repository's own rules: about a minute once built"
	@echo "make check          formatting, lints, the repository's own rules"
	@echo "make bench          measure ingest and queries on generated data"

need-cargo:
	@command -v $(CARGO) >/dev/null 2>&1 || { echo "cargo is missing: install Rust 1.95 or newer with rustup (Debian: apt-get install rustup && rustup default stable)"; exit 1; }
	@command -v cc >/dev/null 2>&1 || { echo "a C compiler is missing (zstd and jemalloc are built from source): Debian: apt-get install build-essential"; exit 1; }

need-go:
	@command -v go >/dev/null 2>&1 || { echo "go is missing (tests build a real S3 server from the Go module registry): install Go 1.24 or newer"; exit 1; }

demo: need-cargo
	$(CARGO) build --profile demo --package sandur-server
	./target/demo/sandur demo

cluster-demo: need-cargo need-go
	$(CARGO) build --profile demo --package sandur-server
	$(CARGO) xtask cluster-demo

test: need-cargo need-go
	$(CARGO) xtask test

quick: need-cargo
	$(CARGO) xtask test --quick

check: need-cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy

bench: need-cargo
	$(CARGO) run --release --package sandur-bench -- run
