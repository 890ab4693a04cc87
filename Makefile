# make demo   set everything up and let a real language model write
# make test   set everything up and run the tests
# make check  style, types and tests: what every commit passes
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check clean
demo: .venv/ready
	$(BIN)/cold models get smollm2
	$(BIN)/python examples/demo.py

test: .venv/ready
	$(BIN)/cold models get smollm2
	$(BIN)/python -m pytest

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(MAKE) test

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv
