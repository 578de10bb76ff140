"""Tests that share a server run in one process, in an order of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pytest_project import run_pytest
from tests.support.side_by_side import group_of


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/kafka/test_reader.py::test_times", "test_reader.py"),
        ("tests/kafka/compat/test_aiokafka_on_kafka.py::test_a[x]", "test_aiokafka_on_kafka.py"),
        ("tests/kafka/secured/test_logins.py::test_b", "secured"),
        ("tests/registry/test_typed_orders.py::test_c", "registry"),
        ("tests/matrix/test_releases.py::test_d[3.9.2]", "matrix"),
        ("tests/kafka/test_transactions.py::test_e[protocol-1-gzip]", "protocol-1"),
        ("tests/kafka/test_shared_transactions.py::test_f[protocol-1]", "protocol-1"),
        ("tests/kafka/test_transaction_failures.py::test_g[protocol-2]", "protocol-2"),
        ("tests/kafka/test_transaction_chaos.py::test_h[protocol-2]", "test_transaction_chaos.py"),
        ("tests/kafka/test_last_epochs.py::test_i[protocol-1]", "test_last_epochs.py"),
    ],
)
def test_the_group_of_a_test(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


MANY = """
    import os
    import pytest

    @pytest.fixture(scope="session")
    def server():
        return os.environ["PYTEST_XDIST_WORKER"]

    @pytest.mark.parametrize("number", range(20))
    def test_many(server, number, request):
        with open("ran", "a") as ran:
            print(server, request.node.name, os.path.basename(__file__), file=ran)
"""
LONG = MANY.replace("@pytest.mark.parametrize", "@pytest.mark.slow\n    @pytest.mark.parametrize")
MARKS = "[pytest]\nmarkers = slow: takes long\n"


def test_a_group_stays_together_and_a_long_one_comes_first(tmp_path: Path) -> None:
    files = {"kafka/test_a.py": MANY, "kafka/test_b.py": MANY, "kafka/test_z.py": LONG}
    run = run_pytest(
        tmp_path,
        {"pytest.ini": MARKS, **files},
        *("--numprocesses", "2", "--dist", "loadgroup", "--no-loadscope-reorder"),
        plugins=("xdist.plugin", "tests.support.group_scheduler"),
    )
    assert run.outcomes == {"passed": 60}, run.output
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    for file in ("test_a.py", "test_b.py", "test_z.py"):
        mine = [(worker, name) for worker, name, where in ran if where == file]
        assert [name for _, name in mine] == [f"test_many[{number}]" for number in range(20)]
        assert len({worker for worker, _ in mine}) == 1
    first = {worker: where for worker, _, where in reversed(ran)}
    assert set(first.values()) == {"test_z.py", "test_a.py"}
