PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS := $(VENV)/.docs
# packages are not compiled when they are installed, but once, when they are first imported
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-python test-other-pythons lint notebooks docs docs-serve results-check clean

demo: $(READY)  ## the study in miniature, under ten minutes on two cores
	$(BIN)/perepisode demo --out out/demo

test: $(READY)  ## the tests that CI runs
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup

test-all: $(READY)  ## also those that take minutes
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-python: $(READY)  ## what an interpreter can break: processes, sharded training, the demo's miniature from nothing
	$(BIN)/python -m pytest -m "processes and not slow" -n 2 --dist loadgroup
	rm -rf out/miniature$(notdir $(VENV))
	$(BIN)/perepisode demo --no-craftax --out out/miniature$(notdir $(VENV))

test-other-pythons: $(READY)  ## that on every other supported Python found here, each in an environment of its own
	pythons=$$($(BIN)/python .ci/pythons.py) && for python in $$pythons; do \
		version=$$($$python -c "import sys; print('{}.{}'.format(*sys.version_info))") && \
		$(MAKE) test-python PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks results docs/_hooks .ci
	$(BIN)/pyright

notebooks: $(READY)  ## runs the notebooks of examples/notebooks and stores their outputs
	$(BIN)/python .ci/notebooks.py

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .  # refuses other Pythons
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
	touch $@

docs: $(DOCS)  ## the documentation site, from docs/ into site/; a broken link or reference fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest tests/docs -n 0
	@echo "wrote site/index.html"

docs-serve: $(DOCS)  ## the same on http://127.0.0.1:8000, built again after every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

$(DOCS): $(READY) requirements-docs.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements-docs.lock
	touch $@

results-check: $(READY)  ## does everything claimed follow from what is committed?
	$(BIN)/python results/check.py

clean:
	rm -rf $(VENV) $(VENV)-3.* out site
