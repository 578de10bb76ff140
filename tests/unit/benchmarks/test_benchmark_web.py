"""What wrk reports of a web application, and Kafka's part of it."""

from __future__ import annotations

import pytest

from benchmarks.web.plan import Plan
from benchmarks.web.report import describe
from benchmarks.web.summary import Run, summarise, why_void
from benchmarks.web.wrk import Load, WrkError, parse

REPORT = """\
Running 2s test @ http://127.0.0.1:34567/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.65ms    4.37ms  46.15ms   88.10%
    Req/Sec    12.06k     1.27k   14.20k    70.00%
  Latency Distribution
     50%  940.00us
     75%    6.24ms
     90%    9.56ms
     99%    1.02s
  24012 requests in 2.00s, 4.10MB read
Requests/sec:  11980.42
Transfer/sec:      2.04MB
"""
ERRORS = """\
  Socket errors: connect 1, read 2, write 0, timeout 4
  Non-2xx or 3xx responses: 17
"""
LOAD = parse(REPORT)


def test_the_report_of_wrk_is_understood() -> None:
    assert (LOAD.requests, LOAD.requests_per_second) == (24_012, 11_980.42)
    assert (LOAD.p50_ms, LOAD.p99_ms) == pytest.approx((0.94, 1_020.0))
    assert (LOAD.wrong_statuses, LOAD.socket_errors) == (0, 0)


def test_errors_in_the_report_of_wrk_are_counted() -> None:
    found = parse(REPORT.replace("Requests/sec", f"{ERRORS}Requests/sec"))
    assert (found.wrong_statuses, found.socket_errors) == (17, 7)


@pytest.mark.parametrize("missing", ["     50%", "     99%", "requests in", "Requests/sec"])
def test_a_report_without_a_number_is_an_error(missing: str) -> None:
    with pytest.raises(WrkError, match="not understood"):
        parse(REPORT.replace(missing, ""))


def test_a_run_counts_when_each_request_is_answered_and_in_the_log() -> None:
    wrong = Load(10, 1.0, 1.0, 1.0, wrong_statuses=3, socket_errors=0)
    broken = Load(10, 1.0, 1.0, 1.0, wrong_statuses=0, socket_errors=2)
    assert why_void(LOAD, LOAD, in_log=48_024, least=48_024) is None
    assert why_void(LOAD, LOAD, 48_023, 48_024) == (
        "48024 requests were answered, but the log has only 48023 records"
    )
    assert why_void(wrong, LOAD, 0, 0) == "3 of 10 responses are not 2xx"
    assert why_void(LOAD, broken, 0, 0) == "2 errors of sockets of the warm-up"


def run(client: str, number: int, cpu: float, void: str | None = None) -> Run:
    numbers = {
        "requests_per_second": cpu * 100,
        "cpu_us_per_request": cpu,
        "p50_ms": cpu / 10,
        "p99_ms": cpu,
    }
    return Run("starlette", client, 16, number, 0.0, void, {} if void else numbers)


def test_the_part_of_kafka_is_above_the_null_app_of_the_same_round() -> None:
    runs = [
        *(run("null", 1, 50.0), run("aioproducer", 1, 70.0), run("aiokafka", 1, 90.0)),
        *(run("null", 2, 100.0), run("aioproducer", 2, 130.0), run("aiokafka", 2, 0.0, "gone")),
        run("aioproducer", 3, 99.0),  # its null app is void, so there is nothing to compare with
        run("null", 3, 0.0, "gone"),
    ]
    null, ours, peer = summarise(runs)
    assert "kafka_cpu_us" not in null.numbers
    assert ours.numbers["kafka_cpu_us"].median == 25.0
    assert (peer.numbers["kafka_cpu_us"].median, peer.counted) == (40.0, 1)
    plan = Plan(["starlette"], ["aioproducer", "aiokafka"], [16], rounds=3, seconds=5, warm_up=1)
    section = describe("starlette", plan, [null, ours, peer])
    row = dict(zip(section.headings[5:], section.rows[1][5:], strict=True))
    assert (row["Kafka's part"], row["runs"]) == ("25.0", "3/3")
    assert section.rows[1][9] == "0.62"
    assert {len(row) for row in section.rows} == {len(section.headings)}
    assert section.voids == (
        "VOID null, 16 connections, round 3: gone",
        "VOID aiokafka, 16 connections, round 2: gone",
    )
