"""The bootstrap servers of a client, and the wait until one of their names can be resolved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aioproducer.config import ProducerConfig
from aioproducer.config.cross_checks import resolved_at_proxy
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.network.resolve import Address, canonical_names
from aioproducer.errors import BootstrapError, BrokerConnectionError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.wording import duration
from aioproducer.model import BootstrapId, BootstrapServer

logger = RoomLogger(__name__)


def bootstrap_servers(addresses: Iterable[Address]) -> list[BootstrapServer]:
    """The addresses of the option, each with an id of its own."""
    return [
        BootstrapServer(BootstrapId(f"-{number}"), host, port)
        for number, (host, port) in enumerate(addresses, start=1)
    ]


async def resolved_bootstrap_servers(
    config: ProducerConfig, environment: Environment, backoff: ExponentialBackoff, owner: TaskOwner
) -> list[BootstrapServer]:
    """The bootstrap servers, by their canonical names where ``client_dns_lookup`` asks for them.

    With ``bootstrap_resolve_timeout_ms``, returns once a name can be resolved (KIP-909), or when
    ``owner`` is closed; at once if a proxy resolves names. Raises :class:`BootstrapError` if none
    can be resolved in that time.
    """
    addresses: Iterable[Address] = config.bootstrap_servers
    canonical = config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
    seconds = config.bootstrap_resolve_timeout_ms / 1000
    if seconds and not resolved_at_proxy(config):
        names = _NameWait(config.bootstrap_servers, seconds, environment, backoff, owner)
        addresses = await names.resolved(canonical=canonical)
    elif canonical:
        addresses = await canonical_names(addresses)
    return bootstrap_servers(addresses)


class _NameWait:
    """Look-ups of all names side by side, each repeated until one of them succeeds.

    Source: ``NetworkClient.ensureBootstrapped``, which looks the names up one after the other.
    """

    def __init__(
        self,
        addresses: tuple[Address, ...],
        seconds: float,
        environment: Environment,
        backoff: ExponentialBackoff,
        owner: TaskOwner,
    ) -> None:
        self._addresses = addresses
        self._seconds = seconds
        self._resolve = environment.resolve
        self._backoff = backoff
        self._owner = owner
        self._reasons: dict[Address, str] = {}
        """The last error of each name that was looked up in vain."""

    async def resolved(self, *, canonical: bool) -> Iterable[Address]:
        """The addresses, ``canonical`` or as they are, once a name can be resolved."""
        try:
            async with PatientTimeout(self._seconds):
                found = await self._first()
                return (
                    await canonical_names(self._addresses)
                    if canonical and found
                    else self._addresses
                )
        except TimeoutError:
            raise self._too_late() from None

    async def _first(self) -> bool:
        """True once a name can be resolved; False if the owner has ended the look-ups."""
        lookups = [
            self._owner.start(self._look_up(each), name="aioproducer-bootstrap")
            for each in self._addresses
        ]
        try:
            done, _ = await asyncio.wait(lookups, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for lookup in lookups:
                self._owner.cancel(lookup)
        return not all(lookup.cancelled() for lookup in done)

    async def _look_up(self, address: Address) -> None:
        failures = 0
        while True:
            try:
                await self._resolve(*address)
                return
            except BrokerConnectionError as error:
                if address not in self._reasons and str(error) not in self._reasons.values():
                    logger.warning(
                        "%s. The start waits for a name that can be, for up to %s "
                        "(bootstrap_resolve_timeout_ms)",
                        error,
                        duration(self._seconds),
                        error=error,
                    )
                self._reasons[address] = str(error)
            failures += 1
            await asyncio.sleep(self._backoff.delay(failures))

    def _too_late(self) -> BootstrapError:
        reasons = dict.fromkeys(
            self._reasons.get(each, f"the name {each[0]!r} is still being looked up")
            for each in self._addresses
        )
        return BootstrapError(
            f"no name in bootstrap_servers could be resolved within {duration(self._seconds)} "
            "(bootstrap_resolve_timeout_ms). Check the names and the name server, or raise the "
            f"timeout; then start a new client. {'; '.join(reasons)}"
        )
