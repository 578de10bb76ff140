"""confluent-kafka's errors, librdkafka's codes of them, and the ones that stand for aioproducer's.

Negative codes are the client's own; the others are Kafka's, under librdkafka's names. A delivery
report and ``error_cb`` get a :class:`KafkaError`. Calls raise a :class:`KafkaException`, whose
first argument is one.
"""

from __future__ import annotations

import builtins
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from aioproducer import errors as ours

__all__ = [
    "CODES",
    "NAMES",
    "TEXTS",
    "KafkaError",
    "KafkaException",
    "NoTokenError",
    "PurgedError",
    "PurgedInFlightError",
    "QueueFullError",
    "UnknownTopicError",
    "api_error",
    "broker_error",
    "record_error",
    "translating",
]


_TABLE: Final = """\
-199 _BAD_MSG Local: Bad message format
-198 _BAD_COMPRESSION Local: Invalid compressed data
-197 _DESTROY Local: Broker handle destroyed for termination
-196 _FAIL Local: Communication failure with broker
-195 _TRANSPORT Local: Broker transport failure
-194 _CRIT_SYS_RESOURCE Local: Critical system resource failure
-193 _RESOLVE Local: Host resolution failure
-192 _MSG_TIMED_OUT Local: Message timed out
-191 _PARTITION_EOF Broker: No more messages
-190 _UNKNOWN_PARTITION Local: Unknown partition
-189 _FS Local: File or filesystem error
-188 _UNKNOWN_TOPIC Local: Unknown topic
-187 _ALL_BROKERS_DOWN Local: All broker connections are down
-186 _INVALID_ARG Local: Invalid argument or configuration
-185 _TIMED_OUT Local: Timed out
-184 _QUEUE_FULL Local: Queue full
-183 _ISR_INSUFF Local: ISR count insufficient
-182 _NODE_UPDATE Local: Broker node update
-181 _SSL Local: SSL error
-180 _WAIT_COORD Local: Waiting for coordinator
-179 _UNKNOWN_GROUP Local: Unknown group
-178 _IN_PROGRESS Local: Operation in progress
-177 _PREV_IN_PROGRESS Local: Previous operation in progress
-176 _EXISTING_SUBSCRIPTION Local: Existing subscription
-175 _ASSIGN_PARTITIONS Local: Assign partitions
-174 _REVOKE_PARTITIONS Local: Revoke partitions
-173 _CONFLICT Local: Conflicting use
-172 _STATE Local: Erroneous state
-171 _UNKNOWN_PROTOCOL Local: Unknown protocol
-170 _NOT_IMPLEMENTED Local: Not implemented
-169 _AUTHENTICATION Local: Authentication failure
-168 _NO_OFFSET Local: No offset stored
-167 _OUTDATED Local: Outdated
-166 _TIMED_OUT_QUEUE Local: Timed out in queue
-165 _UNSUPPORTED_FEATURE Local: Required feature not supported by broker
-164 _WAIT_CACHE Local: Awaiting cache update
-163 _INTR Local: Operation interrupted
-162 _KEY_SERIALIZATION Local: Key serialization error
-161 _VALUE_SERIALIZATION Local: Value serialization error
-160 _KEY_DESERIALIZATION Local: Key deserialization error
-159 _VALUE_DESERIALIZATION Local: Value deserialization error
-158 _PARTIAL Local: Partial response
-157 _READ_ONLY Local: Read-only object
-156 _NOENT Local: No such entry
-155 _UNDERFLOW Local: Read underflow
-154 _INVALID_TYPE Local: Invalid type
-153 _RETRY Local: Retry operation
-152 _PURGE_QUEUE Local: Purged in queue
-151 _PURGE_INFLIGHT Local: Purged in flight
-150 _FATAL Local: Fatal error
-149 _INCONSISTENT Local: Inconsistent state
-148 _GAPLESS_GUARANTEE Local: Gap-less ordering would not be guaranteed if proceeding
-147 _MAX_POLL_EXCEEDED Local: Maximum application poll interval (max.poll.interval.ms) exceeded
-146 _UNKNOWN_BROKER Local: Unknown broker
-145 _NOT_CONFIGURED Local: Functionality not configured
-144 _FENCED Local: This instance has been fenced by a newer instance
-143 _APPLICATION Local: Application generated error
-142 _ASSIGNMENT_LOST Local: Group partition assignment lost
-141 _NOOP Local: No operation performed
-140 _AUTO_OFFSET_RESET Local: No offset to automatically reset to
-139 _LOG_TRUNCATION Local: Partition log truncation detected
-138 _INVALID_DIFFERENT_RECORD Local: an invalid record in the same batch caused the failure of \
this message too
-137 _DESTROY_BROKER Local: Broker handle destroyed without termination
-1 UNKNOWN Unknown broker error
0 NO_ERROR Success
1 OFFSET_OUT_OF_RANGE Broker: Offset out of range
2 INVALID_MSG Broker: Invalid message
3 UNKNOWN_TOPIC_OR_PART Broker: Unknown topic or partition
4 INVALID_MSG_SIZE Broker: Invalid message size
5 LEADER_NOT_AVAILABLE Broker: Leader not available
6 NOT_LEADER_FOR_PARTITION Broker: Not leader for partition
7 REQUEST_TIMED_OUT Broker: Request timed out
8 BROKER_NOT_AVAILABLE Broker: Broker not available
9 REPLICA_NOT_AVAILABLE Broker: Replica not available
10 MSG_SIZE_TOO_LARGE Broker: Message size too large
11 STALE_CTRL_EPOCH Broker: StaleControllerEpochCode
12 OFFSET_METADATA_TOO_LARGE Broker: Offset metadata string too large
13 NETWORK_EXCEPTION Broker: Broker disconnected before response received
14 COORDINATOR_LOAD_IN_PROGRESS Broker: Coordinator load in progress
15 COORDINATOR_NOT_AVAILABLE Broker: Coordinator not available
16 NOT_COORDINATOR Broker: Not coordinator
17 TOPIC_EXCEPTION Broker: Invalid topic
18 RECORD_LIST_TOO_LARGE Broker: Message batch larger than configured server segment size
19 NOT_ENOUGH_REPLICAS Broker: Not enough in-sync replicas
20 NOT_ENOUGH_REPLICAS_AFTER_APPEND Broker: Message(s) written to insufficient number of in-sync \
replicas
21 INVALID_REQUIRED_ACKS Broker: Invalid required acks value
22 ILLEGAL_GENERATION Broker: Specified group generation id is not valid
23 INCONSISTENT_GROUP_PROTOCOL Broker: Inconsistent group protocol
24 INVALID_GROUP_ID Broker: Invalid group.id
25 UNKNOWN_MEMBER_ID Broker: Unknown member
26 INVALID_SESSION_TIMEOUT Broker: Invalid session timeout
27 REBALANCE_IN_PROGRESS Broker: Group rebalance in progress
28 INVALID_COMMIT_OFFSET_SIZE Broker: Commit offset data size is not valid
29 TOPIC_AUTHORIZATION_FAILED Broker: Topic authorization failed
30 GROUP_AUTHORIZATION_FAILED Broker: Group authorization failed
31 CLUSTER_AUTHORIZATION_FAILED Broker: Cluster authorization failed
32 INVALID_TIMESTAMP Broker: Invalid timestamp
33 UNSUPPORTED_SASL_MECHANISM Broker: Unsupported SASL mechanism
34 ILLEGAL_SASL_STATE Broker: Request not valid in current SASL state
35 UNSUPPORTED_VERSION Broker: API version not supported
36 TOPIC_ALREADY_EXISTS Broker: Topic already exists
37 INVALID_PARTITIONS Broker: Invalid number of partitions
38 INVALID_REPLICATION_FACTOR Broker: Invalid replication factor
39 INVALID_REPLICA_ASSIGNMENT Broker: Invalid replica assignment
40 INVALID_CONFIG Broker: Configuration is invalid
41 NOT_CONTROLLER Broker: Not controller for cluster
42 INVALID_REQUEST Broker: Invalid request
43 UNSUPPORTED_FOR_MESSAGE_FORMAT Broker: Message format on broker does not support request
44 POLICY_VIOLATION Broker: Policy violation
45 OUT_OF_ORDER_SEQUENCE_NUMBER Broker: Broker received an out of order sequence number
46 DUPLICATE_SEQUENCE_NUMBER Broker: Broker received a duplicate sequence number
47 INVALID_PRODUCER_EPOCH Broker: Producer attempted an operation with an old epoch
48 INVALID_TXN_STATE Broker: Producer attempted a transactional operation in an invalid state
49 INVALID_PRODUCER_ID_MAPPING Broker: Producer attempted to use a producer id which is not \
currently assigned to its transactional id
50 INVALID_TRANSACTION_TIMEOUT Broker: Transaction timeout is larger than the maximum value \
allowed by the broker's max.transaction.timeout.ms
51 CONCURRENT_TRANSACTIONS Broker: Producer attempted to update a transaction while another \
concurrent operation on the same transaction was ongoing
52 TRANSACTION_COORDINATOR_FENCED Broker: Indicates that the transaction coordinator sending a \
WriteTxnMarker is no longer the current coordinator for a given producer
53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED Broker: Transactional Id authorization failed
54 SECURITY_DISABLED Broker: Security features are disabled
55 OPERATION_NOT_ATTEMPTED Broker: Operation not attempted
56 KAFKA_STORAGE_ERROR Broker: Disk error when trying to access log file on disk
57 LOG_DIR_NOT_FOUND Broker: The user-specified log directory is not found in the broker config
58 SASL_AUTHENTICATION_FAILED Broker: SASL Authentication failed
59 UNKNOWN_PRODUCER_ID Broker: Unknown Producer Id
60 REASSIGNMENT_IN_PROGRESS Broker: Partition reassignment is in progress
61 DELEGATION_TOKEN_AUTH_DISABLED Broker: Delegation Token feature is not enabled
62 DELEGATION_TOKEN_NOT_FOUND Broker: Delegation Token is not found on server
63 DELEGATION_TOKEN_OWNER_MISMATCH Broker: Specified Principal is not valid Owner/Renewer
64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED Broker: Delegation Token requests are not allowed on this \
connection
65 DELEGATION_TOKEN_AUTHORIZATION_FAILED Broker: Delegation Token authorization failed
66 DELEGATION_TOKEN_EXPIRED Broker: Delegation Token is expired
67 INVALID_PRINCIPAL_TYPE Broker: Supplied principalType is not supported
68 NON_EMPTY_GROUP Broker: The group is not empty
69 GROUP_ID_NOT_FOUND Broker: The group id does not exist
70 FETCH_SESSION_ID_NOT_FOUND Broker: The fetch session ID was not found
71 INVALID_FETCH_SESSION_EPOCH Broker: The fetch session epoch is invalid
72 LISTENER_NOT_FOUND Broker: No matching listener
73 TOPIC_DELETION_DISABLED Broker: Topic deletion is disabled
74 FENCED_LEADER_EPOCH Broker: Leader epoch is older than broker epoch
75 UNKNOWN_LEADER_EPOCH Broker: Leader epoch is newer than broker epoch
76 UNSUPPORTED_COMPRESSION_TYPE Broker: Unsupported compression type
77 STALE_BROKER_EPOCH Broker: Broker epoch has changed
78 OFFSET_NOT_AVAILABLE Broker: Leader high watermark is not caught up
79 MEMBER_ID_REQUIRED Broker: Group member needs a valid member ID
80 PREFERRED_LEADER_NOT_AVAILABLE Broker: Preferred leader was not available
81 GROUP_MAX_SIZE_REACHED Broker: Consumer group has reached maximum size
82 FENCED_INSTANCE_ID Broker: Static consumer fenced by other consumer with same group.instance.id
83 ELIGIBLE_LEADERS_NOT_AVAILABLE Broker: Eligible partition leaders are not available
84 ELECTION_NOT_NEEDED Broker: Leader election not needed for topic partition
85 NO_REASSIGNMENT_IN_PROGRESS Broker: No partition reassignment is in progress
86 GROUP_SUBSCRIBED_TO_TOPIC Broker: Deleting offsets of a topic while the consumer group is \
subscribed to it
87 INVALID_RECORD Broker: Broker failed to validate record
88 UNSTABLE_OFFSET_COMMIT Broker: There are unstable offsets that need to be cleared
89 THROTTLING_QUOTA_EXCEEDED Broker: Throttling quota has been exceeded
90 PRODUCER_FENCED Broker: There is a newer producer with the same transactionalId which fences \
the current one
91 RESOURCE_NOT_FOUND Broker: Request illegally referred to resource that does not exist
92 DUPLICATE_RESOURCE Broker: Request illegally referred to the same resource twice
93 UNACCEPTABLE_CREDENTIAL Broker: Requested credential would not meet criteria for acceptability
94 INCONSISTENT_VOTER_SET Broker: Indicates that the either the sender or recipient of a \
voter-only request is not one of the expected voters
95 INVALID_UPDATE_VERSION Broker: Invalid update version
96 FEATURE_UPDATE_FAILED Broker: Unable to update finalized features due to server error
97 PRINCIPAL_DESERIALIZATION_FAILURE Broker: Request principal deserialization failed during \
forwarding
100 UNKNOWN_TOPIC_ID Broker: Unknown topic id
103 INCONSISTENT_TOPIC_ID Broker: The log's topic ID did not match the topic ID in the request
110 FENCED_MEMBER_EPOCH Broker: The member epoch is fenced by the group coordinator
111 UNRELEASED_INSTANCE_ID Broker: The instance ID is still used by another member in the \
consumer group
112 UNSUPPORTED_ASSIGNOR Broker: The assignor or its version range is not supported by the \
consumer group
113 STALE_MEMBER_EPOCH Broker: The member epoch is stale
114 MISMATCHED_ENDPOINT_TYPE Broker: The request was sent to an endpoint of the wrong type
115 UNSUPPORTED_ENDPOINT_TYPE Broker: This endpoint type is not supported yet
116 UNKNOWN_CONTROLLER_ID Broker: This controller ID is not known
117 UNKNOWN_SUBSCRIPTION_ID Broker: Client sent a push telemetry request with an invalid or \
outdated subscription ID
118 TELEMETRY_TOO_LARGE Broker: Client sent a push telemetry request larger than the maximum size \
the broker will accept
119 INVALID_REGISTRATION Broker: The controller has considered the broker registration to be invalid
120 TRANSACTION_ABORTABLE Broker: The server encountered an error with the transaction
121 INVALID_RECORD_STATE Broker: The record state is invalid
122 SHARE_SESSION_NOT_FOUND Broker: The share session was not found
123 INVALID_SHARE_SESSION_EPOCH Broker: The share session epoch is invalid
124 FENCED_STATE_EPOCH Broker: The share-group state epoch did not match
125 INVALID_VOTER_KEY Broker: The voter key doesn't match the receiving replica's key
126 DUPLICATE_VOTER Broker: The voter is already part of the set of voters
127 VOTER_NOT_FOUND Broker: The voter is not part of the set of voters
128 INVALID_REGULAR_EXPRESSION Broker: The regular expression is not valid
129 REBOOTSTRAP_REQUIRED Broker: Client metadata is stale, client should rebootstrap to obtain \
new metadata
130 STREAMS_INVALID_TOPOLOGY Broker: The supplied topology is invalid
131 STREAMS_INVALID_TOPOLOGY_EPOCH Broker: The supplied topology epoch is invalid
132 STREAMS_TOPOLOGY_FENCED Broker: The supplied topology epoch is outdated
133 SHARE_SESSION_LIMIT_REACHED Broker: The limit of share sessions has been reached
"""

