"""The errors of aiokafka's interface, by its names: ``errors.KafkaTimeoutError``.

Each error that :class:`AIOKafkaProducer` raises has two kinds of classes: those of aiokafka, and
that of :mod:`aioproducer.errors`. Both ``except aiokafka.errors.KafkaTimeoutError`` and ``except
aioproducer.ProducerError`` catch it, and its ``may_have_been_written`` says whether the record may
be in the log. Wrong arguments raise what Python's users expect: TypeError and ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from aioproducer import errors as ours
from aioproducer.compat.aiokafka.error_classes import CLASSES, class_of_code

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


def translated(error: _Error) -> _Error | Exception:
    """``error``, if it is one of ours, as a new object that is also of aiokafka's classes."""
    if not isinstance(error, ours.ProducerError) or isinstance(error, (Translated, *_PLAIN)):
        return error
    cause = error.__cause__
    why = type(cause) if isinstance(error, _WITH_CAUSE) and cause is not None else None
    return _made(type(error), why, error.args, error.__dict__, cause)


class NoFieldsError(ours.SerializationError, AssertionError):
    """A record has neither key nor value, which aiokafka does not send."""


@contextmanager
def translating() -> Iterator[None]:
    """Raise our errors as :func:`translated` makes them."""
    try:
        yield
    except ours.ProducerError as error:
        made = translated(error)
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
