# The verbs of this repository. `make` alone lists them; every one that needs the environment makes it first.
# What set-up makes is .venv in the checkout and a cache outside it; nothing else on the machine changes, except
# that Java, and for the tests Redis, are installed where they are missing and we may.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3.11
JOBS ?= 2
SEED ?= 1

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/biclique

# Compiled kernels are kept between runs and between checkouts; a cache inside the tree would be somebody's commit.
export NUMBA_CACHE_DIR := $(CACHE)/numba
# Spark's workers must be this environment's Python, whatever `python3` means on the machine.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

FAST_TESTS := tests/operator tests/unit tests/property tests/tidy
LOCAL_TESTS := tests/dataplane tests/spark tests/conformance tests/chart $(FAST_TESTS)

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- set-up ----------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: java $(STAMP) ## Everything a checkout needs: .venv from the lock, Java where it is missing

# hatchling comes from the lock, so the packages' own install neither isolates nor downloads.
$(STAMP): requirements.lock jobs/pyproject.toml operator/pyproject.toml
	@command -v $(PYTHON) >/dev/null || $(call give-up,Biclique needs Python 3.11: install it or name it (make PYTHON=…).)
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call apt-install,python3.11-venv,$(PYTHON) lacks ensurepip)
	@rm -f $@
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e jobs -e operator
	@touch $@

# Spark 4 runs on Java 17 or later. It takes JAVA_HOME's java before the one on the path, and so do we; installing a
# second Java beside a JAVA_HOME that names another would change nothing.
.PHONY: java
java:
	@$(java-is-new-enough) || { \
		[[ -z "$${JAVA_HOME:-}" ]] || $(call give-up,JAVA_HOME names no Java 17 or later: unset or correct it.); \
		$(call apt-install,openjdk-17-jre-headless,Spark needs Java 17 or later); }

