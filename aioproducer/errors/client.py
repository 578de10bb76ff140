"""The errors that the client itself raises, and those of a schema registry.

The dispositions come first: what becomes of a batch, topic or request after an error code from a
broker.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

if TYPE_CHECKING:
    from aioproducer.model import ConsumerRecord


class Disposition(Enum):
    """The producer's reaction to an error code, for a batch, a topic or a request."""

    RETRIABLE = "retriable"
    """The error may be temporary: retry after a backoff, until ``delivery_timeout_ms``."""
    DELIVERED = "delivered"
    """The batch was already written."""
    TOO_LARGE = "too large"
    """A batch of several records is split and sent again; a single record is refused."""
    MISNUMBERED = "misnumbered"
    """The sequence number is wrong: retry, with new numbers if an earlier batch is missing."""
    REFUSED = "refused"
    """The batch fails; others continue. A transaction can only be aborted, as after each failed
    batch."""
    TOPIC_REFUSED = "topic refused"
    """The batch fails; others continue; callers that wait for the topic's metadata fail at once."""
    FATAL = "fatal"
    """The broker refuses the producer itself: all outstanding records fail; without a producer id,
    only the batch does."""
    UNSUPPORTED = "unsupported"
    """The broker does not support this version of the request: use a lower one, or fail."""
    REBOOTSTRAP = "rebootstrap"
    """The client locates the cluster again, from ``bootstrap_servers``."""


class Written(Enum):
    """An error's statement about the attempt to write the batch."""

    NO = "no"
    """This attempt wrote nothing; an earlier one may have."""
    MAYBE = "maybe"
    """This attempt may have written it."""


_Error = TypeVar("_Error", bound="ProducerError")


def shown(text: str, kept: str = "") -> str:
    r"""``text`` as people may read it, whoever wrote it: ``\x1b`` for what a terminal would obey.

    Control characters are escaped, C1 and line ends included, and characters that change the
    direction of others or can't be seen; but none of ``kept``.
    """
    if text.isprintable():
        return text
    return "".join([each if is_plain(each) or each in kept else _escaped(each) for each in text])


