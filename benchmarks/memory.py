"""How much memory a process has, and had, in bytes."""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import Final, Self

import psutil  # type: ignore[import-untyped]

_SAMPLE_EVERY: Final = 0.05


def resident_bytes(process: int | None = None) -> int:
    """Now, of this process if none is named."""
    return int(psutil.Process(process).memory_info().rss)


def peak_bytes(process: int | None = None) -> int:
    """The most that it ever had; where there is no /proc only this process can be asked."""
    # Linux counts the parent's memory in ru_maxrss: it is kept over the exec of a vfork.
    try:
        for line in Path(f"/proc/{process or 'self'}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if process is not None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class MemoryCurve:
    """A context in which a thread looks at this process's memory, 20 times a second."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        over = False
        while not over:
            self._samples.append((perf_counter(), resident_bytes()))
            over = self._over.wait(_SAMPLE_EVERY)
        self._samples.append((perf_counter(), resident_bytes()))

    def quarters(self) -> list[int]:
        """What it was after each quarter of the time."""
        return at_quarters(self._samples)


def at_quarters(samples: list[tuple[float, int]]) -> list[int]:
    """The last of the samples (when, what) up to each quarter of the time between first and last.

    ::

        >>> at_quarters([(0.0, 7), (1.0, 8), (2.5, 9), (4.0, 10)])
        [8, 8, 9, 10]
    """
    first, last = samples[0][0], samples[-1][0]
    ends = [first + (last - first) * quarter / 4 for quarter in (1, 2, 3)]
    return [
        *([what for when, what in samples if when <= end][-1] for end in ends),
        samples[-1][1],
    ]
