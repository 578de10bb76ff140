"""A load of orders on a web application: every answer is kept, and compared with the topic."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple, Self

import aiohttp

from tests.support.waiting import until

CUSTOMERS: Final = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one order."""

    order: bytes
    customer: bytes
    began: float
    """The time by the monotonic clock."""
    seconds: float
    status: int | None
    """None: the connection was refused, or ended without an answer."""
    body: Any = None
    retry_after: str | None = None


class Place(NamedTuple):
    """A record of the topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class OrderLoad:
    """Posts orders by keep-alive connections, each with one order at a time."""

    def __init__(self, url: str, connections: int, padding: int = 0) -> None:
        self.answers: list[Answer] = []
        self._url = url
        self._connections = connections
        self._padding = b" " * padding
        self._numbers = count()
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(60)
        )
        self._tasks = [asyncio.create_task(self._post()) for _ in range(self._connections)]
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            await self._session.close()

    async def stop(self) -> None:
        """Await the answers of the orders on their way, and send no more."""
        self._stopped = True
        async with asyncio.timeout(60):
            await asyncio.gather(*self._tasks)

    async def _post(self) -> None:
        """One connection; it ends when the server accepts no more."""
        while not self._stopped and (await self.post(next(self._numbers))).status is not None:
            pass

    async def post(self, number: int) -> Answer:
        """One order."""
        customer = f"customer-{number % CUSTOMERS}"
        order = b"%d" % number + self._padding
        began = time.monotonic()
        status, body, retry_after = None, None, None
        try:
            async with self._session.post(f"{self._url}/orders/{customer}", data=order) as answer:
                body = await answer.json()
                status, retry_after = answer.status, answer.headers.get("Retry-After")
        except aiohttp.ClientConnectionError:
            pass
        seconds = time.monotonic() - began
        found = Answer(order, customer.encode(), began, seconds, status, body, retry_after)
        self.answers.append(found)
        return found

    def in_flight(self, at: float) -> list[Answer]:
        """The answers to orders that were on their way at a time, to be called after the end."""
        return [each for each in self.answers if each.began <= at < each.began + each.seconds]

    def statuses(self, since: int = 0) -> Counter[int | None]:
        """The answers from number ``since`` on, by status."""
        return Counter(answer.status for answer in self.answers[since:])

    async def answered(self, status: int, number: int = 1) -> None:
        """Wait for so many more answers with ``status``."""
        since = len(self.answers)
        await until(
            lambda: self.statuses(since)[status] >= number,
            f"{number} answers with {status}; there are {self.statuses()}",
            60,
        )


_A_MOMENT: Final = 0.5


def check_answers(answers: Iterable[Answer], topic: Iterable[Place], within: float) -> None:
    """Each answer came ``within`` seconds, and says the truth about the ``topic``.

    The application bounds a record by that time, and a busy machine takes a moment to say so.
    """
    log = {(each.partition, each.offset): each for each in topic}
    times = Counter(each.value for each in log.values())
    assert times.total() == len(log)
    for answer in answers:
        assert answer.seconds < within + _A_MOMENT, answer
        assert times[answer.order] <= 1, f"{answer} is there {times[answer.order]} times"
        if answer.status == 201:
            record = log[answer.body["partition"], answer.body["offset"]]
            assert (record.key, record.value) == (answer.customer, answer.order)
        elif answer.status is None:
            assert times[answer.order] == 0, f"{answer} is in the topic"
        else:
            assert answer.status == 503, answer
            may_be_there = answer.body["may_have_been_written"]
            assert answer.retry_after == (None if may_be_there else "1"), answer
            assert may_be_there or times[answer.order] == 0, f"{answer} is in the topic"
