PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGE := $(VENV)-package
DOCS := $(VENV)/.docs
# pip does not byte-compile packages (--no-compile); Python does on first import
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-python test-other-pythons lint notebooks docs docs-serve package results-check clean

demo: $(READY)  ## the main finding on a laptop, under ten minutes on two cores
	$(BIN)/perepisode demo --out out/demo

test: $(READY)  ## the tests that CI runs
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup

test-all: $(READY)  ## also the tests that take minutes
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-python: $(READY)  ## what depends on the interpreter: processes, sharded training, the demo on Temptation from scratch
	$(BIN)/python -m pytest -m "processes and not slow" -n 2 --dist loadgroup
	rm -rf out/miniature$(notdir $(VENV))
	$(BIN)/perepisode demo --no-craftax --out out/miniature$(notdir $(VENV))

test-other-pythons: $(READY)  ## test-python on every other supported Python found here, each in its own environment
	pythons=$$($(BIN)/python .ci/pythons.py) && for python in $$pythons; do \
		version=$$($$python -c "import sys; print('{}.{}'.format(*sys.version_info))") && \
		$(MAKE) test-python PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks results docs/_hooks .ci
	$(BIN)/pyright

notebooks: $(READY)  ## executes the notebooks in examples/notebooks and stores their outputs
	$(BIN)/python .ci/notebooks.py

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .  # fails on unsupported Pythons
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
	touch $@

docs: $(DOCS)  ## the documentation site, from docs/ into site/; a broken link fails the build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest tests/docs -n 0
	@echo "wrote site/index.html"

docs-serve: $(DOCS)  ## the same on http://127.0.0.1:8000, rebuilt on every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

$(DOCS): $(READY) requirements-docs.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements-docs.lock
	touch $@

package: $(PACKAGE)/.ready  ## builds the package into dist/, checks it, and installs it on every supported Python found here
	$(PACKAGE)/bin/python .ci/package.py

$(PACKAGE)/.ready: requirements-package.lock
	$(PYTHON) -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-package.lock
	touch $@

results-check: $(READY)  ## recomputes every committed report and number from its data
	$(BIN)/python results/check.py

clean:
	rm -rf $(VENV) $(VENV)-3.* $(PACKAGE) dist out site
