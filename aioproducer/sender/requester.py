"""The parts of the sender that send requests of their own."""

from __future__ import annotations

from typing import Protocol

from aioproducer.network.request import Completion


class Requester(Protocol):
    """Has its turn in each round of the sender, and takes the responses to its requests."""

    @property
    def requests(self) -> tuple[type, ...]:
        """The classes of its requests."""

    @property
    def idle(self) -> bool:
        """False while the sender may not end, because something is left to be asked."""
        return True

    def step(self, now: float) -> float | None:
        """Send what is due. Returns when to look again by the clock alone."""

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the reason that there is none."""
