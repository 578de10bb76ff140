"""The requests of a transactional producer to its coordinators. No I/O.

Each request is one class: its fields, how it is built, how its response is read, and the producer's
reaction to each error code (KIP-98, KIP-360, KIP-447, KIP-890, KIP-1319). :class:`RequestSource`
finds their coordinators and takes their responses.

Source: the request handlers in Kafka 4's ``TransactionManager``. Some errors are fatal for Kafka
though the next transaction can survive them (refused offsets, a transaction that is not open any
more). They are abortable here, and the abort finds out the truth.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from aioproducer.engine.client.requests import (
    NO_PRODUCER_ID,
    Coordinator,
    CoordinatorLookup,
    CoordinatorType,
    Response,
)
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import (
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    ProducerError,
    ProducerFencedError,
    ProtocolError,
    RequestTimedOutError,
    RequestTimeoutError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
    UnknownServerError,
    UnsupportedVersionError,
    Written,
    kafka_error,
)
from aioproducer.errors.broker import ErrorCode, explain
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)

__all__ = [
    "COMMON_REACTIONS",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "Coordinator",
    "CoordinatorRequest",
    "CoordinatorType",
    "EndTxn",
    "FindCoordinator",
    "InitProducerId",
    "OffsetFetch",
    "Reaction",
    "RequestSource",
    "Response",
    "TransactionRequest",
    "TxnOffsetCommit",
    "group_coordinator",
]


class Reaction(Enum):
    """The producer's reaction to a response."""

    DONE = "done"
    RETRY = "retry"
    """The error may pass: the request is sent again after a backoff."""
    RETRY_SOON = "retry soon"
    """The coordinator still ends the transaction before, which takes milliseconds."""
    FIND_COORDINATOR = "find coordinator"
    """Another broker is the coordinator, or will be: it is looked for before the retry."""
    ABORT = "abort"
    """The transaction can only be aborted."""
    FENCED = "fenced"
    """A newer producer has the transactional id, or the coordinator ended the transaction."""
    FATAL = "fatal"
    """The producer itself is refused."""


Reactions: TypeAlias = Mapping[type[KafkaError], Reaction]

COMMON_REACTIONS: Final[Reactions] = {
    CoordinatorNotAvailableError: Reaction.FIND_COORDINATOR,
    NotCoordinatorError: Reaction.FIND_COORDINATOR,
    ConcurrentTransactionsError: Reaction.RETRY_SOON,
    TransactionAbortableError: Reaction.ABORT,
    UnknownProducerIdError: Reaction.ABORT,
    GroupAuthorizationFailedError: Reaction.ABORT,
    InvalidGroupIdError: Reaction.ABORT,
    ProducerFencedError: Reaction.FENCED,
    InvalidProducerEpochError: Reaction.FENCED,
    InvalidProducerIdMappingError: Reaction.FATAL,
    TransactionalIdAuthorizationFailedError: Reaction.FATAL,
    ClusterAuthorizationFailedError: Reaction.FATAL,
}
"""The reactions to errors of every request; a request's own table goes before."""


def deciding_error(
    requested: Collection[TopicPartition], codes: Mapping[TopicPartition, int]
) -> Response:
    """The response of the first requested partition with an error of its own.

    A broker marks the other partitions OPERATION_NOT_ATTEMPTED.
    """
    for partition in requested:
        if partition not in codes:
            raise ProtocolError(f"the response does not mention {partition}")
    failed = {place: code for place, code in codes.items() if code and place in requested}
    for partition, code in failed.items():
        if code != ErrorCode.OPERATION_NOT_ATTEMPTED:
            return Response(code, partition=partition)
    return Response(ErrorCode.OPERATION_NOT_ATTEMPTED if failed else 0)


def assigned_producer_id(error_code: int, producer_id: int, epoch: int) -> Response:
    """The response that assigns a producer id. Raises :class:`ProtocolError` if it can't be one."""
    if not error_code and min(producer_id, epoch) < 0:
        raise ProtocolError(f"producer id {producer_id}, epoch {epoch} can't be assigned")
    return Response(error_code, producer_id=producer_id, epoch=epoch)


