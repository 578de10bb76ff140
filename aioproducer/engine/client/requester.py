"""The parts of the sender that send requests of their own."""

from __future__ import annotations

from typing import Protocol

from aioproducer.engine.network.in_flight import Completion


class Requester(Protocol):
    """Sends its requests in each whole round of the sender, and takes their responses."""

    @property
    def requests(self) -> tuple[type, ...]:
        """The classes of its requests."""

    @property
    def idle(self) -> bool:
        """False while there is a request to send, so that the sender can't end."""
        return True

    @property
    def quiet(self) -> bool:
        """True if no step is due until a record comes, or somebody wakes the sender."""
        return False

    def step(self, now: float) -> float | None:
        """Send the requests that are due. Returns the time of the next round by the clock."""

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
