"""confluent-kafka: idempotent; a full queue is waited for by `poll()`.

It blocks, so its methods are coroutines in name only: the loop under them has nothing else to do.
"""

from __future__ import annotations

import logging
from functools import partial
from time import monotonic
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import TOPIC
from benchmarks.chaos.ledger import NOWHERE, Ledger
from benchmarks.chaos.plan import Load, record

_log = logging.getLogger(__name__)

_FULL_QUEUE_WAIT: Final = 0.05
_NO_PARTITION: Final = -1


def _login(access: Access | None) -> dict[str, str]:
    if access is None:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": access.username,
        "sasl.password": access.password,
        "ssl.ca.location": access.authority,
    }


class Driver:
    def __init__(
        self, bootstrap_servers: str, load: Load, ledger: Ledger, access: Access | None = None
    ) -> None:
        self._ledger = ledger
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "request.timeout.ms": load.request_timeout_ms,
                "socket.timeout.ms": load.request_timeout_ms,
                "message.timeout.ms": load.delivery_timeout_ms,
                **_login(access),
            }
        )

    async def start(self) -> None:
        pass

    async def send(self, number: int) -> None:
        wanted = record(number)
        partition = _NO_PARTITION if wanted.partition is None else wanted.partition
        while True:
            try:
                self._producer.produce(
                    TOPIC,
                    wanted.value,
                    wanted.key,
                    partition,
                    on_delivery=partial(self._delivered, number),
                )
            except BufferError:
                self._poll(_FULL_QUEUE_WAIT)
                continue
            except KafkaException as error:
                self._failed(number, error.args[0])
            self._poll(0)
            return

    def _poll(self, timeout: float) -> None:
        """A fatal error is raised here once, and then is the fate of every record."""
        try:
            self._producer.poll(timeout)
        except (KafkaException, SystemError):  # SystemError: raised with callbacks still to call
            _log.exception("poll() failed")

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(number, error)
            return
        partition, offset = message.partition(), message.offset()
        self._ledger.deliver(
            number,
            NOWHERE if partition is None else partition,
            NOWHERE if offset is None else max(offset, NOWHERE),
        )

    def _failed(self, number: int, error: KafkaError) -> None:
        self._ledger.fail(number, error.name(), error.str(), may_have_been_written=True)

    async def finish(self, timeout: float) -> None:
        deadline = monotonic() + timeout
        while len(self._producer) and monotonic() < deadline:
            self._poll(_FULL_QUEUE_WAIT)

    async def stop(self) -> None:
        self._producer.purge()
