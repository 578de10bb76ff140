"""The collector in a registry of prometheus_client, and processes that answer for all."""

from __future__ import annotations

import contextlib
import errno
import gc
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
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

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
from tests.unit.observability.observed import ObservedProducer, broker

SENT = "kafka_producer_record_send_total"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def collector(registry: CollectorRegistry) -> ProducerCollector:
    return ProducerCollector(registry=registry)


def sent(registry: CollectorRegistry) -> dict[str, float]:
    """Records sent, by client_id."""
    return {
        sample.labels["client_id"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == SENT
    }


def test_several_producers(registry: CollectorRegistry, collector: ProducerCollector) -> None:
    producers = [ObservedProducer("web"), ObservedProducer("audit")]
    for number, producer in enumerate(producers, 1):
        producer.sent("orders", number)
        collector.add(producer)
        collector.add(producer)
    assert sent(registry) == {"web": 1, "audit": 2}
    collector.remove(producers[0])
    assert sent(registry) == {"audit": 2}


def test_producers_of_one_client_id_are_told_apart(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    first, second, third = (ObservedProducer("web") for _ in range(3))
    for producer in (first, second):
        collector.add(producer)
    second.sent("orders", 7)
    assert sent(registry) == {"web": 0, "web-2": 7}
    first.state = "closed"
    collector.add(third)
    assert sent(registry) == {"web": 0, "web-2": 7}


@pytest.mark.parametrize("state", ["closed", "forked"])
def test_a_producer_that_is_gone_leaves(
    registry: CollectorRegistry, collector: ProducerCollector, state: str
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    for stays in ("closing", "broken", "fatal"):
        producer.state = stays
        assert sent(registry) == {"web": 0}
    producer.state = state
    assert sent(registry) == {}


def test_the_collector_holds_no_producer(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    assert sent(registry) == {"web": 0}
    del producer
    gc.collect()
    assert sent(registry) == {}


def test_a_producer_that_is_not_started_has_no_series(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer(started=False)
    collector.add(producer)
    assert sent(registry) == {}


def test_two_collectors_in_a_registry_are_refused(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        ProducerCollector(registry=registry)


def test_both_formats_read_back(registry: CollectorRegistry, collector: ProducerCollector) -> None:
    producer = ObservedProducer('we"b\\\nü\udce9')
    producer.sent("orders", 3)
    producer.counts.request_sent(1, 100, 1.0)
    producer.health_fields = {"can_write": True, "brokers": (broker(1),)}
    collector.add(producer)
    names = {family.name for family in registry.collect()}
    for read in (
        list(text_format(generate_latest(registry).decode())),
        list(openmetrics(generate_openmetrics(registry).decode())),  # type: ignore[no-untyped-call]
    ):
        found = [sample for family in read for sample in family.samples if sample.name == SENT]
        assert [(each.labels["client_id"], each.value) for each in found] == [
            ('we"b\\\nü\\udce9', 3.0)
        ]
        assert {family.name for family in read} == names
        assert {family.type for family in read} == {"counter", "gauge", "histogram"}


def test_scrapes_of_many_threads_while_producers_come_and_go(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []
    producers = [ObservedProducer("web") for _ in range(3)]

    def scrape() -> None:
        try:
            while not stop.is_set():
                assert set(sent(registry)) <= {"web", "web-2", "web-3", "web-4"}
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=scrape) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for number in range(60):
            for producer in producers:
                producer.sent(f"topic-{number}", 1)
                collector.add(producer)
            collector.remove(producers[number % 3])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failures == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_scrapes_although_a_thread_held_the_lock(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    with collector._watched._reading:
        child = os.fork()
        if not child:
            done = threading.Thread(target=lambda: sent(registry), daemon=True)
            done.start()
            done.join(30)
            os._exit(1 if done.is_alive() else 0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


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


def sent_by_process(collector: ProducerCollector) -> dict[str, float]:
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
        assert sent_by_process(collector) == {me: 1, str(second.pid): 2, str(killed.pid): 3}
        killed.kill()
        killed.wait()
        assert sent_by_process(collector) == {me: 1, str(second.pid): 2}
        assert silent(collector) == 0
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            f"aioproducer-{pid}.sock" for pid in (me, second.pid)
        )
        assert second.stdin is not None
        second.stdin.close()
        second.wait()
        assert [path.name for path in folder.iterdir()] == [f"aioproducer-{me}.sock"]
    assert sent_by_process(collector) == {me: 1}


def test_the_folder_is_that_of_prometheus_client_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    producer = ObservedProducer("web")
    collector = ProducerCollector(registry=None)
    collector.add(producer)
    assert sent_by_process(collector) == {str(os.getpid()): 0}
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
        assert sent_by_process(collector) == {str(os.getpid()): 0}
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
    assert sent_by_process(collector) == {
        str(os.getpid()): 0
    }  # the child's is refused, and removed
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
