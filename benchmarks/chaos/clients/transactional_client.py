"""aioproducer with transactions: their records are committed together, or sent again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from aioproducer import FatalTransactionError, ProducerError, RecordMetadata
from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import aioproducer_client
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load
from benchmarks.chaos.transactions.application import until_known

logger = logging.getLogger(__name__)

_RECORDS: Final = 20_000
"""In a transaction."""


class Driver(aioproducer_client.Driver):
    """A record is acknowledged once its transaction is committed."""

    def __init__(
        self, bootstrap_servers: str, load: Load, ledger: Ledger, access: Access | None = None
    ) -> None:
        super().__init__(
            bootstrap_servers,
            load,
            ledger,
            access,
            transactional_id="chaos",
            transaction_timeout_ms=2 * load.delivery_timeout_ms,
        )
        self._numbers: list[int] = []
        """Those of the open transaction."""
        self._futures: list[asyncio.Future[RecordMetadata]] = []
        """Of all of them, unless the transaction has failed already."""

    async def send(self, number: int) -> None:
        if not self._numbers:
            await until_known(self._producer.begin_transaction)
        self._numbers.append(number)
        with suppress(ProducerError):  # the commit will say so
            self._futures.append(self._begin(number))
            await self._producer.drain()
        if len(self._numbers) == _RECORDS:
            await self._commit()

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
                self._futures.append(self._begin(number))
                await self._producer.drain()

    async def finish(self, timeout: float) -> None:
        async with asyncio.timeout(timeout):
            if self._numbers:
                await self._commit()
