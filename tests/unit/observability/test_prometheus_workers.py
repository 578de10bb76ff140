"""The processes of a server: each answers for all."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from aioproducer.errors import ConfigError
from aioproducer.observability import prometheus
from aioproducer.observability.prometheus import ProducerCollector
from aioproducer.observability.series import (
    Family,
    MalformedMessageError,
    Sample,
    from_bytes,
    to_bytes,
)
from tests.unit.observability.observed import ObservedProducer

SENT = "kafka_producer_record_send_total"
SILENT = "aioproducer_workers_silent"
CHILD = """
import sys
from aioproducer.observability.prometheus import ProducerCollector
from tests.unit.observability.observed import ObservedProducer
collector = ProducerCollector(registry=None, workers=sys.argv[1])
producer = ObservedProducer("web")
producer.sent("orders", int(sys.argv[2]))
collector.add(producer)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Its path is short enough for a socket."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path) / "workers"


@pytest.fixture
def short_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_BOUND", 0.2)


def child(folder: Path, records: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(records)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def collected(collector: ProducerCollector) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in collector.collect()
        for sample in family.samples
    ]


def sent(collector: ProducerCollector) -> dict[str, float]:
    """Records sent, by process."""
    return {labels["pid"]: value for name, labels, value in collected(collector) if name == SENT}


def silent(collector: ProducerCollector) -> float:
    [value] = [value for name, _, value in collected(collector) if name == SILENT]
    return value


def own(folder: Path, producer: ObservedProducer) -> ProducerCollector:
    collector = ProducerCollector(registry=CollectorRegistry(), workers=folder)
    collector.add(producer)
    return collector


def test_each_process_answers_for_all_and_an_ended_one_leaves(folder: Path) -> None:
    producer = ObservedProducer("web")
    producer.sent("orders", 1)
    collector = own(folder, producer)
    me = str(os.getpid())
    with child(folder, 2) as second, child(folder, 3) as killed:
        assert sent(collector) == {me: 1, str(second.pid): 2, str(killed.pid): 3}
        killed.kill()
        killed.wait()
        assert sent(collector) == {me: 1, str(second.pid): 2}
        assert silent(collector) == 0
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            f"aioproducer-{pid}.sock" for pid in (me, second.pid)
        )
        assert second.stdin is not None
        second.stdin.close()
        second.wait()
        assert [path.name for path in folder.iterdir()] == [f"aioproducer-{me}.sock"]
    assert sent(collector) == {me: 1}


def test_the_folder_is_that_of_prometheus_client_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    producer = ObservedProducer("web")
    collector = ProducerCollector(registry=None)
    collector.add(producer)
    assert sent(collector) == {str(os.getpid()): 0}
    alone = ProducerCollector(registry=None, workers="")
    alone.add(producer)
    assert [labels for name, labels, _ in collected(alone) if name == SENT] == [
        {"client_id": "web"}
    ]


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"[1]", b'[["a","b","c",[]]]', b"[" * 10_000])
def test_a_worker_that_answers_nonsense_is_silent(
    folder: Path, short_bound: None, answer: bytes
) -> None:
    producer = ObservedProducer("web")
    collector = own(folder, producer)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "aioproducer-1.sock"))
        listener.listen()

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert sent(collector) == {str(os.getpid()): 0}
        assert silent(collector) == 1
        thread.join()


def test_a_worker_that_hangs_costs_a_bounded_time(folder: Path, short_bound: None) -> None:
    producer = ObservedProducer("web")
    collector = own(folder, producer)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "aioproducer-1.sock"))
        listener.listen()
        began = time.monotonic()
        assert silent(collector) == 1
        assert time.monotonic() - began < 10


def test_a_process_that_failed_once_answers_the_next_time(folder: Path) -> None:
    def series() -> bytes:
        if not failed:
            failed.append(True)
            raise RuntimeError("dictionary changed size during iteration")
        return to_bytes([])

    failed: list[bool] = []
    own_socket = prometheus.WorkerSocket(folder, series)
    own_socket.path.rename(folder / "aioproducer-1.sock")
    try:
        others = prometheus.OtherWorkers(folder)
        assert others.ask() == ({}, 1)
        assert others.ask() == ({"1": []}, 0)
    finally:
        own_socket.close()


def test_a_process_without_a_free_file_descriptor_answers_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept(listener: socket.socket) -> tuple[socket.socket, object]:
        if not refused:
            refused.append(True)
            raise OSError(errno.EMFILE, "Too many open files")
        return taken(listener)

    refused: list[bool] = []
    taken = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", accept)
    own_socket = prometheus.WorkerSocket(folder, lambda: to_bytes([]))
    own_socket.path.rename(folder / "aioproducer-1.sock")
    try:
        assert prometheus.OtherWorkers(folder).ask() == ({"1": []}, 0)
        assert refused
    finally:
        own_socket.close()


def test_a_folder_that_cannot_have_a_socket(folder: Path) -> None:
    collector = ProducerCollector(registry=None, workers=folder / ("x" * 120))
    with pytest.raises(ConfigError, match="short path"):
        collector.add(ObservedProducer("web"))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_socket_of_its_own(folder: Path) -> None:
    producer = ObservedProducer("web")
    collector = own(folder, producer)
    mine = folder / f"aioproducer-{os.getpid()}.sock"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            collector.add(producer)
            code = 0 if (folder / f"aioproducer-{os.getpid()}.sock").exists() else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert mine.exists()
    assert sent(collector) == {str(os.getpid()): 0}  # the child's socket is refused, and removed
    assert [path.name for path in folder.iterdir()] == [mine.name]


# --- messages ---------------------------------------------------------------------------------

FAMILIES = st.lists(
    st.builds(
        Family,
        st.text(),
        st.sampled_from(["counter", "gauge", "histogram"]),
        st.text(),
        st.lists(
            st.builds(
                Sample,
                st.text(),
                st.dictionaries(st.text(), st.text()),
                st.floats(allow_nan=False),
            )
        ),
    )
)


@given(FAMILIES)
def test_families_come_through(families: list[Family]) -> None:
    assert from_bytes(to_bytes(families)) == families


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | JSON.map(lambda each: repr(each).encode("utf-8", "replace")))
def test_anything_else_is_malformed(message: bytes) -> None:
    with contextlib.suppress(MalformedMessageError):
        from_bytes(message)
