"""Commands to the mock cluster's process, and the checks of their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioproducer.errors import IllegalStateError
from aioproducer.testing.mock_cluster.process import MockClusterArgumentError, MockClusterProcess

__all__ = [
    "ALL_BROKERS",
    "DISCONNECT",
    "INT32_MAX",
    "Commands",
    "check_name",
    "check_range",
    "error_codes",
]

ALL_BROKERS: Final = -1
"""The broker id that stands for every broker of the cluster."""
DISCONNECT: Final = -195
"""An error: the broker closes the connection without a response (librdkafka's _TRANSPORT)."""
INT32_MAX: Final = 2**31 - 1


class Commands:
    """The base of each group of commands: the running process, and the cluster's size."""

    def __init__(self, brokers: int) -> None:
        check_range("brokers", brokers, 1, 100)
        self._brokers = brokers
        self._process: MockClusterProcess | None = None

    @property
    def broker_ids(self) -> range:
        """1 to the number of brokers."""
        return range(1, self._brokers + 1)

    @property
    def _running(self) -> MockClusterProcess:
        if self._process is None:
            raise IllegalStateError("the mock cluster is not running: enter its context first")
        return self._process

    def _call(self, function: str, *arguments: int | str | list[int] | list[str]) -> None:
        self._running.call((function, *arguments))

    def _check_broker(self, broker_id: int, *, or_all: bool = False) -> None:
        if broker_id not in self.broker_ids and not (or_all and broker_id == ALL_BROKERS):
            raise MockClusterArgumentError(
                f"there is no broker {broker_id}: the ids are 1 to {self._brokers}"
            )

    def _check_api(self, api_key: int) -> tuple[int, int]:
        implemented = self._running.implemented_versions
        if api_key not in implemented:
            raise MockClusterArgumentError(
                f"the mock cluster does not implement API {api_key}, "
                f"only {', '.join(map(str, sorted(implemented)))}"
            )
        return implemented[api_key]

    def _check_partition(self, topic: str, partition: int) -> None:
        check_name("topic", topic)
        check_range("partition", partition, 0, INT32_MAX)
        if not self._running.has_partition(topic, partition):
            raise MockClusterArgumentError(f"there is no partition {partition} of topic {topic!r}")


def check_range(what: str, number: int, low: int, high: int) -> int:
    """`number`. Raises `MockClusterArgumentError` if it is not `low` to `high`."""
    if not low <= number <= high:
        raise MockClusterArgumentError(f"{what} must be {low} to {high}, not {number}")
    return number


def check_name(what: str, name: str, longest: int = 249) -> None:
    """Raise `MockClusterArgumentError` for a name that is empty, too long or has a zero byte."""
    if not 1 <= len(name.encode()) <= longest or "\0" in name:
        raise MockClusterArgumentError(f"{what} must be 1 to {longest} bytes, not {name!r}")


def error_codes(errors: Iterable[int]) -> list[int]:
    """`errors` as a list: Kafka's error codes, or `DISCONNECT`."""
    return [e if e == DISCONNECT else check_range("error", e, -1, 2**15 - 1) for e in errors]
