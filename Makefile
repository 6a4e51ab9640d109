# Everything starts here; needs python3 (3.11 to 3.13), pip or python3-venv, and make.
# All set-up logic is in bootstrap.py. Paths are relative on purpose: the folder may have spaces.

PYTHON ?= python3
ARGS ?=

# A caller's Python settings would put other versions before those of requirements.lock.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP
# Compiled once, our code is kept: a run starts hundreds of processes, and each would compile it.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help setup classes demo up down test test-long test-browser pictures test-compose exact crash crash-airflow cluster \
	simulate fuzz bench dpc lint clean

help:  ## show this list
	@echo 'Medusa: start with "make demo".'
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile | expand -t 21

setup:  ## make .venv as requirements.lock says (done by the others when needed)
	@$(PYTHON) bootstrap.py setup

classes: setup  ## archive Spark's classes, so that jobs start sooner (done by those that start many)
	@.venv/bin/python -m pipelines.cli.spark_classes || :  # it has said why; all runs without one too

demo: setup  ## run the main job on Spark: ends with a table here and a report as a file
	@.venv/bin/medusa demo $(ARGS)

up: setup classes  ## start Airflow and a database, and keep them running (ARGS="--port 8081")
	@.venv/bin/medusa up $(ARGS)

down:  ## end what `make up` has started
	@if [ -x .venv/bin/medusa ]; then .venv/bin/medusa down; else echo 'nothing is up here'; fi

# Each process of tests would compile what no other has yet; test files are compiled by pytest.
COMPILE = .venv/bin/python -m compileall -qq -j 2 -x '/test_[^/]*$$' medusa_core pipelines tests || :

# Four at once on two cores: whoever waits for a process of its own leaves room for the others. Two
# of them start a Spark session (tests/scheduling.py). In all they take some 8 GB.
test: setup classes  ## run the tests (ARGS="-k name" to choose)
	@$(COMPILE)
	@.venv/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -o console_output_style=classic $(ARGS)

test-long: setup classes  ## run the sweeps and long tests, and a sample of mutants
	@$(COMPILE)
	@MEDUSA_TEST_LONG=1 .venv/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -o console_output_style=classic \
		-m "long or sweep or mutation or differential_long" $(ARGS)

test-browser: setup  ## a drill and the page in a real Chromium; pictures in .medusa/pictures
	@.venv/bin/python -m pytest tests/hosting tests/pages -m browser $(ARGS)

pictures: setup  ## make the pictures of docs/operate.md again, by a drill in a real Chromium
	@MEDUSA_DOCS_PICTURES=docs/pictures .venv/bin/python -m pytest tests/pages/test_drill_in_browser.py -m browser $(ARGS)

exact: setup  ## replay all recorded data in every cut and compare row for row (long)
	@.venv/bin/python -m pytest tests/end_to_end -m exact $(ARGS)

crash: setup classes  ## kill participants at every gap of the protocol, ten times (long)
	@.venv/bin/python -m pytest tests/federation/test_crashes.py tests/federation/test_feed_crashes.py \
		-m "crash or not crash" $(ARGS)

crash-airflow: setup classes  ## kill each process of Airflow, one at a time and in any order (long)
	@.venv/bin/python -m pytest tests/hosting -m "airflow_long" $(ARGS)

test-compose: setup  ## build and start docker-compose.yml, cut a participant off, end it (root; long)
	@.venv/bin/python -m pytest tests/compose -s -m "compose or not compose" $(ARGS)

cluster: setup  ## a participant's steps on a Spark master with two workers, one of them killed (long)
	@.venv/bin/python -m pytest tests/cluster -m "cluster or not cluster" $(ARGS)

simulate: setup  ## run 100,000 schedules of faults, find every planted bug (hours; goes on where it stopped)
	@.venv/bin/medusa simulate faults --schedules 100000 --resume .medusa/simulated.json
	@.venv/bin/python -m pytest tests/simulation -m "simulation_long or not simulation_long" $(ARGS)

fuzz: setup  ## feed every parser with spoilt input for ten minutes (long)
	@.venv/bin/python -m pytest tests/hostile -m fuzz $(ARGS)

bench: setup  ## measure against bare Spark and Structured Streaming
	@.venv/bin/python -m bench $(ARGS)

dpc: setup  ## the experiments of the DPC papers on real processes (an hour at most; goes on where it stopped)
	@.venv/bin/python -m bench dpc $(ARGS)

lint: setup  ## ruff and mypy
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy --strict medusa_core pipelines

clean:  ## remove .venv, .medusa and caches (stops a server that still runs there)
	@$(PYTHON) bootstrap.py clean
