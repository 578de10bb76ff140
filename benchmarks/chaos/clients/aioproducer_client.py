"""aioproducer: its defaults are idempotent; `drain()` is the flow control."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from aioproducer import Producer, ProducerError, RecordMetadata
from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load, record


def _login(access: Access | None) -> dict[str, Any]:
    if access is None:
        return {}
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": access.username,
        "sasl_password": access.password,
        "ssl_truststore_location": access.authority,
    }


class Driver:
    def __init__(
        self,
        bootstrap_servers: str,
        load: Load,
        ledger: Ledger,
        access: Access | None = None,
        **options: Any,
    ) -> None:
        self._ledger = ledger
        self._producer = Producer(
            bootstrap_servers=bootstrap_servers,
            request_timeout_ms=load.request_timeout_ms,
            delivery_timeout_ms=load.delivery_timeout_ms,
            **_login(access),
            **options,
        )

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, number: int) -> None:
        try:
            future = self._begin(number)
        except ProducerError as error:
            self._failed(number, error)
        else:
            future.add_done_callback(partial(self._done, number))
        await self._producer.drain()

    def _begin(self, number: int) -> asyncio.Future[RecordMetadata]:
        wanted = record(number)
        return self._producer.send(TOPIC, wanted.value, key=wanted.key, partition=wanted.partition)

    def _done(self, number: int, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            self._ledger.fail(number, "cancelled", "", may_have_been_written=True)
        elif (error := future.exception()) is not None:
            self._failed(number, error)
        else:
            metadata = future.result()
            self._ledger.deliver(number, metadata.partition, metadata.offset)

    def _failed(self, number: int, error: BaseException) -> None:
        self._ledger.fail(
            number,
            type(error).__name__,
            str(error),
            may_have_been_written=getattr(error, "may_have_been_written", True),
        )

    async def finish(self, timeout: float) -> None:
        await self._producer.flush(timeout)

    async def stop(self) -> None:
        await self._producer.close(10)
