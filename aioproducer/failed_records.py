"""Keep records whose delivery failed, in a dead letter topic or a file, and send them again.

::

    Producer(bootstrap_servers=..., on_failed=DeadLetterTopic("orders.failed"))
    Producer(bootstrap_servers=..., on_failed=DeadLetterFile("failed.jsonl"))

A dead letter is a record that failed and the reason, as headers of a record or as a line of JSON.
The headers have Kafka Connect's names (``errors.deadletterqueue.context.headers.enable``) with a
different prefix. Spring's ``DeadLetterPublishingRecoverer`` writes the same information.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, Unpack

from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.config.kinds import FailureHookOption
from aioproducer.config.producer_config import configuration
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.core.failures import FailedRecordHandler, handler_of, hurry_up
from aioproducer.engine.core.producer_core import load_for
from aioproducer.errors import ConfigError, ProducerError, ProducerTimeoutError
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.threads import DaemonThreads
from aioproducer.model import ConsumerRecord, FailedRecord, Header, ProducerRecord
from aioproducer.producer import Producer

__all__ = [
    "DeadLetter",
    "DeadLetterFile",
    "DeadLetterTopic",
    "FailedRecordHandler",
    "Uncertain",
    "read_dead_letters",
]

logger = ModuleLogger(__name__)

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


fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


_MODE: Final = 0o600


class DeadLetterFile:
    """Appends failed records to the file at ``path``. Pass it as ``on_failed``.

    ::

        Producer(bootstrap_servers=..., on_failed=DeadLetterFile("failed.jsonl"))

    Each record is a line of JSON; :func:`read_dead_letters` reads them back. A thread writes the
    lines, up to 500 at a time. Several producers and processes can write to the same file, and you
    can rename the file at any time (on Windows only one process can write). Only the file's owner
    can read it.

    Args:
        path: the file, in an existing directory; or a device; or a pipe with a reader.
        uncertain: ``keep`` the records that may be in their topic, or ``skip`` them.
        fsync: wait after each write until it is on disk. Without it, records can be lost if the
            machine fails, but not if only the process fails.
        fallback: the hook for records that can't be written. None: a log line reports their number.

    Raises:
        ConfigError: ``uncertain`` has another value.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        uncertain: Uncertain = "keep",
        fsync: bool = True,
        fallback: FailureHookOption | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._uncertain = check_uncertain(uncertain)
        self._fsync = fsync
        self._fallback = fallback

    def __repr__(self) -> str:
        return f"DeadLetterFile({self.path!r})"

    def handler_for(self, config: ProducerConfig) -> FailedRecordHandler:
        """The handler for a producer of ``config``."""
        fallback = None if self._fallback is None else handler_of(self._fallback, config)
        return _DeadLetterWriter(self, self._uncertain, self._fsync, fallback)


class _DeadLetterWriter:
    """Writes the failed records of one producer."""

    def __init__(
        self,
        target: DeadLetterFile,
        uncertain: Uncertain,
        fsync: bool,
        fallback: FailedRecordHandler | None,
    ) -> None:
        self._target = target
        self._uncertain = uncertain
        self._fsync = fsync
        self._fallback = fallback
        self._threads = DaemonThreads("aioproducer-dead-letters", 1)

    def __repr__(self) -> str:
        return repr(self._target)

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Write ``records`` together; the fallback gets them if that fails."""
        records = to_keep(records, self._uncertain)
        if not records:
            return
        try:
            await self._threads.run(partial(self._write, records))
        except OSError as error:
            await hand_on(records, error, self, self._fallback)

    def _write(self, records: Sequence[FailedRecord]) -> None:
        lines = b"".join(DeadLetter.of(record).line() for record in records)
        append_lines(self._target.path, lines, fsync=self._fsync)

    async def close(self) -> None:
        """End the thread, and close the fallback."""
        self._threads.shutdown()
        if self._fallback is not None:
            await self._fallback.close()


def append_lines(path: str, lines: bytes, *, fsync: bool) -> None:
    """Append ``lines`` to a file, whole or not at all; or write them to a pipe or device.

    A line without its end, which a crash has left in a file, is ended first. ``fsync`` only
    concerns files. Raises OSError: nothing was appended, or a pipe or device has got a part.
    """
    is_new = not os.path.exists(path)
    file = _opened(path)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # the end of the file ends the lock
        if stat.S_ISREG(os.fstat(file).st_mode):
            _append_whole(file, lines, fsync=fsync)
        else:
            _write_all(file, lines)
    finally:
        os.close(file)
    if is_new and fsync:
        _sync_directory(os.path.dirname(path) or ".")


def _opened(path: str) -> int:
    flags = getattr(os, "O_CLOEXEC", 0)
    if not os.path.exists(path) or os.path.isfile(path):
        return os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_APPEND, _MODE)
    # A pipe that is also open for reading would take bytes that nobody reads.
    file = os.open(path, flags | os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(file, True)
    return file


def _append_whole(file: int, lines: bytes, *, fsync: bool) -> None:
    size = os.fstat(file).st_size
    try:
        _write_all(file, lines if _ends_a_line(file, size) else b"\n" + lines)
        if fsync:
            os.fsync(file)
    except OSError:
        with suppress(OSError):  # the next write ends the line that stays
            os.ftruncate(file, size)
        raise


def _ends_a_line(file: int, size: int) -> bool:
    if not size:
        return True
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_directory(path: str) -> None:
    """Make a new file's name survive a failure of the machine, where the system can do so."""
    if os.name == "nt":
        return
    try:
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:  # the lines are written all the same
        logger.warning("%s: a new file there may be lost if the machine fails: %s", path, error)


