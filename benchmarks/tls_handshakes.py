"""What TLS handshakes cost the event loop: ``python -m benchmarks.tls_handshakes --rounds 5``.

A server in a process of its own, 100 connections to it at once, and a task that is always due.
Printed is the longest that it had to wait for its turn, in CPU time of the thread (the machine may
be busy), and the CPU time of one connection, as the medians over the rounds. The cases: plain TCP;
TLS as the answers come; TLS with all answers there at once, for the loop was held up; the same with
a client certificate; and a context made for each connection on the loop, as no producer does.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import uvloop

from aioproducer.auth.tls import TlsContexts, TlsOptions, make_context
from aioproducer.testing.certificates import Authority
from benchmarks.metadata import stall
from benchmarks.report import Measurement, Section, add_options

_TURNS_UNTIL_SENT: Final = 12
_HELD_UP: Final = 1.0
_CONTEXTS: Final = 20

Contexts: TypeAlias = Callable[[], ssl.SSLContext | None]


@dataclass(frozen=True)
class Case:
    """What is measured: the server's PEM file, whom it trusts, and the client's contexts."""

    name: str
    keystore: str
    trusted: str | None
    contexts: Contexts
    held_up: bool


def serve(pipe: Connection, keystore: str, trusted: str | None) -> None:
    """The server's process: tells its port, and ends with the other end of ``pipe``."""

    async def run() -> None:
        context = None
        if keystore:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keystore)
            if trusted is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=trusted)

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                writer.write(await reader.read(4))
                await reader.read()
                writer.transport.abort()

        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context, backlog=1000)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.poll, None)

    asyncio.run(run())


async def connect(port: int, contexts: Contexts) -> None:
    """One connection, until its first answer."""
    context = contexts()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    writer.write(b"ping")
    await reader.readexactly(4)
    writer.transport.abort()


def stand_still() -> None:
    """Hold up the loop."""
    time.sleep(_HELD_UP)


async def connect_all(port: int, contexts: Contexts, number: int, held_up: bool) -> None:
    """All at once; ``held_up``: the loop stands still until every answer of the server is there."""
    connections = [asyncio.create_task(connect(port, contexts)) for _ in range(number)]
    if held_up:
        for _ in range(_TURNS_UNTIL_SENT):
            await asyncio.sleep(0)
        stand_still()
    await asyncio.gather(*connections)


async def measure(port: int, contexts: Contexts, number: int, held_up: bool) -> tuple[float, float]:
    """The longest stall and the CPU time of one connection, both in milliseconds."""
    await connect(port, contexts)
    began = time.thread_time()
    await connect_all(port, contexts, number, held_up)
    each = (time.thread_time() - began) / number * 1000
    return await stall(lambda: connect_all(port, contexts, number, held_up)), each


def contexts_made(options: dict[str, TlsOptions]) -> Iterator[tuple[str, ...]]:
    """What making a context takes."""
    for name, each in options.items():
        began = time.thread_time()
        for _ in range(_CONTEXTS):
            make_context(each)
        took = (time.thread_time() - began) / _CONTEXTS * 1000
        yield f"making a context, {name}", "-", "-", f"{took:.2f}"


def connected(case: Case, number: int, rounds: int) -> Iterator[tuple[str, ...]]:
    """A case on both loops, with a server of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs, case.keystore, case.trusted), daemon=True)
    process.start()
    port = ours.recv()
    for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
        found = [run(measure(port, case.contexts, number, case.held_up)) for _ in range(rounds)]
        longest, each = (median(column) for column in zip(*found, strict=True))
        yield case.name, loop, f"{longest:.1f}", f"{each:.2f}"
    ours.send(None)
    process.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tls_handshakes", description=__doc__
    )
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser)
    options = parser.parse_args(arguments)
    measurement = Measurement.begin(parser, arguments, options, ["uvloop"], seconds=60)
    authority = Authority()
    with tempfile.TemporaryDirectory() as directory:
        keystore = str(authority.issue("broker").write(Path(directory, "server.pem")))
        own = str(authority.issue("client").write(Path(directory, "client.pem")))
        trusting = TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem)
        both = TlsOptions(
            truststore_type="PEM", truststore_certificates=authority.pem, keystore_location=own
        )
        made = {"own truststore": trusting, "client certificate": both, "system's": TlsOptions()}
        rows = [*contexts_made(made)]
        get, get_both = TlsContexts(trusting).get, TlsContexts(both).get
        for case in (
            Case("plain TCP", "", None, lambda: None, False),
            Case("plain TCP, held up", "", None, lambda: None, True),
            Case("TLS", keystore, None, get, False),
            Case("TLS, held up", keystore, None, get, True),
            Case("mTLS, held up", keystore, authority.pem, get_both, True),
            Case("TLS, a context each", keystore, None, lambda: make_context(trusting), False),
        ):
            rows += connected(case, options.connections, options.rounds)
    section = Section(
        title=f"handshakes: {options.connections} connections at once; {options.rounds} rounds",
        headings=("case", "loop", "stall ms", "CPU ms each"),
        rows=tuple(rows),
        labels=2,
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
