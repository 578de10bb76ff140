"""The number of pieces only goes down: files of each room, and modules that an import loads.

A new part finds its place in a file of its concept. If a number has gone down, write it down here;
one that has to go up needs a reason that a reader would accept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import aioproducer

PACKAGE: Final = Path(aioproducer.__file__).parent
SUFFIXES: Final = {".py", ".pyx", ".pxd"}
LOADED_BY_IMPORT: Final = 47
FILES: Final = {
    "": 5,
    "admin": 10,
    "auth": 18,
    "cli": 24,
    "compat": 27,
    "config": 14,
    "consumer": 23,
    "engine": 4,
    "engine/accumulator": 10,
    "engine/bulk": 4,
    "engine/client": 10,
    "engine/cluster": 4,
    "engine/columnar": 13,
    "engine/core": 14,
    "engine/groups": 3,
    "engine/metrics": 6,
    "engine/network": 13,
    "engine/protocol": 6,
    "engine/records": 16,
    "engine/sender": 13,
    "engine/telemetry": 5,
    "engine/transactions": 7,
    "errors": 4,
    "foundation": 15,
    "model": 2,
    "observability": 17,
    "reader": 10,
    "schema_registry": 24,
    "serialization": 5,
    "spark": 19,
    "sync": 7,
    "testing": 60,
}


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("engine",) else 1])


def test_no_room_gets_more_files() -> None:
    found = Counter(room(path) for path in PACKAGE.rglob("*") if path.suffix in SUFFIXES)
    assert dict(sorted(found.items())) == FILES


def test_an_import_loads_no_more_modules() -> None:
    """Counted from source: the choice of compiled loops adds a few packages."""
    code = "import sys, aioproducer; print(sum(m.startswith('aioproducer') for m in sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"AIOPRODUCER_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) == LOADED_BY_IMPORT
