"""The requests that the brokers received."""

from __future__ import annotations

from typing import NamedTuple

from aioproducer.testing.mock_cluster.commands import Commands

__all__ = ["RequestTracking", "TrackedRequest"]


class TrackedRequest(NamedTuple):
    """A request that a broker of the mock cluster received."""

    broker_id: int
    api_key: int
    timestamp: float
    """Seconds, on the clock of `time.monotonic()` (on macOS that of `time.time()`)."""


class RequestTracking(Commands):
    """The requests since tracking was started."""

    def start_request_tracking(self) -> None:
        """Record all requests for `requests()` from now on, and forget earlier ones."""
        self._call("start_request_tracking")

    def stop_request_tracking(self) -> None:
        """Stop recording, and forget the requests: call `requests()` first."""
        self._call("stop_request_tracking")

    def requests(self) -> list[TrackedRequest]:
        """Return the requests since tracking was started or cleared, in order of arrival."""
        (rows,) = self._running.call(("requests",))
        assert isinstance(rows, list)
        return [TrackedRequest(broker, api_key, micros / 1e6) for broker, api_key, micros in rows]

    def clear_requests(self) -> None:
        """Forget the requests so far, and continue tracking."""
        self._call("clear_requests")
