"""aioproducer with transactions: each thousand records are committed together, or sent again."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aioproducer import FatalTransactionError, Producer, ProducerError, RecordMetadata
from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.clients.aioproducer_client import login
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load, record
from benchmarks.chaos.transactions.application import until_known

logger = logging.getLogger(__name__)

_RECORDS: Final = 1_000
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
        """Those of the next transaction."""

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, number: int) -> None:
        self._numbers.append(number)
        if len(self._numbers) == _RECORDS:
            await self._transact()

    async def _transact(self) -> None:
        """Commit the records, in as many attempts as it takes."""
        numbers, self._numbers = self._numbers, []
        while numbers:
            try:
                await until_known(self._producer.begin_transaction)
                futures = [self._send(number) for number in numbers]
                await until_known(self._producer.commit_transaction)
            except FatalTransactionError:
                raise
            except ProducerError as error:
                logger.warning("again from %d on: %s", numbers[0], error)
                await until_known(self._producer.abort_transaction)
            else:
                for number, future in zip(numbers, futures, strict=True):
                    metadata = future.result()
                    self._ledger.deliver(number, metadata.partition, metadata.offset)
                return

    def _send(self, number: int) -> asyncio.Future[RecordMetadata]:
        wanted = record(number)
        return self._producer.send(TOPIC, wanted.value, key=wanted.key, partition=wanted.partition)

    async def finish(self, timeout: float) -> None:
        async with asyncio.timeout(timeout):
            await self._transact()

    async def stop(self) -> None:
        await self._producer.close(10)
