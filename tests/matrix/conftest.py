"""One broker of each release, all started when the first is needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from _pytest.mark import ParameterSet

from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaUnavailableError
from tests.kafka.conftest import IDLE, PATIENT, keep_logs, say_that_there_is_no_kafka

NEWEST_OF_EACH_LINE = ("2.8.2", "3.9.2", "4.4.0")
WITHOUT_TOPIC_IDS = "3.2.3"
"""Amid an upgrade: it speaks the newest requests of its release, and gives no topic ids."""
OTHERS = ("2.1.1", WITHOUT_TOPIC_IDS, "3.3.2", "4.0.2")
"""The first that this client speaks to, one amid an upgrade, the first that does without ZooKeeper,
the first of 4."""
TOO_OLD = "2.0.1"

Clusters = dict[str, Future[KafkaCluster]]


def of_release(version: str) -> ParameterSet:
    """A parameter of the fixture ``cluster``."""
    marks = () if version in NEWEST_OF_EACH_LINE else (pytest.mark.matrix,)
    return pytest.param(version, id=version, marks=marks)


@pytest.fixture(scope="session")
def clusters(request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """Those that the tests of this session ask for, as they start."""
    callspecs = (getattr(item, "callspec", None) for item in request.session.items)
    versions = {spec.params["cluster"] for spec in callspecs if spec and "cluster" in spec.params}
    failed_before = request.session.testsfailed
    with ThreadPoolExecutor(len(versions)) as pool, ExitStack() as running:

        def start(version: str) -> KafkaCluster:
            config: dict[str, object] = {**PATIENT, **IDLE}
            if version == WITHOUT_TOPIC_IDS:
                config["inter.broker.protocol.version"] = "2.7"
            cluster = KafkaCluster(brokers=1, config=config, version=version)
            return running.enter_context(cluster)

        starting = {version: pool.submit(start, version) for version in sorted(versions)}
        yield starting
        for future in starting.values():
            if request.session.testsfailed > failed_before and future.exception() is None:
                keep_logs(request.config, future.result())


@pytest.fixture(
    scope="session", params=[of_release(version) for version in (*OTHERS, *NEWEST_OF_EACH_LINE)]
)
def cluster(request: pytest.FixtureRequest, clusters: Clusters) -> KafkaCluster:
    """A broker of one release. Shared: make topics of your own."""
    try:
        return clusters[request.param].result()
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error, request.param)
