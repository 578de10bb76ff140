"""The errors that are raised on this side of the wire."""

from __future__ import annotations

from copy import copy
from typing import ClassVar, TypeVar

from aioproducer.errors.dispositions import Written

_Error = TypeVar("_Error", bound="ProducerError")


def anew(error: _Error) -> _Error:
    """``error`` as a new object, to be raised.

    An object that is raised again and again keeps the frames of every time in its traceback, and
    callers that got it before see it change.
    """
    new = copy(error)
    new.__cause__ = error.__cause__
    return new


class ProducerError(Exception):
    """The root: ``except ProducerError`` catches everything that this library raises."""

    retriable: ClassVar[bool] = False
    """True if the producer itself tries again until ``delivery_timeout_ms``."""
    refresh_metadata: ClassVar[bool] = False
    """True if the error says that the known leaders are out of date."""
    written: ClassVar[Written] = Written.NO
    """The error's statement about the log."""
    may_have_been_written: bool = False
    """True if the record may be in the log: it was on its way when it was given up, and nobody said
    what became of it. False: it never left, or the broker refused it. For an Admin's call: its
    change may have been made."""


class UsageError(ProducerError):
    """The library was used wrongly. Nothing was sent."""


class ConfigError(UsageError, ValueError):
    """An option is unknown, out of range, or contradicts another one."""


class ColumnError(ConfigError):
    """A column of Arrow and a schema do not fit; the message names the column and both types."""


class SerializationError(UsageError, TypeError):
    """A key, value or header could not be turned into bytes."""


class NotPreparedError(SerializationError):
    """A serializer lacks something that its ``prepare()`` fetches.

    ``serialize()`` of a user's serializer may raise it: the record waits until ``prepare()`` was
    called again. See :class:`~aioproducer.serialization.Serializer`.
    """


class RecordTooLargeError(UsageError, ValueError):
    """A record is larger than ``max_request_size``, ``buffer_memory`` or the broker allows."""


class InvalidPartitionError(UsageError, ValueError):
    """No topic has the partition, or the partitioner chose none of the topic's."""


class InvalidOffsetError(UsageError, ValueError):
    """The consumed offsets that were given, or the group that consumed them, can't be right."""


class ClientClosedError(UsageError, RuntimeError):
    """The client (a producer, an Admin, a Reader) is closed."""


class ProducerClosedError(ClientClosedError):
    """The producer is closed, or was closed before the record was delivered."""


class IllegalStateError(UsageError, RuntimeError):
    """The call does not fit the producer's state (not started, started twice, …)."""


class WrongLoopError(UsageError, RuntimeError):
    """The producer belongs to another event loop, thread or process."""


class MissingExtraError(UsageError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class ProducerTimeoutError(ProducerError, TimeoutError):
    """The root of the timeouts."""


class DeliveryTimeoutError(ProducerTimeoutError):
    """The record was not acknowledged within ``delivery_timeout_ms``."""


class BufferExhaustedError(ProducerTimeoutError):
    """``buffer_memory`` is used up; ``await producer.drain()`` before sending more."""


class MetadataTimeoutError(ProducerTimeoutError):
    """The topic, or the partition that a record names, did not become known in ``max_block_ms``."""


class PreparationTimeoutError(ProducerTimeoutError):
    """A serializer was not prepared for the topic within ``max_block_ms``."""


class RequestTimeoutError(ProducerTimeoutError):
    """A broker did not answer within ``request_timeout_ms``; its connection was closed."""

    retriable = True
    refresh_metadata = True
    written = Written.MAYBE


class RecordCancelledError(ProducerError):
    """The caller cancelled the record while it was pending; interceptors and traces get this."""


class NetworkError(ProducerError, ConnectionError):
    """The root of the errors between the producer and a broker."""

    retriable = True
    refresh_metadata = True
    written = Written.MAYBE


class BootstrapError(NetworkError):
    """None of ``bootstrap_servers`` answered; the message gives each address its reason."""


class BrokerConnectionError(NetworkError):
    """A broker could not be reached, or its connection broke."""


class ProtocolError(NetworkError):
    """The peer sent bytes that are not Kafka's protocol; its connection was closed."""


class AuthenticationError(ProducerError):
    """A broker refused the login, or can't be trusted. The producer does not try again at once."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: a certificate, a host name, a protocol version, or no TLS at all.

    Source: Kafka's ``SslAuthenticationException``.
    """


class TokenError(AuthenticationError):
    """No token can be had: the provider or the token endpoint refused, or gave nothing usable."""


class TokenEndpointError(NetworkError):
    """The token endpoint did not answer at present; the producer asks it again."""

    written = Written.NO


class CorruptRecordsError(ProducerError):
    """Records that were read can't be decoded; the message names the batch, and what to do."""


class LogTruncatedError(ProducerError):
    """Records that a reader has returned are not in the log any more (KIP-320).

    Source: Kafka's ``LogTruncationException``.
    """


class TopicRecreatedError(ProducerError):
    """A topic that is read was deleted and created again."""


class TransactionError(ProducerError):
    """The root of the errors of a transaction as a whole."""


class AbortableTransactionError(TransactionError):
    """The transaction can only be aborted (``__cause__`` has the reason). The next one can work."""


class TransactionAbortedError(AbortableTransactionError):
    """The record was not sent any more, because its transaction is aborted."""


class CommitUnconfirmedError(TransactionError, ProducerTimeoutError):
    """The commit was asked for and is not confirmed yet: it may be done, or may still fail."""


class FatalTransactionError(TransactionError):
    """This producer does no transaction any more (``__cause__`` has the reason). Close it."""


class UnsupportedVersionError(ProducerError):
    """Broker and client share no version of a request, or the version lacks what was asked."""


class ClientBrokenError(ProducerError):
    """A task of the client ended in an unexpected error (``__cause__``). Make a new client."""


class ProducerBrokenError(ClientBrokenError):
    """A task of the producer ended in an unexpected error (``__cause__``). Make a new producer."""
