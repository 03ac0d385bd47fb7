# Two commands: `make run` and `make test`. Both set up .venv first, and do of that only what has not been done.
#
#   PORT=8502 make run          another port
#   CUDNN=9.20.0 make run       another cuDNN version (a plan loads only in the version that built it)
#   PYTHON=python3.12 make run  another Python for a new .venv
#   TESTS=tests/graph make test some of the tests; PYTEST_ARGS="-x -k conv" passes arguments on

PORT   ?= 8501
CUDNN  ?=
PYTHON ?= python3
TESTS  ?= tests
PYTEST_ARGS ?=

BOOT  = $(if $(wildcard .venv/bin/python),.venv/bin/python,$(PYTHON))
quoted = '$(subst ','\'',$(1))'
SETUP = $(BOOT) -m engine.machine.setup --cudnn $(call quoted,$(CUDNN))

.PHONY: help run test test-gpu lint format pictures driver python
.DEFAULT_GOAL := help

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
	@echo '  make test-gpu, make lint, make format, make pictures; make driver fetches the driver library again where that has failed'

run: python
	@$(SETUP) --port $(call quoted,$(PORT))
	@exec .venv/bin/python -m streamlit run app/main.py --server.port $(call quoted,$(PORT))

# What compares times first, while nothing else runs (5: there is no such test among TESTS); then the rest, in parallel.
# What all tests look at is made by the first that asks, in a folder that both share.
test: python
	@$(SETUP) --development
	@PLANSCOPE_TESTS_SHARED=$$(mktemp -d); export PLANSCOPE_TESTS_SHARED; trap 'rm -rf "$$PLANSCOPE_TESTS_SHARED"' EXIT; \
	{ .venv/bin/python -m pytest -m timing $(PYTEST_ARGS) $(TESTS) || [ $$? = 5 ]; } && \
	.venv/bin/python -m pytest -m 'not gpu and not timing' -n auto --maxprocesses 4 --dist loadfile $(PYTEST_ARGS) $(TESTS)

# On a machine with a GPU: what only hardware can show.
test-gpu: python
	@$(SETUP) --development
	@exec .venv/bin/python -m pytest -m gpu $(PYTEST_ARGS) $(TESTS)

lint: python
	@$(SETUP) --development
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m mypy

format: python
	@$(SETUP) --development
	@.venv/bin/python -m ruff format .
	@.venv/bin/python -m ruff check --fix .

# The README's pictures, taken of the real pages.
pictures: python
	@$(SETUP) --development
	@.venv/bin/python -m tests.browser.pictures

driver: python
	@$(SETUP) --retry-driver

# Readable by any Python, for an old one has to be able to say so.
python:
	@command -v $(BOOT) >/dev/null || { \
	  echo "planscope: there is no $(BOOT). Install Python 3.11 or newer, or name one: PYTHON=python3.12 make run" >&2; exit 1; }
	@$(BOOT) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "planscope: Python 3.11 or newer is needed, and $(BOOT) is %d.%d. Name a newer one: PYTHON=python3.12 make run" % sys.version_info[:2])'
