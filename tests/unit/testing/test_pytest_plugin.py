"""The plugin of pytest in projects of their own, with each of the plugins that run coroutines."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.support.pytest_project import ROOT, run_pytest

OURS: Final = "pytest_aioproducer"
ASYNCIO: Final = "pytest_asyncio.plugin"
ANYIO: Final = "anyio.pytest_plugin"

APPLICATION: Final = {
    "shop.py": """
        async def place_order(producer, order):
            return await producer.send("orders", order, key="anna")
    """
}
ASYNC_TESTS: Final = """
    import asyncio

    import pytest
    from aioproducer.errors import DeliveryTimeoutError
    from aioproducer.testing import MockProducer
    from shop import place_order

    {mark}

    async def test_an_order(mock_producer: MockProducer):
        assert (await place_order(mock_producer, "tea")).offset == 0
        assert mock_producer.sent("orders")[0].value == b"tea"

    async def test_each_test_has_a_producer_of_its_own(mock_producer):
        assert mock_producer.history == []

    @pytest.mark.mock_producer(auto_complete=False, partitions={{"orders": 6}})
    async def test_options(mock_producer):
        order = asyncio.ensure_future(place_order(mock_producer, "tea"))
        await asyncio.sleep(0)
        assert mock_producer.fail_next(DeliveryTimeoutError("late"))
        with pytest.raises(DeliveryTimeoutError):
            await order
        mock_producer.send("orders", "never answered")

    @pytest.mark.mock_producer(start=False)
    async def test_the_application_starts_it(mock_producer):
        async with mock_producer:
            await place_order(mock_producer, "tea")
