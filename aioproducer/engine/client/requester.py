"""The parts of a client that send requests of their own between the requests of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aioproducer.engine.network.frames import Completion

NEVER: Final = float("inf")
"""The time of a step that nobody needs at present."""


class Requester:
    """A part of a client: it says when it is due, and a round of the client's task does its step.

    A round does the step of each part that is due or waits, and of every part while the client is
    closing. A response to one of its requests makes a part due, and so does a connection that opens
    or ends. For any other change there is :meth:`due_now`. ``wake`` asks for a round.
    """

    requests: tuple[type, ...] = ()
    """The classes of its requests."""

    due: float = 0.0
    """The time of its next step; 0: in the next round."""

    waits: bool = False
    """True while it needs what other parts have: its step is done in each round, too."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @property
    def idle(self) -> bool:
        """False while there is a request to send, so that the client's task can't end."""
        return True

    def due_now(self) -> None:
        """Something has changed: do the next step at once."""
        self.due = 0.0
        self._wake()

    def step(self, now: float) -> None:
        """Send the requests that are due; set :attr:`due` and :attr:`waits`."""
        raise NotImplementedError

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead. A step follows."""
        raise NotImplementedError
