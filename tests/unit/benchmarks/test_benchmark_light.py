"""The price of an installation: what is counted, and how it is said."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import light
from benchmarks.light import Installed, Numbers


def run(objects: int) -> Numbers:
    return {"imported_ms": 50.0, "objects": objects, "collection_ms": 2.0}


def test_a_process_counts_what_its_import_made() -> None:
    python = Path(sys.executable)
    bare, some = (light.measure(python, module) for module in ("sys", "asyncio"))
    assert some["objects"] > bare["objects"] + 1_000
    assert some["imported_ms"] > bare["imported_ms"]
    assert some["collection_ms"] > 0


def test_a_client_is_not_a_package_besides_itself() -> None:
    environments = {
        "nothing": Installed(Path("python"), {}),
        "aioproducer": Installed(Path("python"), {"aioproducer": 3.0, "zstandard": 24.4}),
    }
    clients, packages = light.describe(
        {"nothing": [run(0)], "aioproducer": [run(9_000), run(11_000)]}, environments
    )
    assert clients.rows[0][:3] == ("nothing", "-", "-")
    assert clients.rows[1] == (
        *("aioproducer", "1", "27", "50.0", "50.0..50.0"),
        *("10,000", "9,000..11,000", "2.0", "2.0..2.0"),
    )
    assert packages.rows == (
        ("aioproducer", "zstandard", "24.4"),
        ("aioproducer", "aioproducer", "3.0"),
    )