java-version = $$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1)
java-is-new-enough = { [[ "$(java-version)" =~ version\ \"([0-9]+) ]] && (( BASH_REMATCH[1] >= 17 )); }

# $(call give-up,sentence)
give-up = { echo '$(1)' >&2; exit 1; }

# $(call apt-install,package,reason): install it where we may, else say in one sentence what to do.
define apt-install
{ if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	echo '$(2): installing $(1)'; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; \
else \
	echo '$(2), and this user cannot install it: install the package $(1), then run this again.' >&2; false; \
fi; }
endef

# What tests run against besides Spark: Kafka's jars and Spark's Kafka connector, by checksum, and Redis.
.PHONY: servers
servers: setup ## A real Kafka and a real Redis for the tests (python -m infra up starts them for a person)
	@$(BIN)/python -m infra.jars fetch >/dev/null || echo 'The tests that need a Kafka will be skipped.' >&2
	@command -v redis-server >/dev/null || $(call apt-install,redis-server,The tests run against a real Redis) || \
		echo 'The tests that need a Redis will be skipped.' >&2
	@$(MAKE) --no-print-directory $(PREPARED) || echo 'Spark starts as it would without them.' >&2

# What `biclique prepare` keeps: made once, some 20 s of CPU, of which every start of Spark later saves two.
PREPARED := $(VENV)/.prepared

$(PREPARED): $(STAMP)
	@$(BIN)/biclique prepare
	@touch $@

LOCK_BIN := $(CACHE)/lock/bin

.PHONY: lock
lock: ## Make requirements.lock again from requirements.in
	@test -x $(LOCK_BIN)/uv || { $(PYTHON) -m venv $(CACHE)/lock && $(LOCK_BIN)/pip install --quiet 'uv>=0.13,<0.14'; }
	$(LOCK_BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url \
		--python-version 3.11 $(if $(UPGRADE),--upgrade) requirements.in -o requirements.lock
	@$(PYTHON) -m images.locks

# --- a cluster -------------------------------------------------------------------------------------------------------

NODE_PACKAGES := containerd runc containernetworking-plugins iptables conntrack iproute2
IMAGE_PACKAGES := buildah debootstrap
TAG ?= dev
ARCHIVE = $(CACHE)/image-$*.tar

.PHONY: cluster-build cluster-packages cluster-up cluster-load cluster-down images images-tryout e2e e2e-faults
cluster-build: setup ## The test cluster's programs, once: three minutes on two cores, and kept outside the checkout
	@$(BIN)/python -m infra.cluster build

cluster-packages: setup
	@[[ -z "$$($(BIN)/python -m infra.cluster missing)" ]] || \
		$(call apt-install,$(NODE_PACKAGES),The test cluster is made of them)

cluster-up: cluster-build cluster-packages ## A real Kubernetes of one node on this machine (needs root)
	@$(BIN)/python -m infra.cluster up

# With those of a first look under the names that the chart has for them: the node cannot pull what it says. While one
# is unpacked there, the next is read from where it was built.
cluster-load: images images-tryout ## All images into the test cluster
	@$(MAKE) --no-print-directory --jobs $(JOBS) $(addprefix cluster-load-,spark operator kafka redis)

cluster-load-%:
	@name=$$($(BIN)/python -m images archive $* $(ARCHIVE) --tag $(TAG)) \
		&& $(BIN)/python -m infra.cluster load $(ARCHIVE) $$name
	@rm -f $(ARCHIVE)

cluster-down: setup ## End the test cluster, and leave nothing of it
	@$(BIN)/python -m infra.cluster down

images: servers ## The images of the tiers and of the operator (BASE=…; TAG=…)
	@command -v buildah >/dev/null || $(call apt-install,$(IMAGE_PACKAGES),Images are built with them)
	@$(BIN)/python -m images build --tag $(TAG) $(if $(BASE),--base $(BASE))

images-tryout: images
	@$(BIN)/python -m images build kafka redis --tag $(TAG) $(if $(BASE),--base $(BASE))

# On the cluster of KUBECONFIG, with images that it knows; else on the test cluster, started and ended for it.
ON_A_CLUSTER := $(if $(KUBECONFIG),servers,images cluster-build cluster-packages)

e2e: $(ON_A_CLUSTER) ## The tests on a real cluster
	$(BIN)/python -m pytest -rs -s -m 'cluster and not long' --durations 20 tests/e2e

e2e-faults: $(ON_A_CLUSTER) ## Faults on a real cluster: pods, node, Kafka and Redis, while rows flow (SEED=…)
	SEED=$(SEED) $(BIN)/python -m pytest -rs -s -m 'cluster and long' --durations 20 tests/e2e

# --- the developer's loop --------------------------------------------------------------------------------------------

.PHONY: check lint fast format
check: lint fast ## Format, lint, types, import contracts and the fast tests: under two minutes

lint: setup ## The part of check that runs no test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# One more at once than elsewhere: some of them wait.
fast: setup ## The part of check that runs tests
	$(BIN)/python -m pytest -q -n $$(( $(JOBS) + 1 )) -m 'not slow and not spark' $(FAST_TESTS)

format: setup ## Put the code in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# --- tests -----------------------------------------------------------------------------------------------------------

# Files stay whole on a worker, so that a file's Spark session starts once; those that take minutes come first, else one
# worker would be done while the other begins them. They wait a good deal, for processes and silences: the simulator's
# seeds take what is left over. What holds the time of a whole machine to a bound has it to itself, behind them. The
# story of what was skipped comes last, behind the simulator's output, where it is read.
PYTEST_LOG := $(VENV)/pytest.log
SEEDS_LOG := $(VENV)/seeds.log

.PHONY: test test-seeds test-local
test: servers ## Every test that needs no cluster, and the simulator: at most fifteen minutes on two cores
	@$(MAKE) --no-print-directory -j 2 test-local test-seeds
	@cat $(SEEDS_LOG)
	$(BIN)/python -m pytest -m alone -rs tests/operator | tee -a $(PYTEST_LOG)
	$(BIN)/python -m tests.simulation planted --replay --jobs $(JOBS)
	@echo
	@echo 'Not part of make test: make e2e and make e2e-faults (tests on a real cluster), make dataplane (more tests of'
	@echo 'the tiers over real servers), and make soak (as many seeds as one likes).'
	@echo 'Skipped, and why:'
	@grep '^SKIPPED' $(PYTEST_LOG) || echo '  nothing'
	@grep -E '^=+ .* in [0-9.]+s' $(PYTEST_LOG)

# Tests that call make are not to find this one's jobs.
test-local: servers
	env -u MAKEFLAGS -u MFLAGS $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		-m 'not long and not alone' -rs --durations 20 $(LOCAL_TESTS) | tee $(PYTEST_LOG)

test-seeds: servers
	@nice -n 19 $(BIN)/python -m tests.simulation seeds --count 3000 --jobs $(JOBS) >$(SEEDS_LOG) 2>&1 \
		|| { cat $(SEEDS_LOG); exit 1; }

# Each starts several Spark drivers, and then mostly waits: for checkpoints, silences, restarts. So two of them share
# the cores; JOBS=1 has one at a time.
.PHONY: dataplane
dataplane: servers ## The longer tests of the tiers as processes, over a real Kafka and a real Redis
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -rs -m long --durations 20 \
		tests/dataplane tests/conformance

.PHONY: chaos
chaos: servers ## Faults on real processes: all of them, or some (SEED=…; ARGS='--brief'); writes docs/chaos.md
	$(BIN)/python -m tests.chaos --seed $(SEED) --json $(VENV)/chaos.json \
		$(or $(ARGS),--write docs/chaos.md)

.PHONY: simulate soak
simulate: setup ## One simulated run with its story (SEED=…; ALL=1: the whole of it)
	$(BIN)/python -m tests.simulation simulate --seed $(SEED) $(if $(ALL),--all)

soak: setup ## Seeds, fuzz inputs and planted bugs until stopped (MINUTES=…; FIRST=… goes on where one was left)
	$(BIN)/python -m tests.simulation soak --jobs $(JOBS) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(FIRST),--first $(FIRST))

# --- the cluster of your current context -----------------------------------------------------------------------------

HELM ?= helm
RELEASE ?= biclique
NAMESPACE ?= biclique
# Which images: as `make images` calls them, or a file of yours with the names of your registry.
VALUES ?= images/values.yaml

.PHONY: deploy undeploy
deploy: ## The chart onto the cluster of your current context (NAMESPACE=…; VALUES=…; ARGS='--set …'): docs/install.md
	@command -v $(HELM) >/dev/null || $(call give-up,Helm is not on the path: install it or name it (make HELM=…).)
	$(HELM) upgrade --install $(RELEASE) charts/biclique --namespace $(NAMESPACE) --create-namespace --wait \
		--values $(VALUES) $(ARGS)

undeploy: ## And away again, once its queries are deleted
	@found=$$(kubectl get joinqueries --all-namespaces --output name) || \
		$(call give-up,Whether there are queries could not be asked: see what kubectl said.); \
	[[ -z "$$found" ]] || \
		$(call give-up,There are queries that nobody would look after: kubectl delete joinqueries --all --all-namespaces)
	$(HELM) uninstall $(RELEASE) --namespace $(NAMESPACE)

# --- something to look at --------------------------------------------------------------------------------------------

.PHONY: demo bench
demo: setup ## The main job on the embedded engine, with something to look at
	$(BIN)/python examples/demo.py

bench: setup ## The benchmarks beside the peers; writes the table and the plots
	$(BIN)/python -m bench

.PHONY: clean
clean: ## Remove what tools and runs wrote here; .venv stays (rm -rf .venv for a set-up from nothing)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf out spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
