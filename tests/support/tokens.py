"""Futures of records and flushes that are none: no event loop, and each outcome is set once."""

from __future__ import annotations

from aioproducer.model import RecordMetadata


class Token:
    """In place of the future of a record; it refuses a second outcome."""

    def __init__(self, number: int = 0, partition: int = -1) -> None:
        self.number = number
        self.partition = partition
        """The partition that the test sent the record to."""
        self.metadata: RecordMetadata | None = None
        self.error: BaseException | None = None
        self.cancelled = False

    def __repr__(self) -> str:
        return f"record {self.number} of partition {self.partition}"

    def done(self) -> bool:
        return self.cancelled or self.outcome is not None

    def set_result(self, metadata: RecordMetadata, /) -> None:
        assert not self.done()
        self.metadata = metadata

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.error = error

    def exception(self) -> BaseException | None:
        return self.error

    @property
    def outcome(self) -> RecordMetadata | BaseException | None:
        return self.error if self.metadata is None else self.metadata

    @property
    def delivered_to(self) -> int:
        """The partition of the metadata."""
        assert self.metadata is not None
        return self.metadata.partition


class FlushToken:
    """In place of the future of a flush."""

    resolved = False
    given_up = False
    error: BaseException | None = None

    def done(self) -> bool:
        return self.resolved or self.given_up or self.error is not None

    def set_result(self, _result: None, /) -> None:
        assert not self.done()
        self.resolved = True

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.error = error
