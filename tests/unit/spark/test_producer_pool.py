"""Producers that are kept between tasks."""

from __future__ import annotations

import os
import time

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.errors import ProducerClosedError
from aioproducer.spark.producer_pool import ProducerPool
from aioproducer.testing.mock_cluster import MockCluster


@pytest.fixture
def config() -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="127.0.0.1:1")


def test_one_for_each_configuration(config: ProducerConfig) -> None:
    pool = ProducerPool()
    with pool.use(config) as one, pool.use(ProducerConfig(bootstrap_servers="127.0.0.1:1")) as same:
        assert one is same
        with pool.use(ProducerConfig(bootstrap_servers="127.0.0.1:2")) as other:
            assert other is not one
    with pool.use(config) as again:
        assert again is one


def test_one_whose_task_failed_is_not_kept(config: ProducerConfig) -> None:
    pool = ProducerPool()
    with pytest.raises(ZeroDivisionError), pool.use(config) as one:
        raise ZeroDivisionError
    with pool.use(config) as other:
        assert other is not one


def test_one_that_is_idle_is_closed(config: ProducerConfig) -> None:
    pool = ProducerPool(idle_seconds=0.05)
    with pool.use(config) as one:
        time.sleep(0.2)
        with pool.use(config) as same:
            assert same is one, "who is used is not idle"
    deadline = time.monotonic() + 10
    while True:
        with pool.use(config) as other:
            if other is not one:
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while True:  # it is forgotten first, and then closed
        assert time.monotonic() < deadline
        try:
            one.send("t", b"")
        except ProducerClosedError:
            break


@pytest.mark.mock_cluster
def test_a_forked_process_makes_its_own() -> None:
    pool = ProducerPool()
    with MockCluster(brokers=1, topics={"t": 1}) as cluster:
        config = ProducerConfig(bootstrap_servers=cluster.bootstrap_servers)
        with pool.use(config) as producer:
            producer.send("t", b"parent").result(30)
        child = os.fork()
        if not child:
            status = 1
            try:
                with pool.use(config) as producer:
                    producer.send("t", b"child").result(30)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        with pool.use(config) as again:
            assert again.send("t", b"parent").result(30).offset == 2
