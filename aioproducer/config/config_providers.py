"""The environment and the files of this process, the sources of placeholders and properties.

This is the one file of this room that looks outside.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["THIS_PROCESS", "ThisProcess"]


class ThisProcess:
    """:class:`aioproducer.config.placeholders.Surroundings` as they are."""

    def variable(self, name: str) -> str | None:
        """An environment variable; None if it is not set."""
        return os.environ.get(name)

    def content(self, path: str) -> bytes:
        """A file's content. Raises OSError if it can't be read."""
        return Path(path).read_bytes()


THIS_PROCESS: Final = ThisProcess()
