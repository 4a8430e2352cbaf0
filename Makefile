# The targets of this repository; `make` alone lists them.
#
#   PYTHON=python3.12   the interpreter of the virtual environment
#   VENV=/some/folder   the folder of that environment
#   KILLS=50            how many runs `make soak` kills
#   SEEDS=10000         how many scenarios of the protocol it simulates
#   STATES=50000        how many states of each scenario of publishing it visits
#   STEPS=2000          how many real verbs it runs in random order
#   SPARK_SEEDS=0:40    which of the oracle's logs it compacts with both engines
#   AIRFLOW=/folder     the environment of Airflow's tests
#   DEMO=/folder        where `make demo` works
#   INPUTS=1300000      how many malformed inputs it gives to the parsers
#   SEED=1              its first seed; a failure names the seed that replays it
PYTHON ?= python3
VENV ?= .venv
AIRFLOW ?= build/airflow-env
DEMO ?= build/demo
KILLS ?= 50
STATES ?= 50000
SEEDS ?= 10000
STEPS ?= 2000
INPUTS ?= 1300000
SPARK_SEEDS ?= 0:40,1000:1015
SEED ?= 1

BIN := $(VENV)/bin
# A change of these files needs another installation; a change of the code does not.
PACKAGING := setup.cfg pyproject.toml
RUNTIME := $(VENV)/.tierfold-runtime
TESTING := $(VENV)/.tierfold-testing
EVICT := $(BIN)/python -m tests.faults.evictions.evicted_run
# Without optimisations and debug information, versitygw compiles in three fifths of the time.
GO_QUICKLY := -gcflags 'all=-N -l -dwarf=false' -ldflags '-s -w'
PUBLISH_KILLS := $(BIN)/python -m tests.faults.publishing_kills

.DEFAULT_GOAL := help
.PHONY: help demo demo-kafka dist emulators monitoring chromium airflow test check \
	lint pages bench soak clean jdk

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## compact a copy of the bundled sample tier and verify it (build/demo)
	@scripts/require-java
	@PATH="$(abspath $(BIN)):$$PATH" scripts/demo $(DEMO)

demo-kafka: $(RUNTIME) ## compact a topic of a real broker while it is read (build/demo-kafka)
	@scripts/require-java
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m scripts.demo_kafka build/demo-kafka

dist: $(RUNTIME) ## build the archive that a cluster's executors need (dist/)
	@$(BIN)/python scripts/cluster_archive.py dist

emulators: ## install versitygw (Go) and Azurite (npm), for tests (build/emulators)
	@mkdir -p build/emulators/bin
	@GOBIN="$(abspath build/emulators/bin)" CGO_ENABLED=0 go install $(GO_QUICKLY) \
		github.com/versity/versitygw/cmd/versitygw@v1.8.0
	@npm install --no-fund --no-audit --prefix build/emulators node@22 azurite@3.37.0

monitoring: ## unpack Debian's Prometheus and Pushgateway, for tests (build/monitoring)
	@mkdir -p build/monitoring
	@cd build/monitoring && apt-get download -q prometheus prometheus-pushgateway \
		&& for package in *.deb; do dpkg -x "$$package" . || exit; done

chromium: ## unpack Debian's headless Chromium, for tests of the report (build/chromium)
	@scripts/unpack-debian build/chromium chromium-headless-shell

airflow: jdk $(AIRFLOW)/.tierfold-airflow ## run the DAGs in a real Airflow (build/airflow-env)
	@$(AIRFLOW)/bin/python -m pytest -c tests/airflow/pytest.ini tests/airflow

test: jdk $(TESTING) build/spark_classes.jsa ## every check: all tests, linters, types, import rules
	@$(BIN)/python -m tests.brokers.versions || true
	@$(BIN)/python -m pytest --numprocesses 3

check: $(TESTING) ## the inner loop, without Java: linters, types, most tests that need no JVM
	@JAVA_HOME=/nowhere $(BIN)/python -m pytest --numprocesses 3 -m 'not jvm' -q \
		tests/tidy tests/compaction tests/pictures tests/storage tests/jobs \
		--ignore tests/storage/catalog --ignore tests/storage/segments \
		--ignore tests/storage/tiers --ignore tests/jobs/verbs

# Empty: Python keeps its bytecode, so that each of the tests' many processes need not compile it.
test check: export PYTHONDONTWRITEBYTECODE :=

# The processes already use every core; more threads in each cost a tenth of the CPU time.
test check: export TOKIO_WORKER_THREADS := 1
test check: export OPENBLAS_NUM_THREADS := 1

# The kernels that `tests.built_archive` compiles.
test check airflow: export NUMBA_CPU_NAME := generic

lint: $(TESTING) ## only the linters: style, types, and which package may import which
	@$(BIN)/ruff check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-cache

pages: $(RUNTIME) ## write the generated pages and transcripts again (scripts/pages.py)
	@$(BIN)/python -m scripts.pages

bench: jdk $(TESTING) ## measure against Kafka's own cleaner (build/bench; docs/performance.md)
	@$(BIN)/python -m tests.bench.run
	@$(BIN)/python -m tests.bench.buckets
	@$(BIN)/python -m tests.bench.memory
	@$(BIN)/python -m tests.bench.shapes --millions 2
	@$(BIN)/python -m tests.bench.second_runs

