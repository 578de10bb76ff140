"""A broker's connection, as parts outside of the network see it. No I/O."""

from typing import NamedTuple

from aioproducer.errors import ProducerError
from aioproducer.model import NodeId, Peer


class ConnectionView(NamedTuple):
    """The connection to a broker, or the failed attempts to connect. Times are clock seconds."""

    node: NodeId
    peer: Peer | None
    """The address of the last attempt; None: there was none."""
    is_ready: bool
    """True if it takes requests."""
    is_connecting: bool
    """True while an attempt is under way."""
    since: float
    """The time of the last change: connected, lost, or first attempt to connect."""
    failing_since: float | None
    """The beginning of the first attempt that failed since it was connected; None: none failed."""
    retry_at: float
    """The end of the backoff after the last failure."""
    is_refused: bool
    """True if the last attempt ended with a refused login."""
    error: ProducerError | None
    """The reason of the last failure or loss, until it is connected again."""
    throttled_until: float
    in_flight: int
    """Requests without a response."""
    reachable_since: float | None
    """The first connection since the last failed attempt; None: there was no connection. A lost
    connection does not change it."""
