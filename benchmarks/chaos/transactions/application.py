"""The application, a process of its own (``python -m benchmarks.chaos.transactions.application``).

It commits the transactions from the group's offset on, and ends when all are there (exit status 0),
or when it is fenced.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from aioproducer import (
    FatalTransactionError,
    Producer,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    TopicPartition,
)
from benchmarks.chaos.transactions.journal import Journal, Told
from benchmarks.chaos.transactions.plan import (
    GROUP,
    SOURCE,
    TOPICS,
    TRANSACTIONAL_ID,
    Attempt,
    Style,
    is_shared,
    style,
)
from benchmarks.chaos.transactions.read_back import Place, committed_offset

logger = logging.getLogger(__name__)

FENCED: Final = 3
"""The exit status of a client that was told that there is a newer one."""

TIMEOUTS: Final[Mapping[str, Any]] = {
    "request_timeout_ms": 3_000,
    "delivery_timeout_ms": 60_000,
    "max_block_ms": 5_000,
}

_OFFSET_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`bootstrap_servers` is what the producer gets, `straight` leads to the brokers directly."""

    bootstrap_servers: str
    straight: str
    client: int
    transactions: int
    pause: float
    """Seconds between transactions."""


class Application:
    """One client."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._random = Random(settings.client)

    async def run(self) -> int:
        """The exit status."""
        try:
            await self._work()
        except ProducerFencedError as error:
            self._journal.write(Told.FENCED, why=error)
            return FENCED
        return 0

    async def _work(self) -> None:
        producer = await self._started()
        try:
            number = await self._next_number()
            self._journal.write(Told.AT_WORK)
            attempts = 0
            while number < self._settings.transactions:
                attempts += 1
                attempt = Attempt(number, self._settings.client, attempts)
                number = await self._try(producer, attempt)
                await asyncio.sleep(self._settings.pause)
        finally:
            await producer.close()

    async def _started(self) -> Producer:
        while True:
            producer = Producer(
                bootstrap_servers=self._settings.bootstrap_servers,
                transactional_id=TRANSACTIONAL_ID,
                **TIMEOUTS,
            )
            try:
                await producer.start()
            except ProducerTimeoutError as error:
                logger.warning("not started: %s", error)
            else:
                return producer

    async def _next_number(self) -> int:
        place = Place(SOURCE, 0)
        return await asyncio.to_thread(
            committed_offset, self._settings.straight, GROUP, place, _OFFSET_WITHIN
        )

    async def _try(self, producer: Producer, attempt: Attempt) -> int:
        """The number of the next transaction, which is the same one if it was not committed."""
        try:
            match style(attempt):
                case Style.BLOCK:
                    async with producer.transaction(shared=is_shared(attempt)):
                        await self._write(producer, attempt)
                case Style.CALLS:
                    await self._by_calls(producer, attempt)
                case Style.IMPATIENT:
                    async with asyncio.timeout(self._random.uniform(0.0, 0.3)):
                        async with producer.transaction(shared=is_shared(attempt)):
                            await self._write(producer, attempt)
        except FatalTransactionError:
            raise
        except (ProducerError, TimeoutError) as error:
            known = not isinstance(error, TimeoutError) and not hasattr(error, "__notes__")
            told = Told.ABORTED if known else Told.UNKNOWN
            why = f"{type(error).__name__}: {error}"
            self._journal.write(told, attempt, why)
            logger.warning("%s %s: %s", told, attempt, why)
            return await self._next_number()
        self._journal.write(Told.COMMITTED, attempt)
        return attempt.number + 1

    async def _by_calls(self, producer: Producer, attempt: Attempt) -> None:
        """What timed out is called again, until it is known what came of it."""
        try:
            await until_known(partial(producer.begin_transaction, shared=is_shared(attempt)))
            await self._write(producer, attempt)
            await until_known(producer.commit_transaction)
        except FatalTransactionError:
            raise
        except ProducerError as error:
            await until_known(producer.abort_transaction)
            if isinstance(error, ProducerTimeoutError):
                raise ProducerError(f"aborted after {type(error).__name__}: {error}") from error
            raise

    async def _write(self, producer: Producer, attempt: Attempt) -> None:
        if not is_shared(attempt):
            await self._write_into(producer, attempt, TOPICS)
            return
        first, *others = TOPICS
        sent = producer.send(first, attempt.value(), partition=attempt.partition)
        async with Producer(
            bootstrap_servers=self._settings.bootstrap_servers,
            transaction=producer.transaction_handle(),
            **TIMEOUTS,
        ) as participant:
            await self._write_into(participant, attempt, others)
            await participant.flush()
        await sent

    async def _write_into(
        self, producer: Producer, attempt: Attempt, topics: Sequence[str]
    ) -> None:
        futures = [
            producer.send(topic, attempt.value(), partition=attempt.partition) for topic in topics
        ]
        if attempt.attempt % 2:
            await asyncio.wait(futures)
        offset = {TopicPartition(SOURCE, 0): attempt.number + 1}
        await producer.send_offsets_to_transaction(offset, GROUP)


async def until_known(call: Callable[[], Awaitable[None]]) -> None:
    """Call it again as long as it times out."""
    while True:
        try:
            await call()
        except ProducerTimeoutError as error:
            logger.warning("again: %s", error)
        else:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--straight", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--client", required=True, type=int)
    parser.add_argument("--transactions", required=True, type=int)
    parser.add_argument("--pause", required=True, type=float)
    parser.add_argument("--journal", required=True, type=Path)
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO")
    settings = Settings(
        options.bootstrap, options.straight, options.client, options.transactions, options.pause
    )
    return asyncio.run(Application(settings, Journal(options.journal)).run())


if __name__ == "__main__":
    sys.exit(main())
