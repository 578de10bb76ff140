"""The kind of the hook for failed records. ``engine/failures.py`` has the contract of the hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from aioproducer.config.kinds import Kind, UnacceptableError
from aioproducer.model import FailedRecord

__all__ = ["FailureHook", "FailureHookOption", "SupportsHandlerFor"]


class SupportsHandlerFor(Protocol):
    """A description of a handler, such as ``DeadLetterTopic``."""

    @property
    def handler_for(self) -> Callable[..., Any]: ...


FailureHookOption: TypeAlias = Callable[[FailedRecord], object] | SupportsHandlerFor


class FailureHook(Kind[FailureHookOption | None]):
    """A function that takes a failed record, or a description of a handler."""

    wording = (
        "None, a callable that takes a FailedRecord (plain or async), or a DeadLetterTopic or "
        "DeadLetterFile"
    )

    def accept(self, value: object) -> Any:
        if value is None or callable(value) or callable(getattr(value, "handler_for", None)):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        raise UnacceptableError(
            "no value in a properties file: pass the hook as a keyword, "
            "from_properties(…, on_failed=…)"
        )
