"""What Kafka's messages cost beside kio: ``python -m benchmarks.messages --rounds 9``.

Each message is decoded and encoded by this project's tables and by `kio`, in turns. Printed are the
best CPU times in microseconds, and their ratio. kio's reader is compiled, and trusts the bytes: it
compares no length with what is left, and refuses unknown tags and error codes. The last line is a
Metadata response in steps, as the producer reads it: in all, and its longest piece of 100 steps,
after which other tasks run.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from time import thread_time
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.serial import entity_reader, entity_writer

from aioproducer.engine.network.request import LazyMetadataResponse
from aioproducer.engine.protocol import Api, Schema, request_schema, response_schema
from aioproducer.foundation.tuning import METADATA_STEPS_PER_TURN
from benchmarks.report import Measurement, Section, add_options

_LEAST_SECONDS: Final = 0.005
"""Shorter calls are repeated for so long, for one time."""
_PARTITIONS: Final = 10_000
_TOPIC: Final = UUID(int=1)


class Case(NamedTuple):
    """A message in one version."""

    name: str
    schema: Schema
    version: int
    values: Mapping[str, Any]


class Codec(NamedTuple):
    """The calls of one codec for a message."""

    decode: Callable[[], object]
    encode: Callable[[], object]


def cases() -> Iterator[Case]:
    """The messages that are large, or that come often."""
    yield Case("Metadata of 10,000 partitions", *_response(Api.METADATA, 13), metadata())
    yield Case("Metadata request", *_request(Api.METADATA, 13), {"topics": [{"name": "orders"}]})
    yield Case("Produce of 12 partitions", *_response(Api.PRODUCE, 12), produced())
    yield Case("Fetch of 1.2 MB", *_response(Api.FETCH, 16), fetched())
    yield Case("ApiVersions", *_response(Api.API_VERSIONS, 4), versions())
    yield Case(
        "InitProducerId",
        *_response(Api.INIT_PRODUCER_ID, 4),
        {"producer_id": 7, "producer_epoch": 1},
    )


def _response(api: Api, version: int) -> tuple[Schema, int]:
    return response_schema(api), version


def _request(api: Api, version: int) -> tuple[Schema, int]:
    return request_schema(api), version


def metadata() -> dict[str, Any]:
    """Three brokers, a hundred topics."""
    topics = [
        {
            "name": f"topic-{number}",
            "topic_id": _TOPIC,
            "partitions": [
                {
                    "partition_index": each,
                    "leader_id": each % 3,
                    "leader_epoch": 5,
                    "replica_nodes": (0, 1, 2),
                    "isr_nodes": (0, 1, 2),
                    "offline_replicas": (),
                }
                for each in range(_PARTITIONS // 100)
            ],
        }
        for number in range(100)
    ]
    brokers = [{"node_id": each, "host": f"broker-{each}", "port": 9092} for each in range(3)]
    return {"brokers": brokers, "topics": topics, "cluster_id": "cluster", "controller_id": 0}


def produced() -> dict[str, Any]:
    """A response without errors."""
    rows = [{"index": each, "base_offset": 1000 + each} for each in range(12)]
    return {"responses": [{"name": "orders", "partition_responses": rows}]}


def fetched() -> dict[str, Any]:
    """Twelve partitions of 100 KB."""
    rows = [
        {"partition_index": each, "high_watermark": 10, "records": bytes(100_000)}
        for each in range(12)
    ]
    return {"responses": [{"topic_id": _TOPIC, "partitions": rows}]}


def versions() -> dict[str, Any]:
    """As many APIs as a broker has."""
    rows = [{"api_key": each, "min_version": 0, "max_version": 9} for each in range(64)]
    return {"api_keys": rows}


def codecs(case: Case) -> dict[str, Codec]:
    """The calls of both codecs for the same bytes. Raises ValueError if they differ."""
    schema, version = case.schema, case.version
    message = schema.of(case.values, version)
    data = schema.encode(message, version)
    kind = _kind_of_kio(case)
    read, write = entity_reader(kind), entity_writer(kind)
    entity, _ = read(data, 0)

    def encoded() -> bytes:
        wire = io.BytesIO()
        write(wire, entity)
        return wire.getvalue()

    if encoded() != data:
        raise ValueError(f"the codecs do not agree about {case.name}")
    return {
        "aioproducer": Codec(
            lambda: schema.decode(data, 0, version), lambda: schema.encode(message, version)
        ),
        "kio": Codec(lambda: read(data, 0), encoded),
    }


def _kind_of_kio(case: Case) -> Any:
    name = case.schema.name
    part = "request" if name.endswith("Request") else "response"
    api = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)[1:]
    folder = api.removesuffix(f"_{part}")
    return getattr(import_module(f"kio.schema.{folder}.v{case.version}.{part}"), name)


def best(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The best CPU microseconds of each call, in turns."""
    found = [float("inf")] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            found[place] = min(found[place], _microseconds(call))
    return found


def _microseconds(call: Callable[[], object]) -> float:
    times = 0
    began = thread_time()
    while True:
        call()
        times += 1
        if (spent := thread_time() - began) >= _LEAST_SECONDS:
            return spent / times * 1e6


def in_steps() -> tuple[float, float]:
    """CPU milliseconds of the large Metadata response: in all, and of its longest piece."""
    schema = response_schema(Api.METADATA)
    data = bytes(5) + schema.encode(schema.of(metadata(), 13), 13)
    response = LazyMetadataResponse(
        13, data, on_refusal=lambda error: None, on_left_over=lambda: None
    )
    asked = frozenset(f"topic-{number}" for number in range(100))
    steps = response.read(asked)
    total = longest = 0.0
    while True:
        began = thread_time()
        done = len([*islice(steps, METADATA_STEPS_PER_TURN)])
        spent = (thread_time() - began) * 1000
        total, longest = total + spent, max(longest, spent)
        if done < METADATA_STEPS_PER_TURN:
            return total, longest


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.messages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="default %(default)s")
    add_options(parser)
    options = parser.parse_args(arguments)
    measurement = Measurement.begin(parser, arguments, options, ["kio"], seconds=60)
    rows = []
    for case in cases():
        ours, theirs = codecs(case).values()
        for doing, calls in (
            ("decode", (ours.decode, theirs.decode)),
            ("encode", (ours.encode, theirs.encode)),
        ):
            one, other = best(calls, options.rounds)
            label = f"{doing} {case.name}"
            rows.append((label, f"{one:.1f}", f"{other:.1f}", f"{one / other:.2f}"))
    total, longest = min(in_steps() for _ in range(options.rounds))
    rows.append(("Metadata in steps, in all", f"{1_000 * total:.0f}", "-", "-"))
    rows.append(("Metadata in steps, the longest piece", f"{1_000 * longest:.0f}", "-", "-"))
    section = Section(
        title=f"messages: the best CPU time in µs, {options.rounds} rounds",
        headings=("message", "aioproducer", "kio", "ratio"),
        rows=tuple(rows),
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
