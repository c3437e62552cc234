PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format bench reproduce clean

demo: .venv/ready
	$(BIN)/colonnade demo

test: .venv/ready
	$(BIN)/pytest -n 2 -m "not slow"

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest tests/architecture

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready
	@for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python $$script --json || exit 1; done

reproduce: .venv/ready
	$(BIN)/pytest -n 2 -m slow

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
