"""``aioproducer perf``: its options, by the names of Kafka's ``kafka-producer-perf-test``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from aioproducer import loops
from aioproducer.cli import exit_code, exit_codes
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    CompressionType,
    Json,
    Properties,
    Topic,
    TopicOption,
    Verbose,
)
from aioproducer.cli.performance_run import (
    FilePayloads,
    Numbers,
    Payloads,
    PerformanceJob,
    PerformanceResult,
    PerformanceRun,
    RandomPayloads,
)
from aioproducer.cli.results import print_result, require_output
from aioproducer.cli.settings import client_config, one_topic, unescape
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import counted

__all__ = ["fields", "lines", "perf"]

HELP = f"""\
Send records at a rate, and measure throughput and latency.

Latency is the time from sending a record to its acknowledgement. Interim figures go to standard \
error, the result to standard output. An interrupt (SIGINT), SIGTERM or SIGHUP stops sending, and \
the result shows what was measured so far. A second signal gives up.
{
    exit_codes(
        "every record sent was delivered, even if interrupted",
        "some were not; standard error shows the errors and the count",
        "wrong use: an option, the configuration or the file",
        gives_up=True,
    )
}

\b
Example:
  aioproducer perf orders -b localhost:9092 --throughput 50000
"""

_CLIENT_ID: Final = "perf-producer-client"
_RECORD_SIZE: Final = 100
_TRANSACTION_MS: Final = 3000
_SEED: Final = 0


def perf(
    topic: Topic = None,
    topic_option: TopicOption = None,
    bootstrap_servers: BootstrapServers = None,
    num_records: Annotated[
        int, typer.Option(metavar="N", min=1, help="The number of records to send.")
    ] = 1_000_000,
    record_size: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=1,
            show_default=str(_RECORD_SIZE),
            help="Random values of this size.",
        ),
    ] = None,
    payload_file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Values from this file, chosen at random.")
    ] = None,
    payload_delimiter: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help=r"The end of a value in the file; \t and \xNN are allowed."
        ),
    ] = r"\n",
    payload_monotonic: Annotated[
        bool, typer.Option("--payload-monotonic", help="Use the numbers from 0 as values.")
    ] = False,
    throughput: Annotated[
        float, typer.Option(metavar="RATE", help="Records per second; -1: no limit.")
    ] = -1,
    warmup_records: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="The first records, left out of the steady state's figures."
        ),
    ] = 0,
    transactional_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Send in transactions.")
    ] = None,
    transaction_duration_ms: Annotated[
        int | None,
        typer.Option(
            metavar="MS", min=1, show_default=str(_TRANSACTION_MS), help="Commit after this time."
        ),
    ] = None,
    reporting_interval: Annotated[
        int,
        typer.Option(
            metavar="MS", min=1, help="How often to print figures if there is no terminal."
        ),
    ] = 5000,
    print_metrics: Annotated[
        bool, typer.Option("--print-metrics", help="Print the producer's metrics at the end.")
    ] = False,
    compression_type: CompressionType = None,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    require_output()
    terminal = Terminal(verbose=verbose)
    terminal.show_log()
    config = client_config(
        _CLIENT_ID,
        bootstrap_servers,
        properties,
        command_config,
        compression_type=compression_type,
        transactional_id=transactional_id,
    )
    if config.transactional_id is None and transaction_duration_ms is not None:
        config = config.replace(transactional_id=f"performance-producer-{uuid4()}")
    if record_size is not None and record_size > config.max_request_size:
        raise ConfigError(
            f"--record-size {record_size} is above the {config.max_request_size} bytes of "
            "max_request_size: send smaller records, or raise it with -X max.request.size"
        )
    if warmup_records >= num_records:
        raise ConfigError("--warmup-records must be less than --num-records")
    job = PerformanceJob(
        topic=one_topic("perf", topic, topic_option),
        config=config,
        payloads=_payloads(record_size, payload_file, payload_delimiter, payload_monotonic),
        records=num_records,
        throughput=_rate(throughput),
        warm_up=warmup_records,
        transaction_seconds=(
            None
            if config.transactional_id is None
            else (transaction_duration_ms or _TRANSACTION_MS) / 1000
        ),
        reporting_seconds=reporting_interval / 1000,
        with_metrics=print_metrics,
    )
    result = loops.run(_run(job, terminal))
    print_result(fields(job, result), lines(result), as_json=as_json)
    if result.error is not None:
        terminal.say(result.error)
    if result.failed:
        terminal.say(
            f"{counted(result.failed, 'record', ',')} "
            f"{'was' if result.failed == 1 else 'were'} not delivered"
        )
    return exit_code(failed=result.failed or result.error, gave_up=result.gave_up)


perf.__doc__ = HELP


async def _run(job: PerformanceJob, terminal: Terminal) -> PerformanceResult:
    return await PerformanceRun(job, terminal).run()


def _rate(throughput: float) -> float | None:
    if throughput == -1:
        return None
    if not 0 < throughput < inf:
        raise ConfigError(f"--throughput {throughput:g}: a rate is above 0, or -1 for no limit")
    return throughput


def _payloads(size: int | None, path: Path | None, delimiter: str, monotonic: bool) -> Payloads:
    if (size is not None) + (path is not None) + monotonic > 1:
        raise ConfigError("give one of --record-size, --payload-file and --payload-monotonic")
    if monotonic:
        return Numbers()
    if path is None:
        return RandomPayloads(size or _RECORD_SIZE, Random(_SEED))
    separator = unescape(delimiter).encode("utf-8", "surrogateescape")
    if not separator:
        raise ConfigError("--payload-delimiter is empty")
    try:
        values = path.read_bytes().removesuffix(separator).split(separator)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    if values == [b""]:
        raise ConfigError(f"{path} has no values")
    return FilePayloads(values, Random(_SEED))


def fields(job: PerformanceJob, result: PerformanceResult) -> dict[str, Any]:
    """The result, as JSON has it."""
    steady, commits = result.steady_state, result.commits
    found = {
        "topic": job.topic,
        "interrupted": result.interrupted,
        "failed": result.failed,
        "error": result.error,
        **result.total.fields(),
        "steady_state": None if steady is None else steady.fields(),
        "transactions": None
        if commits is None
        else {
            "committed": commits.count,
            "commit_ms": {
                "avg": round(_or_zero(commits.mean) * 1000, 3),
                "max": round(_or_zero(commits.max) * 1000, 3),
            },
        },
    }
    return found | ({"metrics": _without_nan(result.metrics)} if job.with_metrics else {})


def _or_zero(seconds: float) -> float:
    """``seconds``, or 0 for the NaN of no value."""
    return seconds if isfinite(seconds) else 0.0


def _without_nan(metrics: Any) -> Any:
    """``metrics`` with None for an average or a maximum of nothing: JSON has no NaN."""
    if isinstance(metrics, Mapping):
        return {name: _without_nan(value) for name, value in metrics.items()}
    return None if isinstance(metrics, float) and not isfinite(metrics) else metrics


def lines(result: PerformanceResult) -> Iterator[str]:
    """The result in the words of Kafka's tool."""
    yield result.total.line(percentiles=True)
    if result.steady_state is not None:
        yield f"Steady state: {result.steady_state.line(percentiles=True)}"
    if result.commits is not None:
        mean = _or_zero(result.commits.mean) * 1000
        longest = _or_zero(result.commits.max) * 1000
        yield (
            f"{result.commits.count} transactions committed, "
            f"{mean:.2f} ms avg commit, {longest:.2f} ms max commit."
        )
    for group, metrics in result.metrics.items():
        yield from _metric_lines(group, metrics)


def _metric_lines(name: str, metrics: Any) -> Iterator[str]:
    if not isinstance(metrics, dict):
        yield f"{name} : {metrics:.3f}"
        return
    for inner, value in metrics.items():
        yield from _metric_lines(f"{name}:{inner}", value)