class CoordinatorRequest(SchemaRequest):
    """A request of a transactional producer to a coordinator, or about one."""

    __slots__ = ()

    reactions: ClassVar[Reactions] = {}
    """The reactions to errors that differ from :data:`COMMON_REACTIONS`."""
    otherwise: ClassVar[Reaction]
    """The reaction to an error that is in no table, unless Kafka calls it retriable."""

    @property
    @abstractmethod
    def recipient(self) -> Coordinator | None:
        """The coordinator to send to; None: any broker."""

    def describe(self) -> str:
        """The request in error messages."""
        return type(self).__name__

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
        place = "" if response.partition is None else f" for {response.partition}"
        said = explain(code, response.message, self.api)
        error = kafka_error(code, f"{subject}{self.describe()}{place} on {broker}: {said}")
        if response.partition is not None:
            error.topic, error.partition = response.partition
        return error


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TransactionRequest(CoordinatorRequest):
    """A request by which a producer changes its transaction, or its identity."""

    producer: TransactionHandle = field(compare=False, repr=False)
    """The identity of the producer, with the version of the transaction protocol."""

    highest_version_in_protocol_1: ClassVar[int | None] = None
    """Later versions mean transaction protocol 2 (KIP-890); None: no version does."""

    @property
    def recipient(self) -> Coordinator:
        """The coordinator of the transactional id, except for the offsets of a group."""
        return Coordinator(CoordinatorType.TRANSACTION, self.producer.transactional_id)

    def chosen_version(self, version: int) -> int:
        """``version``, or the highest one below it that means the producer's protocol."""
        highest = self.highest_version_in_protocol_1
        return version if highest is None or self.producer.version > 1 else min(version, highest)

    def _producer_fields(self, prefix: str = "") -> dict[str, Any]:
        """The fields by which a coordinator knows the producer."""
        return {
            f"{prefix}transactional_id": self.producer.transactional_id,
            f"{prefix}producer_id": self.producer.producer_id,
            f"{prefix}producer_epoch": self.producer.epoch,
        }


def group_coordinator(group_id: str) -> Coordinator:
    """The coordinator of a consumer group."""
    return Coordinator(CoordinatorType.GROUP, group_id)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of ``partitions`` by topic, sorted."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return {topic: sorted(topics[topic]) for topic in sorted(topics)}


