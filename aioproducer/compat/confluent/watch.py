"""Events of the configuration's callbacks: errors of brokers, throttling, statistics, log lines.

If there is an ``error_cb``, a task of the event loop looks at the connections ten times a second.
With the option ``logger``, ``poll()`` hands the producer's log lines over.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic_ns, time
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError, NoTokenError, broker_error
from aioproducer.compat.confluent.options import Settings
from aioproducer.compat.confluent.records import Outbox
from aioproducer.engine.client.requests import DescribeRequest
from aioproducer.engine.core.engine import Engine
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.errors import ProducerError
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import NodeId, Peer

__all__ = [
    "LogLines",
    "Call",
    "ThrottleEvent",
    "Watch",
    "start",
]


_ROOT: Final = "aioproducer"


class LogLines(logging.Handler):
    """Appends the lines of the client ``client_id`` to ``outbox``, for the application's logger.

    ``target``: an object with ``log(level, format, *arguments)``.
    """

    def __init__(self, target: Any, outbox: Outbox, client_id: str) -> None:
        super().__init__()
        self._target = target
        self._outbox = outbox
        self._client_id = client_id

    def begin(self) -> None:
        """Take the lines from now on."""
        logging.getLogger(_ROOT).addHandler(self)

    def close(self) -> None:
        """Take no more lines."""
        logging.getLogger(_ROOT).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line of this client; those of others are not its business."""
        if getattr(record, "client_id", None) == self._client_id:
            self._outbox.put(_Line(self._target, record.levelno, record.getMessage()))


class _Line:
    """One line, for ``poll()``."""

    __slots__ = ("_level", "_target", "_text")

    def __init__(self, target: Any, level: int, text: str) -> None:
        self._target = target
        self._level = level
        self._text = text

    def serve(self) -> object:
        """Hand it over."""
        return self._target.log(self._level, "%s", self._text)


_NO_TOPICS: Final = DescribeRequest(())
_EVERY: Final = 0.1
_MICRO: Final = 1_000
_SECONDS_FOR_A_TOKEN: Final = 10
_LATE: Final = f"OAuth token not set within {_SECONDS_FOR_A_TOKEN} seconds timeout"


class ThrottleEvent:
    """A broker has asked this client to pause, or no longer does.

    Args:
        broker_name: the broker's address.
        broker_id: its id.
        throttle_time: the pause, in seconds; 0 after the last one.
    """

    def __init__(self, broker_name: str, broker_id: int, throttle_time: float) -> None:
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.throttle_time = throttle_time

    def __str__(self) -> str:
        pause = int(self.throttle_time * 1000)
        return f"{self.broker_name}/{self.broker_id} throttled for {pause} ms"


class Call:
    """A callback of the configuration with its argument."""

    __slots__ = ("_argument", "_callback")

    def __init__(self, callback: Callable[[Any], object], argument: Any) -> None:
        self._callback = callback
        self._argument = argument

    def serve(self) -> object:
        """Call it; the answer matters only to a callback that is asynchronous."""
        return self._callback(self._argument)


