"""The tables of the documentation: the series, and Kafka's metrics for them."""

from __future__ import annotations

from collections.abc import Iterable

from aioproducer.observability.series.names import (
    NODE_SERIES,
    PRODUCER_SERIES,
    TOPIC_SERIES,
    KafkaSeries,
)
from aioproducer.observability.series.producer import BROKER_NAMES, own_families

__all__ = ["markdown"]


def markdown() -> str:
    """All series as Markdown tables: ours, and one per group of Kafka's metrics."""
    return "\n\n".join(
        (
            _own(),
            _of_kafka("producer-metrics", "label `client_id`", PRODUCER_SERIES),
            _of_kafka("producer-topic-metrics", "labels `client_id` and `topic`", TOPIC_SERIES),
            _of_kafka("producer-node-metrics", "labels `client_id` and `node`", NODE_SERIES),
        )
    )


def _own() -> str:
    lines = []
    for family in own_families():
        labels = "`client_id`, `node`" if family.name in BROKER_NAMES else "`client_id`"
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |")
    return _table("Latencies and health:", "| Series | Kind | Labels | Meaning |", lines)


def _of_kafka(group: str, labels: str, rows: Iterable[KafkaSeries]) -> str:
    lines = [
        f"| `{row.exposed_name}` | {row.kind} | {row.unit} | `{row.kafka_name}` |"
        for row in rows
        if not row.is_derived
    ]
    head = "| Series | Kind | Unit | Kafka's metric |"
    return _table(f"Kafka's `{group}`, with the {labels}:", head, lines)


def _table(title: str, head: str, lines: Iterable[str]) -> str:
    return "\n".join((title, "", head, "|---|---|---|---|", *lines))
