"""The transactional calls of a producer, as confluent-kafka has them.

``init_transactions()``, a commit or an abort whose time is over goes on in the background. The
application has to make the same call again, which waits for it; until then every other call is a
``_CONFLICT``. Any other outcome ends the call. Source: librdkafka's ``rdkafka_txnmgr.c``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable
from time import monotonic
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError, KafkaException, translating
from aioproducer.compat.confluent.worker import Worker
from aioproducer.engine.core.arguments import checked_group, checked_offsets
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["Transactions", "group_of", "not_configured", "not_flushed", "offsets_of"]

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = 4
_RESUMED: Final = ("init_transactions", "commit_transaction", "abort_transaction")


def not_configured() -> KafkaException:
    """The error of a transactional call of a producer without ``transactional.id``."""
    text = "The Transactional API requires transactional.id to be configured"
    return KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, text))


def not_flushed(left: int) -> KafkaException:
    """The error of a commit whose time is over while ``left`` records have no outcome."""
    text = (
        "Failed to flush all outstanding messages within the API timeout: "
        f"{left} message(s) remaining"
    )
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, text, retriable=True))


def _state(text: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._STATE, text))


class Transactions:
    """The calls of one producer, each blocking; ``flush`` serves callbacks for some seconds."""

    def __init__(self, worker: Worker, flush: Callable[[float], int], *, default: float) -> None:
        self._worker = worker
        self._flush = flush
        self._default = default
        """Seconds of a call without timeout."""
        self._unfinished: str | None = None
        """The name of the call whose time was over, which has to be repeated."""
        self._initialized = False
        self._is_open = False

    def check_open(self) -> None:
        """Raise ``_STATE`` unless a transaction is open."""
        if not self._is_open:
            raise _state("Unable to produce message: Local: Erroneous state")

    def initialize(self, timeout: float | None) -> None:
        """Get the producer id and epoch."""
        self._call("init_transactions", self._initialize, timeout)
        self._initialized = True

    async def _initialize(self, left: float) -> None:
        await self._worker.core.transactions.initialize(left)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(
            "begin_transaction",
            lambda _: self._worker.core.transactions.begin(shared=False),
            None,
        )
        self._is_open = True

    def send_offsets(self, positions: Any, group: Any, timeout: float | None) -> None:
        """Write offsets of consumed records with the transaction."""
        member = group_of(group)
        offsets = offsets_of(positions)
        self._call(
            "send_offsets_to_transaction",
            lambda left: self._worker.core.transactions.send_offsets(
                checked_offsets(offsets), checked_group(member), left
            ),
            timeout,
        )

    def commit(self, timeout: float | None) -> None:
        """Flush, which serves callbacks, and commit."""
        self._check("commit_transaction")
        left = self._default if timeout is None else timeout
        deadline = monotonic() + left
        if waiting := self._flush(left):
            self._unfinished = "commit_transaction"
            raise not_flushed(waiting)
        self._call(
            "commit_transaction",
            lambda left: self._worker.core.transactions.commit(left),
            max(0.0, deadline - monotonic()),
        )
        self._is_open = False

    def abort(self, timeout: float | None) -> None:
        """Drop the records that wait, abort, and serve the callbacks of all records."""
        self._check("abort_transaction")

        async def abort(left: float) -> None:
            await self._worker.core.transactions.abort(left)

        try:
            self._call("abort_transaction", abort, timeout)
            self._is_open = False
        finally:
            self._flush(0.0)

    # --- the way of a call ---------------------------------------------------------------------

    def _check(self, name: str) -> None:
        """Raise the reason that the call ``name`` can't be made now."""
        if self._unfinished not in (None, name):
            raise KafkaException(
                KafkaError(
                    KafkaError._CONFLICT,
                    f"{name}() can't be called while {self._unfinished}() is not finished: call "
                    "that again",
                    retriable=True,
                )
            )
        if not self._initialized and name != "init_transactions":
            raise _state(f"Operation not valid in state Init: {name}() needs init_transactions()")

    def _call(
        self,
        name: str,
        call: Callable[[float], Coroutine[Any, Any, None]],
        timeout: float | None,
    ) -> None:
        self._check(name)
        left = self._default if timeout is None else timeout
        try:
            with translating():
                self._worker.ask(lambda: self._caught_up(call, left))
        except KafkaException as error:
            resumed = name in _RESUMED and error.args[0].retriable()
            self._unfinished = name if resumed else None
            raise
        self._unfinished = None

    async def _caught_up(
        self, call: Callable[[float], Coroutine[Any, Any, None]], left: float
    ) -> None:
        await self._worker.catch_up()
        await call(left)


def group_of(group: Any) -> ConsumerGroupMetadata:
    """The member of a group: confluent-kafka's opaque bytes, or our ``ConsumerGroupMetadata``.

    Raises:
        TypeError: it is something else.
        KafkaException: the bytes are none of librdkafka's (``_BAD_MSG``).
    """
    if isinstance(group, ConsumerGroupMetadata):
        return group
    if not isinstance(group, bytes):
        raise TypeError(f"expected bytes, {type(group).__name__} found")
    fields = group[len(_MAGIC) + _GENERATION :].split(b"\0")
    if not group.startswith(_MAGIC) or len(fields) < 3:
        raise KafkaException(KafkaError(KafkaError._BAD_MSG, "No consumer_group_metadata()"))
    start = len(_MAGIC)
    generation = int.from_bytes(group[start : start + _GENERATION], sys.byteorder, signed=True)
    group_id, member, *rest = fields
    instance = rest[1].decode() if rest[0] == b"" and len(rest) > 1 and rest[1] else None
    return ConsumerGroupMetadata(group_id.decode(), generation, member.decode(), instance)


def offsets_of(positions: Iterable[Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets by partition, without those that are none."""
    if not isinstance(positions, list):
        raise TypeError("expected list of TopicPartition")
    return {
        TopicPartition(each.topic, each.partition): OffsetAndMetadata(
            each.offset, metadata=each.metadata or ""
        )
        for each in positions
        if each.offset >= 0
    }
