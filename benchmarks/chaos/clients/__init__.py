"""Who is driven through chaos, each with its strongest guarantees; a new client is a row here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.plan import Load

if TYPE_CHECKING:
    from benchmarks.chaos.access import Access

TOPIC: Final = "chaos"


@dataclass(frozen=True, slots=True)
class Client:
    """Its driver is the class ``Driver`` of ``module``."""

    name: str
    module: str
    ours: bool = False
    says_what_was_written: bool = False
    """Whether its errors tell a record that is in no log from one that may be."""


CLIENTS: Final = {
    client.name: client
    for client in (
        Client("ours", "aioproducer_client", ours=True, says_what_was_written=True),
        Client("ours-transactions", "transactional_client", ours=True),
        Client("confluent", "confluent_client"),
        Client("aiokafka", "aiokafka_client"),
    )
}


class Driver(Protocol):
    """One client, made and used on one event loop. What becomes of records goes to the ledger."""

    def __init__(
        self, bootstrap_servers: str, load: Load, ledger: Ledger, access: Access | None = None
    ) -> None: ...

    async def start(self) -> None: ...

    async def send(self, number: int) -> None:
        """Send one record, without waiting for its fate; wait for room as the client wants it."""

    async def finish(self, timeout: float) -> None:
        """Return when every record has its fate, or the time is over."""

    async def stop(self) -> None: ...
