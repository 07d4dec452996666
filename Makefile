# The ways in. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python

.PHONY: help demo fuzz simulate-faults test test-plain test-oldest test-frameworks check docs format crds map package lock clean setup bench

help: ## list the ways in
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: ## build the environment (.venv); every other target does this by itself
	@local/bootstrap.sh $(BOOTSTRAP)

# The cluster's programs are compiled beside the environment, or come from a package: make demo PROGRAMS=PATH|URL SHA256=HEX
demo test: BOOTSTRAP = $(if $(PROGRAMS),,--with-programs)
# Tests run side by side, a file at a time; each process has clusters of its own. make test PROCESSES=1 takes all one by one.
PROCESSES := 2
PLAIN := not cluster and not sandbox and not ray and not frameworks and not containers and not gpu
IN_PARALLEL = --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder
programs = $(if $(PROGRAMS),@$(PY) -m cotenant_local.programs $(PROGRAMS) $(SHA256))

demo: setup ## three jobs of two tenants share two GPUs on a real Kubernetes on this machine (KEEP=1 leaves it up)
	$(programs)
	@$(PY) -m cotenant demo $(if $(KEEP),--keep)

test: check docs ## everything: lint, types, contracts, the site of the pages, plain tests, tests on the local cluster
	$(programs)
	@$(PY) -m pytest $(IN_PARALLEL) -m "$(PLAIN)"; plain=$$?; $(PY) -m pytest $(IN_PARALLEL) -m "not frameworks and not gpu and not ($(PLAIN))" && exit $$plain

test-plain: setup ## the tests that need no cluster: minutes
	@$(PY) -m pytest $(IN_PARALLEL) -m "$(PLAIN)"

test-oldest: setup ## what the API server is asked, on the oldest Kubernetes that is promised (builds it once)
	@$(PY) -m pytest --oldest tests/api tests/chart tests/controller

fuzz: setup ## a million hostile inputs for every decoder of what a tenant's process says (some ten minutes)
	@$(PY) -m bench.fuzz

simulate-faults: setup ## ten thousand simulated worlds with faults, each from its seed (an hour or two)
	@$(PY) -m tests.support.simulation

test-frameworks: setup ## the examples of the heavy frameworks, each in an environment of its own
	@$(PY) -m pytest -m frameworks

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
