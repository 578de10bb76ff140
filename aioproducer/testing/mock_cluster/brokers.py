"""Commands for brokers: addresses, delays, outages, and the groups and ids they coordinate."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from aioproducer.testing.mock_cluster.commands import (
    ALL_BROKERS,
    INT32_MAX,
    Commands,
    check_name,
    check_range,
)
from aioproducer.testing.mock_cluster.process import MockClusterArgumentError
from aioproducer.testing.ports import ReservedPort

__all__ = ["Brokers"]


class Brokers(Commands):
    """The brokers. The port of a broker that is down stays reserved."""

    def __init__(self, brokers: int) -> None:
        super().__init__(brokers)
        self._reserved: dict[int, ReservedPort] = {}

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, separated by commas, in the order of the broker ids."""
        return self._running.bootstrap_servers

    def broker_address(self, broker_id: int) -> tuple[str, int]:
        """Host and port where the broker listens, whatever `set_broker_address` advertises."""
        self._check_broker(broker_id)
        host, _, port = self.bootstrap_servers.split(",")[broker_id - 1].rpartition(":")
        return host, int(port)

    def set_broker_rtt(self, broker_id: int, rtt_ms: int) -> None:
        """Delay every response of the broker (or `ALL_BROKERS`) by this many milliseconds."""
        self._check_broker(broker_id, or_all=True)
        self._call("broker_set_rtt", broker_id, check_range("rtt_ms", rtt_ms, 0, INT32_MAX))

    def set_broker_down(self, broker_id: int) -> None:
        """Close the connections of the broker (or `ALL_BROKERS`) and refuse new ones.

        The partitions keep their leaders, but Metadata no longer lists the broker.
        """
        self._check_broker(broker_id, or_all=True)
        self._call("broker_set_down", broker_id)
        for each in self._meant(broker_id) - self._reserved.keys():
            with suppress(OSError):  # the port is reserved already
                self._reserved[each] = ReservedPort(*self.broker_address(each))

    def set_broker_up(self, broker_id: int) -> None:
        """Let the broker (or `ALL_BROKERS`) listen again, on its old port."""
        self._check_broker(broker_id, or_all=True)
        self._release(self._meant(broker_id))
        self._call("broker_set_up", broker_id)

    def set_broker_address(self, broker_id: int, host: str, port: int) -> None:
        """Let Metadata advertise this address, such as that of a proxy in front of the broker."""
        self._check_broker(broker_id)
        check_name("host", host, 127)
        self._call("broker_set_host_port", broker_id, host, check_range("port", port, 1, 65535))

    def set_coordinator(
        self, key_type: Literal["group", "transaction"], key: str, broker_id: int
    ) -> None:
        """Make a broker the coordinator of a consumer group or a transactional id."""
        if key_type not in ("group", "transaction"):
            raise MockClusterArgumentError(
                f"key_type is 'group' or 'transaction', not {key_type!r}"
            )
        check_name(key_type, key, 2**15 - 1)
        self._check_broker(broker_id)
        self._call("coordinator_set", key_type, key, broker_id)

    def set_group_initial_rebalance_delay(self, delay_ms: int) -> None:
        """Wait this many milliseconds for the members of a new consumer group (initially 3000)."""
        check_range("delay_ms", delay_ms, 0, INT32_MAX)
        self._call("group_initial_rebalance_delay_ms", delay_ms)

    def _meant(self, broker_id: int) -> set[int]:
        return set(self.broker_ids) if broker_id == ALL_BROKERS else {broker_id}

    def _release(self, broker_ids: set[int]) -> None:
        for each in broker_ids & self._reserved.keys():
            self._reserved.pop(each).release()
