"""Figures of an interval, their pictures and lines, and the view of this process's producers."""

from __future__ import annotations

import io
import json
import math
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from aioproducer.errors import ConfigError, MissingExtraError
from aioproducer.observability.live import LiveView
from aioproducer.observability.live.rendering import line, picture
from aioproducer.observability.live.snapshots import ProducerFigures, Snapshot, figures, quantile
from aioproducer.observability.series import Families, ProducerSeries, Sample, SeriesOptions
from tests.unit.observability.observed import ObservedProducer, broker

WIDTH = 80
SENT = "kafka_producer_record_send_total"


def snapshot(at: float, *producers: ObservedProducer) -> Snapshot:
    families = Families()
    for each in producers:
        series = ProducerSeries(each.client_id, SeriesOptions())
        series.add_to(families, each.metrics(), each.latencies(), each.health())
    return Snapshot(at, [sample for family in families for sample in family.samples])


def busy() -> ObservedProducer:
    producer = ObservedProducer("web")
    producer.sent("orders", 100)
    producer.sent("views", 10)
    producer.counts.request_sent(-1, 100, 1.0)
    producer.counts.request_sent(2, 100, 1.0)
    producer.record.add(5.0, 110)
    producer.health_fields = {
        "can_write": True,
        "memory_used": 0.85,
        "oldest_record_age": 2.25,
        "pending_records": 4,
        "brokers": (broker(10), broker(2, in_flight=3), broker(3, "unreachable")),
    }
    return producer


def interval() -> ProducerFigures:
    """Two seconds in which 1,000 records took 2 to 3 ms, and 7 failed."""
    producer = busy()
    before = snapshot(10.0, producer)
    producer.sent("orders", 1_000, 2 << 20)
    producer.record.add(0.0025, 1_000)
    producer.counts.records_failed("views", 7, 1.5)
    producer.counts.records_retried("orders", 5, 1.5, 2)
    producer.counts.request_sent(2, 4 << 20, 1.5)
    [found] = figures(before, snapshot(12.0, producer))
    return found


# --- figures ----------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_interval() -> None:
    found = interval()
    assert found.records_per_second == 500
    assert found.bytes_per_second == 2 << 20
    assert 0.002 < found.p50 < found.p99 <= 0.003
    assert (found.errors, found.errors_total, found.retries) == (7, 7, 5)
    assert (found.memory_used, found.oldest_record_age, found.pending_records) == (0.85, 2.25, 4)
    assert found.state == "writes"


def test_topics_with_errors_come_first_and_then_the_busiest() -> None:
    found = interval()
    assert [each.topic for each in found.topics] == ["views", "orders"]
    assert [each.errors for each in found.topics] == [7, 0]
    assert [each.records_per_second for each in found.topics] == [0, 500]


def test_brokers_are_in_order_and_idle_bootstrap_servers_are_left_out() -> None:
    found = interval()
    assert [(each.node, each.state, each.in_flight) for each in found.brokers] == [
        ("2", "connected", 3),
        ("3", "failing", 0),
        ("10", "connected", 0),
    ]
    assert found.brokers[0].bytes_per_second == 2 << 20


def test_the_first_figures_have_no_rates_and_latencies_since_the_start() -> None:
    [found] = figures(None, snapshot(10.0, busy()))
    assert math.isnan(found.records_per_second)
    assert math.isnan(found.errors)
    assert 2 < found.p50 <= 5
    assert found.errors_total == 0


def test_an_idle_interval_has_no_latency() -> None:
    producer = busy()
    [found] = figures(snapshot(1.0, producer), snapshot(2.0, producer))
    assert found.records_per_second == 0
    assert math.isnan(found.p50)


def test_a_producer_that_was_made_anew_counts_from_zero() -> None:
    new = ObservedProducer("web")
    new.sent("orders", 30)
    new.record.add(0.0025, 30)
    [found] = figures(snapshot(1.0, busy()), snapshot(2.0, new))
    assert found.records_per_second == 30
    assert found.p99 < 0.004


def test_a_producer_that_came_in_the_interval() -> None:
    first, second = ObservedProducer("a"), ObservedProducer("b")
    second.sent("orders", 5)
    found = figures(snapshot(1.0, first), snapshot(2.0, first, second))
    assert [(str(each.producer), each.records_per_second) for each in found] == [("a", 0), ("b", 5)]


@pytest.mark.parametrize(
    ("fields", "state", "expected"),
    [
        ({"can_write": True}, "started", "writes"),
        ({"can_write": False}, "started", "can't write"),
        ({"can_write": None}, "started", "idle"),
        ({"can_write": False}, "broken", "dead"),
    ],
)
def test_states(fields: dict[str, object], state: str, expected: str) -> None:
    producer = ObservedProducer()
    producer.health_fields, producer.state = fields, state
    [found] = figures(None, snapshot(1.0, producer))
    assert found.state == expected


def test_processes_are_told_apart() -> None:
    samples = [
        Sample(SENT, {"client_id": "web", "pid": pid}, float(count))
        for pid, count in (("7", 1), ("8", 2))
    ]
    found = figures(Snapshot(0.0, []), Snapshot(1.0, samples))
    assert [(str(each.producer), each.records_per_second) for each in found] == [
        ("web (pid 7)", 1),
        ("web (pid 8)", 2),
    ]