soak: jdk $(TESTING) $(AIRFLOW)/.tierfold-airflow ## search for bugs all night (docs/reliability.md)
	@$(BIN)/python -m tests.faults.simulation.simulation_run --seeds $(SEEDS) --from $(SEED)
	@$(BIN)/python -m tests.faults.publishing_search.search_run --states $(STATES)
	@$(BIN)/python -m tests.faults.publishing_search.search_run \
		--drawn 500 --seed $(SEED) --states 3000
	@$(BIN)/python -m tests.faults.simulation.simulation_run --served --seeds $(SEEDS) --from $(SEED)
	@$(BIN)/python -m tests.faults.malformed.malformed_run --inputs $(INPUTS) --seed $(SEED)
	@$(BIN)/python -m tests.faults.random_verbs.verbs_run --steps $(STEPS) --seed $(SEED)
	@TIERFOLD_SPARK_SEEDS=$(SPARK_SEEDS) $(BIN)/python -m pytest -q tests/oracle/test_same_on_spark.py
	@TIERFOLD_S3_SEEDS=0:40 $(BIN)/python -m pytest -q tests/oracle/test_same_on_s3.py
	@TIERFOLD_AIVEN_SEEDS=0:40 $(BIN)/python -m pytest -q tests/oracle/test_same_on_aiven.py
	@TIERFOLD_ORACLE_VERSIONS=all TIERFOLD_GROWTH_SEEDS=0:40,1000:1010 \
		$(BIN)/python -m pytest -q tests/oracle/test_second_rounds.py
	@TIERFOLD_ORACLE_VERSIONS=all TIERFOLD_LEADER_SEEDS=0:40,1000:1010 \
		$(BIN)/python -m pytest -q tests/oracle/test_leaders_fuzz.py
	@TIERFOLD_BROKER_VERSIONS=all TIERFOLD_SPARED_SEEDS=0:20 \
		$(BIN)/python -m pytest -q tests/jobs/pipeline/test_spared_bytes.py -k bound
	@TIERFOLD_METADATA_SEEDS=0:10000 $(BIN)/python -m pytest -q tests/oracle/test_same_metadata.py
	@TIERFOLD_ORACLE_VERSIONS=all TIERFOLD_MID_LOG_SEEDS=100:160 \
		$(BIN)/python -m pytest -q tests/oracle/test_oracle_fuzz.py tests/oracle/test_mid_log.py
	@$(BIN)/python -m tests.spark_versions
	@TIERFOLD_BROKER_VERSIONS=all $(BIN)/python -m tests.brokers.versions
	@TIERFOLD_BROKER_VERSIONS=all $(BIN)/python -m pytest -q tests/brokers/test_broker_versions.py
	@TIERFOLD_BROKER_VERSIONS=all $(BIN)/python -m pytest -q -m soak tests
	@$(BIN)/python -m tests.brokers.served_soak.served_soak_run
	@$(BIN)/python -m tests.brokers.served_verbs.served_verbs_run --steps $(STEPS) --seed $(SEED)
	@$(BIN)/python -m tests.faults.kills.killed_run --kills $(KILLS) --seed $(SEED)
	@$(BIN)/python -m tests.faults.kills.killed_run --kills $(KILLS) --seed $(SEED) --place s3
	@$(PUBLISH_KILLS).killed_publishing --every KILL --partitions 2
	@$(PUBLISH_KILLS).killed_publishing --kills $(KILLS) --seed $(SEED)
	@$(PUBLISH_KILLS).killed_publishing --kills 5 --seed $(SEED) --partitions 18
	@$(PUBLISH_KILLS).held_publishing
	@$(PUBLISH_KILLS).cut_publishing --cuts 20 --seed $(SEED)
	@$(EVICT) --random $(SEED) --signal INT
	@$(EVICT) --random $(SEED) --signal KILL --partitions 5000 --in-bucket
	@$(EVICT) --random $(SEED) --signal TERM --partitions 5000 --engine spark --after 120
	@$(EVICT) --random $(SEED) --signal KILL --engine spark --after 120 --in-bucket
	@$(EVICT) --partitions 30000 --after 240
	@$(BIN)/python -m tests.bench.night
	@$(BIN)/python -m tests.bench.night --in-bucket
	@$(AIRFLOW)/bin/python -m pytest -c tests/airflow/pytest.ini -m soak tests/airflow
	@$(AIRFLOW)/bin/python -m tests.airflow.standalone_run
	@$(BIN)/python -m tests.bench.cliff
	@$(BIN)/python -m tests.bench.shapes
	@$(BIN)/python -m tests.bench.growth

clean: ## delete the environment, builds and caches
	rm -rf $(VENV) build dist tierfold.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

jdk:
	@scripts/require-java javac

# Meanwhile the other core compiles the kernels, once for a cluster's archive and for all tests.
build/spark_classes.jsa: $(TESTING) | jdk
	@echo "archiving the classes of Spark's JVM, so that the tests start it faster"
	@$(BIN)/python -m tests.built_archive & kernels=$$!; \
		$(BIN)/python -m tests.spark_classes && wait $$kernels

$(RUNTIME): $(PACKAGING)
	@scripts/require-python $(PYTHON)
	@echo "installing tierfold into $(VENV): 1 GB, in minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@scripts/install $(BIN)/python --editable '.[delta]'
	@touch $@

# It is the environment of the runtime, too.
$(TESTING): $(PACKAGING)
	@scripts/require-python $(PYTHON)
	@echo "installing tierfold and the test tools into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@scripts/install $(BIN)/python --editable '.[test,delta,report]'
	@touch $(RUNTIME) $@

# An environment of its own: Airflow brings 120 packages, and pyspark-client writes over pyspark.
$(AIRFLOW)/.tierfold-airflow: $(PACKAGING)
	@scripts/require-python $(PYTHON)
	@echo "installing tierfold and Airflow into $(AIRFLOW)"
	@test -x $(AIRFLOW)/bin/python || $(PYTHON) -m venv $(AIRFLOW)
	@scripts/install $(AIRFLOW)/bin/python --editable '.[airflow]' 'pytest>=9.2,<10'
	@touch $@
