"""The pytest plugin: producers, clusters and topics as fixtures.

pytest imports this module at the start of each run, so it lies outside of the package, and imports
the package in the fixtures alone. ``docs/how-to/testing.md`` describes the fixtures.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from aioproducer.testing import KafkaCluster, MockCluster, MockProducer, SyncMockProducer

_NOT_TESTED: Final = "NOT TESTED, no"
_NO_COROUTINES: Final = "async def functions are not natively supported"
_REQUIRE: Final = "aioproducer_require_kafka"
_BROKERS: Final = "aioproducer_kafka_brokers"
_ENVIRONMENT: Final = "AIOPRODUCER_REQUIRE_KAFKA"
_LOOP_SCOPES: Final = ("function", "class", "module", "package", "session")
_LONGEST_NAME: Final = 100
_KEPT_LOGS: Final = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "Let tests fail, not be skipped, without the mock cluster or Kafka that they ask for."
    group = parser.getgroup("aioproducer")
    group.addoption(
        "--aioproducer-require-kafka", action="store_true", dest=_REQUIRE, default=False, help=text
    )
    parser.addini(_REQUIRE, text, type="bool", default=False)
    parser.addini(_BROKERS, "Number of brokers of kafka_cluster, 1 to 3.", default="1")


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "mock_producer(auto_complete=True, partitions=1, start=True, **options): arguments of the "
        "fixtures mock_producer and sync_mock_producer",
        "kafka_topic(partitions=1): arguments of the fixtures kafka_topic and mock_topic",
    ):
        config.addinivalue_line("markers", marker)
    if "pytest_asyncio" in sys.modules:
        with suppress(TypeError):  # pytest-asyncio before 0.24 has no scopes of loops
            config.pluginmanager.register(_asyncio_fixtures(), "aioproducer-asyncio")


# --- the mock producer ------------------------------------------------------------------------


@pytest.fixture
def mock_producer_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the arguments of ``mock_producer``, from the marker. Override this fixture for all
    tests."""
    marker = request.node.get_closest_marker("mock_producer")
    return {} if marker is None else dict(marker.kwargs)


@pytest.fixture
def mock_producer(
    request: pytest.FixtureRequest, mock_producer_options: dict[str, Any]
) -> MockProducer:
    """A MockProducer, started on the test's event loop.

    In a test without a loop, or with ``start=False``, it is not started: the application starts it.
    """
    from aioproducer.testing import MockProducer

    options = {**mock_producer_options}
    fixture = _fixture_in_loop_of(request)
    if not options.pop("start", True) or fixture is None:
        return MockProducer(**options)
    started: MockProducer = request.getfixturevalue(fixture)
    return started


@pytest.fixture
def sync_mock_producer(mock_producer_options: dict[str, Any]) -> Iterator[SyncMockProducer]:
    """A started SyncMockProducer, for blocking tests."""
    from aioproducer.testing import SyncMockProducer

    options = {**mock_producer_options}
    start = options.pop("start", True)
    producer = SyncMockProducer(**options)
    if start:
        producer.start()
    yield producer
    producer.close(0)


def _fixture_in_loop_of(request: pytest.FixtureRequest) -> str | None:
    """The name of the fixture that runs in the loop of the test; None: the test has no loop."""
    if "anyio_backend" in request.fixturenames:
        backend = request.getfixturevalue("anyio_backend")
        if "asyncio" not in (backend, backend[0]):
            pytest.fail(
                f"mock_producer needs asyncio: override the fixture anyio_backend ({backend!r})",
                pytrace=False,
            )
        return "_aioproducer_anyio"
    marker = request.node.get_closest_marker("asyncio")
    if marker is None or "pytest_asyncio" not in sys.modules:
        return None
    scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
    scope = scope or request.config.getini("asyncio_default_test_loop_scope")
    return f"_aioproducer_asyncio_{scope}"


async def _started(options: dict[str, Any]) -> AsyncIterator[MockProducer]:
    from aioproducer.testing import MockProducer

    producer = MockProducer(**{name: options[name] for name in options if name != "start"})
    await producer.start()
    yield producer
    await producer.close(0)  # records that a test has not decided about hold nothing up


@pytest.fixture
async def _aioproducer_anyio(mock_producer_options: dict[str, Any]) -> AsyncIterator[MockProducer]:
    async for producer in _started(mock_producer_options):
        yield producer


def _asyncio_fixtures() -> ModuleType:
    """A plugin with a fixture for each scope that the loop of a test has with pytest-asyncio."""
    import pytest_asyncio

    plugin = ModuleType("aioproducer_asyncio_fixtures")
    for scope in _LOOP_SCOPES:

        async def started(mock_producer_options: dict[str, Any]) -> AsyncIterator[MockProducer]:
            async for producer in _started(mock_producer_options):
                yield producer

        name = f"_aioproducer_asyncio_{scope}"
        setattr(plugin, name, pytest_asyncio.fixture(loop_scope=scope, name=name)(started))
    return plugin


