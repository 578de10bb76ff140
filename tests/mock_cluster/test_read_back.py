"""``read_back()`` and ``expect()`` on topics, and the tests of the page about tests."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

from aioproducer import Producer, ProducerTimeoutError, TopicPartition, errors
from aioproducer.testing import expect, read_back, read_back_sync
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.documentation.pages import DOCS, blocks
from tests.support.pytest_project import run_pytest


async def send(cluster: MockCluster, *values: bytes, topic: str = "orders") -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(
                topic,
                value,
                key=b"%d" % number,
                partition=number % 3,
                headers={"n": b"%d" % number},
            )


async def test_every_record_is_read_back_in_order(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    sent = [b"value %d" % number for number in range(1_000)]
    await send(mock_cluster, *sent)
    records = await read_back("orders", bootstrap_servers=mock_cluster.bootstrap_servers)
    assert [each[1:3] for each in records] == sorted(each[1:3] for each in records)
    assert sorted(records.values, key=str) == sorted(sent, key=str)
    assert records.positions == {
        TopicPartition("orders", 0): 334,
        TopicPartition("orders", 1): 333,
        TopicPartition("orders", 2): 333,
    }
    [last] = await read_back(
        TopicPartition("orders", 2), start=-1, bootstrap_servers=mock_cluster.bootstrap_servers
    )
    assert (last.key, last.value, last.headers) == (b"998", b"value 998", (("n", b"998"),))
    assert last.offset == 332


async def test_an_empty_topic(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 2)
    servers = mock_cluster.bootstrap_servers
    assert await read_back("orders", bootstrap_servers=servers) == []
    await expect("orders", bootstrap_servers=servers).has_none()
    with pytest.raises(AssertionError, match="in 0 records of orders, 2 partitions"):
        await expect("orders", bootstrap_servers=servers).has(value=b"one espresso")


async def test_transactions_of_the_mock_cluster(mock_cluster: MockCluster) -> None:
    """Their markers have no checksum."""
    mock_cluster.create_topic("orders", 1)
    servers = mock_cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id="till") as producer:
        for value in (b"one", b"two"):
            async with producer.transaction():
                await producer.send("orders", value)
    await expect("orders", bootstrap_servers=servers).in_order([b"one", b"two"])
    with pytest.raises(errors.CorruptRecordsError):
        await read_back("orders", bootstrap_servers=servers, check_crcs=True)


async def test_a_silent_cluster_ends_the_wait(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 1)
    mock_cluster.set_broker_rtt(ALL_BROKERS, 5_000)
    with pytest.raises(
        ProducerTimeoutError, match=r"'orders' was not read to its end within 0.5 s"
    ):
        await read_back("orders", timeout=0.5, bootstrap_servers=mock_cluster.bootstrap_servers)


async def test_expectations_of_a_topic(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    await send(mock_cluster, b"one", b"two", b"three", b"four")
    orders = expect("orders", bootstrap_servers=mock_cluster.bootstrap_servers)
    (await orders.has(value="two", key="1", partition=1, headers={"n": "1"})).has(count=4)
    await orders.has_exactly([b"four", b"three", b"two", b"one"])
    await orders.in_order([b"one", b"four"])
    await orders.has_none(value=b"five")
    with pytest.raises(AssertionError, match=r"key=b'3', value=b'four'.*<- other key"):
        await orders.has(value=b"four", key=b"4")


async def test_records_that_are_to_come_are_waited_for(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    await send(mock_cluster, b"early")
    orders = expect("orders", bootstrap_servers=mock_cluster.bootstrap_servers, wait=60)
    waiting = asyncio.create_task(orders.has_exactly([b"early", b"late", b"later"]))
    await send(mock_cluster, b"late")
    await send(mock_cluster, b"later")
    records = (await waiting).records
    assert sorted(each.value or b"" for each in records) == [b"early", b"late", b"later"]


async def test_waiting_ends(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    await send(mock_cluster, b"early")
    orders = expect("orders", bootstrap_servers=mock_cluster.bootstrap_servers, wait=0.2)
    with pytest.raises(AssertionError, match="expected a record with value=b'late'"):
        await orders.has(value=b"late")


def test_without_an_event_loop(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    asyncio.run(send(mock_cluster, b"one"))
    records = read_back_sync("orders", bootstrap_servers=mock_cluster.bootstrap_servers)
    expect(records).has_exactly([b"one"])


async def test_the_blocking_form_refuses_a_running_loop() -> None:
    with pytest.raises(errors.IllegalStateError, match="await read_back"):
        read_back_sync("orders", bootstrap_servers="localhost:1")


PAGE: Final = DOCS / "how-to" / "testing.md"


def test_the_tests_of_the_page(tmp_path: Path) -> None:
    [project] = blocks(PAGE, "toml")
    found = blocks(PAGE, "python")
    text = "".join(block.text for block in found)
    seeds = re.findall(r'parametrize\("seed", range\((\d+)\)\)', text)
    tests = text.count("def test_") + sum(int(each) - 1 for each in seeds)
    plugins = ("pytest_aioproducer", "pytest_asyncio.plugin")
    files = {f"{each.module or f'test_{each.line}'}.py": each.text for each in found}
    files["pyproject.toml"] = project.text
    run = run_pytest(tmp_path, files, plugins=plugins)
    assert run.outcomes == {"passed": tests}, run.output
    assert "Warning" not in run.output
