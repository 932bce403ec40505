# One page of commands; `make` alone lists them. Everything runs in .venv, which the first command makes.

PY := .venv/bin/python
AUGURY := .venv/bin/augury

# What to test, and how: make test TESTS=tests/language ARGS="-k parser"
TESTS ?=
ARGS ?=
WORKERS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH
# Many tests start processes; where nothing compiled may be kept, each of them compiles all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format format-check lint types accept bench soak docs lock clean machine remake

help: ## list these commands
	@echo "usage: make COMMAND, on a machine with Python 3.11+ and Java 17+"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1 \2/p' Makefile | \
	  while read -r name text; do printf '  %-14s%s\n' "$$name" "$$text"; done
	@echo
	@echo "Choose the interpreter with PYTHON=/path/to/python3.12; rm -rf .venv to start over."

demo: .venv/.ready ## run the groceries in process and on Spark, then a parcel service on Spark, and ask what was known when
	$(AUGURY) check examples/groceries/groceries.bicepl
	@rm -rf build/demo && mkdir -p build/demo
	$(AUGURY) run examples/groceries/groceries.bicepl --events examples/groceries/events.jsonl --store build/demo/fridge.db
	$(AUGURY) history Delivery --store build/demo/fridge.db
	$(AUGURY) history Delivery --store build/demo/fridge.db --known-at 2026-03-03T12:00:00Z
	$(AUGURY) history Delivery --store build/demo/fridge.db --diff 2026-03-03T12:00:00Z 2026-03-04T12:00:00Z
	$(AUGURY) explain examples/card/card.bicepl Suspicious --stage algebra
	$(AUGURY) run examples/discount/discount.bicepl --events examples/discount/events.jsonl --engine spark
	$(AUGURY) explain examples/groceries/groceries.bicepl --stage spark
	$(AUGURY) run examples/groceries/groceries.bicepl --events examples/groceries/events.jsonl \
	  --engine spark-stream --store build/demo/lake
	$(AUGURY) history ReplenishingNeeded --store build/demo/lake
	@echo
	@echo "And now 208,000 events of a parcel service, some 100 s of work for Spark (examples/parcels/README.md):"
	$(PY) examples/parcels/make_events.py build/demo/parcels
	$(AUGURY) explain examples/parcels/parcels.bicepl --stage spark
	$(AUGURY) run examples/parcels/parcels.bicepl --events build/demo/parcels \
	  --engine spark-stream --store build/demo/parcels-lake --closing > build/demo/parcels.ndjson
	@echo
	@echo "What the streams have kept lies in build/demo/lake and build/demo/parcels-lake, as Parquet. Look at it with:"
	@echo "  $(AUGURY) history Delivery --store build/demo/lake --known-at 2026-03-03T12:00:00Z"
	@echo "  $(AUGURY) history Missing --store build/demo/parcels-lake --known-at 2026-03-02T14:00:00Z"
	@echo "  $(AUGURY) history Compensation --store build/demo/parcels-lake --diff 2026-03-03T22:00:00Z 2026-03-03T23:00:00Z"
	@echo "  $(PY) -c \"import augury; print(augury.history('build/demo/parcels-lake').table('Compensation').to_pandas())\""
	@echo "  grep takeBack build/demo/parcels.ndjson"

test: .venv/.ready ## run the tests; TESTS=path and ARGS="-k word" narrow them
	$(PY) -m pytest -n $(WORKERS) $(ARGS) $(TESTS)

check: format-check lint types test ## format, lint, strict types and tests: what has to pass before a commit

format: .venv/.ready ## rewrite the sources in the common format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix-only --quiet .

format-check: .venv/.ready ## is everything formatted?
	$(PY) -m ruff format --check .

lint: .venv/.ready ## ruff's rules
	$(PY) -m ruff check .

types: .venv/.ready ## mypy, strict
	$(PY) -m mypy

accept: .venv/.ready ## rewrite the golden files; the diff is the review
	AUGURY_ACCEPT=1 $(PY) -m pytest -n 0 $(ARGS) tests/golden

bench: .venv/.ready ## run every benchmark
	@for file in benchmarks/*.py; do \
	  [ -e "$$file" ] || { echo "no benchmarks yet"; break; }; \
	  echo "== $$file"; $(PY) "$$file" || exit 1; \
	done

soak: .venv/.ready ## run the long tests
	AUGURY_FRESH=1 $(PY) -m pytest -m soak -o faulthandler_timeout=0 $(ARGS) $(TESTS)

docs: .venv/.ready ## write the generated pages of docs/
	$(PY) tools/make_docs.py

lock: ## rewrite requirements.lock from pyproject.toml; UPGRADE=1 takes the newest versions
	tools/lock.sh

clean: ## remove what tests and builds leave behind; keeps .venv
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- set-up ----------------------------------------------------------------------------------------

# Java and Python are looked at every time, because they may have gone since .venv was made.
machine:
	@tools/setup.sh machine

# A .venv that was copied here, or whose Python has gone, is as good as none.
ifneq ($(shell test -x $(PY) && cat .venv/.ready 2>/dev/null),$(CURDIR))
remake_if_stale := remake
endif

.venv/.ready: requirements.lock pyproject.toml tools/setup.sh $(remake_if_stale) | machine
	@tools/setup.sh install
