"""Lives in other processes, whose sets have another order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def printed_by(program: str, hash_seed: str) -> list[str]:
    """The words that ``program`` prints in a process with this order of sets."""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    return found.stdout.split()
