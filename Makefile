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
.PHONY: help run up down build stack test unit integration soak soak-cluster soak-install soak-stack soak-properties soak-solver bench conformance chaos lint each-crate fmt crds images release clean-local

# The parts share two cores and one local AWS: also under -j they run one after the other.
.NOTPARALLEL:

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
	cargo test --workspace --exclude karpenter-integration
	$(PYTHON) -m unittest discover -s deploy/local -p 'test_*.py'
	$(PYTHON) -m unittest discover -s integration/conformance -p 'test_*.py'
	$(PYTHON) -B -m unittest discover -s integration -p 'test_*.py'

integration: stack build ## the services as real processes on the local cluster
	cargo test --workspace --test cluster --test install

# Each part runs whatever the others ended with; the exit status comes at the end.
soak: stack ## the long proofs, on release builds; figures go into integration/RESULTS.md
	cargo build --release --workspace --bins
	$(MAKE) --keep-going --no-print-directory soak-cluster soak-install soak-stack soak-properties soak-solver

SOAK := KARPENTER_BIN_DIR=$(CARGO_TARGET_DIR)/release cargo test --workspace
soak-cluster:
	$(SOAK) --test cluster -- --soak
soak-install:
	$(SOAK) --test install -- --soak
soak-stack:
	KARPENTER_BIN_DIR=$(CARGO_TARGET_DIR)/release $(PYTHON) deploy/local/tests/acceptance.py
soak-properties:
	PROPTEST_CASES=$${PROPTEST_CASES:-20000} cargo test --no-fail-fast --workspace --exclude karpenter-integration
soak-solver:
	SOLVER_CASES=$${SOLVER_CASES:-20000} cargo test -p karpenter-solver --test properties

bench: stack ## every benchmark, one table of bar, measured and ratio; ORACLE=, CATALOG= and ELASTICMQ= add more, BASELINE=write keeps it
	cargo build --release --workspace --bins
	$(CARGO_TARGET_DIR)/release/bench $(if $(ORACLE),--oracle $(ORACLE)) $(if $(CATALOG),--catalog $(CATALOG)) \
		$(if $(ELASTICMQ),--elasticmq $(ELASTICMQ)) $(if $(filter write,$(BASELINE)),--write-baseline)

conformance: stack build ## Karpenter's own end-to-end suites against our services; SUITE=drift FOCUS='subnet' for a part
	integration/conformance/run $(if $(SUITE),--suite $(SUITE)) $(if $(FOCUS),--focus '$(FOCUS)',--results)

chaos: stack build ## random workloads, kills, partitions and AWS faults, judged by the invariants; HOURS=1 or STEPS=500, SEED=7, PREVIOUS=dir
	$(if $(HOURS),CHAOS_HOURS=$(HOURS)) $(if $(STEPS),CHAOS_STEPS=$(STEPS)) $(if $(PREVIOUS),PREVIOUS_BIN_DIR=$(abspath $(PREVIOUS))) CHAOS_SEED=$(or $(SEED),1) cargo test --workspace --test cluster -- --soak chaos::

lint: ## formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

each-crate: ## every crate compiles by itself, with its own features only
	.ci/each-crate

fmt: ## format
	cargo fmt --all

crds: ## write charts/karpenter-crd from the Rust types
	cargo run -p karpenter-api --bin crdgen

STATIC := $(shell uname -m)-unknown-linux-gnu
images: ## OCI images of the five services, and a bill of materials, into .local/images; REGISTRY=… TAG=… also pushes them (with skopeo)
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile dist --workspace --bins --target $(STATIC)
	deploy/images/build --strip --bin-dir $(CARGO_TARGET_DIR)/$(STATIC)/dist --out .local/images \
	  $(if $(TAG),--tag $(TAG)) $(if $(REGISTRY),--registry $(REGISTRY) --push)

release: ## what a release publishes, into .local/release; VERSION=…; PUBLISH=1 REGISTRY=… also pushes images and charts
	deploy/release/release --version "$(VERSION)" $(if $(REGISTRY),--registry $(REGISTRY)) $(if $(PUBLISH),--publish) \
	  $(if $(DOWNLOAD_URL),--download-url $(DOWNLOAD_URL)) $(if $(SIGN),--sign $(SIGN)) $(RELEASE_FLAGS)

clean-local: down ## forget the local cluster's state
	rm -rf .local
