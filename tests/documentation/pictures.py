"""The pictures of the documentation that are drawn; ``make docs-pictures`` draws them anew.

The pictures of the demo and of commands are the output of runs; ``plots.py`` draws the bars.
"""

from __future__ import annotations

import asyncio
import io
import runpy
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server

from aioproducer import Producer
from aioproducer.observability.prometheus import ProducerCollector
from aioproducer.testing import KafkaCluster
from aioproducer.testing.ports import free_ports
from tests.documentation.pages import DOCS, ROOT
from tests.documentation.plots import headline, throughput
from tests.documentation.terminal import picture, plain_svg, run_at_a_terminal, screen

__all__ = ["COMMAND", "COMMANDS", "DEMO", "PLOTS", "demo"]

COMMAND: Final = "make docs-pictures"
DEMO: Final = DOCS / "images" / "demo.svg"
PLOTS: Final = {
    DOCS / "images" / "headline.svg": headline,
    DOCS / "images" / "throughput.svg": throughput,
}
"""The pictures that are drawn from the figures in the README."""
TOP: Final = DOCS / "images" / "top.svg"
COMMANDS: Final = {
    DOCS / "images" / "tail.svg": (
        r"aioproducer tail orders -b localhost:9092 --from -3 -e -f '%p %o %k %s\n'",
        "aioproducer tail orders -b localhost:9092 --from -1 -e --headers",
        "aioproducer tail orders -b localhost:9092 --from -1 -e --json",
    ),
    DOCS / "images" / "perf.svg": (
        "aioproducer perf orders -b localhost:9092 --throughput 50000 --num-records 500000 "
        "--warmup-records 100000",
    ),
    TOP: ("aioproducer top http://127.0.0.1:9000/metrics --count 5",),
}
"""The commands of each picture, as they are shown; a run has the address of its own cluster."""


def demo() -> str:
    """The output of ``make demo``, as SVG: of a run with Kafka, where there is Java."""
    from rich.console import Console

    program = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    run = program["demo"]
    # No terminal: a progress bar is shown once, at its end.
    console = Console(file=io.StringIO(), record=True, width=110, highlight=False)
    run.__globals__["console"] = console
    asyncio.run(run(mock=False))
    return plain_svg(console.export_svg(title="make demo"))


async def commands() -> dict[Path, str]:
    """The pictures of commands, taken from a terminal, with Kafka on this machine."""
    async with KafkaCluster(brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        await cluster.create_topic("orders", replication_factor=3)
        await cluster.create_topic("page-views", replication_factor=3, partitions=6)
        await _send_orders(servers)
        drawn = {}
        for path, shown in COMMANDS.items():
            async with _application(servers) if path == TOP else nullcontext() as endpoint:
                real = {"localhost:9092": servers, "127.0.0.1:9000": endpoint or ""}
                drawn[path] = await asyncio.to_thread(_at_a_terminal, shown, real)
        return drawn


async def _send_orders(servers: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for number, drink in enumerate(("espresso", "flat white", "ristretto", "café crème")):
            value = f'{{"order": {1040 + number}, "drink": "{drink}"}}'
            headers = {"trace": b"4bf92f35", "shop": "Zürich".encode()}
            await producer.send("orders", value, key=f"customer-{number % 3}", headers=headers)


@asynccontextmanager
async def _application(servers: str) -> AsyncIterator[str]:
    """Two producers that send, and the address of their endpoint for Prometheus."""
    registry = CollectorRegistry()
    collector = ProducerCollector(registry=registry)
    [port] = free_ports(1)
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    async with (
        Producer(bootstrap_servers=servers, client_id="shop", linger_ms=5) as shop,
        Producer(bootstrap_servers=servers, client_id="tracking", compression_type="lz4") as views,
        asyncio.TaskGroup() as group,
    ):
        collector.add(shop)
        collector.add(views)
        sending = [
            group.create_task(_keep_sending(shop, "orders", 20)),
            group.create_task(_keep_sending(views, "page-views", 200)),
        ]
        yield f"127.0.0.1:{port}"
        for each in sending:
            each.cancel()
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    thread.join()


async def _keep_sending(producer: Producer, topic: str, records: int) -> None:
    while True:
        for number in range(records):
            producer.send(topic, b"x" * 200, key=f"customer-{number}")
        await producer.drain()
        await asyncio.sleep(0.01)


def _at_a_terminal(shown: tuple[str, ...], real: Mapping[str, str]) -> str:
    """``real``: the addresses of this run, by those that are shown."""
    texts = []
    for line in shown:
        arguments = shlex.split(line)[1:]
        for told, address in real.items():
            arguments = [word.replace(told, address) for word in arguments]
        seen = run_at_a_terminal([sys.executable, "-m", "aioproducer", *arguments])
        for told, address in real.items():
            seen = seen.replace(address, told) if address else seen
        texts.append(f"\x1b[32m$\x1b[0m \x1b[1m{line}\x1b[0m\n{screen(seen)}")
    return picture(" ".join(shown[0].split()[:2]), "\n\n".join(texts))


if __name__ == "__main__":
    for path, drawn in asyncio.run(commands()).items():
        path.write_text(drawn, "utf-8")
    DEMO.write_text(demo(), "utf-8")
    for path, draw in PLOTS.items():
        path.write_text(draw((ROOT / "README.md").read_text("utf-8")), "utf-8")
