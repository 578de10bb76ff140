"""The load generator: wrk, by its command line and its report."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCRIPT: Final = Path(__file__).with_name("post_orders.lua")
_REQUESTS: Final = re.compile(r"^\s*(\d+) requests in ", re.MULTILINE)
_RATE: Final = re.compile(r"^Requests/sec:\s+([\d.]+)", re.MULTILINE)
_PERCENTILE: Final = re.compile(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s|m|h)\s*$", re.MULTILINE)
_WRONG_STATUS: Final = re.compile(r"^\s*Non-2xx or 3xx responses: (\d+)", re.MULTILINE)
_SOCKET_ERRORS: Final = re.compile(
    r"^\s*Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", re.MULTILINE
)
_MS: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
_LONGEST_END: Final = 30

MISSING: Final = "wrk is missing (Debian: apt install wrk), so the web workload is not measured"


class WrkError(Exception):
    """The load generator failed, or its report has no numbers."""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk has sent and seen."""

    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    wrong_statuses: int
    """Responses that are neither 2xx nor 3xx."""
    socket_errors: int


def program() -> str | None:
    """Where wrk is; None: it is not installed."""
    return shutil.which("wrk")


def put_load(url: str, connections: int, seconds: int) -> Load:
    """Post orders from one thread. Raises WrkError."""
    command = ["wrk", "--latency", "--threads", "1", "--connections", str(connections)]
    command += ["--duration", f"{seconds}s", "--script", str(_SCRIPT), url]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds + _LONGEST_END
        )
    except subprocess.TimeoutExpired:
        raise WrkError(f"wrk did not end {_LONGEST_END} s after its time") from None
    if done.returncode:
        raise WrkError(f"wrk: exit code {done.returncode}: {done.stderr.strip()}")
    return parse(done.stdout)


def parse(report: str) -> Load:
    """The numbers of ``wrk --latency``. Raises WrkError if one is missing."""
    requests, rate = _REQUESTS.search(report), _RATE.search(report)
    latencies = {
        int(percent): float(number) * _MS[unit]
        for percent, number, unit in _PERCENTILE.findall(report)
    }
    if requests is None or rate is None or not {50, 99} <= latencies.keys():
        raise WrkError(f"wrk's report is not understood: {report.strip()[:300]!r}")
    wrong, errors = _WRONG_STATUS.search(report), _SOCKET_ERRORS.search(report)
    return Load(
        requests=int(requests[1]),
        requests_per_second=float(rate[1]),
        p50_ms=latencies[50],
        p99_ms=latencies[99],
        wrong_statuses=int(wrong[1]) if wrong else 0,
        socket_errors=sum(map(int, errors.groups())) if errors else 0,
    )
