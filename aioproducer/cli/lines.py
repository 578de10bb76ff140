"""From bytes to lines, and from a line to a record's key and value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LineSplitter", "MissingKeyError", "RecordFormat"]


class LineSplitter:
    """Cuts a stream of bytes at each ``\\n``; holds no more than ``limit`` bytes of one line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.dropped = 0
        """The number of lines over the limit."""

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that ``chunk`` completes; None for one over the limit, which is dropped."""
        found = chunk.split(b"\n")
        rest = found.pop()
        lines: list[bytes | None] = [*found]
        if lines:
            if len(chunk) > self._limit:
                lines[1:] = [line if self._fits(len(line)) else None for line in found[1:]]
            self._keep(found[0])
            lines[0] = self._take()
        self._keep(rest)
        return lines

    def end(self) -> list[bytes | None]:
        """The last line, when it has no end."""
        return [self._take()] if self.unfinished else []

    @property
    def unfinished(self) -> bool:
        """True if there is the beginning of a line."""
        return self._size > 0

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _fits(self, size: int) -> bool:
        """True if a line of ``size`` bytes is not dropped."""
        self.dropped += size > self._limit
        return size <= self._limit

    def _take(self) -> bytes | None:
        line = b"".join(self._parts) if self._fits(self._size) else None
        self._parts.clear()
        self._size = 0
        return line


class MissingKeyError(ValueError):
    """A line does not have the separator that ends its key."""


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """The rule that makes a key and a value of a line. Source: Kafka's ``LineMessageReader``."""

    key_separator: bytes | None = None
    """None: a line is a value, without key."""
    null_marker: bytes | None = None
    """A key or value that equals it is null."""
    ignore_error: bool = False
    """A line without separator is a value without key, not an error."""

    @property
    def is_plain(self) -> bool:
        """True if each line is a value."""
        return self.key_separator is None and self.null_marker is None

    def split(self, lines: Sequence[bytes]) -> tuple[list[bytes], list[bytes]] | None:
        """The keys and the values of all lines; None: some need :meth:`parse`."""
        if self.key_separator is None or self.null_marker is not None:
            return None
        parts = [line.split(self.key_separator, 1) for line in lines]
        if min(map(len, parts), default=0) < 2:
            return None
        return [part[0] for part in parts], [part[1] for part in parts]

    def parse(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value.

        Raises:
            MissingKeyError: the separator is missing.
        """
        key: bytes | None = None
        value: bytes | None = line
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if separator:
                key, value = before, after
            elif not self.ignore_error:
                raise MissingKeyError(f"no key separator {self.key_separator!r} in {line!r:.80}")
        if self.null_marker is not None:
            key = None if key == self.null_marker else key
            value = None if value == self.null_marker else value
        return key, value
