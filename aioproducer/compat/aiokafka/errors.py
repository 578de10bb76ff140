"""The errors of aiokafka's interface, by its names: ``errors.KafkaTimeoutError``.

Each error that a producer or consumer raises has two kinds of classes: those of aiokafka, and
that of :mod:`aioproducer.errors`. Both ``except aiokafka.errors.KafkaTimeoutError`` and ``except
aioproducer.ProducerError`` catch it, and its ``may_have_been_written`` says whether the record may
be in the log. Wrong arguments raise what Python's users expect: TypeError and ValueError.

The classes are aiokafka's own if it is installed, otherwise others with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from aioproducer import errors as ours
from aioproducer.compat.aiokafka.structs import INSTALLED

_WITHOUT_CODE: Final = {
    "AuthenticationFailedError": "",
    "Cancelled": "r",
    "CommitFailedError": "",
    "IllegalArgumentError": "",
    "IllegalStateError": "",
    "IncompatibleBrokerVersion": "",
    "KafkaConfigurationError": "",
    "KafkaConnectionError": "rm",
    "KafkaProtocolError": "r",
    "KafkaTimeoutError": "",
    "KafkaUnavailableError": "",
    "NoBrokersAvailable": "rm",
    "NoOffsetForPartitionError": "",
    "NodeNotReadyError": "r",
    "ProducerClosed": "",
    "ProducerFenced": "",
    "StaleMetadata": "rm",
    "UnrecognizedBrokerVersion": "",
    "UnsupportedCodecError": "",
}
"""The errors without a code; ``r``: ``retriable``, ``m``: ``invalid_metadata``."""

_WITH_CODE: Final = {
    -1: ("UnknownError", ""),
    1: ("OffsetOutOfRangeError", ""),
    2: ("CorruptRecordException", ""),
    3: ("UnknownTopicOrPartitionError", "rm"),
    5: ("LeaderNotAvailableError", "rm"),
    6: ("NotLeaderForPartitionError", "rm"),
    7: ("RequestTimedOutError", "r"),
    8: ("BrokerNotAvailableError", ""),
    9: ("ReplicaNotAvailableError", ""),
    10: ("MessageSizeTooLargeError", ""),
    12: ("OffsetMetadataTooLargeError", ""),
    14: ("CoordinatorLoadInProgressError", "r"),
    15: ("CoordinatorNotAvailableError", "r"),
    16: ("NotCoordinatorError", "r"),
    17: ("InvalidTopicError", ""),
    18: ("RecordListTooLargeError", ""),
    19: ("NotEnoughReplicasError", "r"),
    20: ("NotEnoughReplicasAfterAppendError", "r"),
    21: ("InvalidRequiredAcksError", ""),
    22: ("IllegalGenerationError", ""),
    23: ("InconsistentGroupProtocolError", ""),
    24: ("InvalidGroupIdError", ""),
    25: ("UnknownMemberIdError", ""),
    26: ("InvalidSessionTimeoutError", ""),
    27: ("RebalanceInProgressError", ""),
    28: ("InvalidCommitOffsetSizeError", ""),
    29: ("TopicAuthorizationFailedError", ""),
    30: ("GroupAuthorizationFailedError", ""),
    31: ("ClusterAuthorizationFailedError", ""),
    32: ("InvalidTimestampError", ""),
    33: ("UnsupportedSaslMechanismError", ""),
    34: ("IllegalSaslStateError", ""),
    35: ("UnsupportedVersionError", ""),
    42: ("InvalidRequestError", ""),
    43: ("UnsupportedForMessageFormatError", ""),
    44: ("PolicyViolationError", ""),
    45: ("OutOfOrderSequenceNumber", ""),
    46: ("DuplicateSequenceNumber", ""),
    47: ("InvalidProducerEpoch", ""),
    48: ("InvalidTxnState", ""),
    49: ("InvalidProducerIdMapping", ""),
    50: ("InvalidTransactionTimeout", ""),
    51: ("ConcurrentTransactions", ""),
    53: ("TransactionalIdAuthorizationFailed", ""),
    55: ("OperationNotAttempted", ""),
    56: ("KafkaStorageError", "rm"),
    58: ("SaslAuthenticationFailed", ""),
    59: ("UnknownProducerId", ""),
    72: ("ListenerNotFound", ""),
}
"""The errors that a broker answers a producer or consumer with, by Kafka's code."""

