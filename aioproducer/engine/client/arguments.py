"""Arguments that the calls of every client have: topics, partitions, timeouts. No I/O.

A timeout that several steps share is passed on as :class:`TimeLeft`, which remembers the whole
limit for the error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters, digits
from typing import Any, Final, Self

from aioproducer.errors import ConfigError, InvalidPartitionError, InvalidTopicError

_LONGEST_TOPIC: Final = 249
_LEGAL_IN_TOPIC: Final = f"{ascii_letters}{digits}._-"
_ADDRESS: Final = r":\d+'$"
_NO_TOPICS: Final = ("", ".", "..")


def checked_topic(topic: Any) -> str:
    """``topic`` as a plain str; a member of a StrEnum will do.

    Raises :class:`InvalidTopicError` for a name that no broker takes. Source: Kafka's ``Topic``.
    """
    if isinstance(topic, str):
        name = str.__str__(topic)
        legal = not name.strip(_LEGAL_IN_TOPIC) and name not in _NO_TOPICS
        if legal and len(name) <= _LONGEST_TOPIC:
            return name
        shown = f"{name!r:.80}"
    else:
        shown = f"of type {type(topic).__name__}"
    hint = "; name brokers by bootstrap_servers=" if re.search(_ADDRESS, shown) else ""
    raise InvalidTopicError(
        f"a topic is a str of 1 to {_LONGEST_TOPIC} ASCII letters, digits, '.', '_' and '-', and "
        f"neither '.' nor '..'; not {shown}{hint}"
    )


def check_partition(partition: Any, topic: str) -> None:
    """Raise :class:`InvalidPartitionError` unless ``partition`` can be one."""
    if type(partition) is not int or not 0 <= partition < 2**31:
        raise InvalidPartitionError(
            f"a partition is an int from 0 to {2**31 - 1}, not {partition!r} (topic {topic!r})"
        )


def check_timeout(timeout: Any) -> None:
    """Raise :class:`ConfigError` unless it is a number of seconds, or None."""
    if timeout is None:
        return
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not timeout >= 0
        or (isinstance(timeout, int) and timeout >= 2**63)
    ):
        raise ConfigError(f"a timeout is a number of seconds from 0, or None, not {timeout!r}")


class TimeLeft(float):
    """The seconds that are left of ``limit``, which is the number that errors name."""

    limit: float

    def __new__(cls, seconds: float, limit: float) -> Self:
        left = super().__new__(cls, max(0.0, seconds))
        left.limit = limit
        return left


def countdown(limit: float, clock: Callable[[], float]) -> Callable[[], TimeLeft]:
    """The seconds that are left of ``limit``, from now on."""
    deadline = clock() + limit
    whole = limit_of(limit)
    return lambda: TimeLeft(deadline - clock(), whole)


def limit_of(seconds: float) -> float:
    """The whole limit that ``seconds`` is the rest of, or ``seconds`` itself."""
    return seconds.limit if isinstance(seconds, TimeLeft) else seconds
