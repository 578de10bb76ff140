"""The log lines of clients: the client's id and fields in each line, and repeats that are counted.

Each module has a logger of its own name without ``engine``, so a package is filtered by its prefix
(``aioproducer.network``). A client enters its :class:`ClientLog` in the tasks that it starts; lines
of these tasks have its id. A line that repeats by one cause is written at once, and then with the
number of repeats after a second, ten seconds and each minute.

:func:`duration` and :func:`counted` write numbers in all texts for people: log lines, errors, the
output of commands.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from aioproducer.errors.client import ProducerError, shown

__all__ = [
    "counted",
    "duration",
    "ClientLog",
    "ModuleLogger",
    "current",
    "enter",
    "entered",
    "plain_logger",
    "tell_due",
]


_TO_THE_SECOND: Final = 100.0
_SIBILANTS: Final = ("ch", "s", "x")


def duration(seconds: float) -> str:
    """``seconds`` with three digits at most, and to the second from 100 on: ``0.25 s``, ``2 s``."""
    if abs(seconds) < _TO_THE_SECOND:
        return f"{round(seconds, 3):.3g} s"
    return f"{seconds:.0f} s"


def counted(number: int, noun: str, form: str = "") -> str:
    """``1 record``, ``2 records``. ``form``: of the number, ``,`` for one with separators."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:{form}} {noun}{'es' if noun.endswith(_SIBILANTS) else 's'}"


INTERVALS: Final = (1.0, 10.0, 60.0)
"""Seconds from a line to the next one of its cause; the last interval stays."""

MOST_CAUSES: Final = 500
"""Causes that are counted separately; further ones count as one cause for each kind of line."""

MOST_TOPICS: Final = 10_000
"""Topics that are counted separately for a cause."""

NAMED_TOPICS: Final = 3
"""Topics that a line names of those that it counts."""

Kind: TypeAlias = tuple[str, int]
"""The name of a line's logger, and its level: no line takes the place of a more serious one."""

Line: TypeAlias = Callable[[str, dict[str, Any]], None]
"""Writes a line with a suffix, and with more fields."""


class _Repeats:
    """The lines of one cause since one was written."""

    __slots__ = (
        "count",
        "known",
        "last_records",
        "last_topic",
        "line",
        "records",
        "stage",
        "told",
        "topics",
    )

    def __init__(self, now: float) -> None:
        self.told = now
        self.known: set[str] = set()
        """The topics of all lines."""
        self.topics: dict[str, None] = {}
        """The topics of the lines that were held back, in their order."""
        self.stage = 0
        self.count = 0
        self.records = 0
        self.last_records = 0
        self.last_topic: str | None = None
        self.line: Line | None = None
        """Writes the last line that was held back."""

    @property
    def due(self) -> float:
        return self.told + INTERVALS[self.stage]

    def concerns(self, topic: str) -> None:
        """A line is about ``topic``. It is reported within a second if it is the first one."""
        if topic not in self.known and len(self.known) < MOST_TOPICS:
            self.known.add(topic)
            self.stage = 0

    def is_history(self, now: float) -> bool:
        """True if no line is held back, and the last one was written long ago."""
        return self.line is None and now - self.told >= INTERVALS[-1]

    def take(self, now: float, topic: str | None, *, with_last: bool) -> tuple[str, dict[str, Any]]:
        """The suffix and the fields about the lines that were held back and are reported now.

        ``topic``: that of the line which reports them. ``with_last``: it is the last one of them.
        """
        suffix, fields = "", {}
        count = self.count - with_last
        sum_of_records = self.records - (self.last_records if with_last else 0)
        if count:
            others = [each for each in self.topics if each != topic]
            parts = [f"{count} more time{'s' * (count > 1)}"]
            if sum_of_records:
                parts.append(counted(sum_of_records, "record"))
            if others:
                parts.append(_for_topics(others))
            listed = ", ".join(parts) + "," * (len(parts) > 1)
            suffix = f" ({listed} in {duration(round(max(now - self.told, 0.0)))})"
            fields = {"repeats": count, "repeated_records": sum_of_records}
            if others:
                fields["repeated_topics"] = len(others)
        self.told, self.count, self.records, self.line = now, 0, 0, None
        self.topics = {}
        self.stage = min(self.stage + 1, len(INTERVALS) - 1)
        return suffix, fields


def _for_topics(topics: list[str]) -> str:
    """A few of ``topics`` by name, and the number of the others."""
    named, more = [shown(each) for each in topics[:NAMED_TOPICS]], len(topics) - NAMED_TOPICS
    if more > 0:
        return f"for {', '.join(named)} and {counted(more, 'other topic')}"
    return "for " + " and ".join([", ".join(named[:-1]), named[-1]] if named[:-1] else named)


