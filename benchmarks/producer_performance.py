"""Kafka's own ProducerPerformance: ``python -m benchmarks.producer_performance java WORKLOAD …``.

It sends the values of the workload, by lot from a file, after as many to warm its compilers up.
What it prints every tenth of a second says when they are over: CPU time is counted from then on,
the start of the machine left out. The last line of standard output is the run's `Costs` as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import psutil  # type: ignore[import-untyped]

from aioproducer.testing.kafka_distribution import KafkaDistribution
from benchmarks.client import parse
from benchmarks.clients import Choice, Client, Settings
from benchmarks.measure import Costs, per_record
from benchmarks.memory import peak_bytes
from benchmarks.workloads import Workload

_MAIN_CLASS: Final = "org.apache.kafka.tools.ProducerPerformance"
_JVM_OPTIONS: Final = ("-Xmx768m",)
_REPORT_EVERY_MS: Final = 100
_SENT: Final = re.compile(r"^(\d+) records sent, ")
_SUMMARY: Final = re.compile(r"records/sec.* 99\.9th\.?$")
_LEAST_WARM_UP: Final = 500_000


@dataclass(frozen=True, slots=True)
class Progress:
    """What the process had done and used when it said so."""

    records: int
    """Delivered so far."""
    when: float
    """Seconds."""
    cpu_seconds: float
    peak_bytes: int


def run(
    client: Client, workload: Workload, records: int, bootstrap_servers: str, choice: Choice
) -> Costs:
    """Raises RuntimeError when the tool fails."""
    warm_up = max(_LEAST_WARM_UP, records)
    with tempfile.NamedTemporaryFile("wb", suffix=".txt") as payload:
        payload.write(b"\n".join(dict.fromkeys(workload.load(records).values)))
        payload.flush()
        settings = client.options(workload.name, choice, None)
        command = _command(settings, workload, bootstrap_servers, warm_up + records, payload.name)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            progress = list(watch(process.pid, process.stdout))
            errors = process.stderr.read()
    if process.returncode:
        raise RuntimeError(f"{_MAIN_CLASS}: exit code {process.returncode}: {errors[-2_000:]}")
    return costs(workload, records, warm_up, progress)


def _command(
    settings: Settings, workload: Workload, bootstrap_servers: str, records: int, payload: str
) -> list[str]:
    (topic,) = workload.topic_names()
    return KafkaDistribution.resolve().command(
        _MAIN_CLASS,
        *("--bootstrap-server", bootstrap_servers, "--topic", topic),
        *("--num-records", str(records), "--throughput", "-1", "--payload-file", payload),
        *("--reporting-interval", str(_REPORT_EVERY_MS)),
        *("--command-property", *(f"{name}={value}" for name, value in settings.items())),
        jvm_options=_JVM_OPTIONS,
        log_level="ERROR",
    )


def watch(process_id: int, lines: Iterable[str]) -> Iterator[Progress]:
    """What the process says, the last of it with all records."""
    process, records = psutil.Process(process_id), 0
    for line in lines:
        if found := _SENT.match(line):
            records = int(found[1]) if _SUMMARY.search(line) else records + int(found[1])
            used = process.cpu_times()
            yield Progress(records, perf_counter(), used.user + used.system, peak_bytes(process_id))


def costs(workload: Workload, records: int, warm_up: int, progress: Sequence[Progress]) -> Costs:
    """Of what came after the warm-up."""
    sent = progress[-1].records if progress else 0
    warm = next((each for each in progress if each.records >= warm_up), None)
    numbers = {}
    if warm is not None and warm.records < sent:
        seconds, cpu = progress[-1].when - warm.when, progress[-1].cpu_seconds - warm.cpu_seconds
        numbers = {
            **per_record(sent - warm.records, workload.value_bytes, seconds, cpu),
            "peak_megabytes": max(each.peak_bytes for each in progress) / 1e6,
        }
    # The tool counts what was acknowledged, and goes on after an error.
    return Costs(records, warm_up, sent - warm_up, 0, None, numbers)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments, __doc__)
    try:
        done = run(
            options.client, options.workload, options.records, options.bootstrap, options.settings
        )
    except RuntimeError as error:
        sys.exit(str(error))
    print(json.dumps(dataclasses.asdict(done)))


if __name__ == "__main__":
    main()
