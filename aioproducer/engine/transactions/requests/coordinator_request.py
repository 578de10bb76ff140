"""The base of all requests to coordinators. No I/O.

Each request is one class in a file of its own. The class shows the request's fields, how the
request is built, how its response is read, and the producer's reaction to each error code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple

from aioproducer.engine.protocol import Schema
from aioproducer.engine.transactions.requests.reaction import COMMON_REACTIONS, Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response
from aioproducer.errors import KafkaError, explain, kafka_error
from aioproducer.model import TopicPartition, TransactionHandle

_TOPIC_AUTHORIZATION_FAILED: Final = 29


class CoordinatorType(IntEnum):
    """Kafka's numbers of the kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """The coordinator of a group, or of a transactional id."""

    type: CoordinatorType
    key: str


class BuildContext(NamedTuple):
    """The values from which a request is built, in addition to its own fields."""

    schema: Schema
    """The request's."""
    version: int
    handle: TransactionHandle
    timeout_ms: int
    """``transaction_timeout_ms``."""

    def producer_fields(self, prefix: str = "") -> dict[str, Any]:
        """The fields by which a coordinator knows the producer."""
        return {
            f"{prefix}transactional_id": self.handle.transactional_id,
            f"{prefix}producer_id": self.handle.producer_id,
            f"{prefix}producer_epoch": self.handle.epoch,
        }


class CoordinatorRequest(ABC):
    """A request of a transactional producer to a coordinator."""

    __slots__ = ()

    api_key: ClassVar[int]
    """Kafka's number of the request."""
    highest_version_in_protocol_1: ClassVar[int | None] = None
    """Later versions mean version 2 of the transaction protocol (KIP-890); None: no one does."""
    reactions: ClassVar[Reactions] = {}
    """The reactions to errors that differ from :data:`COMMON_REACTIONS`."""
    otherwise: ClassVar[Reaction]
    """The reaction to an error that is in no table, unless Kafka calls it retriable."""
    topic_operation: ClassVar[str | None] = None
    """The permission that a refused topic lacks, if it is another one than for records."""

    def coordinator_for(self, transactional_id: str) -> Coordinator | None:
        """The coordinator to send to; None: any broker."""
        return Coordinator(CoordinatorType.TRANSACTION, transactional_id)

    def describe(self) -> str:
        """The request in error messages."""
        return type(self).__name__

    def highest_version(self, protocol: int) -> int | None:
        """The highest version that means this request in a protocol; None: each one does."""
        return self.highest_version_in_protocol_1 if protocol == 1 else None

    @abstractmethod
    def build(self, context: BuildContext) -> Any:
        """The request as a message.

        Raises :class:`UnsupportedVersionError` where the broker is too old for it.
        """

    @abstractmethod
    def read(self, response: Any) -> Response:
        """The content of ``response``, a message of any version.

        Raises :class:`ProtocolError` if the response leaves out a requested part, which would count
        as done, or can't be true.
        """

    def reaction_to(self, error: KafkaError | None) -> Reaction:
        """The reaction to ``error`` in the response; None: it has no error."""
        if error is None:
            return Reaction.DONE
        kind = type(error)
        reaction = self.reactions.get(kind) or COMMON_REACTIONS.get(kind)
        if reaction is None:
            reaction = Reaction.RETRY if error.retriable else self.otherwise
        return reaction

    def error_in(self, response: Response, subject: str, broker: str) -> KafkaError | None:
        """The error that ``broker`` responded with, if any. ``subject`` opens the message."""
        code = response.error_code
        if not code:
            return None
        advice = response.message
        if not advice and code == _TOPIC_AUTHORIZATION_FAILED and self.topic_operation is not None:
            advice = f"the principal needs the {self.topic_operation} permission for the topic"
        place = "" if response.partition is None else f" for {response.partition}"
        message = f"{subject}{self.describe()}{place} on {broker}: {explain(code, advice)}"
        return kafka_error(code, message)


def group_coordinator(group_id: str) -> Coordinator:
    """The coordinator of a consumer group."""
    return Coordinator(CoordinatorType.GROUP, group_id)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of ``partitions`` by topic, sorted."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return {topic: sorted(topics[topic]) for topic in sorted(topics)}
