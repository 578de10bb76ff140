"""Back pressure, as callers that send more see it."""

from __future__ import annotations

from typing import Protocol


class BackPressure(Protocol):
    """A view of the memory: is there room for more records?"""

    is_full: bool
    """True if some broker has no memory left: callers look closer then."""

    def must_wait(self) -> bool:
        """True if a caller may have to wait now."""


class Unavailable:
    """A substitute if there is no accumulator, or another process has it.

    It makes callers wait, and the wait raises the reason.
    """

    is_full = True

    def must_wait(self) -> bool:
        """Always True."""
        return True