class ClientLog:
    """The identity of one client in log lines, and its lines that repeat. ``clock``: seconds."""

    def __init__(self, client_id: str, clock: Callable[[], float]) -> None:
        self.client_id = client_id
        self._clock = clock
        self._causes: dict[tuple[Kind, Hashable], _Repeats] = {}
        self.next_line: float | None = None
        """No held-back line is due before this time; None: there is none."""

    def admit(
        self, kind: Kind, cause: Hashable, records: int, topic: str | None, line: Line
    ) -> tuple[str, dict[str, Any]] | None:
        """The suffix and fields to add to a line that is to be written now; None: it is counted.

        ``topic``: one of many topics that have the same cause. ``line`` writes the line later, if
        it is the last one by then.
        """
        now = self._clock()
        key = kind, cause
        repeats = self._causes.get(key)
        if repeats is None:
            if len(self._causes) >= MOST_CAUSES:
                self._forget_quiet(now)
            if len(self._causes) >= MOST_CAUSES:
                key = kind, None
                repeats = self._causes.get(key)
        if repeats is None or repeats.is_history(now):
            repeats = self._causes[key] = _Repeats(now)
            if topic is not None:
                repeats.concerns(topic)
            return "", {}
        if topic is not None:
            repeats.concerns(topic)
        if now >= repeats.due:
            return repeats.take(now, topic, with_last=False)
        if topic is not None and len(repeats.topics) < MOST_TOPICS:
            repeats.topics[topic] = None
        repeats.count += 1
        repeats.records += records
        repeats.last_records, repeats.last_topic = records, topic
        repeats.line = line
        self.next_line = repeats.due if self.next_line is None else min(self.next_line, repeats.due)
        return None

    def over(self, kind: Kind, cause: Hashable) -> None:
        """The cause is over: a held-back line is dropped.

        If the cause comes back soon, as of a broker that flaps, its lines still repeat. They are
        held back for the second interval at most, because this time it may last.
        """
        repeats = self._causes.get((kind, cause))
        if repeats is not None:
            repeats.line = None
            repeats.stage = min(repeats.stage, 1)

    def _forget_quiet(self, now: float) -> None:
        for cause, repeats in list(self._causes.items()):
            if repeats.is_history(now):
                del self._causes[cause]

    def tell_due(self, *, all_of_them: bool = False) -> float | None:
        """Write the held-back lines that are due. Returns the time of the next one, if any."""
        if self.next_line is None:
            return None
        now = self._clock()
        if now >= self.next_line or all_of_them:
            self.next_line = None
            for repeats in list(self._causes.values()):
                line = repeats.line
                if line is None:
                    continue
                if now >= repeats.due or all_of_them:
                    line(*repeats.take(now, repeats.last_topic, with_last=True))
                elif self.next_line is None or repeats.due < self.next_line:
                    self.next_line = repeats.due
        return self.next_line


_current: Final[ContextVar[ClientLog | None]] = ContextVar("aioproducer-client", default=None)


def current() -> ClientLog | None:
    """The log of the client whose task runs; None: the caller is no task of a client."""
    return _current.get()


def enter(log: ClientLog) -> None:
    """Give ``log`` to the lines of the present context, and of tasks that it starts."""
    _current.set(log)


@contextmanager
def entered(log: ClientLog) -> Iterator[None]:
    """Give ``log`` to the lines of the block."""
    before = _current.set(log)
    try:
        yield
    finally:
        _current.reset(before)


def tell_due(*, all_of_them: bool = False) -> float | None:
    """:meth:`ClientLog.tell_due` of the present client."""
    log = _current.get()
    return None if log is None else log.tell_due(all_of_them=all_of_them)


class _Shown:
    """A value of a line: its text is made when a handler wants it, and gives no orders."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return _text_of(self._value)

    def __repr__(self) -> str:
        return shown(repr(self._value))


class _Escaping(logging.Filter):
    """Escapes what peers and other libraries say in values and tracebacks, for whoever reads it."""

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args
        if isinstance(args, Mapping):
            record.args = {name: _safe(value) for name, value in args.items()}
        elif args:
            record.args = tuple(map(_safe, args))
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            told = traceback.TracebackException.from_exception(record.exc_info[1], compact=True)
            _escape(told, record.exc_info[1])
            record.exc_text = "".join(told.format()).rstrip("\n")
        return True


_ESCAPING: Final = _Escaping()


def plain_logger(name: str) -> logging.Logger:
    """The logger of this name; its lines have nothing that a terminal would obey."""
    logger = logging.getLogger(name)
    logger.addFilter(_ESCAPING)  # once, however often it is added
    return logger


def _safe(value: object) -> object:
    if isinstance(value, str):
        return shown(value)
    return value if value is None or hasattr(value, "__float__") else _Shown(value)


def _text_of(value: object) -> str:
    """The text of a value; a line of an exception's text is indented, so it begins none of ours."""
    if isinstance(value, ProducerError):
        return str(value)
    text = str(value)
    return _indented(text) if isinstance(value, BaseException) else shown(text)


