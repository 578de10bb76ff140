"""Callers that wait for the metadata of a topic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

from aioproducer.errors import ProducerError

_T_contra = TypeVar("_T_contra", contravariant=True)
_T = TypeVar("_T")


class TopicFuture(Protocol[_T_contra]):
    """The methods that are used here of a waiting caller's future."""

    def done(self) -> bool:
        """True if the caller gave up."""

    def set_result(self, result: _T_contra | ProducerError, /) -> None:
        """Take the topic's metadata, or the error for which there will be none."""


class TopicWaiters(Generic[_T]):
    """Futures by topic."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[TopicFuture[_T]]] = {}

    @property
    def topics(self) -> Collection[str]:
        """The topics that somebody waits for."""
        return self._waiting.keys()

    def add(self, topic: str, future: TopicFuture[_T]) -> None:
        """Let ``future`` wait for ``topic``."""
        self._waiting.setdefault(topic, []).append(future)

    def discard(self, topic: str, future: TopicFuture[_T]) -> None:
        """Forget ``future``, which has its result, or whose caller gave up."""
        waiting = self._waiting.get(topic, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(topic, None)

    def tell(self, topic: str, known: _T | ProducerError) -> None:
        """Give ``known`` to every future that waits for ``topic``."""
        for future in self._waiting.pop(topic, ()):
            if not future.done():
                future.set_result(known)

    def close(self, error: ProducerError) -> None:
        """Give ``error`` to every future."""
        for topic in list(self._waiting):
            self.tell(topic, error)
