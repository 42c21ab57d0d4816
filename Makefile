# `make repro` and `make test` need Python 3.11 to 3.13 with venv, make, git and a network; the rest they fetch by hash.
PYTHON ?= python3
PROFILE ?=
BIN := .venv/bin
LOCKS := requirements/cpu.txt requirements/workflow.txt requirements/development.txt
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH := $(CURDIR)

.DEFAULT_GOAL := help
.PHONY: help repro plan publish site test lint bench params lock

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

repro: .venv/ready ## run the study and write its report; PROFILE=paper for the sources' full scale
	@python -m stages.check
	@$(if $(PROFILE),dvc exp run --set-param profile=$(PROFILE),dvc repro --quiet)
	@python -m stages.summary

plan: .venv/ready ## say how many seeds the margins of the last study need
	@python -m stages.plan

test: .venv/ready ## run the tests, on fake data and without network
	@python -m pytest

lint: .venv/ready ## check format, style, types and the direction of imports
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports --no-logo

publish: .venv/ready ## pack the finished study for a reviewer: results/crate.zip
	@python -m stages.publish $(if $(TO),--to $(TO))

site: .venv/ready ## build the site of the studies under docs/reports; ADDRESS=… for its feed
	@python -m stages.site $(if $(ADDRESS),--address $(ADDRESS))

bench: .venv/ready ## simulate how often the intervals hold, and measure what comparing costs
	@python -m bench.intervals
	@python -m bench.scaling

params: .venv/ready ## compose params.yaml anew from conf/
	@python -c 'from dvc.utils.hydra import compose_and_dump as compose; compose("params.yaml", "$(CURDIR)/conf", None, "config", "", [])'

lock: .venv/ready ## resolve requirements/*.in anew into hashed locks
	@for name in uv cpu workflow development; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	    --custom-compile-command "make lock" --output-file requirements/$$name.txt requirements/$$name.in || exit; \
	done

.venv/ready: requirements/uv.txt $(LOCKS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "error: needs Python 3.11 to 3.13; name one: make PYTHON=python3.12 …")'
	@echo "setting up .venv from the hashed locks"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes $(addprefix -r ,$(LOCKS))
	@touch $@
