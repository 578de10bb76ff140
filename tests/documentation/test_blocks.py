"""Every Python block of the documentation runs as it stands, against librdkafka's mock cluster.

Each block is the first that a reader tries: it runs in a module of its own. Only
``localhost:9092`` is replaced.
"""

from __future__ import annotations

import ast
import asyncio
import atexit
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import MagicMock

import pytest

from aioproducer import Producer
from aioproducer.errors import MissingExtraError
from aioproducer.spark.plan import check_names, plan_write
from aioproducer.spark.typed_columns import format_options
from aioproducer.sync import Producer as BlockingProducer
from aioproducer.testing import MockCluster
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.documentation.pages import PAGES, ROOT, Block, blocks, name
from tests.support.served_kafka import ServedKafka
from tests.support.web_client import client_of

pytestmark = pytest.mark.mock_cluster

ELSEWHERE: Final = {
    "docs/how-to/consuming.md": "tests/kafka/test_pages.py",
    "docs/how-to/proxies.md": "tests/mock_cluster/test_proxies.py",
    "docs/how-to/schema-registry.md": "tests/registry/test_schema_registry_page.py",
    "docs/how-to/security.md": "tests/architecture/test_security_page.py",
    "docs/how-to/testing.md": "tests/mock_cluster/test_read_back.py",
    "docs/how-to/topics.md": "tests/kafka/test_pages.py",
    "docs/tutorial/consumer-group.md": "tests/kafka/test_pages.py",
}
"""The pages that have a test of their own."""
SPARK: Final = {
    "docs/how-to/spark.md",
    "docs/how-to/spark-on-a-cluster.md",
    "docs/how-to/spark-formats.md",
}
RUN: Final = [
    page for page in PAGES if name(page) not in {*ELSEWHERE, *SPARK} and blocks(page, "python")
]
ALL_SPARK: Final = [page for page in PAGES if name(page) in {*SPARK, "README.md"}]
TOPICS: Final = {"orders": 6, "measurements": 6, "page-views": 3, "invoices": 3, "audit": 1}
WITHOUT_A_LOOP: Final = ("asyncio.run(", "loops.run(", "aioproducer.sync")


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """One for all pages."""
    try:
        with MockCluster(brokers=3, topics=TOPICS) as started:
            yield started
    except MissingExtraError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but {error}")
        pytest.skip(f"NOT TESTED: {error}")


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables and files that blocks refer to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    (tmp_path / "client.properties").write_text("bootstrap.servers=kafka-1.example:9092\n")


@pytest.fixture(autouse=True)
def _producers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The blocking producers that a page leaves to the end of the process are closed."""
    started: list[BlockingProducer] = []
    start = BlockingProducer.start

    def noted(producer: BlockingProducer, *, close_at_exit: bool = True) -> None:
        started.append(producer)
        start(producer, close_at_exit=close_at_exit)

    monkeypatch.setattr(BlockingProducer, "start", noted)
    yield
    for producer in started:
        producer.close(timeout=10)


@pytest.fixture(autouse=True)
def _handlers(_producers: None, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The handlers that blocks add to loggers are removed, and close their producers.

    The thread of a listener ends before ``capsys``: it writes to what that captures.
    """
    loggers = [logging.getLogger(name) for name in ("", "aioproducer", "litestar", "shop")]
    before = [(each, each.handlers[:], each.level) for each in loggers]
    yield
    added: dict[logging.Handler, None] = {}
    for logger, handlers, level in before:
        for handler in [each for each in logger.handlers if each not in handlers]:
            logger.removeHandler(handler)
            added[handler] = None
        logger.setLevel(level)
    for handler in added:
        listener = getattr(handler, "listener", None)
        if listener is not None:
            atexit.unregister(listener.stop)  # it can be stopped once
            listener.stop()
        handler.close()


