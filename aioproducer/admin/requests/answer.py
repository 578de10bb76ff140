"""A broker's answer about one topic, partition, resource or group. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from aioproducer.errors import ProtocolError

_Key = TypeVar("_Key")

UNKNOWN_TOPIC_OR_PARTITION: Final = 3


class Answer(NamedTuple):
    """The part of a response that is about one key."""

    error_code: int = 0
    message: str | None = None
    """The broker's own words."""
    value: Any = None
    """The result, unless there is an error."""

    @classmethod
    def of(cls, said: Any, value: Any = None) -> Answer:
        """The answer in a part of a response; ``value`` counts without an error.

        A broker says of an unknown topic that it does not host the partition, which is left out.
        """
        code = said.error_code
        message = getattr(said, "error_message", None)
        if not message or code == UNKNOWN_TOPIC_OR_PARTITION:
            message = None
        return cls(code, message, None if code else value)


def in_order(requested: Iterable[_Key], found: Mapping[Any, Answer]) -> dict[_Key, Answer]:
    """The answers about the requested keys. Raises :class:`ProtocolError` if one is missing."""
    answers: dict[_Key, Answer] = {}
    for key in requested:
        if key not in found:
            raise ProtocolError(f"the response does not mention {key!r}")
        answers[key] = found[key]
    return answers
