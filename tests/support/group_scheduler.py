"""A plugin of pytest: ``-p tests.support.group_scheduler --dist loadgroup --no-loadscope-reorder``.

A process of pytest-xdist runs all tests of a group, in the order that they have in a run of one
process. The next free process gets the next group. pytest-xdist's own scheduler of groups finds
none with pytest 9.2.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.side_by_side import group_of, in_groups


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After pytest has ordered the tests by the servers that they share."""
    items[:] = in_groups(items)