def read_dead_letters(path: str | os.PathLike[str]) -> Iterator[DeadLetter]:
    """Return the dead letters in the file at ``path``, in order.

    A line that a crash has truncated is skipped and logged. Raises OSError if the file can't be
    read.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                letter = DeadLetter.of_line(line)
            except NotDeadLetterError as error:
                logger.warning("%s: line %d is skipped: %s", os.fspath(path), number, error)
            else:
                yield letter


_UNLIKE: Final[Mapping[str, Any]] = {
    "acks": "all",
    "interceptor_classes": (),
    "key_serializer": None,
    "on_failed": None,
    "partitioner": None,
    "transactional_id": None,
    "value_serializer": None,
}
"""The options that the producer of dead letters does not take from the producer that it serves."""


class DeadLetterTopic:
    """Sends failed records to ``topic``. Pass it as ``on_failed``.

    ::

        Producer(bootstrap_servers=..., on_failed=DeadLetterTopic("orders.failed"))

    A dead letter has the record's key, value, timestamp and headers, and additional headers that
    begin with ``__aioproducer.errors.``: ``topic``, ``partition``, ``timestamp``,
    ``exception.class.name``, ``exception.message`` and ``may.have.been.written``. A record that
    can't be sent there goes to ``fallback``. So does a record that is not acknowledged shortly
    before the end of ``close()``; it can then be in both places. A dead letter whose delivery fails
    does not become another dead letter.

    Args:
        topic: the topic. It must exist, or the brokers must create topics automatically.
        producer: a started :class:`aioproducer.Producer` without serializers, on the same event
            loop; you close it. None: at its first failed record, a producer creates a second one,
            with the same options and ``options`` on top.
        uncertain: ``keep`` the records that may be in their topic, or ``skip`` them.
        fallback: the hook for records that can't be sent, such as a :class:`DeadLetterFile`. None:
            a log line reports their number.
        options: options of the second producer. With ``bootstrap_servers`` it connects to another
            cluster, and takes no options from the first producer.

    Raises:
        ConfigError: an option is wrong, or both ``producer`` and options are given.
        InvalidTopicError: brokers do not accept this topic name.
    """

    def __init__(
        self,
        topic: str,
        producer: Producer[Any, Any] | None = None,
        *,
        uncertain: Uncertain = "keep",
        fallback: FailureHookOption | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        if not (producer is None or isinstance(producer, Producer)):
            raise ConfigError(
                f"DeadLetterTopic({topic!r}) needs an aioproducer.Producer on the same event loop, "
                f"not a {type(producer).__name__} of {type(producer).__module__}; without one, it "
                "makes its own"
            )
        if producer is not None and options:
            raise ConfigError(
                f"DeadLetterTopic({topic!r}) has a producer, so {', '.join(sorted(options))} can "
                "change nothing: leave them out"
            )
        if "on_failed" in options:
            raise ConfigError("a DeadLetterTopic has no on_failed: use fallback=...")
        self.topic = checked_topic(topic)
        self._producer = producer
        self._uncertain = check_uncertain(uncertain)
        self._fallback = fallback
        self._options = options
        self._other_cluster = ProducerConfig(**options) if "bootstrap_servers" in options else None

    def __repr__(self) -> str:
        return f"DeadLetterTopic({getattr(self, 'topic', '…')!r})"  # …: an error of the options

    def handler_for(self, config: ProducerConfig) -> FailedRecordHandler:
        """The handler for a producer of ``config``."""
        own: ProducerConfig | None = None
        if self._producer is None:
            own = self._other_cluster or configuration(
                config, {**_UNLIKE, **self._options}, "DeadLetterTopic"
            )
            if own.client_id is not None and "client_id" not in self._options:
                own = own.replace(client_id=f"{own.client_id}-dead-letters")
            load_for(own)  # its start comes at the first failed record, when no import may
        fallback = None if self._fallback is None else handler_of(self._fallback, config)
        return _DeadLetterSender(self, own, self._producer, self._uncertain, fallback)


class _DeadLetterSender:
    """Sends the failed records of one producer; ``own``: by a producer of this configuration."""

    def __init__(
        self,
        target: DeadLetterTopic,
        own: ProducerConfig | None,
        producer: Producer[Any, Any] | None,
        uncertain: Uncertain,
        fallback: FailedRecordHandler | None,
    ) -> None:
        self._target = target
        self._own = own
        self._producer = producer
        self._uncertain = uncertain
        self._fallback = fallback
        self._end: float | None = None
        """The time by the event loop from which the fallback gets the records; None: no such."""
        self._bound: asyncio.Timeout | None = None
        """The bound of the last call that sent records."""

    def __repr__(self) -> str:
        return repr(self._target)

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Send ``records``, and wait for their outcomes; the fallback gets those that fail."""
        records = to_keep(records, self._uncertain)
        failed: dict[int, BaseException] = {}
        sent: dict[asyncio.Future[Any], int] = {}
        end = self._end
        if end is None or asyncio.get_running_loop().time() < end:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end) as self._bound:
                    await self._send_all(records, sent, failed)
        for future, index in sent.items():
            if future.done() and (outcome := _error_of(future)) is not None:
                failed[index] = outcome
        settled = {index for future, index in sent.items() if future.done()}
        for index in set(range(len(records))) - settled - failed.keys():
            failed[index] = ProducerTimeoutError("the producer ends before it was acknowledged")
        if failed:
            left = [records[index] for index in sorted(failed)]
            await hand_on(left, failed[min(failed)], self, self._fallback)

    async def _send_all(
        self,
        records: Sequence[FailedRecord],
        sent: dict[asyncio.Future[Any], int],
        failed: dict[int, BaseException],
    ) -> None:
        for index, record in enumerate(records):
            try:
                sent[await self._send(record)] = index
            except (ProducerError, TimeoutError) as error:
                failed[index] = error
        if sent:
            await asyncio.wait(sent)

    def hurry(self, timeout: float) -> None:
        """Give the second half of ``timeout`` seconds to the fallback, if there is one."""
        if self._fallback is None:
            return
        end = asyncio.get_running_loop().time() + timeout / 2
        self._end = end if self._end is None else min(self._end, end)
        if self._bound is not None and self._bound.when() != self._end:
            with suppress(RuntimeError):  # it has passed, or is over
                self._bound.reschedule(self._end)
        hurry_up(self._fallback, timeout)

    async def _send(self, record: FailedRecord) -> asyncio.Future[Any]:
        # A dead letter of another producer, or a record that was sent to the topic itself.
        if is_dead_letter(record) or (self._own is not None and record.topic == self._target.topic):
            raise ProducerError(
                f"a failed record of topic {record.topic!r} is a dead letter itself: {record.error}"
            )
        producer = await self._started()
        async with PatientTimeout(producer.config.max_block_ms / 1000):
            await producer.drain()
        letter = DeadLetter.of(record)
        return producer.send(
            self._target.topic,
            letter.value,
            key=letter.key,
            headers=letter.all_headers(),
            timestamp_ms=letter.timestamp_ms,
        )

    async def _started(self) -> Producer[Any, Any]:
        producer = self._producer
        if producer is None:
            assert self._own is not None
            producer = Producer(self._own)
            await producer.start()
            self._producer = producer
        return producer

    async def close(self) -> None:
        """Close the second producer, if there is one, and the fallback."""
        try:
            if self._own is not None and self._producer is not None:
                await self._producer.close()
        finally:
            if self._fallback is not None:
                await self._fallback.close()


def _error_of(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()
