"""The connections of an Admin, a Reader or a Consumer, and requests that its callers await.

Source: the threads of Kafka's ``KafkaAdminClient`` and ``ConsumerNetworkClient``; a task here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from random import Random
from typing import Any, Final, TypeVar

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.arguments import limit_of
from aioproducer.engine.client.connections import (
    loads_of_connections,
    loads_of_logins,
    network_client,
    resolved_bootstrap_servers,
    retry_backoff,
    security,
)
from aioproducer.engine.client.environment import current_environment
from aioproducer.engine.client.requester import AdHocRequests, Peers, Requester
from aioproducer.engine.client.requests import ClusterDescription, DescribeRequest
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.cluster.snapshot import KnownPeers, why_no_answer
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.request import Request
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    ClientBrokenError,
    ClientClosedError,
    IllegalStateError,
    NetworkError,
    ProducerError,
    ProducerTimeoutError,
    ProtocolError,
    RebootstrapRequiredError,
    RequestTimeoutError,
    WrongLoopError,
)
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.errors.client import anew
from aioproducer.foundation import logs
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout, sockets_read
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import Load
from aioproducer.model import BootstrapServer, Node, Peer

__all__ = ["ClusterClient"]

logger = logs.ModuleLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Requester)

_CLOSE_SECONDS: Final = 5.0
"""Seconds that connections have to end."""


class ClusterClient:
    """Requests to the brokers of a cluster, on the event loop on which :meth:`start` is called.

    ``name``: the client's class, for errors. ``metrics``: those of another client, if both count as
    one. Times are the clock's seconds.
    """

    loads: Sequence[Load] = ()
    """More imports that the client may need after its start."""
    _left: Sequence[BootstrapServer] = ()
    """The bootstrap servers whose connections end: brokers are connected by their ids."""
    answered: bool = False
    """True once a broker has answered a request."""
    _cluster_id: str | None = None
    """The id of the cluster, once it is known."""

    def __init__(
        self,
        config: ProducerConfig,
        client_id: str,
        name: str,
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self.config = config
        self._environment = environment = current_environment()
        self._wakeup = environment.wakeup(environment.clock)
        self.clock = self._wakeup.clock
        self.real_clock = environment.real_clock
        """Goes on while the machine is suspended, the process stopped or the loop held, as the
        brokers' clocks do."""
        self.wall_clock_ns = environment.wall_clock_ns
        self.random: Random = environment.random()
        self._name = name
        self._process = os.getpid()
        self._state = "not started"
        self._broken: ClientBrokenError | None = None
        self.on_end: Callable[[], None] = lambda: None
        """Called when the client takes no more requests: it was closed, or a part has died."""
        self.on_another_cluster: Callable[[str], bool] = lambda _: True
        """Called with the id of another cluster that is followed; False: it is no news."""
        self._awaited: dict[asyncio.Future[Any], None] = {}
        """The futures of all requests."""
        self._loop: asyncio.AbstractEventLoop
        self.log = logs.ClientLog(client_id, environment.clock)
        """For the lines of tasks that belong to the client, and that another object starts."""
        self._owner = TaskOwner(self._break, self.log)
        self.metrics = metrics or ProducerMetrics(
            num_samples=config.metrics_num_samples,
            sample_window=max(config.metrics_sample_window_ms, 1) / 1000,
            now=self.clock(),
        )
        secured = security(config, environment)
        self._mechanism = secured.mechanism
        self._client = network_client(
            config,
            client_id,
            environment,
            self.random,
            self._owner,
            self._wakeup,
            self.metrics,
            secured,
        )
        self._client.responded = self._handle_response
        self._peers = KnownPeers(())
        self._client.misrouted = lambda _: self._rebootstrap()
        self._requests = AdHocRequests(self._client, self._peers, self._wakeup.wake)
        self._requester_of: dict[type, Requester] = {}
        self._requesters: list[Requester] = []
        self._add(self._requests)
        self.finishes = False
        """True once callers make no more requests, and the other requesters make their last."""
        self._finished = asyncio.Event()

    def attach(self, make: Callable[[NetworkClient, Peers, TaskOwner, Wakeup], _R]) -> _R:
        """Let a requester that ``make`` returns send between the requests of callers."""
        return self._add(make(self._client, self._peers, self._owner, self._wakeup))

    def _add(self, requester: _R) -> _R:
        self._requesters.append(requester)
        self._requester_of.update(dict.fromkeys(requester.requests, requester))
        return requester

    # --- life ------------------------------------------------------------------------------

    async def start(self, close: Callable[[], Awaitable[object]] | None = None) -> None:
        """Take requests from now on. No connection is opened before the first one.

        ``close``: closes the object to which the client belongs, if the event loop ends first.

        Raises :class:`IllegalStateError` the second time, :class:`ConfigError` if a file of TLS
        can't be used, and :class:`BootstrapError` if no name could be resolved within
        ``bootstrap_resolve_timeout_ms``.
        """
        if self._state != "not started":
            raise IllegalStateError(
                f"the {self._name} is {self._state}; it can be started once. Make a new one"
            )
        self._state = "starting"
        self._loop = asyncio.get_running_loop()
        try:
            load = self._environment.load
            await load((*self.loads, *loads_of_connections(self.config)))
            await load(loads_of_logins(self.config))
            await self._client.prepare()
            servers = await resolved_bootstrap_servers(
                self.config, self._environment, self.backoff(), self._owner
            )
        except BaseException:
            self._state = "closed"
            raise
        if self._state != "starting":  # close() did not wait
            raise ClientClosedError(f"the {self._name} is closed; make a new one")
        self._peers.bootstrap = tuple(servers)
        self._state = "started"
        if close is not None:
            self._owner.close_with_loop(close)
        self._owner.start(self._run(), name=f"aioproducer-{self._name.lower()}")

    async def finish(self) -> None:
        """Wait until the attached requesters have sent their last requests."""
        self.finishes = True
        self._wakeup.wake()
        await self._finished.wait()

    async def close(self) -> None:
        """Fail the requests that wait, and end every connection and task."""
        if self._state in ("not started", "closed"):
            self._state = "closed"
            return
        self._check_place()
        self._state = "closed"
        try:
            self._fail_all(ClientClosedError(f"the {self._name} is closed; make a new one"))
            await self._owner.close(_CLOSE_SECONDS)
        finally:
            self._wakeup.close()
            if self._mechanism is not None:
                await self._mechanism.close()

    def _break(self, cause: BaseException) -> None:
        error = ClientBrokenError(
            f"a part of the {self._name} died of {type(cause).__name__}: {cause}. Make a new one"
        )
        error.__cause__ = cause
        self._broken = error
        self._fail_all(error)

    def _fail_all(self, error: ProducerError) -> None:
        for response in self._awaited:
            if not response.done():
                response.set_result(error)
        self._client.close()
        self.on_end()

    @property
    def has_ended(self) -> bool:
        """True if the client takes no more requests."""
        return self._broken is not None or self._state != "started"

    @property
    def final_error(self) -> ProducerError | None:
        """The reason that the client never takes a request again; None: it does, or will."""
        if self._broken is not None:
            return self._broken
        if self._state == "closed":
            return ClientClosedError(f"the {self._name} is closed; make a new one")
        if self._state == "started" and self._loop.is_closed():
            return ClientBrokenError(
                f"the event loop of the {self._name} was closed; make a new one"
            )
        return None

    def check_usable(self) -> None:
        """Raise the reason if no request can be made here and now."""
        self._check_place()
        if self._broken is not None:
            raise anew(self._broken)
        if self._state == "not started":
            raise IllegalStateError(
                f"the {self._name} was not started: use `async with {self._name}(...)`"
            )
        if self._state != "started":
            raise ClientClosedError(f"the {self._name} is {self._state}; make a new one")

    def _check_place(self) -> None:
        if os.getpid() != self._process:
            raise WrongLoopError(
                f"the {self._name} was made in another process (before a fork); make a new one in "
                "each process"
            )
        runs = self._state in ("starting", "started")
        if runs and asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError(
                f"the {self._name} belongs to the event loop on which it was started, and was used "
                "from another one; make one there"
            )

    def start_task(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``coroutine`` until it ends or the client does; its error ends the client."""
        self._owner.start(coroutine, name)

    # --- requests --------------------------------------------------------------------------

    async def request(
        self, request: Request, node: Peer | None = None, timeout: float | None = None
    ) -> Any:
        """The response of ``node``, or of any broker; a connection is made first if need be.

        ``timeout``: seconds, ``request_timeout_ms`` if None; with ``node`` the connection's
        timeouts come first. Raises the reason that there is no response.
        """
        self.check_usable()
        response: asyncio.Future[Any] = self._loop.create_future()
        self._awaited[response] = None
        self._requests.ask(request, response, node)
        seconds = self.config.request_timeout_ms / 1000 if timeout is None else timeout
        try:
            async with PatientTimeout(seconds):
                result = await response
        except TimeoutError:
            raise self._no_response(node, seconds) from None
        finally:
            self._awaited.pop(response, None)
        if isinstance(result, ProducerError):
            raise anew(result)
        return result

    @property
    def bootstrap_servers(self) -> Sequence[BootstrapServer]:
        """The addresses for the first request."""
        return self._peers.bootstrap

    def end_connection(self, node: Node, reason: ProducerError) -> None:
        """End the connection to ``node``: the next request gets another one."""
        self._client.end(node.id, reason)

    def _no_response(self, node: Peer | None, seconds: float) -> ProducerError:
        within = f"within {duration(limit_of(seconds))}"
        if node is not None:
            reason = self._client.failures().get(node.id)
            more = "" if reason is None else f": {reason}"
            return RequestTimeoutError(f"{node} did not respond {within}{more}")
        return BootstrapError(
            f"no broker responded {within}. Check bootstrap_servers and "
            f"security_protocol. {self.why_no_answer()}"
        )

    def why_no_answer(self) -> str:
        """The last error of each broker that could get a request."""
        return why_no_answer(self._peers.peers, self._client.failures())

    async def retry(
        self, attempt: Callable[[], Awaitable[_T]], *, timeout: float, doing: str
    ) -> _T:
        """The result of ``attempt``, repeated after errors that may pass (:meth:`may_pass`).

        ``timeout``: seconds for all attempts. ``doing``: the job, for the error of the timeout.
        Raises the last error of an attempt if the time is over.
        """
        backoff = self.backoff()
        last: ProducerError | None = None
        failures = 0
        try:
            async with PatientTimeout(timeout):
                while True:
                    try:
                        return await attempt()
                    except ProducerError as error:
                        if not self.may_pass(error):
                            raise
                        last = error
                        failures += 1
                    await asyncio.sleep(backoff.delay(failures))
        except TimeoutError as error:
            if isinstance(error, ProducerError):
                raise
        reason = self.why_no_answer() if last is None else str(last)
        raise ProducerTimeoutError(
            f"{doing} took longer than {duration(limit_of(timeout))}: {reason}"
        ) from last

    def backoff(self) -> ExponentialBackoff:
        """The pauses between attempts, as ``retry_backoff_ms`` has them."""
        return retry_backoff(self.config, self.random)

    @staticmethod
    def may_pass(error: ProducerError) -> bool:
        """True if another attempt may succeed, by the error table, or at the right broker."""
        if isinstance(error, RebootstrapRequiredError):
            return True
        return error.retriable and not isinstance(error, ProtocolError)

    # --- the cluster -----------------------------------------------------------------------

    async def describe(
        self, topics: Collection[str] | None = (), timeout: float | None = None
    ) -> ClusterDescription:
        """The brokers, and ``topics`` (None: all) as any broker knows them. None is created.

        The known brokers are replaced. Raises the error of the whole response; a topic's error is
        in its description. If another cluster answers than before, the bootstrap servers are asked,
        and the cluster that they name is followed.
        """
        names = None if topics is None else tuple(topics)
        seconds = self.config.request_timeout_ms / 1000 if timeout is None else timeout
        while True:
            from_bootstrap = not self._peers.brokers
            try:
                found: ClusterDescription = await self.request(
                    DescribeRequest(names), None, seconds
                )
            except NetworkError:
                self._rebootstrap()
                raise
            if found.error_code:
                if found.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                    self._rebootstrap()
                raise error_about("the broker refused a metadata request", found.error_code)
            if not found.brokers:
                return found
            if self._accepts(found, from_bootstrap=from_bootstrap):
                self._peers.brokers = found.brokers
                servers = (server.id for server in self._peers.bootstrap)
                self._client.forget_except([*found.brokers, *servers])
                self._left = self._peers.bootstrap
                self._wakeup.wake()
                return found

    def _accepts(self, found: ClusterDescription, *, from_bootstrap: bool) -> bool:
        """Follow the cluster that answers; False: a bootstrap server has to name the cluster.

        Raises the error if only the first cluster is followed.
        """
        before, now = self._cluster_id, found.cluster_id
        if before is None or now in (None, before):
            self._know(now or before)
            return True
        if self.config.metadata_recovery_strategy == "same_cluster":
            error = RebootstrapRequiredError(
                f"cluster {now!r} answers now, and this {self._name} has used cluster {before!r}. "
                f"It stays with {before!r}, because metadata_recovery_strategy is 'same_cluster'"
            )
            self._start_again(error)
            raise error
        self._start_again(BrokerConnectionError("another cluster answers now"))
        if self._checks and not from_bootstrap:
            return False
        assert now is not None
        self._know(now)
        logger.repeated(
            logging.WARNING if self.on_another_cluster(now) else logging.DEBUG,
            "cluster",
            "Cluster %r answers instead of cluster %r, and this %s follows it",
            now,
            before,
            self._name,
            log=self.log,
            cluster_id=now,
        )
        return True

    def _know(self, cluster_id: str | None) -> None:
        self._cluster_id = cluster_id
        if self._checks:
            self._client.cluster_id = cluster_id

    def follow(self, cluster_id: str) -> None:
        """Ask the bootstrap servers again: another client has found ``cluster_id`` there."""
        if self._cluster_id != cluster_id:
            self._start_again(BrokerConnectionError("another cluster answers now"))

    def _start_again(self, reason: ProducerError) -> None:
        """End every connection, and start again from the bootstrap servers."""
        for connection in self._client.connections():
            self._client.end(connection.node, reason)
        self._rebootstrap()

    @property
    def _may_rebootstrap(self) -> bool:
        return self.config.metadata_recovery_strategy != "none"

    @property
    def _checks(self) -> bool:
        """True if known brokers have to belong to the cluster (KIP-1242)."""
        return self.config.metadata_cluster_check_enable and self._may_rebootstrap

    def _rebootstrap(self) -> None:
        if self._may_rebootstrap:
            self._left = ()
            self._peers.rebootstrap()

    def is_connected(self, node: Node) -> bool:
        """True if a connection to ``node`` is ready."""
        return self._client.reaches((node,))

    def node(self, broker_id: int) -> Node | None:
        """The broker as of the newest description, if it is known."""
        return self._peers.brokers.get(broker_id)

    @property
    def features(self) -> dict[str, int]:
        """The features that the whole cluster supports (KIP-584), once a broker is connected."""
        return dict(self._client.features.levels)

    def versions_of(self, node: Node) -> dict[str, tuple[int, int]]:
        """The versions of requests that ``node`` speaks; none if it is not connected."""
        return self._client.versions(node.id)

    @property
    def versions(self) -> dict[str, tuple[int, int]]:
        """The versions of requests that a connected broker speaks."""
        return self._client.versions()

    # --- the task --------------------------------------------------------------------------

    async def _run(self) -> None:
        now = self._wakeup.turn()
        late_at: float | None = None
        while True:
            if late_at is not None and now >= late_at:
                await sockets_read(self._client.received, self._wakeup.clock.turned)
                self._client.poll(now)
                now = self._wakeup.turn()  # the process may have been stopped meanwhile
            self._take_completed(now)
            self._left = [each for each in self._left if not self._client.leave(each.id)]
            for requester in self._requesters:
                requester.step(now)
            if self.finishes and all(requester.idle for requester in self._requesters):
                self._finished.set()
            late_at = self._client.next_timeout()
            dues = (requester.due for requester in self._requesters)
            moments = (*dues, late_at, logs.tell_due())
            first = min((moment for moment in moments if moment is not None), default=None)
            now = await self._wakeup.wait(first, late_at if self._awaited else None)

    def _take_completed(self, now: float) -> None:
        for completion in self._client.take_completed():
            requester = self._requester_of[type(completion.request)]
            requester.due = 0.0
            requester.completed(completion, now)

    def _handle_response(self, now: float) -> None:
        """Handle a response in the callback that brought it."""
        self.answered = True
        try:
            self._take_completed(now)
        except BaseException as error:
            self._wakeup.fail(error)
        else:
            if any(each.waits or each.due <= now for each in self._requesters):
                self._wakeup.wake()
