PYTHON ?= python3
BIN := .venv/bin
BENCHMARKS := field_kernels moments threads noise gram functional paillier encrypted intermediate embeddings psi scale masks accounting verified plan comfort board engine operations house
# These want public data sets.
STUDIES := utility margin judge tables calibration

.PHONY: demo demo-federation docs test quick golden coverage check format bench reproduce wheelhouse sbom clean

demo: .venv/core
	$(BIN)/colonnade demo

# Two organisations and a server as processes of their own with kits of their own; see docs/two-organisations.md.
demo-federation: .venv/ready
	PATH="$(CURDIR)/$(BIN):$$PATH" deploy/demo-federation.sh federation-demo-$$(date +%Y%m%d-%H%M%S)

# The site, with strict links, then its spelling; open build/site/index.html.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/site
	$(BIN)/python docs/site/check.py build/site
	$(BIN)/codespell .

# Each process takes its tests in order, so that what a file prepares is prepared once, and then the other's last. Two
# processes have two cores: a second thread of either would only spin on the other's.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not slow"
UNITS := tests/architecture tests/numbers tests/privacy tests/vectors tests/crypto
ACCOUNTING := tests/privacy tests/vectors tests/noise src/colonnade/privacy src/colonnade/noise

test: .venv/ready
	$(PYTEST)

# Laws, layers and units, a minute or two: no statistics of noise, no server, no browser, no process of a test's own.
quick: .venv/ready
	$(PYTEST) $(UNITS)

# Answers of an earlier version to the corpus of cases in GOLDEN=folder; tests/golden/differences.toml has what differs.
golden: .venv/ready
	COLONNADE_GOLDEN="$(GOLDEN)" $(PYTEST) tests/golden

# Every branch of the two rooms that guarantees rest on, by their tests and examples. Rooms are named by path, so
# that coverage need not import them to find them.
coverage: .venv/ready
	$(PYTEST) $(ACCOUNTING) \
		--cov=src/colonnade/privacy --cov=src/colonnade/noise --cov-branch --cov-fail-under=100 \
		--cov-report=term-missing:skip-covered

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy reproduction notebooks/__main__.py notebooks/making.py
	MYPYPATH=notebooks $(BIN)/mypy notebooks/sources
	$(BIN)/pytest tests/architecture

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Each prints one JSON object. DATA=folder adds those on public data sets.
bench: .venv/ready .bench-venv/ready
	@for name in $(BENCHMARKS); do echo "$$name"; $(BIN)/python benchmarks/$$name.py --json || exit 1; done
ifneq ($(DATA),)
	@for name in $(STUDIES); do echo "$$name"; $(BIN)/python benchmarks/$$name.py --data "$(DATA)" --json || exit 1; done
endif

# The papers' tables and figures, run again on the public data sets in DATA=folder, into reproduction/results; then a
# notebook for each paper, the slow tests, of which some read those sets too, and KILLS kills of `colonnade train`.
# Studies and kills go on where they stopped. SCALE=small runs every study in small, on made-up rows, and keeps nothing;
# SCALE=full takes what the papers take also where that is hours.
KILLS ?= 1000
reproduce: .venv/ready
ifeq ($(SCALE),small)
	$(BIN)/python -m reproduction --quick
else
	@if [ -n "$(DATA)" ]; then $(BIN)/python -m reproduction --data "$(DATA)" $(if $(filter full,$(SCALE)),--full); else echo "DATA=folder runs the studies"; fi
	$(BIN)/python -m notebooks $(if $(DATA),--data "$(DATA)")
	COLONNADE_EXAMPLES=new COLONNADE_DATA="$(DATA)" $(BIN)/pytest -n 2 -m slow
	$(BIN)/python -m reproduction.kills --kills $(KILLS) --folder build/kills
endif

# Every wheel that a member needs, with digests, for a machine without a network.
wheelhouse: .venv/ready
	$(BIN)/pip wheel --quiet --constraint constraints.txt --wheel-dir build/wheelhouse '.[flare]'
	cd build/wheelhouse && sha256sum *.whl > SHA256SUMS

# What is installed, as CycloneDX.
sbom: .venv/ready
	mkdir -p build
	$(BIN)/python deploy/sbom.py > build/colonnade.cdx.json

# What the demonstration needs and nothing else; the rest is installed into the same place when it is asked for.
.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/ready: .venv/core
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The opponents that benchmarks are measured against, in an environment of their own: never dependencies.
.bench-venv/ready: benchmarks/opponents.txt
	$(BIN)/python benchmarks/opponents.py

clean:
	rm -rf .venv .bench-venv build dist .pytest_cache .mypy_cache .ruff_cache
