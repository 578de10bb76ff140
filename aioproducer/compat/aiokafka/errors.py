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

from aioproducer import errors
from aioproducer.compat.aiokafka.error_classes import CLASSES, class_of_code
from aioproducer.errors import KafkaError, ProducerError

_Error = TypeVar("_Error", bound=BaseException)

_ASSERTION: Final = "AssertionError"
_NAMES: Final[dict[type[ProducerError], tuple[str, ...]]] = {
    errors.AuthenticationError: ("AuthenticationFailedError", "KafkaConnectionError"),
    errors.CoordinatorLoadInProgressError: ("CoordinatorLoadInProgressError",),
    errors.DeliveryTimeoutError: ("RequestTimedOutError",),
    errors.IllegalStateError: ("IllegalOperation", "IllegalStateError", _ASSERTION),
    errors.InvalidPartitionError: (_ASSERTION,),
    errors.InvalidProducerEpochError: ("ProducerFenced",),
    errors.MetadataTimeoutError: ("UnknownTopicOrPartitionError",),
    errors.NetworkError: ("KafkaConnectionError",),
    errors.ProducerClosedError: ("ProducerClosed",),
    errors.ProducerFencedError: ("ProducerFenced",),
    errors.ProducerTimeoutError: ("KafkaTimeoutError",),
    errors.ProtocolError: ("KafkaProtocolError",),
    errors.RecordTooLargeError: ("MessageSizeTooLargeError",),
    errors.RequestTimeoutError: ("RequestTimedOutError",),
    errors.UnsupportedVersionError: ("UnsupportedVersionError", "IncompatibleBrokerVersion"),
    errors.WrongLoopError: (_ASSERTION,),
}
"""The counterparts of our errors, which hold for their subclasses as well."""

_PLAIN: Final = (errors.ConfigError, errors.SerializationError, errors.InvalidOffsetError)
"""Wrong arguments: aiokafka raises a plain ValueError or TypeError, which these are."""

_WITH_CAUSE: Final = (errors.TransactionError, errors.DeliveryTimeoutError)
"""aiokafka raises the reason itself; these have it as ``__cause__``."""


def __getattr__(name: str) -> Any:
    found = CLASSES.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def translated(error: _Error) -> _Error | Exception:
    """``error``, if it is one of ours, as a new object that is also of aiokafka's classes."""
    if not isinstance(error, ProducerError) or isinstance(error, (Translated, *_PLAIN)):
        return error
    cause = error.__cause__
    why = type(cause) if isinstance(error, _WITH_CAUSE) and cause is not None else None
    return _made(type(error), why, error.args, error.__dict__, cause)


class NoFieldsError(errors.SerializationError, AssertionError):
    """A record has neither key nor value, which aiokafka does not send."""


@contextmanager
def translating() -> Iterator[None]:
    """Raise our errors as :func:`translated` makes them."""
    try:
        yield
    except ProducerError as error:
        made = translated(error)
        if made is error:
            raise
        raise made from error.__cause__


class Translated:
    """An error that is both of aiokafka's classes and of ours."""

    __cause__: BaseException | None
    args: tuple[Any, ...]
    ours: type[ProducerError]
    why: type[BaseException] | None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.ours, self.why, self.args, self.__dict__, self.__cause__)


def _made(
    ours: type[ProducerError],
    why: type[BaseException] | None,
    args: tuple[Any, ...],
    attributes: dict[str, Any],
    cause: BaseException | None,
) -> Exception:
    kind = _class_of(ours, why)
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(attributes)
    made.__cause__ = cause
    return made


_CLASSES: Final[dict[tuple[type, type | None], type[Exception]]] = {}


def _class_of(ours: type[ProducerError], why: type[BaseException] | None) -> type[Exception]:
    found = _CLASSES.get((ours, why))
    if found is None:
        found = _CLASSES[ours, why] = _joined(ours, why)
    return found


def _joined(ours: type[ProducerError], why: type[BaseException] | None) -> type[Exception]:
    theirs = _counterparts(ours)
    if why is not None and issubclass(why, ProducerError):
        theirs = (*_counterparts(why), *theirs)
    theirs = tuple(dict.fromkeys(theirs))
    lowest = [
        each
        for each in theirs
        if not any(other is not each and issubclass(other, each) for other in theirs)
    ]
    namespace: dict[str, Any] = {"__module__": __name__, "__doc__": ours.__doc__}
    namespace |= {"ours": ours, "why": why}
    codes = [getattr(each, "errno", None) for each in lowest]
    if code := next((each for each in codes if isinstance(each, int)), None):
        namespace["errno"] = code
    name = ours.__name__ if lowest[0] is AssertionError else lowest[0].__name__
    return type(name, (Translated, ours, *lowest), namespace)


def _counterparts(ours: type[ProducerError]) -> tuple[type[Exception], ...]:
    found: list[type[Exception]] = []
    if issubclass(ours, KafkaError) and (named := class_of_code(ours.code)) is not None:
        found.append(named)
    for base in ours.__mro__:
        for name in _NAMES.get(base, ()):
            found.append(AssertionError if name == _ASSERTION else CLASSES[name])
    return (*found, CLASSES["KafkaError"]) if found != [AssertionError] else (AssertionError,)
