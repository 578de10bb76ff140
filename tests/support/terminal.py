"""A terminal for a child process, as somebody sees it."""

from __future__ import annotations

import os
import pty
import threading
from contextlib import suppress

PATIENCE = 60.0


class Terminal:
    """What a child takes for a terminal; here is who sits before it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self.ours, 65536):
                self._seen += data

    def shows(self, text: str) -> bool:
        return text in self._seen.decode()

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        os.close(self.theirs)
        self._reader.join(PATIENCE)
        os.close(self.ours)