# --- clusters ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def mock_cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    """A mock cluster of three brokers, shared by all tests of the session (or xdist worker)."""
    from aioproducer.errors import MissingExtraError
    from aioproducer.testing import MockCluster

    cluster = MockCluster(brokers=3)
    try:
        cluster.start()
    except MissingExtraError as error:
        _unavailable(request.config, "mock cluster", error)
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A real Kafka cluster, shared by all tests of the session (or xdist worker)."""
    from aioproducer.testing import KafkaCluster
    from aioproducer.testing.kafka_cluster import KafkaUnavailableError

    failed_before = request.session.testsfailed
    cluster = KafkaCluster(brokers=int(request.config.getini(_BROKERS)))
    try:
        _wait_for(cluster.start())
    except KafkaUnavailableError as error:
        _unavailable(request.config, "Kafka", error)
    yield cluster
    if request.session.testsfailed > failed_before:
        cluster.keep_logs = True
        request.config.stash.setdefault(_KEPT_LOGS, []).append(str(cluster.directory))
    _wait_for(cluster.stop())


@pytest.fixture
def new_mock_topic(request: pytest.FixtureRequest, mock_cluster: MockCluster) -> Callable[..., str]:
    """``new_mock_topic(partitions=1)`` creates a topic in ``mock_cluster`` and returns its name."""

    def create(partitions: int = 1) -> str:
        name = _topic_of(request)
        mock_cluster.create_topic(name, partitions)
        return name

    return create


@pytest.fixture
def new_kafka_topic(
    request: pytest.FixtureRequest, kafka_cluster: KafkaCluster
) -> Callable[..., str]:
    """``new_kafka_topic(partitions=1, **create_topic)`` creates a topic in ``kafka_cluster``."""

    def create(partitions: int = 1, **options: Any) -> str:
        name = _topic_of(request)
        _wait_for(kafka_cluster.create_topic(name, partitions, **options))
        return name

    return create


@pytest.fixture
def mock_topic(request: pytest.FixtureRequest, new_mock_topic: Callable[..., str]) -> str:
    """The name of a topic in ``mock_cluster`` that no other test uses."""
    return new_mock_topic(**_topic_options(request))


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, new_kafka_topic: Callable[..., str]) -> str:
    """The name of a topic in ``kafka_cluster`` that no other test uses."""
    return new_kafka_topic(**_topic_options(request))


def _topic_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("kafka_topic")
    return {} if marker is None else dict(marker.kwargs)


def _topic_of(request: pytest.FixtureRequest) -> str:
    """A new name that tells the test."""
    test = re.sub(r"[^\w.-]+", "-", request.node.name, flags=re.ASCII).strip("-")
    return f"{test[:_LONGEST_NAME]}-{uuid.uuid4().hex[:8]}"


def _wait_for(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run ``coroutine``, whether or not an event loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()


# --- without a cluster ------------------------------------------------------------------------


def _unavailable(config: pytest.Config, what: str, error: Exception) -> NoReturn:
    """Skip the test, or fail it where clusters are required."""
    required = (
        config.getoption(_REQUIRE, default=False)
        or config.getini(_REQUIRE)
        or os.environ.get(_ENVIRONMENT) == "1"
    )
    if required:
        pytest.fail(f"a {what} is required, and there is none here: {error}", pytrace=False)
    pytest.skip(f"{_NOT_TESTED} {what} here: {error}")


def _refused_coroutines(reporter: pytest.TerminalReporter) -> str:
    """The number of coroutine tests that no plugin ran, for a sentence; empty if there are none."""
    reports = (*reporter.stats.get("failed", ()), *reporter.stats.get("skipped", ()))
    number = sum(_NO_COROUTINES in str(report.longrepr) for report in reports)
    return "" if not number else "1 test" if number == 1 else f"{number} tests"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skipped: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple) and _NOT_TESTED in report.longrepr[2]:
            skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
    for reason, number in skipped.items():
        tests = "test was" if number == 1 else "tests were"
        terminalreporter.write_line(f"aioproducer: {number} {tests} skipped: {reason}", yellow=True)
    if refused := _refused_coroutines(terminalreporter):
        plugin = "" if "pytest_asyncio" in sys.modules else "pip install pytest-asyncio, and "
        terminalreporter.write_line(
            f"aioproducer: pytest did not run {refused} as coroutines: {plugin}write "
            'asyncio_mode = "auto" and asyncio_default_fixture_loop_scope = "function" below '
            "[tool.pytest.ini_options] in pyproject.toml, or mark each by @pytest.mark.asyncio",
            yellow=True,
        )
    for directory in config.stash.get(_KEPT_LOGS, ()):
        terminalreporter.write_line(f"aioproducer: the logs of the Kafka brokers: {directory}")
