"""The clock of a token provider that an application calls itself: a client gives it another one."""

from __future__ import annotations

from time import time as own_clock

__all__ = ["own_clock"]
