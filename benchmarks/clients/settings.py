"""The two kinds of settings that a client is measured with."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

Settings = Mapping[str, object]


class Choice(StrEnum):
    """Which settings a run has."""

    DEFAULTS = "defaults"
    """The client's own, as `defaults.py` says."""
    TUNED = "tuned"
    """The best ones found, in `tuned.py`."""
