"""Transactions through the blocking shell: the same calls, and records of the inbox in order."""

from __future__ import annotations

import pytest

from aioproducer.errors import (
    IllegalStateError,
    ProducerFencedError,
    ProducerTimeoutError,
    UnsupportedVersionError,
)
from aioproducer.model import TopicPartition
from aioproducer.sync import Producer
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster

END_TXN = 26
PRODUCER_FENCED = 90


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 3)
    return mock_cluster


def producer(cluster: MockCluster) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="t")


def test_everything_sent_in_the_block_is_delivered_at_its_end(cluster: MockCluster) -> None:
    with producer(cluster) as mine:
        with mine.transaction():
            futures = [mine.send("orders", b"%d" % number) for number in range(10_000)]
        assert all(future.done() for future in futures)
        assert {future.result().topic for future in futures} == {"orders"}


def fail_in_a_transaction(mine: Producer) -> None:
    with mine.transaction():
        mine.send("orders", b"v")
        raise ValueError("mine")


def test_an_exception_aborts_and_goes_on(cluster: MockCluster) -> None:
    with producer(cluster) as mine:
        with pytest.raises(ValueError, match="mine"):
            fail_in_a_transaction(mine)
        with mine.transaction():
            assert mine.send("orders", b"v").result(10).offset >= 0


def test_the_explicit_calls(cluster: MockCluster) -> None:
    with producer(cluster) as mine:
        mine.init_transactions()
        mine.begin_transaction()
        future = mine.send("orders", b"v")
        mine.send_offsets_to_transaction({("orders", 0): 5}, "group")
        mine.commit_transaction()
        assert future.result(0).offset >= 0
        mine.begin_transaction()
        mine.send("orders", b"v")
        mine.abort_transaction(timeout=10)
        assert mine.metrics()["producer-metrics"]["txn-commit-time-ns-total"] > 0


def test_misuse(cluster: MockCluster) -> None:
    with producer(cluster) as mine:
        with pytest.raises(IllegalStateError, match="no transaction is open; begin one"):
            mine.send("orders", b"v").result(10)
        with pytest.raises(IllegalStateError, match="can't commit, no transaction is open"):
            mine.commit_transaction()
        with mine.transaction(), pytest.raises(IllegalStateError, match="not begun for others"):
            mine.transaction_handle()


def test_another_producer_takes_part(cluster: MockCluster) -> None:
    with producer(cluster) as mine, mine.transaction(shared=True):
        handle = mine.transaction_handle()
        with Producer(bootstrap_servers=cluster.bootstrap_servers, transaction=handle) as other:
            future = other.send("orders", b"v")
        assert future.result(0).offset >= 0


def test_a_transaction_is_handed_over(cluster: MockCluster) -> None:
    cluster.start_request_tracking()
    with producer(cluster) as mine:
        mine.begin_transaction(shared=True)
        future = mine.send("orders", b"v")
        handle = mine.transaction_handle(hand_over=True)
    assert future.result(0).offset >= 0
    assert END_TXN not in {each.api_key for each in cluster.requests()}
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transaction=handle) as other:
        other.commit_transaction()
    assert END_TXN in {each.api_key for each in cluster.requests()}


def test_committed_offsets_that_can_t_be_known(cluster: MockCluster) -> None:
    """The mock cluster answers OffsetFetch up to version 6 only, without open transactions."""
    with producer(cluster) as mine:
        assert mine.committed_offsets("readers", []) == {}
        with pytest.raises(UnsupportedVersionError, match="too old to exclude offsets"):
            mine.committed_offsets("readers", [TopicPartition("orders", 0)])
        with mine.transaction():
            mine.send("orders", b"v")


def test_a_fenced_producer_says_so(cluster: MockCluster) -> None:
    with producer(cluster) as mine:
        cluster.push_request_errors(END_TXN, PRODUCER_FENCED)
        with pytest.raises(ProducerFencedError, match="'t'"), mine.transaction():
            mine.send("orders", b"v")
        with pytest.raises(ProducerFencedError, match="close the producer"):
            mine.begin_transaction()


def test_no_broker_within_max_block_ms(cluster: MockCluster) -> None:
    cluster.set_broker_down(ALL_BROKERS)
    mine = Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="t", max_block_ms=300
    )
    with pytest.raises(ProducerTimeoutError, match=r"init_transactions.* within 0.3 s"):
        mine.start()
