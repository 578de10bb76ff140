"""Descriptions of topics as lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aioproducer.admin import PartitionDescription, TopicDescription
from aioproducer.cli.results import table

__all__ = ["topic_fields", "topic_lines"]

_HEADINGS = ("partition", "leader", "replicas", "in sync")


def topic_fields(topic: TopicDescription) -> dict[str, Any]:
    """A topic, as JSON has it."""
    return {
        "name": topic.name,
        "id": None if topic.topic_id is None else str(topic.topic_id),
        "internal": topic.internal,
        "configs": _settings(topic),
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "in_sync_replicas": list(each.in_sync_replicas),
                "offline_replicas": list(each.offline_replicas),
            }
            for each in topic.partitions
        ],
    }


def topic_lines(topic: TopicDescription, count: int) -> Iterator[str]:
    """A topic, as a person reads it; it has ``count`` partitions, even if fewer are shown."""
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    yield f"{topic.name}: {_plural(count, 'partition')}, {_plural(replicas, 'replica')} each"
    for name, value in (_settings(topic) or {}).items():
        yield f"  {name}={value}"
    yield from table([_HEADINGS, *map(_row, topic.partitions)])


def _settings(topic: TopicDescription) -> dict[str, str | None] | None:
    """The settings that differ from the defaults; None if nobody told them."""
    if topic.configs is None:
        return None
    entries = sorted(topic.configs.items())
    return {name: entry.value for name, entry in entries if not entry.is_default}


def _row(partition: PartitionDescription) -> tuple[str, ...]:
    return (
        str(partition.partition),
        "none" if partition.leader is None else str(partition.leader),
        _ids(partition.replicas),
        _ids(partition.in_sync_replicas) or "none",
    )


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