_ALIASES: Final = {
    "CoordinatorLoadInProgressError": "GroupLoadInProgressError",
    "CoordinatorNotAvailableError": "GroupCoordinatorNotAvailableError",
    "CorruptRecordException": "InvalidMessageError",
    "NotCoordinatorError": "NotCoordinatorForGroupError",
}


def _stand_ins() -> dict[str, type[Exception]]:
    def made(name: str, base: type[Exception], flags: str, **more: Any) -> type[Exception]:
        doc = f"Stands in for aiokafka's ``{name}``."
        namespace = {"__module__": "aioproducer.compat.aiokafka.errors", "__doc__": doc, **more}
        namespace |= {"retriable": "r" in flags, "invalid_metadata": "m" in flags}
        return type(name, (base,), namespace)

    root = made("KafkaError", RuntimeError, "")
    response = made("BrokerResponseError", root, "")
    illegal = made("IllegalOperation", Exception, "")
    stopped = made("ConsumerStoppedError", Exception, "")
    found = {each.__name__: each for each in (root, response, illegal, stopped)}
    for name, flags in _WITHOUT_CODE.items():
        found[name] = made(name, root, flags)
    for code, (name, flags) in _WITH_CODE.items():
        found[name] = made(name, response, flags, errno=code)
    return found | {alias: found[name] for name, alias in _ALIASES.items()}


def _installed() -> dict[str, type[Exception]]:
    from aiokafka import errors  # type: ignore[import-untyped]

    return {
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, Exception)
    }


CLASSES: Final = _installed() if INSTALLED else _stand_ins()
"""The classes by name."""


def class_of_code(code: int) -> type[Exception] | None:
    """The class of a broker's error code; None: aiokafka has none."""
    if code not in _WITH_CODE:
        return None
    return CLASSES[_WITH_CODE[code][0]]


_Error = TypeVar("_Error", bound=BaseException)

_ASSERTION: Final = "AssertionError"
_NAMES: Final[dict[type[ours.ProducerError], tuple[str, ...]]] = {
    ours.AuthenticationError: ("AuthenticationFailedError", "KafkaConnectionError"),
    ours.CoordinatorLoadInProgressError: ("CoordinatorLoadInProgressError",),
    ours.DeliveryTimeoutError: ("RequestTimedOutError",),
    ours.IllegalStateError: ("IllegalOperation", "IllegalStateError", _ASSERTION),
    ours.InvalidPartitionError: (_ASSERTION,),
    ours.InvalidProducerEpochError: ("ProducerFenced",),
    ours.MetadataTimeoutError: ("UnknownTopicOrPartitionError",),
    ours.NetworkError: ("KafkaConnectionError",),
    ours.ProducerClosedError: ("ProducerClosed",),
    ours.ProducerFencedError: ("ProducerFenced",),
    ours.ProducerTimeoutError: ("KafkaTimeoutError",),
    ours.ProtocolError: ("KafkaProtocolError",),
    ours.RecordTooLargeError: ("MessageSizeTooLargeError",),
    ours.RequestTimeoutError: ("RequestTimedOutError",),
    ours.UnsupportedVersionError: ("UnsupportedVersionError", "IncompatibleBrokerVersion"),
    ours.WrongLoopError: (_ASSERTION,),
}
"""The counterparts of our errors, which hold for their subclasses as well."""

_PLAIN: Final = (ours.ConfigError, ours.SerializationError, ours.InvalidOffsetError)
"""Wrong arguments: aiokafka raises a plain ValueError or TypeError, which these are."""

_WITH_CAUSE: Final = (
    ours.TransactionError,
    ours.DeliveryTimeoutError,
    ours.MetadataTimeoutError,
)
"""aiokafka raises the reason itself; these have it as ``__cause__``."""


