# The ways in. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python

.PHONY: help demo explore fuzz simulate-faults test test-plain test-live test-all test-for test-changed test-oldest test-platforms test-gpu test-frameworks test-images check docs format crds map package lock clean setup bench

help: ## list the ways in
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: ## build the environment (.venv); every other target does this by itself
	@local/bootstrap.sh $(BOOTSTRAP)

# The cluster's programs are compiled beside the environment, or come from a package: make demo PROGRAMS=PATH|URL SHA256=HEX
demo test test-live test-all: BOOTSTRAP = $(if $(PROGRAMS),,--with-programs)
# Tests run side by side, a file at a time; each process has clusters of its own. make test PROCESSES=0 takes all one by one.
PROCESSES := 2
# Live tests wait more than they work.
test-live: PROCESSES := 4
# More for pytest: make test OPTIONS=--random-order
IN_PARALLEL = --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder $(OPTIONS)
# Tests that start no cluster, container or Ray are in folders of their own; SMOKE installs the product once and uses it.
PLAIN := $(filter-out tests/live/ tests/support/,$(wildcard tests/*/))
SMOKE := tests/live/test_smoke.py
# Tests of the local cluster, a distribution of its own: not in `make test` if a branch has changed other things only.
LOCAL = $(shell base=$$(git merge-base HEAD origin/main 2>/dev/null) && git diff --quiet $$base -- local && ! git diff --quiet $$base -- || echo local/tests)
programs = $(if $(PROGRAMS),@$(PY) -m cotenant_local.programs $(PROGRAMS) $(SHA256))

demo: setup ## three jobs of two tenants share two GPUs on a real Kubernetes on this machine (KEEP=1 leaves it up)
	$(programs)
	@$(PY) -m cotenant demo $(if $(KEEP),--keep)

test: check ## what guards main: lint, types, contracts, plain tests, and one story on the local cluster
	$(programs)
	@$(PY) -m pytest $(IN_PARALLEL) $(SMOKE) $(PLAIN) $(LOCAL)

test-plain: setup ## the tests that start no cluster, container or Ray
	@$(PY) -m pytest $(IN_PARALLEL) $(PLAIN) local/tests

test-for: setup ## the plain tests of one source file: make test-for F=operator/cotenant/core/actions/evict.py
	@tests=$$($(PY) -m tests.contract.mirror $(F)) && $(PY) -m pytest -q $$tests

# The plain tests that differ from BASE, more of them at once than there are cores: who counts on time fails here.
BASE := origin/main
CHANGED = $(wildcard $(filter-out tests/live/%,$(shell git diff --name-only --diff-filter=d $(BASE) -- '*/test_*.py')))

test-changed: PROCESSES := 8
test-changed: setup ## five times the plain tests that the branch changed, on a machine that is kept too busy (BASE=origin/main)
	@test -n "$(CHANGED)" || { echo "No plain test differs from $(BASE)."; exit 0; }; \
	for round in 1 2 3 4 5; do $(PY) -m pytest -q $(IN_PARALLEL) --dist load $(CHANGED) || exit 1; done

test-live: setup docs ## everything else: clusters, containers, Ray; who fails runs once more, alone, at the end
	$(programs)
	@$(PY) -m tests.live.twice $(IN_PARALLEL) -m "not frameworks and not gpu" --ignore tests/live/images --ignore $(SMOKE) tests/live

test-all: ## both
	@$(MAKE) --no-print-directory test; gate=$$?; $(MAKE) --no-print-directory test-live && exit $$gate

test-oldest: setup ## what the API server is asked, on the oldest Kubernetes that is promised (builds it once)
	@$(PY) -m pytest --oldest tests/live/api tests/live/chart tests/live/controller

explore: setup ## properties with a thousand new random examples each: what it finds becomes an @example (an hour or two)
	@$(PY) -m pytest $(IN_PARALLEL) --hypothesis-profile explore -m hypothesis $(PLAIN) local/tests

fuzz: setup ## a million hostile inputs for every decoder of what a tenant's process says (some ten minutes)
	@$(PY) -m bench.fuzz

simulate-faults: setup ## ten thousand simulated worlds with faults, each from its seed (an hour or two)
	@$(PY) -m tests.support.simulation

test-platforms: BOOTSTRAP = $(if $(PROGRAMS),,--with-programs)
test-platforms: setup ## an ordinary job on each platform that the local cluster can play: a mesh, quotas, closed networks and ports
	@$(PY) -m pytest $(OPTIONS) tests/live/platforms

test-gpu: BOOTSTRAP = $(if $(PROGRAMS),,--with-programs)
test-gpu: setup ## jobs on this machine's own GPU, which nothing else may use (root, one GPU of NVIDIA)
	$(programs)
	@$(PY) -m pytest $(OPTIONS) -m gpu tests/live/gpu

test-frameworks: setup ## the examples of the heavy frameworks, each in an environment of its own
	@$(PY) -m pytest -m frameworks tests/live

test-images: setup ## the images of the Dockerfile, built by buildah and tried on their own file systems (root; gigabytes of torch)
	@COTENANT_TEST_WORKER_IMAGE=1 $(PY) -m pytest $(OPTIONS) tests/live/images

check: setup ## format, lint, types, import contracts, dead code, stale names, generated files
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/vulture
	@$(PY) -m tests.contract.docstring_references
	@$(PY) -m cotenant crds --check
	@$(PY) docs/design/draw_house.py --check

format: setup ## format and mend what can be mended
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

docs: setup ## the pages of docs/ as a site, in build/docs; a link that leads nowhere fails
	@[ -x .venv-docs/bin/mkdocs ] && [ ! docs/requirements.txt -nt .venv-docs/bin/mkdocs ] || { .venv/bin/uv venv -q --clear .venv-docs \
		&& .venv/bin/uv pip install -q --python .venv-docs/bin/python --require-hashes -r docs/requirements.txt && touch .venv-docs/bin/mkdocs; }
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo build/docs/index.html

crds: setup ## generate crds/, the chart's copy, docs/api.md and docs/commands.md from the code
	@$(PY) -m cotenant crds

map: setup ## draw docs/house.svg from the import graph
	@$(PY) docs/design/draw_house.py

package: setup ## for a release, in dist/: the kubectl plugin with krew's manifest and manual pages, the local cluster's programs with their checksum
	@$(PY) -m cotenant plugin --package dist
	@$(PY) -m cotenant local build --package dist

lock: setup ## resolve the requirement files again, with hashes
	@local/lock.sh

clean: ## stop local clusters, remove the environment and everything built in the checkout
	@[ ! -x $(PY) ] || $(PY) -m cotenant local down --all
	@rm -rf .venv .venv-docs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
