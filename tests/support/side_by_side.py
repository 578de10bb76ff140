"""Tests in several processes: the ports of their servers, and which tests stay together."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest

from aioproducer.testing import ports

SHARED_FOLDERS: Final = ("matrix", "registry", "secured")
"""The tests of each share servers of their own."""
OWN_SERVERS: Final = ("test_last_epochs.py", "test_transaction_chaos.py")
"""The files with a protocol that do not use the fixture `transactional`."""
PROTOCOL: Final = re.compile(r"\[(protocol-\d)\b")


def take_ports_of_this_process() -> None:
    """A free port is bound when its server starts, and no other process may take it until then."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number:
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        mine = part(ports.port_range(), int(number) % count, count)
        os.environ[ports.PORTS_VARIABLE] = f"{mine[0]}-{mine[-1]}"


def part(whole: range, number: int, count: int) -> range:
    """One of ``count`` parts of equal length."""
    size = len(whole) // count
    return whole[number * size : (number + 1) * size]


def group_of(nodeid: str) -> str:
    """The tests of one file, of one folder with servers of its own, or of one `transactional`."""
    path, _, test = nodeid.partition("::")
    folder, file = path.split("/")[-2:]
    if folder in SHARED_FOLDERS:
        return folder
    protocol = PROTOCOL.search(test)
    return protocol[1] if protocol and file not in OWN_SERVERS else file


def in_groups(items: list[pytest.Item]) -> list[pytest.Item]:
    """Group by group, those with a long test first: no process ends long after the others."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    ordered = sorted(groups.values(), key=lambda each: not any(map(_is_long, each)))
    return [item for group in ordered for item in group]


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None
