"""The garbage collector sees futures, their lists and metadata if its tricks are switched off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aioproducer.engine.records.acceleration import ACCELERATED

_SEND = """
import asyncio, gc
from aioproducer.engine.core.sending import FastPath
from aioproducer.engine.records.acceleration import (
    OpenBuilders, RecordsBuilder, RouteCache, deliver_records, fail_record
)

async def main():
    routes, open_builders = RouteCache(), OpenBuilders()
    builder = RecordsBuilder(bytearray(999), 999)
    open_builders.sticky = builder
    routes.topics["t"] = open_builders
    fast_path = FastPath()
    fast_path.open(asyncio.get_running_loop(), routes, lambda *_: False, float)
    delivered, failed = [fast_path.send("t", b"v", None, None) for _ in range(2)]
    tracked = [gc.is_tracked(delivered), gc.is_tracked(builder.tokens)]
    deliver_records(builder.tokens[:1], builder.runs, "t", 0, 0, -1)
    fail_record(failed, OSError("no"))
    builder.append(OSError(), 1, None, b"v")
    tracked.append(gc.is_tracked(builder.tokens))
    print(*tracked, gc.is_tracked(delivered.result()), gc.is_tracked(failed), *delivered.result())

asyncio.run(main())
"""


@pytest.mark.skipif(not ACCELERATED, reason="the compiled part is not in use")
@pytest.mark.parametrize(
    ("switch", "tracked"), [("", "False False True False True"), ("1", "True True True True True")]
)
def test_the_switch_shows_objects_to_the_collector(switch: str, tracked: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _SEND],
        env={**os.environ, "AIOPRODUCER_PLAIN_OBJECTS": switch},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.startswith(f"{tracked} t 0 0 ")
