"""Answers of a registry that are kept: the newest ones, some of them for a time. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, NamedTuple

__all__ = ["AnswerCache", "Key"]

_MOST: Final = 10_000


class Key(NamedTuple):
    """The call that an answer belongs to."""

    call: str
    subject: str | None
    rest: tuple[Hashable, ...] = ()


class AnswerCache:
    """Threads may share the object. What is used least goes first."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = Lock()
        """Guards what follows."""
        self._answers: OrderedDict[Key, tuple[Any, float]] = OrderedDict()
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows when answers are forgotten; for :meth:`put`."""
        return self._changes

    def get(self, key: Key, now: float) -> Any:
        """The answer; None if there is none, or it is too old."""
        with self._lock:
            found = self._answers.get(key)
            if found is None:
                return None
            answer, good_until = found
            if now >= good_until:
                del self._answers[key]
                return None
            self._answers.move_to_end(key)
            return answer

    def put(self, key: Key, answer: Any, good_until: float, changes: int) -> None:
        """Keep an answer, unless answers were forgotten since ``changes``, before it was asked."""
        with self._lock:
            if changes != self._changes:
                return
            self._answers[key] = (answer, good_until)
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)

    def forget(self, unwanted: Callable[[Key], bool]) -> None:
        """Drop the answers to these calls."""
        with self._lock:
            self._changes += 1
            for key in [each for each in self._answers if unwanted(each)]:
                del self._answers[key]
