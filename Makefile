# Two commands matter: `make demo` and `make test`. Everything they need is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
SHELL  := /bin/bash

.PHONY: help env demo test test-all check docs docs-commands chart host-agent fuzz fuzz-clickhouse locality-requests peers otlp-peers lock sbom audit proto format clean

help:
	@echo "make demo   a simulated fabric through the whole pipeline (ARGS='--headless --seconds 60')"
	@echo "make test   the checks of every promise, in minutes: format, lint, types, contracts, unit, integration, end to end"
	@echo "make test-all   the long part: the laboratory, the embedded servers, the site, trials in namespaces, upgrades"
	@echo "make check  the checks without a server"
	@echo "make docs   the generated pages, and the site in site/;  make docs-commands  runs the commands of README and tutorial"
	@echo "make chart  the Helm chart rendered and checked (needs Go);  make host-agent  a Debian package for GPU hosts"
	@echo "make fuzz   every parser under atheris, which sees the code that an input reaches, MINUTES=30 in all"
	@echo "make fuzz-clickhouse   attacks on the embedded ClickHouse, MINUTES=60 through HTTP, as a reader, and on the engine"
	@echo "make locality-requests   10,000 requests and more that schemathesis makes of the locality service"
	@echo "make env    only the environment, in $(VENV)"
	@echo "make peers  Debian's kcat, rsyslog, snmp, Alertmanager, Prometheus, Slurm: programs the tests use (needs root)"
	@echo "make otlp-peers   a Collector, telemetrygen, gnmic and Prometheus 3 in PEERS=.venv/otlp-peers (needs Go); tests find them on PATH"
	@echo "make sbom   sbom.json: every package of requirements.lock, as CycloneDX;  make audit  known vulnerabilities of them"
	@echo "make lock   update requirements.lock;  make proto  generate the protobuf code again"

# uv installs in parallel, from the index that pip has; each digest is of the lock. Where uv fails, pip installs.
UV  := UV_SYSTEM_CERTS=1 UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(PYTHON) -m pip config get global.index-url 2>/dev/null)}}" \
    $(BIN)/uv pip install --quiet --python $(BIN)/python
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What a user needs: the package with all its extras, without tools of tests.
$(VENV)/.railsight: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"railsight needs Python 3.11 to 3.13; {sys.executable} is {v[0]}.{v[1]} (set PYTHON=)")'
	$(PYTHON) -m venv $(VENV)
	@awk '/^[^ ]/ {is_uv = /^uv==/} is_uv' requirements.lock > $(VENV)/uv.txt
	$(PIP) --no-deps --require-hashes -r $(VENV)/uv.txt
	$(UV) --build-constraints requirements.lock --constraints requirements.lock --editable '.[all]' \
	    || { $(PIP) --require-hashes -r requirements.lock && $(PIP) --no-deps --no-build-isolation --editable .; }
	@touch $@

$(VENV)/.installed: $(VENV)/.railsight
	$(UV) --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	@touch $@

env: $(VENV)/.installed

demo: $(VENV)/.railsight
	$(BIN)/railsight demo $(ARGS)

check: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/unit tests/contract -m "not long" -n auto $(ARGS)

test: check
	$(BIN)/python -m pytest tests/integration -m "not long" -n 2 --dist loadfile $(ARGS)
	$(BIN)/python -m pytest tests/e2e tests/faults -m "not long" $(ARGS)

test-all: env
	$(BIN)/python -m pytest tests/unit tests/contract tests/integration -m long -n 2 --dist loadfile $(ARGS)
	$(BIN)/python -m pytest tests/e2e tests/faults -m long $(ARGS)

docs: env
	$(BIN)/python -m tests.contract.docs
	$(BIN)/python -m tests.contract.wire.topic_schemas
	$(BIN)/python -m tests.integration.store.tables_page
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs site

# A fresh clone with an environment of its own: some minutes.
docs-commands: env
	$(BIN)/python -m tests.documented --clean

chart: env
	$(BIN)/python -m deploy.helm

host-agent: env
	$(BIN)/python -m deploy.host_agent dist

fuzz: MINUTES ?= 30
fuzz: env
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

fuzz-clickhouse: MINUTES ?= 60
fuzz-clickhouse: env
	$(BIN)/python -m tests.fuzz.clickhouse --minutes $(MINUTES) $(ARGS)
	$(BIN)/python -m tests.fuzz.clickhouse --minutes $(MINUTES) --layer reader $(ARGS)
	$(BIN)/python -m tests.fuzz.clickhouse --minutes $(MINUTES) --layer engine $(ARGS)

# Schemathesis comes into an environment of its own: the lock has nothing of it.
locality-requests: env
	$(BIN)/python -m tests.bench.locality_requests $(ARGS)

peers:
	deploy/peers.sh

otlp-peers: PEERS ?= $(VENV)/otlp-peers
otlp-peers:
	deploy/otlp_peers.sh $(PEERS)

format: env
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: env
	$(BIN)/python proto/generate.py

lock: env
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --output-file requirements.lock

# Tools of their own environments, so that the lock has nothing of theirs.
sbom: env
	$(BIN)/uv tool run --from cyclonedx-bom==7.5.0 cyclonedx-py requirements requirements.lock \
	    --pyproject pyproject.toml --output-reproducible --of JSON -o $(or $(SBOM),sbom.json)

audit: env
	@$(BIN)/uv tool run --from pip-audit==2.10.1 pip-audit --strict --disable-pip --require-hashes -r requirements.lock \
	    $(if $(OSV_URL),--vulnerability-service osv --osv-url $(OSV_URL)) || { echo "audit: not passed. If no package was" \
	    "found or no service answered, there is no result: behind a mirror of packages set OSV_URL to an OSV API" >&2; exit 1; }

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
