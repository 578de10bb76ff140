"""The outcomes of one call about several topics, partitions, resources or groups. No I/O.

:class:`RecentTopics` knows the topics that an Admin has just changed: brokers may not know them
yet, so an answer that a topic is unknown may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aioproducer.admin.requests import Answer
from aioproducer.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    ProducerError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    Written,
    code_name,
    kafka_error,
)
from aioproducer.errors.broker import explain
from aioproducer.errors.client import anew

_SECONDS: Final = 30.0
"""The time after which every broker knows a change. A broker follows the controller's log."""


class _Change(NamedTuple):
    partitions: int
    until: float


class RecentTopics:
    """The topics that were created or got partitions, with their numbers of partitions."""

    def __init__(self) -> None:
        self._changes: dict[str, _Change] = {}

    def changed(self, topic: str, partitions: int, now: float) -> None:
        """The controller has given ``topic`` so many partitions."""
        self._changes = {name: each for name, each in self._changes.items() if each.until > now}
        self._changes[topic] = _Change(partitions, now + _SECONDS)

    def deleted(self, topic: str) -> None:
        """The controller has deleted ``topic``."""
        self._changes.pop(topic, None)

    def missing(self, topic: str, partitions: int, now: float) -> bool:
        """True if a broker that knows ``partitions`` of ``topic`` has still to learn of others."""
        change = self._changes.get(topic)
        return change is not None and partitions < change.partitions and now < change.until


_Key = TypeVar("_Key", bound=Hashable)

_UNAUTHORIZED: Final = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
)
_UNKNOWN: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)
_MOST_NOTES: Final = 20
_DOUBT: Final = (
    "an attempt got no response and may have succeeded; check before you repeat the call"
)


class Outcomes(Generic[_Key]):
    """The keys of a call, until each has a value or an error.

    A key whose error may pass stays pending, by the error table. An unknown topic is the exception:
    it does not appear by itself, unless ``late`` says that brokers have still to learn of it.

    ``named``: a key in messages. ``permission``: the one that a principal needs. ``changes``: the
    call changes something, so an attempt without an answer leaves a doubt.
    """

    def __init__(
        self,
        keys: Iterable[_Key],
        named: Callable[[_Key], str],
        permission: str,
        late: Callable[[_Key], bool],
        *,
        changes: bool = False,
    ) -> None:
        self._keys = tuple(keys)
        self._named = named
        self._permission = permission
        self._late = late
        self._changes = changes
        self.values: dict[_Key, Any] = {}
        """The values so far."""
        self._errors: dict[_Key, ProducerError] = {}
        self._unsure: set[_Key] = set()
        self._last: ProducerError | None = None

    @property
    def pending(self) -> tuple[_Key, ...]:
        """The keys without a value or a final error."""
        settled = self.values.keys() | self._errors.keys()
        return tuple(key for key in self._keys if key not in settled)

    def take(self, answers: Mapping[_Key, Answer]) -> None:
        """Take answers about pending keys."""
        for key, answer in answers.items():
            if not answer.error_code:
                self.values[key] = answer.value
                continue
            error = self._error(key, answer)
            if error.retriable and (not isinstance(error, _UNKNOWN) or self._late(key)):
                self._last = error
                if error.written is Written.MAYBE:
                    self.unanswered([key])
            else:
                self._errors[key] = _doubtful(error) if key in self._unsure else error

    def unanswered(self, keys: Iterable[_Key]) -> None:
        """A request about ``keys`` was sent, and its response did not come."""
        if self._changes:
            self._unsure.update(keys)

    def check(self) -> None:
        """Raise the last error that may pass, if a key is pending."""
        if self.pending and self._last is not None:
            raise self._last

    def give_up(self, error: ProducerError) -> None:
        """No further attempt is made, because of ``error``."""
        pending = self.pending
        if self._unsure.intersection(pending):
            error = _doubtful(error)
        self._errors.update(dict.fromkeys(pending, error))

    def results(self) -> dict[_Key, Any]:
        """The values in the order of the keys.

        Raises the error of the first key that has one; its notes tell the outcomes of the others.
        """
        failed = [key for key in self._keys if key in self._errors]
        if not failed:
            return {key: self.values[key] for key in self._keys}
        first = self._errors[failed[0]]
        others = dict.fromkeys(self._errors[key] for key in failed[1:])
        others.pop(first, None)
        for error in list(others)[:_MOST_NOTES]:
            first.add_note(f"also failed: {error}")
        if len(others) > _MOST_NOTES:
            first.add_note(f"and {len(others) - _MOST_NOTES} more failed")
        done = [key for key in self._keys if key in self.values]
        if done:
            more = f", and {len(done) - _MOST_NOTES} more" if len(done) > _MOST_NOTES else ""
            first.add_note(f"succeeded: {', '.join(map(self._named, done[:_MOST_NOTES]))}{more}")
        raise first

    def _error(self, key: _Key, answer: Answer) -> KafkaError:
        code = answer.error_code
        error = kafka_error(code, f"{self._named(key)}: {explain(code, answer.message)}")
        if isinstance(error, _UNAUTHORIZED):
            needs = f"the principal needs the permission {self._permission}"
            error = kafka_error(code, f"{self._named(key)}: {code_name(code)}: {needs}")
        return error


def _doubtful(error: ProducerError) -> ProducerError:
    """``error`` of a call that may have done its work."""
    doubtful = anew(error)
    doubtful.args = (f"{error} ({_DOUBT})",)
    doubtful.may_have_been_written = True
    return doubtful