def compiled(page: Path, block: Block) -> Any:
    """Its lines have the page's numbers, so that a traceback leads there."""
    text = "\n" * (block.line - 1) + block.text
    return compile(text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def module_of(block: Block, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a new module: the file that the page names, or one for this block."""
    module = ModuleType(block.module or "page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # frameworks look names up there
    return vars(module)


async def run(page: Path, block: Block, names: dict[str, Any]) -> None:
    """Run a block, and the tests that it defines."""
    code = compiled(page, block)
    if any(each in block.text for each in WITHOUT_A_LOOP):
        await asyncio.to_thread(exec, code, names)
        return
    outcome = eval(code, names)
    if inspect.isawaitable(outcome):
        await outcome
    for each in [each for each in names if each.startswith("test_")]:
        await names.pop(each)()


async def use(app: Any) -> None:
    """A web application takes an order, and is healthy where it says so."""
    async with client_of(app) as client:
        answer = await client.post("/orders/anna", content=b"one espresso")
        paths = ("/health", "/health/live", "/health/ready")
        healthy = [(await client.get(path)).status_code for path in paths]
    assert answer.is_success, answer.text
    assert answer.json()["offset"] >= 0
    assert {*healthy} <= {200, 404}


@pytest.mark.filterwarnings(r"ignore:\s*Error .* AST parsing:RuntimeWarning")  # FastStream's own
@pytest.mark.parametrize("page", RUN, ids=name)
async def test_the_blocks_of_a_page_run(
    page: Path,
    cluster: MockCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for block in blocks(page, "python"):
        if 'format("aioproducer")' in block.text:
            continue  # Spark's, below
        names = module_of(block, monkeypatch)
        if "group_id=" in block.text and page == ROOT / "README.md":
            await run_consumer(page, block, names, capsys)
            continue
        text = block.text.replace("localhost:9092", cluster.bootstrap_servers)
        await run(page, block._replace(text=text), names)
        if "app" in names:
            await use(names["app"])


async def run_consumer(
    page: Path, block: Block, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Run a block that reads for ever, until it has printed a record: on the model of Kafka, as the
    mock cluster has no groups."""
    async with ServedKafka(ClusterOptions(group_initial_rebalance_delay_ms=0)) as served:
        served.model.create_topic("orders", 2)
        async with Producer(bootstrap_servers=served.bootstrap_servers) as producer:
            await producer.send("orders", b"one espresso", key=b"customer-7")
        text = block.text.replace("localhost:9092", served.bootstrap_servers)
        text = text.replace("asyncio.run(main())", "await main()")  # to cancel it
        task = asyncio.ensure_future(run(page, block._replace(text=text), names))
        printed = ""
        try:
            async with asyncio.timeout(30):
                while "0 b'one espresso'\n" not in printed and not task.done():
                    await asyncio.sleep(0.05)
                    printed += capsys.readouterr().out
        finally:
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()


class FakeWriter:
    """A DataFrame's ``write`` and ``writeStream``: the options are planned as for a real write."""

    def __init__(self, planned: list[object]) -> None:
        self._options: dict[str, str] = {}
        self._planned = planned

    def format(self, source: str) -> FakeWriter:
        assert source == "aioproducer"
        return self

    def mode(self, mode: str) -> FakeWriter:
        assert mode == "append"
        return self

    def option(self, key: str, value: str) -> FakeWriter:
        self._options[key] = value
        return self

    def save(self) -> None:
        self._planned.append(planned_write(self._options))

    start = save

    def foreachBatch(self, write: Callable[[object, int], None]) -> MagicMock:  # noqa: N802
        write(MagicMock(), 0)
        return MagicMock()


COLUMNS: Final = {"key": "string", "value": "string"}


def planned_write(options: dict[str, str]) -> object:
    """The plan, but for the schemas of typed columns."""
    check_names(options, spark_options=True)
    return plan_write(options, COLUMNS, format_options(options).names)


class FakeBuilder:
    """``SparkSession.builder``, and a session."""

    streams = SimpleNamespace(addListener=lambda _: None)
    readStream = MagicMock()  # noqa: N815

    def master(self, _: str) -> FakeBuilder:
        return self

    def config(self, key: str, value: str) -> FakeBuilder:
        assert key.startswith("spark.")
        assert value
        return self

    def getOrCreate(self) -> object:  # noqa: N802  # it is Spark's name
        return self

    def range(self, _: int) -> FakeBuilder:
        return self

    def selectExpr(self, *_: str) -> FakeBuilder:  # noqa: N802
        return self


@pytest.mark.parametrize("page", ALL_SPARK, ids=name)
def test_the_options_of_spark_are_accepted(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = pytest.importorskip("aioproducer.spark")
    planned: list[object] = []

    def publish_partitions(df: object, **options: str) -> object:
        planned.append(planned_write(options))
        return SimpleNamespace(records=1, ranges={})

    def encode_columns(df: object, topic: str, **options: str) -> object:
        assert format_options(options).names
        return df

    monkeypatch.setattr(spark, "publish_partitions", publish_partitions)
    monkeypatch.setattr(spark, "repartition_by_key", lambda df, partitions: df)
    monkeypatch.setattr(spark, "encode_columns", encode_columns)
    monkeypatch.setattr(spark, "run_stream", lambda start: start())
    monkeypatch.setattr(spark, "register", lambda _: {})
    names: dict[str, Any] = {"df": SimpleNamespace(selectExpr=lambda *_: names["df"])}
    session = SimpleNamespace(builder=FakeBuilder())
    sql = SimpleNamespace(Column=object, DataFrame=object, SparkSession=session)
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", cast("ModuleType", sql))
    monkeypatch.setitem(sys.modules, "pyspark.sql.functions", MagicMock())
    found = [each for each in blocks(page, "python") if "spark" in each.text or "df." in each.text]
    for block in found:
        names["df"].write, names["df"].writeStream = FakeWriter(planned), FakeWriter(planned)
        FakeBuilder.readStream.format().option().load().writeStream = FakeWriter(planned)
        exec(compiled(page, block), dict(names))
    assert len(planned) == sum("topic" in each.text for each in found)


def test_no_page_is_left_out() -> None:
    with_code = {name(page) for page in PAGES if blocks(page, "python")}
    assert with_code == {name(page) for page in RUN} | {*ELSEWHERE} | SPARK
    for test in ELSEWHERE.values():
        assert (ROOT / test).is_file()


async def test_a_block_that_fails_is_noticed() -> None:
    page = ROOT / "README.md"
    with pytest.raises(ZeroDivisionError) as raised:
        await run(page, Block("python", "await asyncio.sleep(0)\n1 / 0\n", 7), {"asyncio": asyncio})
    assert (Path(raised.traceback[-1].path), raised.traceback[-1].lineno) == (page, 7)