def test_json_has_no_nan() -> None:
    [first] = figures(None, snapshot(10.0, busy()))
    for found in (first, interval()):
        read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert read["client_id"] == "web"
        assert [each["topic"] for each in read["topics"]]
    assert first.as_dict()["records_per_second"] is None


NAMES = st.sampled_from(
    [SENT, "aioproducer_record_latency_seconds_bucket", "kafka_producer_node_request_total", "x"]
)
LABELS = st.dictionaries(st.sampled_from(["client_id", "pid", "topic", "node", "le"]), st.text())
SAMPLES = st.lists(st.builds(Sample, NAMES, LABELS, st.floats()), max_size=20)


@given(SAMPLES, SAMPLES, st.floats(-1, 10))
def test_whatever_an_endpoint_says_can_be_shown(
    before: list[Sample], after: list[Sample], elapsed: float
) -> None:
    found = figures(Snapshot(0.0, before), Snapshot(elapsed, after))
    drawn(*found)
    for each in found:
        assert line(each).isprintable()
        json.dumps(each.as_dict(), allow_nan=False)


# --- quantiles --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.75, 1.5), (0.99, 2.0)]
)
def test_quantiles_are_interpolated(fraction: float, expected: float) -> None:
    assert quantile(fraction, {1.0: 2, 2.0: 4, 3.0: 4, math.inf: 4}) == pytest.approx(
        expected, abs=0.03
    )


def test_a_quantile_above_all_bounds_is_the_last_bound() -> None:
    assert quantile(0.99, {1.0: 1, 2.0: 1, math.inf: 4}) == 2.0


@pytest.mark.parametrize("buckets", [{}, {math.inf: 3}, {1.0: 0, math.inf: 0}, {1.0: 3, 2.0: 3}])
def test_no_quantile_without_values(buckets: dict[float, float]) -> None:
    assert math.isnan(quantile(0.5, buckets))


@given(st.lists(st.floats(0, 9), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_its_rank(values: list[float], fraction: float) -> None:
    bounds = [float(each) for each in range(1, 10)]
    buckets = {bound: sum(value <= bound for value in values) for bound in (*bounds, math.inf)}
    exact = sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]
    assert abs(quantile(fraction, buckets) - exact) <= 1.0 + 1e-9


# --- pictures ---------------------------------------------------------------------------------


def drawn(*producers: ProducerFigures, rows: int = 10, note: str = "") -> str:
    console = Console(file=io.StringIO(), width=WIDTH, record=True)
    console.print(picture("title", producers, rows=rows, note=note))
    return console.export_text()


def test_a_picture_fits_a_terminal_and_says_all() -> None:
    told = drawn(interval(), note="trouble")
    assert [each for each in told.splitlines() if len(each) > WIDTH] == []
    assert "…" not in told
    for each in ("title", "trouble", "writes", "85%", "500", "2.2", "failing", "orders", "views"):
        assert each in told, each


def test_rows_are_bounded() -> None:
    told = drawn(interval(), rows=1)
    assert "views" in told
    assert "orders" not in told
    assert "and 1 more" in told
    assert "and 2 more" in told


def test_no_producers() -> None:
    assert "no producer is started" in drawn()


def test_an_outage_has_its_time() -> None:
    producer = ObservedProducer()
    producer.health_fields = {"can_write": False, "since": 61.0}
    [found] = figures(None, snapshot(1.0, producer))
    assert "can't write for 61 s" in drawn(found)
    assert "can't write for 61 s" in line(found)


def test_a_peer_cannot_control_the_terminal() -> None:
    name = "web\x1b[2J\n[bold]"
    found = figures(None, Snapshot(1.0, [Sample(SENT, {"client_id": name}, 1.0)]))
    assert "\x1b[2J" not in drawn(*found)
    assert "[bold]" in drawn(*found)


def test_a_line() -> None:
    told = line(interval())
    assert told.startswith("web: writes, 500.0 records/sec (2.00 MiB/sec), ")
    assert told.endswith("85% memory, oldest record 2.2 s, 5 retries, 7 errors.")


# --- the view of this process -----------------------------------------------------------------


class Screen(io.StringIO):
    """Sets ``seen[text]`` once ``text`` is written."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.seen = {text: threading.Event() for text in texts}

    def write(self, text: str) -> int:
        for each, event in self.seen.items():
            if each in text:
                event.set()
        return super().write(text)


def test_the_view_draws_while_its_block_runs() -> None:
    screen = Screen("web", "web-2")
    console = Console(file=screen, force_terminal=True, width=WIDTH)
    producer, second = busy(), ObservedProducer("web")
    with LiveView(producer, interval=0.05, console=console) as view:
        assert screen.seen["web"].wait(60)
        view.add(second)
        assert screen.seen["web-2"].wait(60)
        second.state = "closed"
    assert screen.getvalue().rpartition("aioproducer · ")[2].count("web-2") == 0


def test_without_a_terminal_the_last_figures_are_printed() -> None:
    screen, producer = io.StringIO(), busy()
    with LiveView(producer, console=Console(file=screen, width=WIDTH)):
        pass
    assert screen.getvalue().count("web  writes") == 1


@pytest.mark.parametrize("interval", [0, -1.0, math.nan, math.inf])
def test_the_interval_is_checked(interval: float) -> None:
    with pytest.raises(ConfigError, match="interval="):
        LiveView(interval=interval)


def test_without_rich_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'aioproducer\[cli\]'"):
        LiveView()
