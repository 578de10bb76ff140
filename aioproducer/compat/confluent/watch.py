"""Events of the configuration's callbacks: errors of brokers, throttling, and statistics.

A task of the event loop looks at the connections ten times a second, if a callback asks for it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic_ns, time
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError, record_error
from aioproducer.compat.confluent.options import Settings
from aioproducer.compat.confluent.records import Outbox
from aioproducer.engine.client.describe_request import DescribeRequest
from aioproducer.engine.core.engine import Engine
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.errors import NetworkError, ProducerError

__all__ = ["Call", "ThrottleEvent", "Watch"]

_NO_TOPICS: Final = DescribeRequest(())
_EVERY: Final = 0.1
_MICRO: Final = 1_000


class ThrottleEvent:
    """A broker has asked this client to pause.

    Args:
        broker_name: the broker's address.
        broker_id: its id.
        throttle_time: the pause, in seconds.
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
        self._throttled: dict[object, float] = {}
        self._all_down = False

    def begin(self) -> None:
        """Connect, as librdkafka does before the first record, and start what callbacks need."""
        if not self._settings.offline:
            self._engine.start_task(self._connect(), "confluent-connect")
        if self._settings.error_cb is not None or self._settings.throttle_cb is not None:
            self._engine.start_task(self._look(), "confluent-watch")
        if self._settings.stats_cb is not None and self._settings.statistics_seconds:
            self._engine.start_task(self._count(), "confluent-statistics")

    async def _connect(self) -> None:
        with suppress(ProducerError):  # ``error_cb`` hears of it
            await self._engine.queries.request(_NO_TOPICS)

    async def _look(self) -> None:
        while True:
            connections = self._engine.parts.client.connections()
            if (callback := self._settings.error_cb) is not None:
                for error in self._errors(connections):
                    self._outbox.put(Call(callback, error))
            if (callback := self._settings.throttle_cb) is not None:
                for event in self._pauses(connections):
                    self._outbox.put(Call(callback, event))
            await asyncio.sleep(_EVERY)

    def _errors(self, connections: list[ConnectionView]) -> Iterator[KafkaError]:
        failing = 0
        for each in connections:
            if each.error is None:
                self._known.pop(each.node, None)
                continue
            failing += 1
            if self._known.get(each.node) is not each.error:
                self._known[each.node] = each.error
                yield _broker_error(each.error)
        down = failing > 0 and failing == len(connections)
        if down and not self._all_down:
            yield KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{failing}/{failing} brokers are down")
        self._all_down = down

    def _pauses(self, connections: list[ConnectionView]) -> Iterator[ThrottleEvent]:
        now = self._engine.clock()
        for each in connections:
            until = each.throttled_until
            if until > now and self._throttled.get(each.node) != until:
                self._throttled[each.node] = until
                yield ThrottleEvent(_name(each), _number(each), until - now)

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
                    "nodeid": _number(each),
                    "state": "UP" if each.is_ready else "CONNECT" if each.is_connecting else "DOWN",
                    "waitresp_cnt": each.in_flight,
                }
                for each in self._engine.parts.client.connections()
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


def _broker_error(error: ProducerError) -> KafkaError:
    made = record_error(error)
    code = made.code()
    if isinstance(error, NetworkError) and isinstance(error.__cause__, socket.gaierror):
        code = KafkaError._RESOLVE
    told = KafkaError(code, str(error))
    told.cause = error
    return told


def _name(connection: ConnectionView) -> str:
    peer = connection.peer
    where = "" if peer is None else f"{peer.host}:{peer.port}"
    number = _number(connection)
    return f"{where}/{'bootstrap' if number < 0 else number}"


def _number(connection: ConnectionView) -> int:
    return -1 if isinstance(connection.node, str) else int(connection.node)


def _whole(counts: Any, name: str) -> int:
    return int(counts.get(name, 0))
