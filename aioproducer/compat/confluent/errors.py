"""confluent-kafka's errors, and the ones that stand for aioproducer's.

A delivery report and ``error_cb`` get a :class:`KafkaError`. Calls raise a :class:`KafkaException`,
whose first argument is one.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from aioproducer import errors as ours
from aioproducer.compat.confluent.error_codes import CODES, NAMES, TEXTS

__all__ = [
    "KafkaError",
    "KafkaException",
    "NoTokenError",
    "PurgedError",
    "PurgedInFlightError",
    "UnknownTopicError",
    "api_error",
    "record_error",
    "translating",
]


class KafkaException(Exception):  # noqa: N818  # confluent-kafka's name
    """The error of a call; ``exception.args[0]`` is its :class:`KafkaError`."""


class KafkaError(KafkaException):
    """A code of librdkafka, and its text.

    The codes are attributes: ``KafkaError._MSG_TIMED_OUT``. An error equals another error of the
    same code, and the code itself.

    Args:
        error: the code.
        reason: a text instead of the code's own.
        fatal: True: the producer can't be used any more.
        retriable: True: the same call may be made again.
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
        """aioproducer's error, whose text says what happened, where, and what to do next."""

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
        """True if the call may be made again: a call of transactions whose outcome is open."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """True if the application has to abort the transaction, and may begin another one."""
        return self._abort

    def __repr__(self) -> builtins.str:
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._text}"}}'

    __str__ = __repr__

    def str(self) -> builtins.str:
        """The text for people."""
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
_LATE: Final = (ours.DeliveryTimeoutError, ours.BufferExhaustedError, ours.MetadataTimeoutError)
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


@contextmanager
def translating() -> Iterator[None]:
    """Raise our errors as a :class:`KafkaException`."""
    try:
        yield
    except ours.ProducerError as error:
        raise KafkaException(api_error(error)) from error
