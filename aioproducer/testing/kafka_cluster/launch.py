"""Options for the launch of the brokers' processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

__all__ = ["DEFAULT_JVM_OPTIONS", "Launch", "LaunchOptions"]

# For a fast start and little memory; a benchmark gives options of its own.
DEFAULT_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LaunchOptions(TypedDict, total=False):
    """The options as keywords of `KafkaCluster`."""

    jvm_options: Sequence[str]
    format_options: Sequence[str]
    start_timeout: float
    class_path: Sequence[str]


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
