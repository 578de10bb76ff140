"""What clients send to: a cheap sink, or a real Kafka; and how many records it has taken."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from aioproducer.testing.certificates import Authority, kafka_broker_properties
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from benchmarks.workloads import Workload

_BROKERS: Final = 3
_TLS: Final = "TLS"
"""The name of a listener."""
_LONGEST_QUERY: Final = 60.0
_TOPICS_PER_REQUEST: Final = 250
_POLL: Final = 0.2
_ONLY_WHAT_IS_CRITICAL: Final = 2
"""In the log of librdkafka: brokers end before those who asked them."""
_RETRIED: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
# With the compilers that Kafka has in production.
_JVM_OPTIONS: Final = ("-Xmx1g", "-XX:+UseSerialGC")
# So that a long benchmark does not fill the disk.
_KAFKA_CONFIG: Final = {
    "log.retention.bytes": 64 * 1024 * 1024,
    "log.segment.bytes": 32 * 1024 * 1024,
    "log.retention.check.interval.ms": 10_000,
    "log.segment.delete.delay.ms": 1_000,
}


class Target(NamedTuple):
    """Where the records of a workload go."""

    bootstrap_servers: str
    """For the clients that are measured."""
    plain_text: str
    """The same brokers, for those who count."""
    authority: str | None = None
    """The file (PEM) of whom clients trust, where they have to speak TLS."""


Serving = Callable[[Workload], AbstractContextManager[Target]]
"""A context in which the topics of a workload are there."""


@contextmanager
def mock_brokers() -> Iterator[Serving]:
    """librdkafka's mock cluster."""
    yield _mock_cluster


@contextmanager
def _mock_cluster(workload: Workload) -> Iterator[Target]:
    """One for all clients of a workload: it keeps no more than 5 MiB per partition."""
    topics = dict.fromkeys(workload.topic_names(), workload.partitions)
    with MockCluster(brokers=_BROKERS, topics=topics) as cluster:
        cluster.set_broker_rtt(ALL_BROKERS, workload.rtt_ms)
        yield Target(cluster.bootstrap_servers, cluster.bootstrap_servers)


@contextmanager
def kafka_brokers(brokers: int = _BROKERS) -> Iterator[Serving]:
    """A real Kafka; each of its brokers has a copy of every partition."""
    authority = Authority()
    config = {**_KAFKA_CONFIG, **kafka_broker_properties(authority.issue())}
    with (
        tempfile.NamedTemporaryFile("w", suffix=".pem") as trusted,
        KafkaCluster(
            brokers, config=config, jvm_options=_JVM_OPTIONS, listeners={_TLS: "SSL"}
        ) as cluster,
    ):
        trusted.write(authority.pem)
        trusted.flush()
        plain_text = cluster.bootstrap_servers
        admin = _admin(plain_text)

        @contextmanager
        def serve(workload: Workload) -> Iterator[Target]:
            _create_topics(admin, workload, brokers)
            if workload.tls:
                yield Target(cluster.bootstrap_servers_of(_TLS), plain_text, trusted.name)
            else:
                yield Target(plain_text, plain_text)
            _delete_topics(admin, workload)

        yield serve


BROKERS: Final[Mapping[str, Callable[[], AbstractContextManager[Serving]]]] = {
    "mock": mock_brokers,
    "kafka": kafka_brokers,
}


def log_size(bootstrap_servers: str, topics: Sequence[str], partitions: int) -> int:
    """How many records the topics ever took: what the brokers say, not the client.

    ``partitions``: of each topic.
    """
    deadline = time.monotonic() + _LONGEST_QUERY
    while True:
        try:
            return _ends(bootstrap_servers, topics, partitions)
        except KafkaException as error:  # such as a leader that does not know yet that it is one
            if time.monotonic() > deadline or error.args[0].code() not in _RETRIED:
                raise
            time.sleep(_POLL)


def _ends(bootstrap_servers: str, topics: Sequence[str], partitions: int) -> int:
    # Kept until it has answered, else its futures never end; used once, for it keeps leaders.
    admin = _admin(bootstrap_servers)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets(
        {TopicPartition(topic, number): latest for topic in topics for number in range(partitions)},
        request_timeout=_LONGEST_QUERY,
    )
    return sum(end.result().offset for end in ends.values())


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": bootstrap_servers, "log_level": _ONLY_WHAT_IS_CRITICAL}
    )


def _create_topics(admin: AdminClient, workload: Workload, replication: int) -> None:
    """Return when each partition has a leader."""
    names = workload.topic_names()
    for some in _in_requests(names):
        topics = [NewTopic(name, workload.partitions, replication) for name in some]
        for created in admin.create_topics(topics, request_timeout=_LONGEST_QUERY).values():
            created.result()
    deadline = time.monotonic() + _LONGEST_QUERY
    while not _have_leaders(admin, names):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{workload.name}: not every topic has its leaders")
        time.sleep(_POLL)


def _have_leaders(admin: AdminClient, names: Sequence[str]) -> bool:
    known = admin.list_topics(timeout=_LONGEST_QUERY).topics
    return all(
        name in known
        and known[name].partitions
        and all(partition.leader >= 0 for partition in known[name].partitions.values())
        for name in names
    )


def _delete_topics(admin: AdminClient, workload: Workload) -> None:
    for some in _in_requests(workload.topic_names()):
        for deleted in admin.delete_topics([*some], request_timeout=_LONGEST_QUERY).values():
            deleted.result()


def _in_requests(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), _TOPICS_PER_REQUEST):
        yield names[first : first + _TOPICS_PER_REQUEST]
