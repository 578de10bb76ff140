"""The subscription to clients' metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable

from aioproducer.testing.mock_cluster.commands import INT32_MAX, Commands, check_range

__all__ = ["Telemetry"]


class Telemetry(Commands):
    """The brokers' subscription for every client. They check the metrics' encoding.

    All clients get the same client instance id. The brokers take 10,000 bytes at most, accept all
    codecs, zstd first, and ask for deltas.
    """

    def set_requested_metrics(self, prefixes: Iterable[str]) -> None:
        """Request the metrics whose names begin with any of `prefixes`; initially none."""
        names = list(prefixes)
        self._call("telemetry_set_requested_metrics", names, len(names))

    def set_push_interval(self, milliseconds: int) -> None:
        """Ask for a push in this interval, instead of each 5 minutes."""
        check_range("milliseconds", milliseconds, 1, INT32_MAX)
        self._call("telemetry_set_push_interval", milliseconds)