@dataclass(repr=False)
class FindCoordinator(CoordinatorLookup, CoordinatorRequest):
    """Find the coordinator of a source's next request."""

    coordinator: Coordinator

    reactions: ClassVar[Reactions] = {
        CoordinatorNotAvailableError: Reaction.RETRY,
        NotCoordinatorError: Reaction.RETRY,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL

    @property
    def recipient(self) -> None:
        """Any broker answers."""

    def describe(self) -> str:
        """The request in error messages."""
        kind, key = self.coordinator
        group = f" of group {key!r}" if kind is CoordinatorType.GROUP else ""
        return f"FindCoordinator{group}"


_FIRST_VERSION_WITH_EPOCH_BUMP: Final = 3


@dataclass(slots=True, repr=False)
class InitProducerId(TransactionRequest):
    """Assign the producer id and a new epoch; older holders of the transactional id are fenced."""

    epoch_bump: bool
    """True: only if the epoch is the newest (KIP-360). False: fence the present owner."""
    timeout_ms: int = field(compare=False, kw_only=True)
    """``transaction_timeout_ms``."""

    api = Api.INIT_PRODUCER_ID
    reactions: ClassVar[Reactions] = {
        TransactionAbortableError: Reaction.FATAL,
        UnknownProducerIdError: Reaction.FATAL,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.InitProducerIdRequest(
            transactional_id=self.producer.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            **self._present_epoch(version) if self.epoch_bump else {},
        )

    def _present_epoch(self, version: int) -> dict[str, Any]:
        producer = self.producer
        if version < _FIRST_VERSION_WITH_EPOCH_BUMP:
            raise UnsupportedVersionError(
                f"transactional id {producer.transactional_id!r}: a new epoch is needed after "
                "the transaction that failed, and the broker is too old to give it (KIP-360, Kafka "
                "2.5): close the producer and create another one"
            )
        return {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}

    def read(self, response: Any) -> Response:
        """The producer id and its epoch."""
        return assigned_producer_id(
            response.error_code, response.producer_id, response.producer_epoch
        )


@dataclass(slots=True, repr=False)
class AddPartitionsToTxn(TransactionRequest):
    """Add partitions to the transaction, before their first batch is sent."""

    partitions: frozenset[TopicPartition]

    api = Api.ADD_PARTITIONS_TO_TXN
    reactions: ClassVar[Reactions] = {InvalidTxnStateError: Reaction.FATAL}
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.AddPartitionsToTxnRequest(
            **self._producer_fields("v3_and_below_"),
            v3_and_below_topics=tuple(
                schema.AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                for topic, numbers in by_topic(self.partitions).items()
            ),
        )

    def read(self, response: Any) -> Response:
        """The error code that decides."""
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return deciding_error(self.partitions, codes)


@dataclass(slots=True, repr=False)
class AddOffsetsToTxn(TransactionRequest):
    """Add a group's offsets to the transaction, before TxnOffsetCommit writes them."""

    group_id: str

    api = Api.ADD_OFFSETS_TO_TXN
    reactions: ClassVar[Reactions] = {InvalidTxnStateError: Reaction.FATAL}
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    def describe(self) -> str:
        """The request in error messages."""
        return f"AddOffsetsToTxn of group {self.group_id!r}"

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.AddOffsetsToTxnRequest(**self._producer_fields(), group_id=self.group_id)

    def read(self, response: Any) -> Response:
        """The error code."""
        return Response(response.error_code)


_FIRST_COMMIT_WITH_MEMBER: Final = 3
_LAST_VERSION_WITH_NAMES: Final = 5


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommit(TransactionRequest):
    """Write consumed offsets, which become visible with the transaction."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The id of each topic, or none: then the offsets are those of its name, whatever its id is."""

    api = Api.TXN_OFFSET_COMMIT
    highest_version_in_protocol_1: ClassVar[int | None] = 4
    reactions: ClassVar[Reactions] = {RequestTimedOutError: Reaction.FIND_COORDINATOR}
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    @property
    def recipient(self) -> Coordinator:
        """The group's coordinator."""
        return group_coordinator(self.group.group_id)

    def describe(self) -> str:
        """The request in error messages."""
        return f"TxnOffsetCommit of group {self.group.group_id!r}"

    def chosen_version(self, version: int) -> int:
        """Topics have names up to version 5 (KIP-1319)."""
        if not self.topic_ids:
            version = min(version, _LAST_VERSION_WITH_NAMES)
        return TransactionRequest.chosen_version(self, version)

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.TxnOffsetCommitRequest(
            **self._producer_fields(),
            group_id=self.group.group_id,
            **self._member_fields(version),
            topics=tuple(
                schema.TxnOffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_ids.get(topic),
                    partitions=tuple(
                        self._partition(schema, TopicPartition(topic, number)) for number in numbers
                    ),
                )
                for topic, numbers in by_topic(self.offsets).items()
            ),
        )

    def _member_fields(self, version: int) -> dict[str, Any]:
        group = self.group
        if version >= _FIRST_COMMIT_WITH_MEMBER:
            return {
                "generation_id_or_member_epoch": group.generation_id,
                "member_id": group.member_id,
                "group_instance_id": group.group_instance_id,
            }
        if group[1:] != ConsumerGroupMetadata(group.group_id)[1:]:
            raise UnsupportedVersionError(
                f"the broker is too old to check the member of group {group.group_id!r} (KIP-447, "
                "Kafka 2.5): pass only the group's id, and use one transactional id for each "
                "partition that is consumed"
            )
        return {}

    def _partition(self, schema: Schema, partition: TopicPartition) -> Any:
        offset = self.offsets[partition]
        epoch = offset.leader_epoch
        return schema.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=-1 if epoch is None else epoch,
            committed_metadata=offset.metadata,
        )

    def read(self, response: Any) -> Response:
        """The error code that decides."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        codes = {
            TopicPartition(names.get(topic.topic_id, topic.name), each.partition_index): (
                each.error_code
            )
            for topic in response.topics
            for each in topic.partitions
        }
        return deciding_error(self.offsets, codes)


@dataclass(slots=True, repr=False)
class EndTxn(TransactionRequest):
    """Commit or abort. In protocol version 2 the response brings the next transaction's epoch."""

    committed: bool

    api = Api.END_TXN
    highest_version_in_protocol_1: ClassVar[int | None] = 4
    reactions: ClassVar[Reactions] = {
        InvalidTxnStateError: Reaction.ABORT,
        # The error leaves the outcome of the transaction open, and the same end may be requested
        # twice. A coordinator responds so, for one, while it fences the producer (Kafka 4.3).
        UnknownServerError: Reaction.RETRY,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL
    leaves_open: ClassVar[tuple[type[KafkaError], ...]] = (
        CoordinatorNotAvailableError,
        NotCoordinatorError,
        UnknownServerError,
    )
    """The errors after which the end may be in the coordinator's log. Source: Kafka's
    ``TransactionStateManager.appendTransactionToLog``."""

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.EndTxnRequest(**self._producer_fields(), committed=self.committed)

    def read(self, response: Any) -> Response:
        """The error code, and from version 5 on the producer id and epoch that come next."""
        code = response.error_code
        producer_id = response.producer_id
        if producer_id == NO_PRODUCER_ID:
            return Response(code)
        return assigned_producer_id(code, producer_id, response.producer_epoch)


FIRST_STABLE_VERSION: Final = 7
_FIRST_FETCH_WITH_SEVERAL_GROUPS: Final = 8
_FIRST_FETCH_WITH_MEMBER: Final = 9


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetch(CoordinatorRequest):
    """Fetch a group's offsets; offsets that an open transaction would change are waited for."""

    group_id: str
    partitions: frozenset[TopicPartition]

    api = Api.OFFSET_FETCH
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    @property
    def recipient(self) -> Coordinator:
        """The group's coordinator."""
        return group_coordinator(self.group_id)

    def describe(self) -> str:
        """The request in error messages."""
        return f"OffsetFetch of group {self.group_id!r}"

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        if version < FIRST_STABLE_VERSION:
            raise UnsupportedVersionError(
                "the broker is too old to exclude offsets of open transactions (KIP-447, Kafka 2.5)"
            )
        return offset_fetch_message(schema, version, self.group_id, self.partitions)

    def read(self, response: Any) -> Response:
        """The group's offsets, or the error code that decides."""
        return fetched_offsets(response, self.group_id, self.partitions)


def offset_fetch_message(
    schema: Schema,
    version: int,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    *,
    stable: bool = True,
    member: tuple[str, int] | None = None,
) -> Any:
    """The request for a group's offsets; ``partitions``: None for all that it has offsets of.

    ``stable``: only once no open transaction would change them, where the broker knows of these
    (Kafka 2.5). ``member``: the id and epoch of a member (KIP-848), which is refused if it has
    left.
    """
    several = version >= _FIRST_FETCH_WITH_SEVERAL_GROUPS
    kind = schema.OffsetFetchRequestTopics if several else schema.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        topics = tuple(
            kind(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    group: dict[str, Any] = {"group_id": group_id, "topics": topics}
    if version >= _FIRST_FETCH_WITH_MEMBER and member is not None:
        group["member_id"], group["member_epoch"] = member
    if several:
        group = {"groups": (schema.OffsetFetchRequestGroup(**group),)}
    if version >= FIRST_STABLE_VERSION:
        group["require_stable"] = stable
    return schema.OffsetFetchRequest(**group)


def fetched_offsets(
    response: Any, group_id: str, requested: Collection[TopicPartition] | None
) -> Response:
    """The offsets in a response, or the error code that decides; ``requested``: None for all.

    Raises :class:`ProtocolError` if it is about another group, or leaves out a partition.
    """
    if response.groups is None:
        return _offsets(requested, response)
    for group in response.groups:
        if group.group_id == group_id:
            return _offsets(requested, group)
    raise ProtocolError(f"the response does not mention group {group_id!r}")


def _offsets(requested: Collection[TopicPartition] | None, group: Any) -> Response:
    if group.error_code:
        return Response(group.error_code)
    found = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in group.topics
        for each in topic.partitions
    }
    if requested is None:
        requested = found.keys()
    codes = {partition: each.error_code for partition, each in found.items()}
    decided = deciding_error(requested, codes)
    if decided.error_code:
        return decided
    return Response(
        offsets={
            partition: OffsetAndMetadata(
                each.committed_offset,
                each.metadata or "",
                each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None,
            )
            for partition, each in found.items()
            if each.committed_offset >= 0 and partition in requested
        }
    )


class RequestSource(ABC):
    """A source of requests to coordinators, which takes their responses. ``subject``: its name.

    A source names one request at a time; the ``TransactionDriver`` sends it and reports its end by
    :meth:`handle_response` or :meth:`failed`.
    """

    def __init__(self, subject: str) -> None:
        self.last_error: ProducerError | None = None
        """The last error of a request, in its response or in place of one; None: it succeeded."""
        self.last_response_error: KafkaError | None = None
        """The error of the last response; None: it had none."""
        self._subject = subject
        self._coordinators: dict[Coordinator, Node] = {}

    def __str__(self) -> str:
        return self._subject

    def node_for(self, request: CoordinatorRequest) -> Node | None:
        """The broker to send ``request`` to; None: any."""
        coordinator = request.recipient
        return None if coordinator is None else self._coordinators.get(coordinator)

    def sent(self, request: CoordinatorRequest) -> None:  # noqa: B027 (nothing to do by default)
        """``request`` is on its way."""

    def unreachable(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """The coordinator can't be reached because of ``error``: another broker may be it now."""
        self.last_error = error
        self._forget_coordinator(request)

    def failed(self, request: CoordinatorRequest, error: ProducerError) -> Reaction:
        """``request`` has no response because of ``error``. Returns the reaction to it."""
        if not isinstance(error, NetworkError | RequestTimeoutError):
            self.request_failed(request, error)
            return Reaction.FATAL
        if error.written is Written.NO:
            self.unreachable(request, error)
        else:
            self.response_lost(request, error)
        return Reaction.FIND_COORDINATOR

    def response_lost(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` was sent, and ``error`` leaves open whether it was read, or will be."""
        self.unreachable(request, error)

    @abstractmethod
    def request_failed(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` can't be sent, or was refused with ``error``."""

    def handle_response(
        self, request: CoordinatorRequest, response: Response, broker: str
    ) -> Reaction:
        """Take the response of ``broker``. Returns the reaction to it."""
        error = request.error_in(response, f"{self}: ", broker)
        reaction = request.reaction_to(error)
        self.last_error = self.last_response_error = error
        if error is None:
            if isinstance(request, FindCoordinator):
                assert response.node is not None
                self._coordinators[request.coordinator] = response.node
            else:
                self._succeeded(request, response)
        elif reaction is Reaction.FIND_COORDINATOR:
            self._forget_coordinator(request)
        elif reaction not in (Reaction.RETRY, Reaction.RETRY_SOON):
            self._refused(request, error, reaction)
        return reaction

    @abstractmethod
    def _succeeded(self, request: CoordinatorRequest, response: Response) -> None:
        """A coordinator has done ``request``."""

    @abstractmethod
    def _refused(self, request: CoordinatorRequest, error: KafkaError, reaction: Reaction) -> None:
        """A coordinator has refused ``request``; ``reaction`` is ABORT, FENCED or FATAL."""

    def _with_coordinator(self, request: CoordinatorRequest) -> CoordinatorRequest:
        """``request``, or the request that has to find its coordinator first."""
        coordinator = request.recipient
        if coordinator is None or coordinator in self._coordinators:
            return request
        return FindCoordinator(coordinator)

    def _forget_coordinator(self, request: CoordinatorRequest) -> None:
        if request.recipient is not None:
            self._coordinators.pop(request.recipient, None)
