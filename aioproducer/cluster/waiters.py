"""Who waits for what is to be known of a topic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

from aioproducer.errors import ProducerError

_T_contra = TypeVar("_T_contra", contravariant=True)
_T = TypeVar("_T")


class TopicFuture(Protocol[_T_contra]):
    """All that is known here of the future of somebody who waits."""

    def done(self) -> bool:
        """Whether its caller gave up."""

    def set_result(self, result: _T_contra | ProducerError, /) -> None:
        """What is known of the topic now, or why that will not be known."""


class TopicWaiters(Generic[_T]):
    """Futures by topic."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[TopicFuture[_T]]] = {}

    @property
    def topics(self) -> Collection[str]:
        """Those that somebody waits for."""
        return self._waiting.keys()

    def add(self, topic: str, future: TopicFuture[_T]) -> None:
        """``future`` is to be told."""
        self._waiting.setdefault(topic, []).append(future)

    def discard(self, topic: str, future: TopicFuture[_T]) -> None:
        """``future`` was told, or its caller gave up."""
        waiting = self._waiting.get(topic, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(topic, None)

    def tell(self, topic: str, known: _T | ProducerError) -> None:
        """Everybody who waits for ``topic`` gets ``known``."""
        for future in self._waiting.pop(topic, ()):
            if not future.done():
                future.set_result(known)

    def close(self, error: ProducerError) -> None:
        """Everybody gets ``error``."""
        for topic in list(self._waiting):
            self.tell(topic, error)
