SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 6
PATH := $(CURDIR)/$(BIN):$(PATH)
export PATH
# Every task of Airflow is a process of its own: without bytecode on disk each compiles thousands of modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# PySpark has no wheel on PyPI: most of an installation would be the compression of one, and its decompression.
STORED := --config-settings-package 'pyspark:--build-option=--compression=stored'

$(VENV)/.installed: requirements.lock requirements-uv.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; install Python 3.11 or set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked requirements into $(VENV) (1.7 GB; minutes, where they are not in a cache)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes $(STORED) requirements.lock requirements-uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## Install everything into .venv, by hash

.PHONY: lock
lock: ## Resolve the lock files again from pyproject.toml
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-header --python-version 3.11 --extra local --extra dev pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-header --python-version 3.11 --extra local -c requirements.lock pyproject.toml -o requirements-image.lock
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-header --python-version 3.11 benchmarks/peers/requirements.in -o benchmarks/peers/requirements.lock

.PHONY: demo
demo: install ## The main job on real flights, through Airflow, with its proof
	@$(BIN)/offset-ledger demo
	@$(BIN)/python -m tests.witness
	@printf '\n%s\n' 'Next: docs/tutorial.md, a topic of your own. `make down` stops the servers, `make clean` removes them.'

.PHONY: demo-formats
demo-formats: install ## Flights in Avro, whose schema changes twice, Protobuf, JSON Schema and change events
	@$(BIN)/offset-ledger demo --formats
	@printf '\n%s\n' 'Next: docs/tutorial.md, a topic of your own in Avro.'

.PHONY: up
up: install ## Start three brokers, Postgres, Spark and Airflow, to look around
	@$(BIN)/offset-ledger stack up --brokers 3 --airflow

.PHONY: down
down: ## Stop them; the data stay
	@test ! -e $${OFFSET_LEDGER_HOME:-.local}/stack.json || { $(MAKE) --silent --no-print-directory install && $(BIN)/offset-ledger stack down; }

.PHONY: findings
findings: ## Outside CI: what surprised us about other packages, seen again with each (minutes; installs from package indexes)
	@failed=0; for script in findings/*.sh; do nice bash $$script || { echo "FAILED $$script"; failed=1; }; done; exit $$failed

.PHONY: dist
dist: install ## The wheel and the source distribution, into dist/
	@rm -rf dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist .

.PHONY: lint
lint: install ## ruff, mypy, import-linter and oxlint
	@$(BIN)/ruff check --no-cache
	@$(BIN)/ruff format --no-cache --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/oxlint --quiet

CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
FEWER := --hypothesis-profile=fewer

.PHONY: unit
unit: install ## The tests of the pure parts
	@$(BIN)/pytest $(FEWER) tests/unit

# Lint runs beside the tests, while they wait for servers, and its output comes last.
define beside-lint
@log=$$(mktemp); nice -n 19 $(MAKE) --no-print-directory lint > $$log 2>&1 & lint=$$!; \
$(1); tests=$$?; wait $$lint; lint=$$?; cat $$log; rm $$log; exit $$((tests || lint))
endef

.PHONY: test
test: install ## Before each push: lint, and every test that is not marked full (WORKERS=0: in one process)
	$(call beside-lint,$(BIN)/pytest -n $(WORKERS) $(FEWER) -m "not full and not ui")

.PHONY: test-all
test-all: install ## What CI runs: lint, every test with all of Hypothesis' examples, and the page's in Chromium where it is installed
	$(call beside-lint,$(BIN)/pytest -n $(WORKERS))
	@$(if $(CHROMIUM),$(BIN)/pytest -m ui tests/ui/alone,echo "The page's tests were left out: no Chromium was found (on Debian: apt-get install chromium)")

.PHONY: ui-test
ui-test: install ## The Airflow UI in Chromium, as people use it (SHOTS=folder keeps pictures)
	@OFFSET_LEDGER_SHOTS=$(SHOTS) $(BIN)/pytest -m ui tests/ui

.PHONY: docs
docs: install ## The documentation as a site, in .site/; SERVE=1 shows it on port 8000 while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(if $(SERVE),serve,build --strict --quiet)
	@test -n "$(SERVE)" || echo "open .site/index.html"

.PHONY: recording
recording: install ## Run the demo on new servers and record it as the picture of the README
	@$(MAKE) --no-print-directory clean
	@MAKEFLAGS=--no-print-directory $(BIN)/python -m docs_site.recording docs/pictures/demo.svg make demo

.PHONY: matrix
matrix: install ## The support matrix in docs/support.md, on each Postgres, Kafka, Python and Spark (ONLY=Kafka: one of them)
	@$(BIN)/python -m tests.matrix $(if $(ONLY),--only "$(ONLY)")

.PHONY: chaos
chaos: install ## Random faults against the main job: make chaos CYCLES=50 SEED=1 BROKERS=3 CONNECT=1 REGISTRY=1 POOLER=1
	@$(BIN)/python -m tests.chaos --cycles $(or $(CYCLES),50) --seed $(or $(SEED),1) --brokers $(or $(BROKERS),1) $(if $(CONNECT),--connect) $(if $(REGISTRY),--registry) $(if $(POOLER),--pooler)

.PHONY: soak
soak: install ## An hour of batches with faults, schemas and prunes; fails on what grows: make soak MINUTES=60
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) $(if $(CSV),--csv $(CSV))

.PHONY: model
model: install ## All states of the model's small worlds, and every defect; LONG=1: then long walks of the real code beside it
	@$(BIN)/python -m tests.model
	@test -z "$(LONG)" || $(BIN)/python -m tests.machine --times $(or $(TIMES),2000) --seed $(or $(SEED),1)

.PHONY: fuzz
fuzz: install ## Fuzz the decoders of Avro, Protobuf and JSON for MINUTES=5
	@$(BIN)/python -m tests.fuzz $(or $(MINUTES),5) 2> >(grep -v "is unused" >&2)

.PHONY: bench
ifdef SIZE
bench: install peers ## The figures of docs/performance.md; beside other programs, into benchmarks/README.md: make bench SIZE=500000 TARGET="empty half"
	@$(BIN)/python -m benchmarks.peers --size $(SIZE) $(if $(WIDTH),--width $(WIDTH)) $(if $(TARGET),--target $(TARGET)) \
		$(if $(ONLY),--only "$(ONLY)") $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RESUME),--resume)
else
bench: install
	@$(BIN)/python -m benchmarks.ingest
	@$(BIN)/python benchmarks/publish.py
endif

.venv-peers/.installed: $(VENV)/.installed benchmarks/peers/requirements.lock
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@echo "installing what the project is compared with into .venv-peers (0.7 GB)"
	@$(BIN)/uv pip sync --quiet --python .venv-peers/bin/python --require-hashes $(STORED) benchmarks/peers/requirements.lock
	@touch $@

.PHONY: peers
peers: .venv-peers/.installed

.PHONY: clean
clean: down ## Stop the servers and remove their state
	@rm -rf .local