def __getattr__(name: str) -> Any:
    found = CLASSES.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def translated(error: _Error, name: str | None = None) -> _Error | Exception:
    """``error``, if it is one of ours, as a new object that is also of aiokafka's classes.

    ``name``: that of a class which only the caller knows.
    """
    if not isinstance(error, ours.ProducerError) or isinstance(error, (Translated, *_PLAIN)):
        return error
    cause = error.__cause__
    why = type(cause) if isinstance(error, _WITH_CAUSE) and cause is not None else None
    if name is not None:
        why = CLASSES[name]
    elif isinstance(error, ours.UnlistedKafkaError):
        why = class_of_code(error.code)
    return _made(type(error), why, error.args, error.__dict__, cause)


class WrongTypeError(ours.ConfigError, TypeError):
    """An argument has another type."""


class NoFieldsError(ours.SerializationError, AssertionError):
    """A record has neither key nor value, which aiokafka does not send."""


@contextmanager
def translating(
    name: str | None = None, of: tuple[type[ours.ProducerError], ...] = ()
) -> Iterator[None]:
    """Raise our errors as :func:`translated` makes them, with ``name`` for the classes ``of``."""
    try:
        yield
    except ours.ProducerError as error:
        made = translated(error, name if isinstance(error, of) else None)
        if made is error:
            raise
        raise made from error.__cause__


class Translated:
    """An error that is both of aiokafka's classes and of ours."""

    __cause__: BaseException | None
    args: tuple[Any, ...]
    kind: type[ours.ProducerError]
    why: type[BaseException] | None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.kind, self.why, self.args, self.__dict__, self.__cause__)


def _made(
    kind: type[ours.ProducerError],
    why: type[BaseException] | None,
    args: tuple[Any, ...],
    attributes: dict[str, Any],
    cause: BaseException | None,
) -> Exception:
    joined = _class_of(kind, why)
    made = joined.__new__(joined, *args)
    made.args = args
    made.__dict__.update(attributes)
    made.__cause__ = cause
    return made


_CLASSES: Final[dict[tuple[type, type | None], type[Exception]]] = {}


def _class_of(kind: type[ours.ProducerError], why: type[BaseException] | None) -> type[Exception]:
    found = _CLASSES.get((kind, why))
    if found is None:
        found = _CLASSES[kind, why] = _joined(kind, why)
    return found


def _joined(kind: type[ours.ProducerError], why: type[BaseException] | None) -> type[Exception]:
    theirs = _counterparts(kind)
    if why is not None and issubclass(why, ours.ProducerError):
        theirs = (*_counterparts(why), *theirs)
    elif why is not None and issubclass(why, Exception) and why in CLASSES.values():
        is_error = issubclass(why, CLASSES["KafkaError"])
        theirs = (why, *theirs) if is_error else (why,)
    theirs = tuple(dict.fromkeys(theirs))
    lowest = [
        each
        for each in theirs
        if not any(other is not each and issubclass(other, each) for other in theirs)
    ]
    namespace: dict[str, Any] = {"__module__": __name__, "__doc__": kind.__doc__}
    namespace |= {"kind": kind, "why": why}
    codes = [getattr(each, "errno", None) for each in lowest]
    if code := next((each for each in codes if isinstance(each, int)), None):
        namespace["errno"] = code
    name = kind.__name__ if lowest[0] is AssertionError else lowest[0].__name__
    return type(name, (Translated, kind, *lowest), namespace)


def _counterparts(kind: type[ours.ProducerError]) -> tuple[type[Exception], ...]:
    found: list[type[Exception]] = []
    if issubclass(kind, ours.KafkaError) and (named := class_of_code(kind.code)) is not None:
        found.append(named)
    for base in kind.__mro__:
        for name in _NAMES.get(base, ()):
            found.append(AssertionError if name == _ASSERTION else CLASSES[name])
    return (*found, CLASSES["KafkaError"]) if found != [AssertionError] else (AssertionError,)
