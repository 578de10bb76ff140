"""The observer of a producer: it follows records, batches and requests to their outcomes.

A producer has one observer at most, and pays nothing without one. The tracing of a consumer is the
counterpart for records that are read.
``aioproducer.observability.otel`` makes observers that trace. All methods are called on the
producer's event loop, but :meth:`Observer.context` and :meth:`Observer.record_sent` are called by
the thread that sends. :func:`observer_failed` logs the errors of both, which never break the send,
or the work on a record.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from aioproducer.foundation.logs import ClientLog, ModuleLogger
from aioproducer.model import (
    AnyRecord,
    Header,
    Headers,
    Node,
    NodeId,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from aioproducer.config import ProducerConfig

__all__ = [
    "BatchOutcome",
    "CallTrace",
    "ConsumerTracing",
    "ConsumerTracingFactory",
    "ObservedFuture",
    "ObservedProducer",
    "Observer",
    "ObserverFactory",
    "ObserverSlot",
    "RecordTrace",
    "RequestOutcome",
    "TracedConsumer",
    "Untraced",
    "default",
    "default_of_consumers",
    "observer_failed",
    "set_default",
    "set_default_of_consumers",
    "tell_partition",
    "undelivered",
]

logger = ModuleLogger(__name__)


class Untraced(NamedTuple):
    """The decision about a record that is not traced, and about those after it."""

    records: int = 1
    """The number of records that the decision is about, this record included, while the context
    stays the same object.

    The decision applies to records without headers of their own. A producer keeps the newest one,
    whichever thread sends: the next question in its context about such a record says that it is
    used up. The observer is asked about each record with headers, and decides only about it.
    """
    headers: Sequence[Header] = ()
    """The headers to add to each of these records: they carry the context of the caller."""


class RecordTrace(Protocol):
    """A record that is traced, from the call of ``send()`` to its outcome."""

    @property
    def behind(self) -> Untraced | None:
        """A decision about the records after this one; None: there is no new one.

        It is not for a record with headers of its own.
        """

    @property
    def headers(self) -> Sequence[Header]:
        """The headers that carry its context; they are added to the record's own.

        The observer has seen the record's own headers, so no key of these repeats one of them.
        """

    def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Take the outcome, once: delivered if ``error`` is None.

        With an error, ``metadata`` has the topic and the partition (-1 if none was chosen), and -1
        in all other fields. A record that its caller took back has a CancelledError.
        """


class CallTrace(Protocol):
    """A call of ``send_many()`` that is traced."""

    @property
    def headers(self) -> Sequence[Header]:
        """The headers to add to each record; no key of these repeats one of the call's headers."""

    def headers_for(self, own: Headers | None) -> Sequence[Header]:
        """The headers to add to a whole record, by its ``own`` headers instead of the call's.

        The rule is that of :meth:`RecordTrace.headers`.
        """

    def ended(self, records: int, failed: int, error: BaseException | None) -> None:
        """Take the outcome: of ``records``, ``failed`` were not delivered.

        ``error``: the first failure, or the error that the call raises; None: all were delivered.
        """


class BatchOutcome(NamedTuple):
    """A batch that was delivered or has failed for good."""

    topic_partition: TopicPartition
    node: NodeId
    """The broker of the last attempt; -1: there was none."""
    records: int
    size: int
    """Bytes with the header, before compression."""
    seconds: float
    """The time since the batch was opened by its first record."""
    error: BaseException | None


class RequestOutcome(NamedTuple):
    """A produce request that has its response, or failed."""

    node: Node
    batches: Mapping[TopicPartition, tuple[int, int]]
    """Records and bytes as sent, by partition."""
    seconds: float
    """The time from the write of the request to its response."""
    error: BaseException | None
    """The error of the request as a whole: its connection was lost, or it timed out."""


class Observer(Protocol):
    """Follows one producer."""

    @property
    def traces(self) -> bool:
        """False: it is never asked about records and calls, and records cost nothing more."""

    def context(self) -> object:
        """The caller's tracing context. It is called for each record, so it is fast."""

    def record_sent(
        self, topic: str, key: object, partition: int | None, headers: Headers | None
    ) -> RecordTrace | Untraced:
        """Decide about a record. The fields are the caller's, before serialization."""

    def call_started(self, topic: str, headers: Headers | None) -> CallTrace | None:
        """Decide about a ``send_many()``; None: it is not traced."""

    def batch_ended(self, outcome: BatchOutcome) -> None:
        """A batch has its outcome. The call follows that of the request that carried it."""

    def request_ended(self, outcome: RequestOutcome) -> None:
        """A produce request has ended. The call precedes the outcomes of its records."""

    def close(self) -> None:
        """The producer is closed, or has another observer. Records on their way still end."""


class ObserverSlot:
    """The place of a producer's observer, for the parts that tell it something."""

    __slots__ = ("observer",)

    def __init__(self) -> None:
        self.observer: Observer | None = None


