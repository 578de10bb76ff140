"""confluent-kafka's example programs of producers, with the import of the producer changed alone.

Each runs with confluent-kafka's producer and with ours, on a Kafka of its own, and must end
without an error and tell the same.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import read

ROOT: Final = Path(__file__).parents[3]
OURS: Final = ("AIOProducer", "Producer", "SerializingProducer")
PATIENCE: Final = 60.0
RECORDS: Final = 250


def with_our_producer(text: str) -> str:
    """The program with ours: the other names still come from confluent-kafka."""
    return re.sub(r"^from (confluent_kafka[\w.]*) import (.+)$", _split, text, flags=re.MULTILINE)


def _split(line: re.Match[str]) -> str:
    names = [each.strip() for each in line[2].split(",")]
    ours = [each for each in names if each in OURS]
    theirs = [each for each in names if each not in OURS]
    lines = [f"from {line[1]} import {', '.join(theirs)}"] if theirs else []
    lines += [f"from aioproducer.compat.confluent import {', '.join(ours)}"] if ours else []
    return "\n".join(lines)


class Program:
    """A running example, whose output is read as it comes."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._came: SimpleQueue[str] = SimpleQueue()
        self._output = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while piece := os.read(self._process.stdout.fileno(), 65_536):
            self._came.put(piece.decode())
        self._came.put("")

    def write(self, text: str) -> None:
        """Give it ``text`` on its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def until(self, *texts: str) -> None:
        """Wait until its output has each of ``texts``."""
        deadline = monotonic() + PATIENCE
        while not all(each in self._output for each in texts):
            try:
                piece = self._came.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                piece = ""
            if not piece:
                self._process.kill()
                raise RuntimeError(f"it has not said {texts}, but: {self._output}")
            self._output += piece

    def stop(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> list[str]:
        """Wait for its end without an error; returns all lines."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
        while piece := self._came.get(timeout=PATIENCE):
            self._output += piece
        if code:
            raise RuntimeError(f"it has ended with {code}: {self._output}")
        return self._output.splitlines()


def told(lines: list[str], words: str) -> list[str]:
    """The lines with ``words``, in order of their text."""
    return sorted(line for line in lines if words in line)


def lines_of_stdin(folder: Path, cluster: KafkaCluster) -> list[str]:
    program = Program(folder / "producer.py", cluster.bootstrap_servers, "lines")
    program.write("".join(f"line {number}\n" for number in range(RECORDS)))
    delivered = told(program.end(), "delivered")
    return [*re.findall(r"@ \d+", str(delivered)), *values(cluster, "lines")]


def exactly_once(folder: Path, cluster: KafkaCluster) -> list[str]:
    """Reads what :func:`lines_of_stdin` has written."""
    options = {"-b": cluster.bootstrap_servers, "-t": "lines", "-o": "encoded", "-g": "eos"}
    arguments = [each for pair in options.items() for each in pair]
    lines = Program(folder / "eos_transactions.py", *arguments).end()
    return [*told(lines, "transaction with"), *values(cluster, "encoded")]


def context_managers(folder: Path, cluster: KafkaCluster) -> list[str]:
    lines = Program(folder / "context_manager_example.py", cluster.bootstrap_servers).end()
    return told(lines, "Message delivered") + told(lines, "Consumed") + told(lines, "completed")


def json_records(folder: Path, cluster: KafkaCluster) -> list[str]:
    with SchemaRegistryServer() as registry:
        options = {"-b": cluster.bootstrap_servers, "-s": registry.url, "-t": "json"}
        arguments = [each for pair in options.items() for each in pair]
        program = Program(folder / "json_producer.py", *arguments)
        program.write("Ada\nLondon\n7\nblue\n\n\nseven\n")
        program.until("Invalid input, discarding record...\nEnter name: ")
        program.stop(signal.SIGINT)
        delivered = told(program.end(), "successfully produced")
    return [re.sub(r"b'[-\w]+'", "key", str(delivered)), *values(cluster, "json")]


def on_the_event_loop(folder: Path, cluster: KafkaCluster) -> list[str]:
    program = Program(folder / "asyncio_example.py", cluster.bootstrap_servers, "asyncio")
    program.until("@ 15", "Consumed: b'testvalue9'")
    program.stop(signal.SIGTERM)
    lines = program.end()
    first = told(lines[: next(at for at, line in enumerate(lines) if "@ 5" in line)], "Produced to")
    return first + told(lines, "Closed") + told(lines, "End of example")


def values(cluster: KafkaCluster, topic: str) -> list[str]:
    """The committed values in a topic, in order of their text."""
    logs = read(cluster, (topic,), "read_committed")
    return sorted(repr(value) for log in logs.values() for value in log)


EXAMPLES: Final[dict[str, Callable[[Path, KafkaCluster], list[str]]]] = {
    "producer.py": lines_of_stdin,
    "eos_transactions.py": exactly_once,
    "context_manager_example.py": context_managers,
    "json_producer.py": json_records,
    "asyncio_example.py": on_the_event_loop,
}


def compare_examples(checkout: Path, folder: Path) -> list[str]:
    """The examples that fail with ours, or tell something else than with confluent-kafka's."""
    found: dict[str, list[list[str]]] = {name: [] for name in EXAMPLES}
    for change in (str, with_our_producer):
        with KafkaCluster(brokers=1) as cluster:
            for name, run in EXAMPLES.items():
                changed = folder / name
                changed.write_text(change((checkout / "examples" / name).read_text("utf-8")))
                try:
                    said = run(folder, cluster)
                except Exception as error:
                    said = [f"{type(error).__name__}: {error}"]
                found[name].append(said)
    problems = [
        f"{name}: {ours} instead of {theirs}"
        for name, (theirs, ours) in found.items()
        if theirs != ours
    ]
    return problems + [
        f"{name} tells nothing, or fails, with confluent's producer: {theirs}"
        for name, (theirs, _) in found.items()
        if not theirs or "Error: " in theirs[0]
    ]
