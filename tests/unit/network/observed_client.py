"""A NetworkClient over fake connections: the test says what happens to each."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, cast

from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.metrics.names import GAUGES
from aioproducer.engine.network.connection import (
    Connection,
    ConnectionEvents,
    ConnectionSettings,
    Phase,
)
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import (
    LENGTH_BYTES,
    EncodedPayload,
    InFlightRequest,
    InFlightRequests,
    request_form,
)
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.timeouts import ConnectionTimeouts
from aioproducer.engine.network.transport import SocketSettings
from aioproducer.engine.network.versions import BrokerVersions
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    BrokerConnectionError,
    ProducerError,
)
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import Node
from tests.support.clock import NoJitter
from tests.support.kio_messages import milliseconds, ours, response_module, sample
from tests.support.waiting import settle

ONE, TWO, THREE = (Node(number, f"host{number}", 9092) for number in (1, 2, 3))


SETTINGS = ClientSettings(
    connection=ConnectionSettings("c", "1", 30.0, SocketSettings(-1, -1), 540.0),
    max_in_flight=2,
    setup_timeout=10.0,
    setup_timeout_max=30.0,
    reconnect_backoff=1.0,
    reconnect_backoff_max=4.0,
)


class FakeTransport:
    """In place of a socket's transport: it keeps what is written."""

    def __init__(self) -> None:
        self.payloads: list[str] = []
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def writelines(self, pieces: Sequence[bytes]) -> None:
        frame = b"".join(pieces)
        api, version = struct.unpack_from(">hh", frame, LENGTH_BYTES)
        header = request_form(Api(api), version, "c").size
        self.payloads.append(frame[LENGTH_BYTES + header :].decode())

    def set_write_buffer_limits(self, *, high: int) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return 1  # until the test says that everything left


class ScriptedTimeouts(ConnectionTimeouts):
    """The test says whether the bytes of a late request pass."""

    look_again: float | None = None

    def passes_until(self, late: InFlightRequest, now: float) -> float | None:
        return self.look_again


class FakeConnection:
    """In place of a Connection: the test says what happens to it."""

    def __init__(
        self, node: Node, settings: ConnectionSettings, events: ConnectionEvents, **given: Any
    ) -> None:
        self.node = node
        self.given = given
        self.setup_timeout: float = given["setup_timeout"]
        self.clock: RunningClock = given["clock"]
        self.events: Any = events
        self.phase = Phase.CONNECTING
        self.hung_up_at: int | None = None
        self.asks_for_login = False
        self.in_flight = InFlightRequests()
        self.versions = BrokerVersions([(api, 0, 9) for api in (0, 3, 22)])
        self.renewal_seconds = 0.25
        self.aborted: list[ProducerError] = []
        self.timeouts = ScriptedTimeouts(
            node, settings.request_timeout, settings.max_idle, self.clock
        )
        self.transport = FakeTransport()
        self.exchange = Exchange(
            node.id,
            "c",
            self.clock,
            self.in_flight,
            self.clock() + self.clock.lost,
            lambda *_: None,
            lambda *_: None,
            partial(events.written, cast("Connection", self)),
        )
        self.exchange.transport = cast("asyncio.Transport", self.transport)
        self._end: asyncio.Future[ProducerError] = asyncio.get_running_loop().create_future()

    @property
    def written(self) -> list[str]:
        return self.transport.payloads

    def abort(self, reason: ProducerError) -> None:
        self.aborted.append(reason)
        self.transport.is_aborted = True
        self._ends(reason)

    def _ends(self, reason: ProducerError) -> None:
        if not self._end.done():
            self.phase = Phase.LOST if self.phase.is_connected else Phase.FAILED
            self._end.set_result(reason)

    async def run(self) -> ProducerError:
        return await self._end

    # what the test makes happen

    def becomes_ready(self) -> None:
        self.phase, self.exchange.usable_until = Phase.READY, inf
        self.timeouts.opened(self.exchange, None)
        self.events.ready(self)

    def everything_left(self) -> None:
        for request in self.in_flight.take_written():
            self.events.written(self, request)

    async def breaks(self, reason: ProducerError | None = None) -> None:
        self._ends(reason or BrokerConnectionError("broken"))
        await settle()


@dataclass(frozen=True)
class Wrong:
    """A response that can't be read."""

    error: Exception


@dataclass(frozen=True)
class Ask:
    """A request as the sender's are."""

    name: str
    api: Api = Api.METADATA
    answered: bool = True
    error: ProducerError | None = None

    def build(self, version: int) -> Any:
        if self.error is not None:
            raise self.error
        return EncodedPayload(self.api, version, (f"{self.name} in v{version}".encode(),))

    def read(self, response: Any) -> Any:
        if isinstance(response, Wrong):
            raise response.error
        return response


class ObservedClient:
    """A client over fake connections, its clock, and its calls of others."""

    def __init__(self, settings: ClientSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.woken = 0
        self.deaths: list[BaseException] = []
        self.owner = TaskOwner(self.deaths.append)
        self.metrics = ProducerMetrics(now=self.now)
        self.connections: list[FakeConnection] = []
        self.clock = RunningClock(lambda: self.now)
        self.client = NetworkClient(
            settings,
            self.owner,
            self.clock,
            NoJitter(),
            self._wake,
            self.metrics,
            cast("Callable[..., Connection]", self._connect),
        )

    def send(self, node: int, request: Ask) -> None:
        """Send a request by the client, now."""
        self.client.send(node, request, self.clock())

    def _connect(self, *given: Any, **named: Any) -> FakeConnection:
        self.connections.append(FakeConnection(*given, **named))
        return self.connections[-1]

    def _wake(self) -> None:
        self.woken += 1

    def stop(self, seconds: float) -> None:
        """Let ``seconds`` go by in which the process does not run."""
        self.clock.limit = self.clock()
        self.now += seconds
        self.clock.turn()
        self.clock.limit = float("inf")

    async def connected(self, node: Node) -> FakeConnection:
        """A ready connection to ``node``."""
        assert not self.client.ready(node, self.now)
        await settle()
        connection = self.connections[-1]
        connection.becomes_ready()
        return connection

    def metric(self, name: str) -> float:
        gauges = {each.name: float("nan") for each in GAUGES}
        found: Any = self.metrics.snapshot(self.now, gauges=gauges)
        return float(found["producer-metrics"][name])

    def throttled(self) -> float:
        """The longest throttle time in the metrics, milliseconds."""
        return self.metric("produce-throttle-time-max")

    def outcomes(self) -> list[tuple[str, Any]]:
        """Name and response or error of what was completed."""
        return [
            (each.request.name, each.error or each.result) for each in self.client.take_completed()
        ]


def answer(connection: FakeConnection, response: Any = "response") -> None:
    """The broker answers the first request."""
    first = connection.in_flight.popleft()
    connection.events.response(connection, first, response, 50, connection.clock())


def asks_for_a_pause(world: ObservedClient, node: int, seconds: float) -> None:
    """Its answer to a request that was sent before does."""
    connection = next(each for each in world.connections[::-1] if each.node.id == node)
    payload = Ask("before").build(9)
    connection.exchange.send(payload, Ask("before"), connection.clock())
    request = connection.in_flight.take_all()[-1]
    parts: Any = response_module(Api.INIT_PRODUCER_ID, 5)
    pause = milliseconds(round(seconds * 1000))
    said = ours(sample(parts.InitProducerIdResponse, {"throttle_time": pause}))
    connection.events.response(connection, request, said, 100, connection.clock())
