"""Answers of a registry that are kept: the newest ones, some of them for a time. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

__all__ = ["AnswerCache", "Awaited", "Key"]

_MOST: Final = 10_000


class Key(NamedTuple):
    """The call that an answer belongs to."""

    call: str
    subject: str | None
    rest: tuple[Hashable, ...] = ()


class Awaited:
    """An answer that is on its way; it is out of date if its call is forgotten meanwhile."""

    __slots__ = ("current", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.current = True


class AnswerCache:
    """Threads may share the object without a lock.

    See :mod:`aioproducer.foundation.runtime.threads`.

    The answer that was used least recently goes first.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._answers: OrderedDict[Key, tuple[Any, float]] = OrderedDict()
        self._awaited: set[Awaited] = set()

    def get(self, key: Key, now: float) -> Any:
        """The answer; None if there is none, or it is too old."""
        found = self._answers.get(key)
        if found is None:
            return None
        answer, good_until = found
        if now >= good_until:
            self._answers.pop(key, None)
            return None
        with suppress(KeyError):  # another thread has dropped it
            self._answers.move_to_end(key)
        return answer

    @contextmanager
    def awaiting(self, key: Key) -> Iterator[Awaited]:
        """The call is made meanwhile; for :meth:`put`."""
        awaited = Awaited(key)
        self._awaited.add(awaited)
        try:
            yield awaited
        finally:
            self._awaited.discard(awaited)

    def put(self, awaited: Awaited, answer: Any, good_until: float) -> None:
        """Keep an answer, unless its call was forgotten while it was awaited."""
        self._answers[awaited.key] = (answer, good_until)
        with suppress(KeyError):
            self._answers.move_to_end(awaited.key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        if not awaited.current:
            self._answers.pop(awaited.key, None)

    def forget(self, unwanted: Callable[[Key], bool]) -> None:
        """Drop the answers to these calls, those that are on their way, too."""
        for awaited in self._awaited.copy():  # first: it may arrive meanwhile
            if unwanted(awaited.key):
                awaited.current = False
        for key in list(self._answers):
            if unwanted(key):
                self._answers.pop(key, None)