_ROWS: Final = [line.split(maxsplit=2) for line in _TABLE.splitlines()]

CODES: Final = {name: int(code) for code, name, _ in _ROWS}
"""The codes by their names, such as ``_MSG_TIMED_OUT``."""
NAMES: Final = {int(code): name for code, name, _ in _ROWS}
TEXTS: Final = {int(code): text for code, _, text in _ROWS}
"""The texts by their codes."""


class KafkaException(Exception):  # noqa: N818  # confluent-kafka's name
    """The error of a call; ``exception.args[0]`` is its :class:`KafkaError`."""


class KafkaError(KafkaException):
    """An error code of librdkafka, and its message.

    The codes are attributes: ``KafkaError._MSG_TIMED_OUT``. An error equals another error of the
    same code, and the code itself.

    Args:
        error: the code.
        reason: a message instead of the code's own.
        fatal: True: the producer can't be used any more.
        retriable: True: the same call can be repeated.
        txn_requires_abort: True: the transaction has to be aborted.
    """

    if TYPE_CHECKING:
        _ALL_BROKERS_DOWN: int
        _AUTHENTICATION: int
        _BAD_MSG: int
        _CONFLICT: int
        _DESTROY: int
        _FATAL: int
        _FENCED: int
        _INVALID_ARG: int
        _KEY_SERIALIZATION: int
        _MSG_TIMED_OUT: int
        _NOT_CONFIGURED: int
        _PURGE_INFLIGHT: int
        _PURGE_QUEUE: int
        _QUEUE_FULL: int
        _RESOLVE: int
        _SSL: int
        _STATE: int
        _TIMED_OUT: int
        _TRANSPORT: int
        _UNKNOWN_PARTITION: int
        _UNKNOWN_TOPIC: int
        _UNSUPPORTED_FEATURE: int
        _VALUE_SERIALIZATION: int
        MSG_SIZE_TOO_LARGE: int
        SASL_AUTHENTICATION_FAILED: int

    def __init__(
        self,
        error: int,
        reason: builtins.str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        if not hasattr(type(error), "__index__"):
            raise TypeError(f"{type(error).__name__!r} object cannot be interpreted as an integer")
        if reason is not None and not isinstance(reason, builtins.str):
            raise TypeError(f"argument 2 must be str or None, not {type(reason).__name__}")
        super().__init__()
        self._code = code = int(error)
        self._text = TEXTS.get(code, f"Err-{code}?") if reason is None else reason
        self._fatal = bool(fatal)
        self._retriable = bool(retriable)
        self._abort = bool(txn_requires_abort)
        self.cause: ours.ProducerError | None = None
        """aioproducer's error, whose message says what happened, where, and what to do next."""

    @property
    def args(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The error itself: one that is raised is caught as a :class:`KafkaException`."""
        return (self,)

    def code(self) -> int:
        """The number of the error: negative for the client's own, else Kafka's."""
        return self._code

    def name(self) -> builtins.str:
        """The name of the code, such as ``_MSG_TIMED_OUT``."""
        return NAMES.get(self._code, f"ERR_{self._code}?")

    def fatal(self) -> bool:
        """True if the producer can't be used any more."""
        return self._fatal

    def retriable(self) -> bool:
        """True if the call can be repeated: a transactional call whose outcome is unknown."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """True if the application has to abort the transaction, and may begin another one."""
        return self._abort

    def __repr__(self) -> builtins.str:
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._text}"}}'

    __str__ = __repr__

    def str(self) -> builtins.str:
        """The message for people."""
        return self._text

    def __hash__(self) -> int:
        return self._code

    def __eq__(self, other: object) -> bool:
        return self._code == _number(other)

    def __lt__(self, other: object) -> bool:
        return self._code < _number(other)

    def __le__(self, other: object) -> bool:
        return self._code <= _number(other)

    def __gt__(self, other: object) -> bool:
        return self._code > _number(other)

    def __ge__(self, other: object) -> bool:
        return self._code >= _number(other)

    def __reduce__(self) -> tuple[Any, ...]:
        flags = self._fatal, self._retriable, self._abort
        return KafkaError, (self._code, self._text, *flags), {"cause": self.cause}


for _name, _code in CODES.items():
    setattr(KafkaError, _name, _code)


def _number(other: object) -> int | float:
    """The code of another error, or a number itself; NaN for anything else, which equals none."""
    if isinstance(other, KafkaError):
        return other._code
    return other if isinstance(other, int) else float("nan")


class NoTokenError(ours.ProducerError):
    """``oauth_cb`` has given no token, so there is no producer."""


class PurgedError(ours.ProducerError):
    """``purge()`` has removed the record before it was sent."""


class PurgedInFlightError(ours.ProducerError):
    """``purge()`` gave up the record while it was on its way: it may be in the log."""

    may_have_been_written = True


class QueueFullError(ours.ProducerError):
    """As many records as the queue may hold wait already; this one was not sent."""


class UnknownTopicError(ours.ProducerError):
    """The brokers say that the topic does not exist, and have not created it."""


_CODES: Final[dict[type[ours.ProducerError], int]] = {
    NoTokenError: KafkaError.SASL_AUTHENTICATION_FAILED,
    PurgedError: KafkaError._PURGE_QUEUE,
    PurgedInFlightError: KafkaError._PURGE_INFLIGHT,
    ours.AuthenticationError: KafkaError._AUTHENTICATION,
    ours.BootstrapError: KafkaError._RESOLVE,
    ours.ClientBrokenError: KafkaError._FATAL,
    ours.ClientClosedError: KafkaError._DESTROY,
    ours.ConfigError: KafkaError._INVALID_ARG,
    ours.FatalTransactionError: KafkaError._FATAL,
    ours.IllegalStateError: KafkaError._STATE,
    ours.InvalidPartitionError: KafkaError._UNKNOWN_PARTITION,
    ours.NetworkError: KafkaError._TRANSPORT,
    ours.ProducerTimeoutError: KafkaError._TIMED_OUT,
    ours.ProtocolError: KafkaError._BAD_MSG,
    QueueFullError: KafkaError._QUEUE_FULL,
    ours.RecordTooLargeError: KafkaError.MSG_SIZE_TOO_LARGE,
    ours.SslAuthenticationError: KafkaError._SSL,
    ours.TransactionAbortedError: KafkaError._PURGE_QUEUE,
    UnknownTopicError: KafkaError._UNKNOWN_TOPIC,
    ours.UnsupportedVersionError: KafkaError._UNSUPPORTED_FEATURE,
    ours.UsageError: KafkaError._INVALID_ARG,
    ours.WrongLoopError: KafkaError._STATE,
}
"""The codes of our errors that are no broker's; they hold for subclasses as well."""

_FENCING: Final = (ours.ProducerFencedError, ours.InvalidProducerEpochError)
_LATE: Final = (
    ours.BootstrapError,
    ours.BufferExhaustedError,
    ours.DeliveryTimeoutError,
    ours.MetadataTimeoutError,
)
_FAIL: Final = CODES["_FAIL"]


def _code_of(error: BaseException) -> int:
    if isinstance(error, ours.KafkaError):
        return error.code
    for base in type(error).__mro__:
        if (code := _CODES.get(base)) is not None:
            return code
    return _FAIL


def record_error(error: BaseException) -> KafkaError:
    """The error of a delivery report; its text is the code's own, as librdkafka's."""
    code = KafkaError._MSG_TIMED_OUT if isinstance(error, _LATE) else _code_of(error)
    if isinstance(error, ours.TransactionError) and isinstance(error.__cause__, ours.ProducerError):
        code = _code_of(error.__cause__)
    made = KafkaError(code, fatal=isinstance(error, ours.ClientBrokenError))
    made.cause = error if isinstance(error, ours.ProducerError) else None
    return made


def api_error(error: ours.ProducerError) -> KafkaError:
    """The error of a call, with our text."""
    fatal = isinstance(error, ours.FatalTransactionError | ours.ClientBrokenError)
    abort = isinstance(error, ours.AbortableTransactionError)
    reason: BaseException = error
    if isinstance(error, ours.TransactionError) and error.__cause__ is not None:
        reason = error.__cause__
    code = _code_of(reason)
    if fatal and isinstance(reason, _FENCING):
        code = KafkaError._FENCED
    retriable = isinstance(error, ours.ProducerTimeoutError) and not (fatal or abort)
    if retriable:
        code = KafkaError._TIMED_OUT
    made = KafkaError(code, str(error), fatal, retriable, abort)
    made.cause = error
    return made


def broker_error(error: ours.ProducerError) -> KafkaError:
    """The error of a connection for ``error_cb``, with our text."""
    code = _code_of(error)
    if isinstance(error, ours.NetworkError) and isinstance(error.__cause__, socket.gaierror):
        code = KafkaError._RESOLVE
    elif isinstance(error, ours.AuthenticationError) and code > 0:
        code = KafkaError._AUTHENTICATION  # librdkafka tells no broker's code here
    made = KafkaError(code, str(error))
    made.cause = error
    return made


@contextmanager
def translating() -> Iterator[None]:
    """Raise our errors as a :class:`KafkaException`."""
    try:
        yield
    except ours.ProducerError as error:
        raise KafkaException(api_error(error)) from error
