# make demo       set up, then walk through all four sizes: pictures and a video in demo/
# make check      set up, then linters and the tests of the core (two minutes)
# make test       set up, then all checks and tests (minutes)
# make test-slow  the tests that take longer
# make benchmark  this package and the published one side by side
# make peer       record episodes of the published package for the tests
VENV ?= .venv
BIN = $(VENV)/bin
export PYTHON

.PHONY: demo check test test-slow lint newest newest-3 newest-4 newest-python setup-dev setup-system benchmark peer clean

demo:
	@scripts/venv.sh $(VENV) video constraints.txt
	$(BIN)/memory-maze demo --out demo

# The fast loop: without browsers, windows, training and other versions of MuJoCo.
CORE = bank cli dm_env files gymnasium maze minimap observation own rssm rules sampler scenario single
check: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(CORE:%=tests/test_%.py)

# Two files of tests at a time, and not those with few but long tests last, when one would run alone.
test:
	@$(MAKE) --no-print-directory -j 2 -O lint $(NEWEST)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: setup-dev
	$(BIN)/python -m pytest -m slow

setup-system:
	@scripts/system.sh xvfb xdotool chromium

setup-dev: setup-system
	@scripts/venv.sh $(VENV) dev constraints.txt

lint: setup-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/ty check
	$(BIN)/lint-imports --no-logo

# The newest MuJoCo 3 and 4 look the same and move the same until a wall is touched. The newest Python that is
# here, also one that only pyenv knows, has the newest JAX.
NEWEST = newest-3 newest-4 newest-python
newest:
	@$(MAKE) --no-print-directory -j 2 -O $(NEWEST)

build/constraints.txt: constraints.txt
	@mkdir -p build && grep -v '^mujoco=' $< > $@

newest-3: PIN = mujoco>=3.17,<4
newest-4: PIN = mujoco>=4,<5
newest-3 newest-4: newest-%: setup-system build/constraints.txt
	@scripts/venv.sh $(VENV)-mujoco$* check build/constraints.txt "$(PIN)"
	$(VENV)-mujoco$*/bin/python -m pytest -m 'newest and not slow' $$(grep -l 'mark\.newest' tests/*.py)

newest-python: setup-dev
	@export PYTHON=$$(scripts/python.sh any); \
	if [ "$$($$PYTHON --version)" = "$$($(BIN)/python --version)" ]; then exit; fi; \
	scripts/venv.sh $(VENV)-newest check,serve,train constraints.txt && \
	$(VENV)-newest/bin/python -m pytest -n 2 --dist loadfile -m 'pythons and not slow' $$(grep -l 'mark\.pythons' tests/*.py)

benchmark: setup-dev
	$(BIN)/python benchmarks/reference.py

peer: setup-dev
	$(BIN)/python benchmarks/reference.py --record tests/golden

clean:
	rm -rf build demo $(VENV) $(VENV)-mujoco3 $(VENV)-mujoco4 $(VENV)-newest