def _indented(text: str) -> str:
    return shown(text, kept="\n").replace("\n", "\n  ")


def _escape(told: traceback.TracebackException, error: BaseException) -> None:
    """Escape the texts of an exception and of those that it comes from."""
    each: Any = told
    if isinstance(error, SyntaxError):
        each.msg, each.text = shown(str(each.msg)), each.text and shown(each.text.rstrip("\n"))
        each.filename = each.filename and shown(each.filename)
    elif not isinstance(error, ProducerError):
        each._str = _indented(str(each._str))
    if each.__notes__:
        each.__notes__ = [_indented(str(note)) for note in each.__notes__]
    others = [(each.__cause__, error.__cause__), (each.__context__, error.__context__)]
    if isinstance(error, BaseExceptionGroup):
        others += zip(each.exceptions or (), error.exceptions, strict=False)
    for other, of in others:
        if other is not None and of is not None:
            _escape(other, of)


class ModuleLogger:
    """The logger of a module: ``text`` and ``values`` as in the standard library, then fields.

    Fields become attributes of the log record. An exception as the field ``error`` becomes its
    class's name, and ``reason`` its text. The field ``client_id`` is added.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        # Users select lines by package, and know no folder engine: aioproducer.sender.
        self._logger = plain_logger(name.replace("aioproducer.engine.", "aioproducer."))

    @property
    def debugs(self) -> bool:
        """True if lines at DEBUG are written: ask before a line in a frequent place."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, text: str, *values: object, **fields: object) -> None:
        self._log(logging.DEBUG, text, values, fields)

    def info(self, text: str, *values: object, **fields: object) -> None:
        self._log(logging.INFO, text, values, fields)

    def warning(self, text: str, *values: object, **fields: object) -> None:
        self._log(logging.WARNING, text, values, fields)

    def error(
        self, text: str, *values: object, exc_info: BaseException | None = None, **fields: object
    ) -> None:
        self._log(logging.ERROR, text, values, fields, exc_info)

    def repeated(
        self,
        level: int,
        cause: Hashable,
        text: str,
        *values: object,
        exc_info: BaseException | None = None,
        records: int = 0,
        topic: str | None = None,
        log: ClientLog | None = None,
        **fields: object,
    ) -> None:
        """Write a line that may repeat by ``cause``; ``records`` are summed over the repeats.

        ``topic``: one of the topics that share the cause; a line that counts repeats names a few of
        them. ``log``: the client's, where the caller may be no task of a client.
        """
        if not self._logger.isEnabledFor(level):
            return
        log = log or _current.get()
        if records:
            fields["records"] = records
        if topic is not None:
            fields["topic"] = topic

        def line(suffix: str, more: dict[str, Any]) -> None:
            self._log(level, text + suffix, values, fields | more, exc_info, log)

        told: tuple[str, dict[str, Any]] | None = ("", {})
        if log is not None:
            told = log.admit((self._logger.name, level), cause, records, topic, line)
        if told is not None:
            self._log(level, text + told[0], values, fields | told[1], exc_info, log)

    def over(self, level: int, cause: Hashable) -> None:
        """Drop the held-back line of a cause that is over."""
        log = _current.get()
        if log is not None:
            log.over((self._logger.name, level), cause)

    def _log(
        self,
        level: int,
        text: str,
        values: tuple[object, ...],
        fields: dict[str, Any],
        exc_info: BaseException | None = None,
        log: ClientLog | None = None,
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        log = log or _current.get()
        error = fields.get("error")
        if isinstance(error, BaseException):
            fields = fields | {"error": type(error).__name__, "reason": _text_of(error)}
        if log is not None:
            text = f"[%s] {text if values else text.replace('%', '%%')}"
            values = (log.client_id, *values)
            fields = {"client_id": log.client_id} | fields
        self._logger.log(level, text, *values, extra=fields, exc_info=exc_info, stacklevel=3)
