"""A dead letter: a record that failed and the reason, as headers of a record or as a line of JSON.

The headers have Kafka Connect's names (``errors.deadletterqueue.context.headers.enable``) with a
different prefix. Spring's ``DeadLetterPublishingRecoverer`` writes the same information.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from aioproducer.engine.failures import FailedRecordHandler
from aioproducer.errors import ConfigError, ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.wording import counted
from aioproducer.model import ConsumerRecord, FailedRecord, Header, ProducerRecord

logger = RoomLogger(__name__)

Uncertain: TypeAlias = Literal["keep", "skip"]
"""The treatment of records that may be in the log: ``keep`` them, marked, or ``skip`` them."""

_PREFIX: Final = "__aioproducer.errors."
TOPIC: Final = f"{_PREFIX}topic"
PARTITION: Final = f"{_PREFIX}partition"
TIMESTAMP: Final = f"{_PREFIX}timestamp"
ERROR_NAME: Final = f"{_PREFIX}exception.class.name"
ERROR_MESSAGE: Final = f"{_PREFIX}exception.message"
UNCERTAIN: Final = f"{_PREFIX}may.have.been.written"

_LONGEST_MESSAGE: Final = 1000
"""Characters of an error's message: it must not make the dead letter too large for its topic."""


class NotDeadLetterError(ProducerError, ValueError):
    """A line or a record is not a dead letter."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A failed record and its error, as stored."""

    topic: str
    """The topic that the record was sent to."""
    partition: int | None
    """The partition; None if none was chosen yet."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    error_name: str
    """The name of the error's class."""
    error_message: str
    may_have_been_written: bool
    """True if the record may be in its topic: sending it again can duplicate it."""

    @classmethod
    def of(cls, failed: FailedRecord) -> DeadLetter:
        """Create the dead letter of a failed record. Headers of an earlier dead letter are
        removed."""
        return cls(
            failed.topic,
            failed.partition,
            failed.key,
            failed.value,
            tuple(each for each in failed.headers if not each[0].startswith(_PREFIX)),
            failed.timestamp_ms,
            type(failed.error).__name__,
            str(failed.error)[:_LONGEST_MESSAGE],
            failed.may_have_been_written,
        )

    @classmethod
    def of_record(cls, record: ConsumerRecord) -> DeadLetter:
        """Return the dead letter in a record that was read from a dead letter topic.

        Raises:
            ValueError: the record has no such headers.
        """
        facts = {
            name: (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if name.startswith(_PREFIX)
        }
        try:
            partition = int(facts[PARTITION]) if PARTITION in facts else None
            topic, timestamp_ms = facts[TOPIC], int(facts[TIMESTAMP])
        except (KeyError, ValueError) as error:
            raise NotDeadLetterError(
                f"{record.topic_partition}: the record is not a dead letter: {error!r}"
            ) from error
        return cls(
            topic,
            partition,
            record.key,
            record.value,
            tuple(each for each in record.headers if not each[0].startswith(_PREFIX)),
            timestamp_ms,
            facts.get(ERROR_NAME, ""),
            facts.get(ERROR_MESSAGE, ""),
            facts.get(UNCERTAIN) == "true",
        )

    def record(self) -> ProducerRecord[bytes | None, bytes | None]:
        """The original record, to send again to its topic and partition."""
        return ProducerRecord(
            self.topic,
            self.value,
            self.key,
            self.partition,
            self.headers,
            self.timestamp_ms,
        )

    def all_headers(self) -> tuple[Header, ...]:
        """The record's headers and those of the dead letter, which have text values."""
        facts = {TOPIC: self.topic}
        if self.partition is not None:
            facts[PARTITION] = str(self.partition)
        facts[TIMESTAMP] = str(self.timestamp_ms)
        facts[ERROR_NAME] = self.error_name
        facts[ERROR_MESSAGE] = self.error_message
        facts[UNCERTAIN] = "true" if self.may_have_been_written else "false"
        added = ((name, text.encode("utf-8", "replace")) for name, text in facts.items())
        return (*self.headers, *added)

    def line(self) -> bytes:
        """The dead letter as a line of JSON, including the line feed; bytes are in base64."""
        return (json.dumps(self._document(), separators=(",", ":")) + "\n").encode()

    def _document(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "timestamp_ms": self.timestamp_ms,
            "key": _text(self.key),
            "value": _text(self.value),
            "headers": [[name, _text(value)] for name, value in self.headers],
            "error": {"name": self.error_name, "message": self.error_message},
            "may_have_been_written": self.may_have_been_written,
        }

    @classmethod
    def of_line(cls, line: bytes) -> DeadLetter:
        """Return the dead letter in a line. Raises ValueError for any other line."""
        try:
            document = json.loads(line)
            return cls(
                document["topic"],
                document["partition"],
                _bytes(document["key"]),
                _bytes(document["value"]),
                tuple((name, _bytes(value)) for name, value in document["headers"]),
                document["timestamp_ms"],
                document["error"]["name"],
                document["error"]["message"],
                document["may_have_been_written"],
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise NotDeadLetterError(f"the line is not a dead letter: {error!r}") from error


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def is_dead_letter(record: FailedRecord) -> bool:
    """True if ``record`` is a dead letter, and not one that was sent again to its own topic."""
    origin = dict(record.headers).get(TOPIC)
    return origin is not None and origin != record.topic.encode()


def check_uncertain(uncertain: object) -> Uncertain:
    """``uncertain``, if it is one of its values. Raises :class:`ConfigError`."""
    if uncertain == "keep":
        return "keep"
    if uncertain == "skip":
        return "skip"
    raise ConfigError(f"uncertain={uncertain!r}: expected 'keep' or 'skip'")


def to_keep(records: Sequence[FailedRecord], uncertain: Uncertain) -> Sequence[FailedRecord]:
    """The records to keep; a line counts the others."""
    if uncertain == "keep":
        return records
    kept = [record for record in records if not record.may_have_been_written]
    if skipped := len(records) - len(kept):
        logger.repeated(
            logging.WARNING,
            "skipped",
            "%s skipped, because they may have been written (uncertain='skip')",
            counted(skipped, "failed record"),
            records=skipped,
        )
    return kept


async def hand_on(
    records: Sequence[FailedRecord],
    error: BaseException,
    owner: object,
    fallback: FailedRecordHandler | None,
) -> None:
    """Give ``records``, which ``owner`` could not keep because of ``error``, to ``fallback``.

    Without one, a line says that they are lost.
    """
    if fallback is not None:
        await fallback.handle(records)
        return
    logger.repeated(
        logging.ERROR,
        ("lost", type(error)),
        "%r could not keep %s of topic %s, and has no fallback: %s: %s",
        owner,
        counted(len(records), "failed record"),
        records[0].topic,
        type(error).__name__,
        error,
        records=len(records),
        topic=records[0].topic,
        error=error,
    )
