"""Programs whose standard descriptors are closed, as some supervisors and scripts start them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import combinations
from typing import Final

CLOSED: Final = [
    "".join(each) for count in (1, 2, 3) for each in combinations(("0", "1", "2"), count)
]
"""The combinations of standard descriptors: ``02`` means input and error."""


def run_without(
    closed: str, command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0
) -> subprocess.CompletedProcess[bytes]:
    """Run ``command`` with the descriptors ``closed``; the others are pipes."""
    script = "exec " + '"$@"' + "".join(f" {number}>&-" for number in closed)
    return subprocess.run(
        ["sh", "-c", script, "sh", *command],
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