"""


COROUTINE: Final = {"test_it.py": "async def test_it():\n    assert True\n"}


@pytest.mark.parametrize(
    ("plugins", "advice"),
    [
        ((OURS, ASYNCIO), 'as coroutines: write asyncio_mode = "auto" and asyncio_default'),
        ((OURS,), "as coroutines: pip install pytest-asyncio, and write asyncio_mode"),
    ],
    ids=["strict", "no plugin"],
)
def test_a_coroutine_that_no_plugin_runs_is_told(
    tmp_path: Path, plugins: tuple[str, ...], advice: str
) -> None:
    run = run_pytest(tmp_path, COROUTINE, plugins=plugins)
    assert "passed" not in run.outcomes
    assert f"aioproducer: pytest did not run 1 test {advice}" in run.output


@pytest.mark.parametrize(
    ("plugins", "mark", "arguments"),
    [
        ((ASYNCIO,), "", ("--asyncio-mode=auto",)),
        ((ASYNCIO,), "pytestmark = pytest.mark.asyncio", ("--asyncio-mode=strict",)),
        ((ASYNCIO,), "pytestmark = pytest.mark.asyncio(loop_scope='module')", ()),
        ((ASYNCIO,), "", ("-o", "asyncio_default_test_loop_scope=session", "--asyncio-mode=auto")),
        ((ANYIO,), "pytestmark = pytest.mark.anyio", ()),
        ((ASYNCIO, ANYIO), "pytestmark = pytest.mark.anyio", ("--asyncio-mode=strict",)),
    ],
    ids=["auto", "strict", "loop of the module", "loop of the session", "anyio", "anyio beside"],
)
def test_asynchronous_tests(
    tmp_path: Path, plugins: tuple[str, ...], mark: str, arguments: tuple[str, ...]
) -> None:
    backend = """
        import pytest

        @pytest.fixture(scope="session")
        def anyio_backend():
            return "asyncio"
    """
    files = {**APPLICATION, "conftest.py": backend, "test_it.py": ASYNC_TESTS.format(mark=mark)}
    run = run_pytest(tmp_path, files, *arguments, plugins=(OURS, *plugins))
    assert run.outcomes == {"passed": 4}, run.output


def test_blocking_tests_need_no_other_plugin(tmp_path: Path) -> None:
    files = {
        "test_it.py": """
            import asyncio

            def test_a_blocking_producer(sync_mock_producer):
                assert sync_mock_producer.send("orders", "tea").result().offset == 0
                assert len(sync_mock_producer.history) == 1

            def test_a_loop_of_its_own(mock_producer):
                async def application():
                    async with mock_producer:
                        await mock_producer.send("orders", "tea")

                asyncio.run(application())
                assert len(mock_producer.history) == 1

            def test_a_mock_cluster(mock_cluster, mock_topic, new_mock_topic):
                assert mock_topic.startswith("test_a_mock_cluster-")
                assert new_mock_topic(partitions=3) != mock_topic
        """,
    }
    run = run_pytest(tmp_path, files, plugins=(OURS,))
    assert run.outcomes == {"passed": 3}, run.output


def test_options_for_all_tests(tmp_path: Path) -> None:
    files = {
        "conftest.py": """
            import pytest
            from aioproducer.serialization import JsonSerializer

            @pytest.fixture
            def mock_producer_options(mock_producer_options):
                defaults = {"value_serializer": JsonSerializer, "partitions": 2}
                return defaults | mock_producer_options
        """,
        "test_it.py": """
            import pytest

            @pytest.mark.mock_producer(partitions=3)
            def test_a_serializer(sync_mock_producer):
                sync_mock_producer.send("orders", {"tea": 1}).result()
                assert sync_mock_producer.history[0].value == b'{"tea":1}'
                assert sync_mock_producer.partitions_for("orders") == (0, 1, 2)
        """,
    }
    run = run_pytest(tmp_path, files, plugins=(OURS,))
    assert run.outcomes == {"passed": 1}, run.output


def test_the_cluster_is_shared_and_topics_are_not(tmp_path: Path) -> None:
    files = {
        "test_it.py": """
            import pytest
            from aioproducer import Producer
            from aioproducer.testing import expect

            seen = []

            @pytest.mark.parametrize("number", [1, 2])
            async def test_topics(mock_cluster, mock_topic, number):
                servers = mock_cluster.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    assert (await producer.send(mock_topic, b"v")).offset == 0
                    assert await producer.partitions_for(mock_topic) == (0,)
                await expect(mock_topic, bootstrap_servers=servers).has_exactly([b"v"])
                seen.append((servers, mock_topic))

            @pytest.mark.kafka_topic(partitions=4)
            async def test_partitions(mock_cluster, mock_topic):
                async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
                    assert len(await producer.partitions_for(mock_topic)) == 4
                servers, topics = zip(*seen)
                assert set(servers) == {mock_cluster.bootstrap_servers}
                assert len({*topics, mock_topic}) == 3
        """,
    }
    run = run_pytest(tmp_path, files, "--asyncio-mode=auto", plugins=(OURS, ASYNCIO))
    assert run.outcomes == {"passed": 3}, run.output


def test_the_workers_of_xdist(tmp_path: Path) -> None:
    files = {
        "test_it.py": """
            import pytest

            @pytest.mark.parametrize("number", range(4))
            def test_it(sync_mock_producer, mock_cluster, mock_topic, number):
                sync_mock_producer.send("orders", "tea").result()

            def test_without_kafka(kafka_cluster):
                pass
        """,
    }
    nothing = {"PATH": "", "JAVA_HOME": ""}
    run = run_pytest(tmp_path, files, "-n", "2", plugins=(OURS, "xdist"), environment=nothing)
    assert run.outcomes == {"passed": 4, "skipped": 1}, run.output
    assert "aioproducer: 1 test was skipped: NOT TESTED, no Kafka here: " in run.output


WITHOUT_KAFKA: Final = {
    "test_it.py": """
        def test_one(kafka_cluster):
            pass

        def test_two(kafka_topic):
            pass
    """
}
NO_JAVA: Final = {"PATH": "", "JAVA_HOME": ""}


def test_tests_without_kafka_are_skipped_loudly(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, WITHOUT_KAFKA, plugins=(OURS,), environment=NO_JAVA)
    assert run.outcomes == {"skipped": 2}, run.output
    assert "aioproducer: 2 tests were skipped: NOT TESTED, no Kafka here: " in run.output


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--aioproducer-require-kafka",), {}),
        (("-o", "aioproducer_require_kafka=true"), {}),
        ((), {"AIOPRODUCER_REQUIRE_KAFKA": "1"}),
    ],
    ids=["option", "ini", "environment"],
)
def test_kafka_can_be_required(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    run = run_pytest(
        tmp_path, WITHOUT_KAFKA, *arguments, plugins=(OURS,), environment=NO_JAVA | environment
    )
    assert run.outcomes == {"errors": 2}, run.output
    assert "a Kafka is required, and there is none here" in run.output


def test_tests_without_the_mock_cluster_are_skipped_loudly(tmp_path: Path) -> None:
    files = {
        "confluent_kafka.py": "",  # a module without a library beside it
        "test_it.py": "def test_it(mock_cluster): pass",
    }
    run = run_pytest(tmp_path, files, plugins=(OURS,))
    assert run.outcomes == {"skipped": 1}, run.output
    assert "NOT TESTED, no mock cluster here: the mock cluster needs" in run.output


def test_trio_is_refused(tmp_path: Path) -> None:
    files = {
        "conftest.py": """
            import pytest

            @pytest.fixture
            def anyio_backend():
                return "trio"
        """,
        "test_it.py": ASYNC_TESTS.format(mark="pytestmark = pytest.mark.anyio"),
        **APPLICATION,
    }
    run = run_pytest(tmp_path, files, plugins=(OURS, ANYIO))
    assert run.outcomes == {"errors": 4}, run.output
    assert "mock_producer needs asyncio: override the fixture anyio_backend ('trio')" in run.output


def test_the_plugin_is_found_by_its_entry_point(tmp_path: Path) -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "entry-points"
    ]["pytest11"]
    assert entry_points == {"aioproducer": OURS}
    _install(tmp_path / "site", "".join(f"{each} = {OURS}\n" for each in entry_points))
    files = {
        "test_it.py": """
            import sys

            def test_nothing_was_imported(request):
                assert request.config.pluginmanager.has_plugin("aioproducer")
                assert not [name for name in sys.modules if name.split(".")[0] == "aioproducer"]
                assert "kio" not in sys.modules

            def test_a_fixture(sync_mock_producer):
                sync_mock_producer.send("orders", "tea").result()
        """,
    }
    found = "import importlib.metadata as m; print(*m.entry_points(group='pytest11'), sep='\\n')"
    path = f"{tmp_path / 'site'}:{ROOT}"
    listed = subprocess.run(
        [sys.executable, "-c", found], env={"PYTHONPATH": path}, capture_output=True, text=True
    ).stdout
    others = set(re.findall(r"name='([^']+)'", listed)) - {"aioproducer"}
    run = run_pytest(
        tmp_path,
        files,
        *(each for other in sorted(others) for each in ("-p", f"no:{other}")),
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTHONPATH": path},
    )
    assert run.outcomes == {"passed": 2}, run.output


def _install(site: Path, entry_points: str) -> None:
    """Make a distribution in ``site`` whose files are those of this repository."""
    information = site / "aioproducer_here-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: a\nVersion: 1\n")
    (information / "RECORD").write_text(f"{OURS}.py,,\naioproducer/__init__.py,,\n")
    (information / "entry_points.txt").write_text(f"[pytest11]\n{entry_points}")
