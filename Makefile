PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# packages are not compiled when they are installed, but once, when they are first imported
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all lint results-check clean

demo: $(READY)  ## the study in miniature, under ten minutes on two cores
	$(BIN)/perepisode demo --out out/demo

test: $(READY)  ## the tests that CI runs
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup

test-all: $(READY)  ## also those that take minutes
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks results
	$(BIN)/pyright

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

results-check: $(READY)  ## does everything claimed follow from what is committed?
	$(BIN)/python results/check.py

clean:
	rm -rf $(VENV) out
