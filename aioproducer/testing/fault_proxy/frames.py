"""The part of Kafka's protocol that the proxy needs: lengths, API keys, correlation ids. No I/O."""

from __future__ import annotations

from typing import Final

__all__ = ["LENGTH_BYTES", "Correlations", "NotKafkaError", "frame_length"]

LENGTH_BYTES: Final = 4
_MOST_BYTES: Final = 100 * 1024 * 1024


class NotKafkaError(Exception):
    """The bytes are not a frame of Kafka's protocol, so the start of the next frame is unknown."""


def frame_length(prefix: bytes) -> int:
    """The number of bytes that follow the four in `prefix`. Raises NotKafkaError."""
    length = int.from_bytes(prefix, "big", signed=True)
    if not LENGTH_BYTES <= length <= _MOST_BYTES:
        raise NotKafkaError(f"a frame of {length} bytes (they begin with {prefix!r})")
    return length


class Correlations:
    """The API keys of one connection's unanswered requests, by correlation id."""

    def __init__(self) -> None:
        self._api_keys: dict[bytes, int] = {}

    def request(self, frame: bytes) -> int | None:
        """The API key of a request, None if it is too short for a header."""
        if len(frame) < LENGTH_BYTES + 8:
            return None
        api = int.from_bytes(frame[4:6], "big", signed=True)
        self._api_keys[frame[8:12]] = api
        return api

    def response(self, frame: bytes) -> int | None:
        """The API key of the request that it answers, None if there is no such request."""
        return self._api_keys.pop(frame[4:8], None)
