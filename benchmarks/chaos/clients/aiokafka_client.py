"""aiokafka: idempotent; the flow control is a bounded number of futures."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load, record

_FUTURES_AT_ONCE: Final = 20_000
# It has one timeout for a request, for room in memory and for a batch without leader.
_REQUEST_TIMEOUTS: Final = 2


def _login(access: Access | None) -> dict[str, Any]:
    if access is None:
        return {}
    return {
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=access.authority),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": access.username,
        "sasl_plain_password": access.password,
    }


class Driver:
    def __init__(
        self, bootstrap_servers: str, load: Load, ledger: Ledger, access: Access | None = None
    ) -> None:
        self._ledger = ledger
        self._room = asyncio.Semaphore(_FUTURES_AT_ONCE)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            enable_idempotence=True,
            acks="all",
            request_timeout_ms=_REQUEST_TIMEOUTS * load.request_timeout_ms,
            **_login(access),
        )

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, number: int) -> None:
        wanted = record(number)
        await self._room.acquire()
        try:
            future = await self._producer.send(
                TOPIC, wanted.value, key=wanted.key, partition=wanted.partition
            )
        except KafkaError as error:
            self._room.release()
            self._failed(number, error)
        else:
            future.add_done_callback(partial(self._done, number))

    def _done(self, number: int, future: asyncio.Future[Any]) -> None:
        self._room.release()
        if future.cancelled():
            self._ledger.fail(number, "cancelled", "", may_have_been_written=True)
        elif (error := future.exception()) is not None:
            self._failed(number, error)
        else:
            metadata = future.result()
            self._ledger.deliver(number, metadata.partition, metadata.offset)

    def _failed(self, number: int, error: BaseException) -> None:
        self._ledger.fail(number, type(error).__name__, str(error), may_have_been_written=True)

    async def finish(self, timeout: float) -> None:
        await asyncio.wait_for(self._producer.flush(), timeout)

    async def stop(self) -> None:
        await asyncio.wait_for(self._producer.stop(), 10)
