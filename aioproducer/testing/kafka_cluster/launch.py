"""Options for the launch of the brokers' processes."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict
from uuid import uuid4

__all__ = ["DEFAULT_JVM_OPTIONS", "Launch", "LaunchOptions"]

DEFAULT_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of the JVM for a fast start and little memory."""


class LaunchOptions(TypedDict, total=False):
    """The options as keywords of `KafkaCluster`."""

    jvm_options: Sequence[str]
    format_options: Sequence[str]
    start_timeout: float
    class_path: Sequence[str]


def _new_cluster_id() -> str:
    """Sixteen bytes as Kafka writes them; none begins like an option."""
    return f"A{urlsafe_b64encode(uuid4().bytes).decode()[1:22]}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The options with their defaults."""

    jvm_options: Sequence[str] = DEFAULT_JVM_OPTIONS
    format_options: Sequence[str] = ()
    """For Kafka's StorageTool, before the first start."""
    start_timeout: float = 120.0
    """Seconds, for all brokers together."""
    class_path: Sequence[str] = ()
    """Folders and jars with further classes, such as a metrics reporter."""
    cluster_id: str = field(default_factory=_new_cluster_id)
    """Clusters with equal ids would be one cluster to a client."""