class ObservedFuture:
    """A record's future whose outcome ``told`` gets first, even if the caller cancelled it.

    ``told`` gets metadata and an error as :meth:`RecordTrace.ended` does, and raises nothing.
    """

    __slots__ = ("_done", "_future", "_told", "_topic", "partition")

    def __init__(
        self,
        future: Any,
        topic: str,
        partition: int | None,
        told: Callable[[RecordMetadata, BaseException | None], None],
    ) -> None:
        self._future = future
        self._topic = topic
        self._told = told
        self.partition = partition
        """The partition that the record names, or that was chosen; None: none yet."""
        self._done = False

    def done(self) -> bool:
        """True if the outcome is known; a cancelled future still waits for it."""
        return self._done

    def cancelled(self) -> bool:
        """True if the caller gave up."""
        return bool(self._future.cancelled())

    @property
    def caller(self) -> Any:
        """The future that ``send()`` returned."""
        future = self._future
        return future.caller if type(future) is ObservedFuture else future

    def set_result(self, metadata: RecordMetadata) -> None:
        """The record is in the log."""
        self._done = True
        self._told(metadata, None)
        if not self._future.done():
            self._future.set_result(metadata)

    def set_exception(self, error: BaseException) -> None:
        """The record failed."""
        self.refused(error)
        if not self._future.done():
            self._future.set_exception(error)

    def refused(self, error: BaseException) -> None:
        """Tell an error that the call itself raises."""
        self._done = True
        self._told(undelivered(self._topic, self.partition), error)

    def exception(self) -> BaseException | None:
        """Read the error, so that asyncio does not complain about an ignored one."""
        if self._future.cancelled():
            return None
        error: BaseException | None = self._future.exception()
        return error


def undelivered(topic: str, partition: object) -> RecordMetadata:
    """The metadata of a record that failed: its topic, its partition if that is valid, and -1."""
    if type(partition) is not int or partition < 0:
        partition = -1
    return RecordMetadata(topic, partition, -1, -1, -1, -1)


def tell_partition(token: Any, partition: int | None) -> None:
    """Note the partition that the record of ``token`` names, for those who get its outcome."""
    if partition is None:
        return
    while type(token) is ObservedFuture:
        token.partition = partition
        token = token._future
    if (told := getattr(token, "_partition_told", None)) is not None:
        told(partition)


class ObservedProducer(Protocol):
    """The producer as an observer sees it."""

    @property
    def client_id(self) -> str: ...

    @property
    def config(self) -> "ProducerConfig": ...

    def metrics(self) -> Mapping[str, Any]:
        """All metrics as they are now; any thread may call it."""

    def unobserve(self, observer: Observer) -> None:
        """Let ``observer`` follow no more records, unless another one has replaced it."""


ObserverFactory: TypeAlias = Callable[[ObservedProducer], Observer | None]

_default: Final[list[ObserverFactory]] = []


def set_default(factory: ObserverFactory | None) -> None:
    """Let every producer that starts from now on ask ``factory`` for its observer; None: no one."""
    _default[:] = [] if factory is None else [factory]


def default() -> ObserverFactory | None:
    """The factory of :func:`set_default`."""
    return _default[0] if _default else None


# --- consumers -----------------------------------------------------------------------------


class ConsumerTracing(Protocol):
    """Traces the work of an application on the records of one consumer. Its errors are logged."""

    def record(self, record: AnyRecord) -> AbstractContextManager[Any]:
        """The block in which the application works on ``record``."""

    def batch(self, records: Sequence[AnyRecord]) -> AbstractContextManager[Any]:
        """The block in which the application works on all of ``records``."""


class TracedConsumer(Protocol):
    """The consumer as its tracing sees it."""

    tracing: ConsumerTracing | None
    """The tracing of the records that the application begins with from now on."""

    @property
    def client_id(self) -> str: ...

    @property
    def group_id(self) -> str: ...


ConsumerTracingFactory: TypeAlias = Callable[[TracedConsumer], ConsumerTracing | None]

_default_of_consumers: Final[list[ConsumerTracingFactory]] = []


def set_default_of_consumers(factory: ConsumerTracingFactory | None) -> None:
    """Let every consumer that starts from now on ask ``factory`` for its tracing; None: no one."""
    _default_of_consumers[:] = [] if factory is None else [factory]


def default_of_consumers() -> ConsumerTracingFactory | None:
    """The factory of :func:`set_default_of_consumers`."""
    return _default_of_consumers[0] if _default_of_consumers else None


def observer_failed(
    error: Exception, text: str, *arguments: object, log: ClientLog | None = None
) -> None:
    """Log the error of an observer, or of a consumer's tracing; ``text`` has the arguments.

    It never breaks the send, or the work on a record.
    """
    logger.repeated(
        logging.ERROR,
        (text, type(error).__name__),
        text,
        *arguments,
        exc_info=error,
        log=log,
        error=error,
    )
