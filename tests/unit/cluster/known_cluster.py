"""Metadata, and the responses that tests give to it."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.cluster.metadata import Asked, Metadata
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.errors import KafkaError, kafka_error
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.model import BootstrapId, BootstrapServer, Node
from tests.support.clock import NoJitter

MAX_AGE, MAX_IDLE, REBOOTSTRAP_AFTER = 300.0, 900.0, 60.0


BACKOFF = 0.1


BOOTSTRAP = (
    BootstrapServer(BootstrapId("-1"), "boot", 9092),
    BootstrapServer(BootstrapId("-2"), "boot2", 9092),
)


BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}


NOW = 1000.0


def metadata(**changes: Any) -> Metadata:
    options: dict[str, Any] = {
        "max_age": MAX_AGE,
        "max_idle": MAX_IDLE,
        "backoff": ExponentialBackoff(BACKOFF, 1.0, NoJitter()),
        "rebootstrap_after": REBOOTSTRAP_AFTER,
    }
    return Metadata(BOOTSTRAP, **{**options, **changes})


def info(name: str, partitions: int = 1, leader: int = 1, epoch: int = 0) -> TopicInfo:
    return TopicInfo(
        name, None, tuple(PartitionLeader(index, leader, epoch) for index in range(partitions))
    )


def news(*known: TopicInfo, brokers: bool = True, **errors: int) -> MetadataNews:
    """What a broker says: topics that it knows, and error codes of those it does not."""
    explained: dict[str, KafkaError] = {
        topic: kafka_error(code, f"topic {topic!r}") for topic, code in errors.items()
    }
    return MetadataNews(BROKERS if brokers else {}, {each.name: each for each in known}, explained)


def asked(it: Metadata, answer: MetadataNews, now: float = NOW) -> None:
    """One whole refresh."""
    it.request_update()
    told(it, answer, it.start(now), now)


def told(it: Metadata, answer: MetadataNews, request: Asked, now: float = NOW) -> list[str]:
    """The topics of which something was new."""
    return [info.name for info in it.update(answer, request, now) if info is not None]


def settled() -> Metadata:
    """Knows ``orders`` since NOW."""
    it = metadata()
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    return it
