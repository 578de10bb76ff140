"""aioproducer with transactions: their records are committed together, or sent again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from aioproducer import FatalTransactionError, Producer, ProducerError, RecordMetadata
from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.clients.aioproducer_client import login
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load, record
from benchmarks.chaos.transactions.application import until_known

logger = logging.getLogger(__name__)

_RECORDS: Final = 20_000
"""In a transaction."""


class Driver:
    """A record is acknowledged once its transaction is committed."""

    def __init__(
        self, bootstrap_servers: str, load: Load, ledger: Ledger, access: Access | None = None
    ) -> None:
        self._ledger = ledger
        self._producer = Producer(
            bootstrap_servers=bootstrap_servers,
            transactional_id="chaos",
            transaction_timeout_ms=2 * load.delivery_timeout_ms,
            request_timeout_ms=load.request_timeout_ms,
            delivery_timeout_ms=load.delivery_timeout_ms,
            **login(access),
        )
        self._numbers: list[int] = []
        """Those of the open transaction."""
        self._futures: list[asyncio.Future[RecordMetadata]] = []
        """Of all of them, unless the transaction has failed already."""

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, number: int) -> None:
        if not self._numbers:
            await until_known(self._producer.begin_transaction)
        self._numbers.append(number)
        with suppress(ProducerError):  # the commit will say so
            self._send(number)
            await self._producer.drain()
        if len(self._numbers) == _RECORDS:
            await self._commit()

    def _send(self, number: int) -> None:
        wanted = record(number)
        self._futures.append(
            self._producer.send(TOPIC, wanted.value, key=wanted.key, partition=wanted.partition)
        )

    async def _commit(self) -> None:
        """Commit the transaction, in as many attempts as it takes."""
        while True:
            try:
                await until_known(self._producer.commit_transaction)
            except FatalTransactionError:
                raise
            except ProducerError as error:
                logger.warning("again from %d on: %s", self._numbers[0], error)
                await self._send_again()
            else:
                for number, future in zip(self._numbers, self._futures, strict=True):
                    metadata = future.result()
                    self._ledger.deliver(number, metadata.partition, metadata.offset)
                self._numbers, self._futures = [], []
                return

    async def _send_again(self) -> None:
        await until_known(self._producer.abort_transaction)
        await until_known(self._producer.begin_transaction)
        self._futures = []
        with suppress(ProducerError):
            for number in self._numbers:
                self._send(number)
                await self._producer.drain()

    async def finish(self, timeout: float) -> None:
        async with asyncio.timeout(timeout):
            if self._numbers:
                await self._commit()

    async def stop(self) -> None:
        await self._producer.close(10)