def is_plain(character: str) -> bool:
    """True if a terminal does nothing but show ``character``, be it a space of any width."""
    return character.isprintable() or (
        character.isspace() and character > "\x9f" and character not in "\u2028\u2029"
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def anew(error: _Error) -> _Error:
    """``error`` as a new object, to be raised.

    An error object that is raised repeatedly collects the frames of every raise in its traceback,
    and earlier callers see it change.
    """
    new = copy(error)
    new.__cause__ = error.__cause__
    return new


class ProducerError(Exception):
    """The root of all errors: ``except ProducerError`` catches every error of this library."""

    retriable: ClassVar[bool] = False
    """True if the producer retries on its own until ``delivery_timeout_ms``."""
    refresh_metadata: ClassVar[bool] = False
    """True if the error means that the known leaders are out of date."""
    written: ClassVar[Written] = Written.NO
    """Whether the failed attempt may have written to the log."""
    may_have_been_written: bool = False
    """True if the record may be in the log: it was sent, and no response said whether it was
    written. False: it was never sent, or the broker refused it. For a call of an Admin: True if the
    change may have been made."""
    topic: str | None = None
    """The topic of the partition that can't be read, if a read raised the error, or that a
    transaction's coordinator refused; reading continues in others."""
    partition: int | None = None
    """The number of that partition."""

    def __str__(self) -> str:
        """The message. What a peer says in it can't give orders to a terminal, or begin a line."""
        return shown(super().__str__(), kept="\n").replace("\n", "\n  ")


class UsageError(ProducerError):
    """The library was used incorrectly. Nothing was sent."""


class ConfigError(UsageError, ValueError):
    """An option is unknown, out of range, or contradicts another one."""


class ColumnError(ConfigError):
    """An Arrow column does not fit a schema; the message names the column and both types."""


class SerializationError(UsageError, TypeError):
    """A key, value or header could not be converted to bytes."""


class NotPreparedError(SerializationError):
    """A serializer lacks something that its ``prepare()`` fetches.

    Your serializer's ``serialize()`` can raise this: the record then waits until ``prepare()`` has
    been called again. See :class:`~aioproducer.serialization.Serializer`.
    """


class RecordDeserializationError(SerializationError):
    """The deserializer failed on the key or the value of a record that was read.

    ``__cause__`` is the error of the deserializer. Reads raise this until it succeeds, and return
    records of other partitions meanwhile. In a loop, ``seek()`` to ``next_offset`` skips the
    record; after ``run()`` that would also skip records before it that were not handled.
    Source: Kafka's ``RecordDeserializationException`` (KIP-334, KIP-1036).
    """

    offset: int
    next_offset: int

    def __init__(
        self, message: str = "", record: ConsumerRecord | None = None, field: str = "value"
    ) -> None:
        super().__init__(message)
        self.record = cast("ConsumerRecord", record)
        """The record, with the bytes of its key and value."""
        self.field = field
        """``"key"`` or ``"value"``."""
        if record is not None:
            self.topic, self.partition = record.topic, record.partition
            self.offset, self.next_offset = record.offset, record.offset + 1


class RecordTooLargeError(UsageError, ValueError):
    """A record is larger than ``max_request_size``, ``buffer_memory`` or the broker allows."""


class InvalidPartitionError(UsageError, ValueError):
    """The partition number is invalid, or the partitioner chose a partition that does not exist."""


class InvalidOffsetError(UsageError, ValueError):
    """The consumed offsets, or the group that consumed them, are invalid."""


class ClientClosedError(UsageError, RuntimeError):
    """The client (a producer, an Admin, a Reader) is closed."""


class ProducerClosedError(ClientClosedError):
    """The producer is closed, or was closed before the record was delivered."""


class IllegalStateError(UsageError, RuntimeError):
    """The call is not allowed in the producer's state (not started, started twice, …)."""


class WrongLoopError(UsageError, RuntimeError):
    """The producer belongs to another event loop, thread or process."""


class MissingExtraError(UsageError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class ProducerTimeoutError(ProducerError, TimeoutError):
    """The base class of timeouts."""


class DeliveryTimeoutError(ProducerTimeoutError):
    """The record was not acknowledged within ``delivery_timeout_ms``."""


class BufferExhaustedError(ProducerTimeoutError):
    """``buffer_memory`` is full; ``await producer.drain()`` before sending more."""


class MetadataTimeoutError(ProducerTimeoutError):
    """There was no metadata for the topic, or for a record's partition, within ``max_block_ms``.

    ``__cause__`` is the brokers' last error about the topic, or a :class:`NetworkError` if no
    broker has answered. It is None if the topic is known and lacks the partition.
    """


class PreparationTimeoutError(ProducerTimeoutError):
    """A serializer was not prepared for the topic within ``max_block_ms``."""


class RequestTimeoutError(ProducerTimeoutError):
    """A broker did not answer within ``request_timeout_ms``; its connection was closed."""

    retriable = True
    refresh_metadata = True
    written = Written.MAYBE


class RecordCancelledError(ProducerError):
    """The caller cancelled the record while it was pending. Only interceptors and traces get
    this."""


class NetworkError(ProducerError, ConnectionError):
    """The base class of errors between the producer and a broker."""

    retriable = True
    refresh_metadata = True
    written = Written.MAYBE


class BootstrapError(NetworkError):
    """None of ``bootstrap_servers`` answered; the message lists the reason for each address."""


class BrokerConnectionError(NetworkError):
    """A broker could not be reached, or its connection broke."""


class ProtocolError(NetworkError):
    """The peer sent bytes that are not Kafka's protocol; its connection was closed."""


class AuthenticationError(ProducerError):
    """A broker refused the login, or can't be trusted. The producer does not retry immediately."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed because of a certificate, a host name, a protocol version, or a peer
    without TLS.

    Source: Kafka's ``SslAuthenticationException``.
    """


class TokenError(AuthenticationError):
    """No token is available: the provider or the token endpoint refused, or returned nothing
    usable."""


class TokenEndpointError(NetworkError):
    """The token endpoint did not answer; the producer asks it again."""

    written = Written.NO


class CorruptRecordsError(ProducerError):
    """Records that were read can't be decoded; the message names the batch and what to do.

    ``offset`` is the first offset of the batch, and ``next_offset`` the one after it: ``seek()``
    there to skip the batch. They are None if the bytes are too damaged to tell them.
    """

    def __init__(
        self, message: str = "", *, offset: int | None = None, next_offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.next_offset = next_offset


class LogTruncatedError(ProducerError):
    """Records that a reader has returned are no longer in the log (KIP-320).

    Only with ``auto_offset_reset="none"``. Source: Kafka's ``LogTruncationException``.
    """


class TopicRecreatedError(ProducerError):
    """A topic was deleted and recreated while it was being read."""


class TransactionError(ProducerError):
    """The base class of errors of a whole transaction."""


class AbortableTransactionError(TransactionError):
    """The transaction can only be aborted (see ``__cause__``). The next one can succeed."""


class TransactionAbortedError(AbortableTransactionError):
    """The record was not sent, because its transaction was aborted."""


class CommitUnconfirmedError(TransactionError, ProducerTimeoutError):
    """The commit was requested but is not confirmed yet: it may have succeeded, or may still
    fail. That of a blocking producer may not have begun, as the message says: call it again."""


class FatalTransactionError(TransactionError):
    """The producer cannot begin another transaction (see ``__cause__``). Close it."""


class UnsupportedVersionError(ProducerError):
    """Broker and client have no version of a request in common, or the common version lacks a
    feature."""


class ClientBrokenError(ProducerError):
    """A task of the client failed unexpectedly (see ``__cause__``). Create a new client."""


class ProducerBrokenError(ClientBrokenError):
    """A task of the producer failed unexpectedly (see ``__cause__``). Create a new producer."""


class SchemaRegistryError(ProducerError):
    """A schema registry refused a request, or its response can't be used.

    ``url`` is the request's address, without credentials. ``status`` is the response's HTTP status,
    and ``error_code`` is the registry's own error number, such as 40401; both are None if there was
    none.
    """

    def __init__(
        self,
        message: str = "",
        *,
        url: str | None = None,
        status: int | None = None,
        error_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.status = status
        self.error_code = error_code


class SchemaRegistryUnavailableError(SchemaRegistryError, ConnectionError):
    """No registry could be reached, or none answered in time. A later call may succeed.

    This also covers a registry that still answers with status 429 or 5xx after the last retry.
    """

    retriable = True


class SchemaRegistryAuthenticationError(SchemaRegistryError):
    """The registry does not accept the credentials, or they do not permit the request (401, 403),
    or its certificate can't be trusted."""


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema is not compatible with earlier versions of the subject (409); the message comes
    from the registry."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such subject, version or schema (404)."""


class InvalidSchemaError(SchemaRegistryError):
    """The registry can't parse the schema, or refuses an argument of the request (422)."""
