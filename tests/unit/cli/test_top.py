"""A process's endpoint for Prometheus: what it answers, and what it does not."""

from __future__ import annotations

import socket
import threading

import pytest

from aioproducer.cli import top
from aioproducer.cli.top import EndpointError, MetricsEndpoint, samples_of
from aioproducer.errors import ConfigError
from aioproducer.observability.series import Sample
from tests.support.http_server import Reply, Request, answer, serving, silence, trickling

SERIES = 'kafka_producer_record_send_total{client_id="we\\"b"} 3.0\n'
SAMPLE = Sample("kafka_producer_record_send_total", {"client_id": 'we"b'}, 3.0)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://{}/metrics", "/metrics"),
        ("http://{}", "/metrics"),
        ("{}", "/metrics"),
        ("{}/internal/prometheus?name=x", "/internal/prometheus?name=x"),
    ],
)
async def test_addresses(given: str, asked: str) -> None:
    with serving(answer(200, SERIES.encode())) as server:
        found = await MetricsEndpoint(given.format(server.address), 60).read()
    assert (found, [each.target for each in server.requests]) == ([SAMPLE], [asked])


async def test_a_port_alone_is_of_this_machine() -> None:
    assert MetricsEndpoint(":9000", 1).url == "http://127.0.0.1:9000/metrics"


@pytest.mark.parametrize(
    "url",
    ["", "http://", "ftp://h:1/", "file:///etc/passwd", "h:x", "h:99999", "h:0", "h :1", "h:1/\n"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of an endpoint"):
        MetricsEndpoint(url, 1)


def test_other_series_are_skipped_whatever_they_look_like() -> None:
    text = f"# HELP x y\nother{{ 1\n{SERIES}python_gc 1 2 3 4\n"
    assert samples_of(text) == [SAMPLE]


@pytest.mark.parametrize(
    "text", ["aioproducer_x{", 'aioproducer_x{a="b"}', "aioproducer_x y", 'kafka_producer_x{a="b 1']
)
async def test_our_series_in_a_wrong_format(text: str) -> None:
    with (
        serving(answer(200, text.encode())) as server,
        pytest.raises(EndpointError, match="format"),
    ):
        await MetricsEndpoint(server.address, 60).read()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (answer(404), "HTTP 404"),
        (answer(302), "HTTP 302"),
        (b"", "."),
        (b"\x00\x1b[2J\n" * 10, "."),
    ],
)
async def test_an_endpoint_without_metrics(script: Reply, message: str) -> None:
    with serving(script) as server, pytest.raises(EndpointError, match=message) as raised:
        await MetricsEndpoint(server.address, 60).read()
    assert str(raised.value).startswith(f"http://{server.address}/metrics: ")
    assert str(raised.value).isprintable()


async def test_nobody_listens() -> None:
    with serving(answer(200)) as server:
        pass
    with pytest.raises(EndpointError, match="refused"):
        await MetricsEndpoint(server.address, 60).read()


async def test_a_silent_endpoint_costs_its_timeout_and_no_thread() -> None:
    left = threading.Event()

    def hang(request: Request, connection: socket.socket) -> None:
        silence(request, connection)
        left.set()

    with serving(hang) as server:
        with pytest.raises(EndpointError, match="no answer within 0"):
            await MetricsEndpoint(server.address, 0.1).read()
        assert left.wait(60)


async def test_an_endpoint_that_drips_is_cut() -> None:
    cut = threading.Event()

    def drip(request: Request, connection: socket.socket) -> None:
        try:
            trickling(b"HTTP/1.1 200 OK\r\n\r\n", b"#")(request, connection)
        except OSError:
            cut.set()

    with serving(drip) as server:
        with pytest.raises(EndpointError, match="no answer within"):
            await MetricsEndpoint(server.address, 0.2).read()
        assert cut.wait(60)


async def test_an_endless_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "_LARGEST", 1000)
    with (
        serving(answer(200, b"#" * 2000)) as server,
        pytest.raises(EndpointError, match="more than"),
    ):
        await MetricsEndpoint(server.address, 60).read()
