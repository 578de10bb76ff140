"""The requests of telemetry, sent between the client's own on connections that are there.

Source: Kafka's ``TelemetrySender``. Unlike there, no connection is opened for telemetry, unless a
caller waits for the client instance id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aioproducer.engine.client.requester import NEVER, Peers, Requester
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.protocol import Api
from aioproducer.engine.telemetry.subscription import (
    TERMINATION_SECONDS,
    GetTelemetrySubscriptionsRequest,
    MetricGroups,
    PushTelemetryRequest,
    SubscriptionResponse,
    TelemetryState,
    TelemetryStates,
)
from aioproducer.errors import ProducerError, ProducerTimeoutError, UnsupportedVersionError
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import ModuleLogger, counted, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import NodeId, Peer

if TYPE_CHECKING:
    from uuid import UUID

    from aioproducer.engine.telemetry.payload_maker import MadePayload, PayloadMaker

logger = ModuleLogger(__name__)

_UNSUPPORTED: Final = (
    "the brokers do not accept client metrics, so they assign no client instance id: that needs "
    "Kafka 3.7, and a class in the brokers' metric.reporters that implements ClientTelemetry"
)


class TelemetryRequester(Requester):
    """One request at a time. ``new_maker`` loads the maker of payloads before the first push.

    ``groups``: the metrics of the client. ``has_finished``: true once the client closes and has
    nothing else left to do: the last push follows.
    """

    requests = (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)

    def __init__(
        self,
        states: TelemetryStates,
        groups: Callable[[], MetricGroups],
        new_maker: Callable[[], Awaitable[PayloadMaker]],
        client: NetworkClient,
        cluster: Peers,
        has_finished: Callable[[], bool],
        owner: TaskOwner,
        wakeup: Wakeup,
    ) -> None:
        super().__init__(wakeup.wake)
        self._states = states
        self._groups = groups
        self._new_maker = new_maker
        self._client = client
        self._cluster = cluster
        self._has_finished = has_finished
        self._owner = owner
        self._clock = wakeup.clock
        self._maker: PayloadMaker | None = None
        self._node: NodeId | None = None
        """The broker of the last request, which is kept while it is connected (KIP-714)."""
        self._connections_seen = 0
        """The connections that were opened when a broker was looked for in vain."""
        self._preparation: asyncio.Task[None] | None = None
        self._made: MadePayload | None = None
        """The payload of the next push, or of the push in flight."""
        self._end: float | None = None
        """The time at which the last push is given up; None: the client is not closing."""
        self._waiters: list[asyncio.Future[UUID | ProducerError]] = []
        self._written: set[str] = set()
        """The lines of the log that are not repeated."""

    # --- rounds of the sender --------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """True if the last push has ended."""
        return self._states.state is TelemetryState.TERMINATED

    def step(self, now: float) -> None:
        """Send the request that is due."""
        self.waits = False
        states = self._states
        if self._has_finished():
            self._close(now)
        if self._waiters:
            self._serve_waiters(now)
        if states.due <= now:
            self.due = self._request(now)
        else:
            if states.due == NEVER:
                self._look_for_connection(now)
            self.due = states.due
        if self._end is not None and not self.idle:
            self.due = min(self.due, self._end)

    def _look_for_connection(self, now: float) -> None:
        """Begin when the first broker that supports telemetry is connected."""
        opened = self._client.connections_opened
        if opened == self._connections_seen:
            return
        if self._states.state is TelemetryState.SUBSCRIPTION_NEEDED and self._supporting():
            self._states.connected(now)
        else:
            self._connections_seen = opened

    def _supporting(self) -> list[Peer]:
        return self._client.supporting(Api.GET_TELEMETRY_SUBSCRIPTIONS, self._cluster.peers)

    def _request(self, now: float) -> float:
        """Send the request that is due, if possible. Returns the time of the next attempt."""
        supporting = self._supporting()
        if not supporting:
            return self._without_connection(now)
        peers = [each for each in supporting if each.id == self._node] or supporting
        peer = self._client.least_loaded(peers, now)
        if peer is None or not self._client.can_send(peer.id, now):
            self.waits = True
            return self._client.next_chance(peers, now) or NEVER
        self._node = node = peer.id
        states = self._states
        if states.state is TelemetryState.SUBSCRIPTION_NEEDED:
            states.asked()
            request = GetTelemetrySubscriptionsRequest(states.client_instance_id, self._groups)
            self._client.send(node, request, now)
        elif self._made is not None:
            self._push(node, self._made, now)
        elif self._preparation is None:
            self._preparation = self._owner.start(self._prepare(), "aioproducer-telemetry")
        return NEVER

    def _without_connection(self, now: float) -> float:
        if self._end is not None:
            self._states.end()
            return NEVER
        if not self._waiters:
            self.waits = True  # the peers may become those that are connected
            return NEVER
        peers = self._cluster.peers
        node = self._client.least_loaded(peers, now)
        if node is not None:
            self._client.ready(node, now)
        refusal = self._client.refusal(peers)
        if refusal is not None:
            self._tell(refusal)
        return self._client.next_chance(peers, now) or NEVER

    # --- pushes ----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Make the next payload. An error ends telemetry, and nothing else."""
        states = self._states
        try:
            self._maker = maker = self._maker or await self._new_maker()
            assert states.subscription is not None
            made = await maker.make(states.subscription, states.refused_codecs, states.max_bytes)
        except Exception as error:
            what = "The payload of a push can't be made"
            logger.repeated(logging.DEBUG, what, what, exc_info=error)
            self._ended(ProducerError(f"a payload can't be made: {error!r}"))
        else:
            self._made = made
            if made is None:
                self._info(
                    "No metrics are pushed: the brokers allow only %d bytes", states.max_bytes
                )
                states.skipped(self._clock())
            elif made.payload.left_out:
                left_out = " and ".join(made.payload.left_out)
                what = "Metrics are pushed without %s: the brokers allow only %d bytes"
                self._info(what, left_out, states.max_bytes)
        self._preparation = None
        self.due_now()

    def _push(self, node: NodeId, made: MadePayload, now: float) -> None:
        states = self._states
        assert states.subscription is not None
        assert states.client_instance_id is not None
        request = PushTelemetryRequest(
            client_instance_id=states.client_instance_id,
            subscription_id=states.subscription.subscription_id,
            terminating=states.state is TelemetryState.TERMINATING_PUSH_NEEDED,
            compression_type=made.payload.compression_id,
            metrics=made.payload.data,
        )
        states.pushed()
        self._client.send(node, request, now)

    def _drop_payload(self) -> None:
        """Create the next payload from the start."""
        self._made = None
        if self._preparation is not None:
            self._owner.cancel(self._preparation)
            self._preparation = None

    # --- responses -------------------------------------------------------------------------

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        if completion.error is not None:
            error = completion.error
            logger.debug("A telemetry request was lost: %s", error, error=error)
            self._states.lost(now)
            self._made = None
        elif isinstance(completion.request, PushTelemetryRequest):
            self._handle_push(completion.result, now)
        else:
            self._handle_subscription(completion.result, now)

    def _handle_subscription(self, response: SubscriptionResponse, now: float) -> None:
        states = self._states
        states.subscribed(response, now)
        if states.refusal is not None:
            self._ended(states.refusal)
        elif states.state is TelemetryState.PUSH_NEEDED:
            interval, metrics = response.subscription.interval, response.subscription.selection
            instance_id = str(states.client_instance_id)
            logger.debug(
                "The brokers ask for %s every %s",
                counted(len(metrics), "metric"),
                duration(interval),
            )
            self._info(
                "The brokers subscribe to metrics and get them every %s from client instance id %s",
                duration(interval),
                instance_id,
                client_instance_id=instance_id,
            )

    def _handle_push(self, code: int, now: float) -> None:
        states, made = self._states, self._made
        self._made = None
        if made is None or self._maker is None:
            return
        if not code:
            self._maker.acknowledge(made)
        else:
            logger.debug("A push was refused with the error code %d", code, code=code)
        states.push_ended(code, len(made.payload.data), made.payload.compression_id, now)
        if states.refusal is not None:
            self._ended(states.refusal)

    def _ended(self, reason: ProducerError) -> None:
        self._states.end(reason)
        self._info("Metrics are no longer pushed to the brokers: %s", reason, error=reason)

    def _info(self, text: str, *values: object, **fields: object) -> None:
        """Write a line at INFO, once in the client's life."""
        if text not in self._written:
            self._written.add(text)
            logger.info(text, *values, **fields)

    # --- the client instance id ------------------------------------------------------------

    async def client_instance_id(self, timeout: float) -> UUID:
        """The id that a broker has assigned; waited for up to ``timeout`` seconds.

        A connection is opened if there is none. Raises the reason that there is no id.
        """
        known = self._states.client_instance_id
        if known is not None:
            return known
        if self._states.refusal is not None:
            raise anew(self._states.refusal)
        waiter: asyncio.Future[UUID | ProducerError] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.due_now()
        try:
            async with PatientTimeout(timeout):
                result = await waiter
        except TimeoutError:
            failures = "; ".join(map(str, self._client.failures().values()))
            raise ProducerTimeoutError(
                f"no broker has assigned a client instance id within {duration(timeout)}"
                f"{': ' if failures else ''}{failures}"
            ) from None
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        if isinstance(result, ProducerError):
            raise anew(result)
        return result

    def _serve_waiters(self, now: float) -> None:
        states = self._states
        result: UUID | ProducerError | None = states.client_instance_id or states.refusal
        if result is not None:
            self._tell(result)
        elif self._supporting():
            states.hurry(now)
        elif self._client.reaches(self._cluster.peers):
            self._tell(UnsupportedVersionError(_UNSUPPORTED))
        else:
            states.hurry(now)

    def _tell(self, result: UUID | ProducerError) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(result)

    # --- the end ---------------------------------------------------------------------------

    def _close(self, now: float) -> None:
        """The client has finished: push once more, if there is time and a connection."""
        if self._end is None:
            self._end = now + TERMINATION_SECONDS
        states = self._states
        if states.state is TelemetryState.PUSH_NEEDED:
            self._drop_payload()
        states.close(now)
        if now >= self._end:
            states.end()

    def close(self, error: ProducerError) -> None:
        """Raise ``error`` in the calls that wait; there are no more requests."""
        self._states.end()
        self._tell(error)
