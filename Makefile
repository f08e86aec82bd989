# The commands of this project. On a fresh machine with Rust, Go, Python 3.11 and openssl they set up the rest themselves:
# Go components, the Python environment and cargo's output live in $(KARPENTER_CACHE), outside the checkout.
# First build on two cores: about 25 minutes of Go (Kubernetes, kwok, Jaeger) and 15 of Rust; later runs are incremental.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

export KARPENTER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/karpenter
export CARGO_TARGET_DIR ?= $(KARPENTER_CACHE)/target

STACK := deploy/local/stack
PYTHON := $(KARPENTER_CACHE)/venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help run up down build stack test unit integration soak bench lint fmt crds images clean-local

help: ## list the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: stack build ## local cluster, all services and a demo workload in the foreground, with a live view; Ctrl-C ends it
	$(STACK) run

up: stack build ## the same in the background without the demo; returns when everything is SERVING
	$(STACK) up --services all

down: ## stop what `make up` started
	$(STACK) down

# The whole workspace at once, everywhere: other selections of packages unify features differently and compile the AWS SDK anew.
build: ## the five services and kubectl-karpenter
	cargo build --workspace --bins

stack: ## build the local cluster's components, once
	$(STACK) build

test: stack unit integration ## everything: unit, property, integration

unit: stack ## tests that need no cluster
	cargo test --workspace --exclude integration
	$(PYTHON) -m unittest discover -s deploy/local -p 'test_*.py'

integration: stack build ## the services as real processes on the local cluster
	cargo test -p integration

soak: stack ## the long proofs, on release builds; figures go into integration/RESULTS.md
	cargo build --release --workspace --bins
	KARPENTER_BIN_DIR=$(CARGO_TARGET_DIR)/release cargo test -p integration -- --soak
	PROPTEST_CASES=$${PROPTEST_CASES:-20000} cargo test --workspace --exclude integration properties
	SOLVER_CASES=$${SOLVER_CASES:-20000} cargo test -p solver --test properties

bench: stack ## speed and memory beside their bars; ORACLE=path/to/oracle adds the reference, CATALOG= another catalogue
	cargo build --release --workspace --bins
	$(CARGO_TARGET_DIR)/release/bench
	$(CARGO_TARGET_DIR)/release/bench-disruption
	$(CARGO_TARGET_DIR)/release/solver-bench $(if $(ORACLE),--oracle $(ORACLE)) $(if $(CATALOG),--catalog $(CATALOG))

lint: ## formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format
	cargo fmt --all

crds: ## write charts/karpenter-crd from the Rust types
	cargo run -p api --bin crdgen

STATIC := $(shell uname -m)-unknown-linux-gnu
images: ## OCI images of the five services, and a bill of materials, into .local/images; no container engine is needed
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile dist --workspace --bins --target $(STATIC)
	deploy/images/build --strip --bin-dir $(CARGO_TARGET_DIR)/$(STATIC)/dist --out .local/images

clean-local: down ## forget the local cluster's state
	rm -rf .local
