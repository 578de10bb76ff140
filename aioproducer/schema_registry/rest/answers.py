"""Answers of a registry that are kept, and one request for all who wait for the same answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from aioproducer.errors import ClientClosedError, ProducerError
from aioproducer.errors.client import anew
from aioproducer.foundation.runtime.tasks import TaskOwner

__all__ = [
    "AnswerCache",
    "Awaited",
    "Key",
    "Flights",
]


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

    def seconds_left(self, key: Key, now: float) -> float | None:
        """The time until the answer is too old; None: there is none."""
        found = self._answers.get(key)
        return None if found is None else max(0.0, found[1] - now)

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
        if not awaited.current:  # a later call may have its answer already
            return
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


_Answer = TypeVar("_Answer")


class Flights:
    """The requests in flight, by event loop and key. Threads may share the object."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _LoopFlights] = {}

    async def share(self, key: Hashable, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The result of ``call``, or of the same call that another caller has begun.

        A caller that is cancelled leaves the call to the others; without any it goes on, too, and
        its result is there for the next one.

        Raises:
            ClientClosedError: the flights were closed meanwhile.
            Exception: the error of the call.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._forget_ended_loops()
        flights = self._loops.get(loop)
        if flights is None:
            flights = self._loops[loop] = _LoopFlights(partial(self._forget, loop))
        answer: _Answer = await flights.share(key, call)
        return answer

    def forget(self, unwanted: Callable[[Any], bool]) -> None:
        """Let nobody join the calls with these keys that are on their way; their callers wait."""
        for flights in list(self._loops.values()):
            flights.forget(unwanted)

    async def close(self) -> None:
        """End the calls of this event loop; their callers get an error."""
        flights = self._loops.pop(asyncio.get_running_loop(), None)
        if flights is not None:
            await flights.close()

    def _forget(self, loop: asyncio.AbstractEventLoop, flights: _LoopFlights) -> None:
        if self._loops.get(loop) is flights:  # there are others if these were closed
            del self._loops[loop]

    def _forget_ended_loops(self) -> None:
        for loop in [each for each in list(self._loops) if each.is_closed()]:
            self._loops.pop(loop, None)


class _LoopFlights:
    """The requests in flight of one event loop."""

    def __init__(self, on_empty: Callable[[_LoopFlights], None]) -> None:
        self._on_empty = on_empty
        self._owner = TaskOwner(lambda _: None)  # an error is the answer, a cancellation the loop's
        self._futures: dict[Hashable, asyncio.Future[Any]] = {}
        """The results that others may wait for; another thread may forget them."""
        self._flying: set[asyncio.Future[Any]] = set()
        """All results that are awaited."""

    async def share(self, key: Hashable, call: Callable[[], Awaitable[Any]]) -> Any:
        future = self._futures.get(key)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._futures[key] = future
            self._flying.add(future)
            self._owner.start(self._fly(key, call, future), "aioproducer schema registry request")
        try:
            return await asyncio.shield(future)
        except ProducerError as error:
            raise anew(error) from error.__cause__

    def forget(self, unwanted: Callable[[Any], bool]) -> None:
        for key in list(self._futures):
            if unwanted(key):
                self._futures.pop(key, None)

    async def _fly(
        self, key: Hashable, call: Callable[[], Awaitable[Any]], future: asyncio.Future[Any]
    ) -> None:
        try:
            answer = await call()
        except Exception as error:
            if not future.done():
                future.set_exception(error)
                future.exception()  # nobody has to look at it
        except BaseException:
            with suppress(RuntimeError):  # the event loop may have ended
                future.cancel()
            raise
        else:
            if not future.done():
                future.set_result(answer)
        finally:
            if self._futures.get(key) is future:
                self._futures.pop(key, None)
            self._flying.discard(future)
            if not self._flying:
                self._on_empty(self)

    async def close(self) -> None:
        flying, self._futures, self._flying = self._flying, {}, set()
        for future in flying:
            if not future.done():
                future.set_exception(
                    ClientClosedError("the schema registry's client was closed in the meantime")
                )
                future.exception()
        await self._owner.close()