class Watch:
    """Turns what happens to the connections of ``engine`` into events."""

    def __init__(self, settings: Settings, outbox: Outbox, engine: Engine, client_id: str) -> None:
        self._settings = settings
        self._outbox = outbox
        self._engine = engine
        self._client_id = client_id
        self._started = time()
        self._known: dict[object, ProducerError] = {}
        """The errors that ``error_cb`` has heard of, by node."""
        self._all_down = False

    def begin(self) -> None:
        """Connect, as librdkafka does before the first record, and start what callbacks need."""
        self._engine.tasks.start(self._connect(), "confluent-connect")
        if self._settings.error_cb is not None:
            self._engine.tasks.start(self._look(self._settings.error_cb), "confluent-watch")
        if self._settings.throttle_cb is not None:
            self._engine.client.throttled = self._throttled
        if self._settings.stats_cb is not None and self._settings.statistics_seconds:
            self._engine.tasks.start(self._count(), "confluent-statistics")

    async def _connect(self) -> None:
        with suppress(ProducerError):  # ``error_cb`` hears of it
            await self._engine.queries.request(_NO_TOPICS)

    async def _look(self, callback: Callable[[KafkaError], object]) -> None:
        while True:
            for error in self._errors(self._engine.client.connections()):
                self._outbox.put(Call(callback, error))
            await asyncio.sleep(_EVERY)

    def _throttled(self, broker: Peer, seconds: float) -> None:
        event = ThrottleEvent(broker.address, _number(broker.id), seconds)
        callback = self._settings.throttle_cb
        assert callback is not None
        self._outbox.put(Call(callback, event))

    def _errors(self, connections: list[ConnectionView]) -> Iterator[KafkaError]:
        failing = 0
        for each in connections:
            if each.error is None:
                self._known.pop(each.node, None)
                continue
            failing += 1
            if self._known.get(each.node) is not each.error:
                self._known[each.node] = each.error
                yield broker_error(each.error)
        down = failing > 0 and failing == len(connections)
        if down and not self._all_down:
            yield KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{failing}/{failing} brokers are down")
        self._all_down = down

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(self._settings.statistics_seconds)
            callback = self._settings.stats_cb
            if callback is not None:
                self._outbox.put(Call(callback, json.dumps(self._statistics())))

    def _statistics(self) -> dict[str, Any]:
        """The counts under librdkafka's names, as far as the producer has them."""
        metrics = self._engine.snapshot_metrics()
        whole = metrics["producer-metrics"]
        outbox, settings = self._outbox, self._settings
        return {
            "name": self._client_id,
            "client_id": settings.config.client_id or self._client_id,
            "type": "producer",
            "ts": monotonic_ns() // _MICRO,
            "time": int(time()),
            "age": int((time() - self._started) * 1_000_000),
            "replyq": len(outbox.events),
            "msg_cnt": len(outbox),
            "msg_size": outbox.bytes,
            "msg_max": settings.max_messages,
            "msg_size_max": settings.max_bytes,
            "tx": _whole(whole, "request-total"),
            "tx_bytes": _whole(whole, "outgoing-byte-total"),
            "rx": _whole(whole, "response-total"),
            "rx_bytes": _whole(whole, "incoming-byte-total"),
            "txmsgs": _whole(whole, "record-send-total"),
            "brokers": {
                _name(each): {
                    "name": _name(each),
                    "nodeid": _number(each.node),
                    "state": "UP" if each.is_ready else "CONNECT" if each.is_connecting else "DOWN",
                    "waitresp_cnt": each.in_flight,
                }
                for each in self._engine.client.connections()
            },
            "topics": {
                topic: {
                    "topic": topic,
                    "txmsgs": _whole(counts, "record-send-total"),
                    "txbytes": _whole(counts, "byte-total"),
                    "errors": _whole(counts, "record-error-total"),
                }
                for topic, counts in metrics["producer-topic-metrics"].items()
            },
        }


async def start(core: ProducerCore, settings: Settings, outbox: Outbox) -> None:
    """Start the core of a producer as librdkafka starts: without a producer id, and watched.

    Raises:
        ProducerError: as :meth:`ProducerCore.start`.
        NoTokenError: ``oauth_cb`` gives no token.
    """
    await core.start(initialize=False)
    engine = core.engine
    accumulator = engine.accumulator
    pending = accumulator.pending
    engine.ack_within(settings.ack_timeout_ms)
    accumulator.partitioner = settings.partition
    pending.fails_at_refused_logins = False
    if settings.offline:
        engine.metadata.set_bootstrap(())
    mechanism = engine.mechanism
    if settings.asks_for_tokens and mechanism is not None:
        try:
            async with PatientTimeout(_SECONDS_FOR_A_TOKEN):
                await mechanism.begin("")
        except TimeoutError:
            raise NoTokenError(_LATE) from None
        except ProducerError as error:
            raise NoTokenError(str(error)) from error
    Watch(settings, outbox, core.engine, core.client_id).begin()


def _name(connection: ConnectionView) -> str:
    peer = connection.peer
    where = "" if peer is None else f"{peer.host}:{peer.port}"
    number = _number(connection.node)
    return f"{where}/{'bootstrap' if number < 0 else number}"


def _number(node: NodeId) -> int:
    return -1 if isinstance(node, str) else int(node)


def _whole(counts: Any, name: str) -> int:
    return int(counts.get(name, 0))
