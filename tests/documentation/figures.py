"""The recorded figures on the pages: generated tables, and single figures that a page names.

A page names a figure by its key, as ``<!--bulk:aioproducer:defaults:records/s-->767,000<!---->``
does. :func:`benchmarks.recorded.figure` describes keys. A generated table is a part whose name
begins with ``figures``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.recorded import Run, Table, figure, number, said, tables

__all__ = ["expected", "front", "interface", "renewed", "results", "serializers", "unkeyed"]

Tables = Mapping[str, Table]

_KEYED: Final = re.compile(r"<!--(?P<key>[^<>\n]+:[^<>\n]+)-->(?P<said>[^<\n]*)<!---->")
_GENERATED: Final = re.compile(r"<!-- (figures[\w-]*):begin -->.*?<!-- \1:end -->", re.S)
_CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
_FIGURE: Final = re.compile(
    r"\d[\d,.]*\s*(?:\xd7|x aiokafka|x confluent)"
    r"|\xd7\s*\d"
    r"|\d[\d,.]*\s+(?:CPU-)?(?:µs|(?:records|rows|lines|requests|messages|commits)/s)"
    r"|\d[\d,.]*\s+times\b[^.|]*?\b(?:aiokafka|confluent-kafka|librdkafka|kafka-python|Java|Spark)"
)
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_OURS: Final = re.compile(r"(?:aioproducer|shim|ours)(?!.*-(?:asyncio|beats|buffers))")
_PEERS: Final = re.compile(r"confluent|aiokafka|kafka-python|java|kcat")
_RATES: Final = ("records/s", "requests/s", "lines/s")
_COSTS: Final = ("CPU-µs/record", "CPU-µs/request", "CPU-µs/line")
_LATENCIES: Final = ("p50 ms", "p99 ms")
_TIMED: Final = (*_LATENCIES, "first record ms")
_LEFT_OUT: Final = ("settings", "runs", "others' cores", "range")
"""The headings of columns that the pages leave out."""
_SCOPES: Final = {
    "slow_brokers": "",
    "web": "",
    "reading": "",
    "shim": "aiokafka's interface",
    "compat_confluent": "confluent-kafka's interface",
    "new_process": "a new process",
    "produce_lines": "",
}
"""The programs beside the main one that compare clients, and what their cases are told with."""
_NAMES: Final = {
    "confluent": "confluent-kafka",
    "confluent-idempotent": "idempotent confluent-kafka",
    "confluent-defaults": "confluent-kafka with its defaults",
    "confluent-aio": "confluent-kafka's AIOProducer",
}
_TWO: Final = ("confluent", "aiokafka")
"""The clients of the front page."""
_FRONT: Final = {
    "bulk": "a future per record",
    "keyed": "with keys",
    "tasks": "1,000 tasks, each awaiting",
}
"""The workloads of the README, and their meanings."""
_EXPECTED: Final = {
    "bulk": "keep many records in flight, with a future each",
    "keyed": "send with keys",
    "tasks": "run 1,000 tasks that each await their record",
    "single": "await one record after another",
    "web.starlette": "answer a request of a web application with an awaited record",
    "reading.read_100": "read records of 100 bytes",
    "slow_brokers.slow-1-100-250": "send to one partition of a broker that answers after 250 ms",
}


def renewed(text: str) -> str:
    """A page with the recorded figures. Raises LookupError: one that it names is not recorded."""
    return _KEYED.sub(lambda found: f"<!--{found['key']}-->{figure(found['key'])}<!---->", text)


def unkeyed(text: str) -> list[str]:
    """The figures of a page that have no key."""
    for drawn in (_GENERATED, _KEYED, _CODE):
        text = drawn.sub("", text)
    return [" ".join(each.group().split()) for each in _FIGURE.finditer(text)]


class Comparison(NamedTuple):
    """Two rows of a table: ours, and that of another client at the same."""

    case: str
    table: str
    peer: str
    mine: Mapping[str, str]
    other: Mapping[str, str]

    def ratio(self, *headings: str) -> str | None:
        """Ours divided by the other's, of the first of these figures that both rows have."""
        for heading in headings:
            mine, other = (number(row.get(heading, "")) for row in (self.mine, self.other))
            if mine is not None and other:
                return said(mine / other)
        return None

    def slower(self) -> Iterator[tuple[str, str]]:
        """The figures, with their ratios, in which the other client is faster."""
        rate = self.ratio(*_RATES)
        if rate is not None and _value(rate) < 1:
            yield next(each for each in _RATES if each in self.mine), rate
        for heading in _TIMED:
            ratio = self.ratio(heading)
            if ratio is not None and _value(ratio) > 1:
                yield heading, ratio


def comparisons(name: str, table: Table) -> Iterator[Comparison]:
    """Each row of ours with each other client's, at default settings where there are others."""
    rows = [tuple(row[: table.labels]) for row in table.rows if "tuned" not in row[: table.labels]]
    for mine in (each for each in rows if _OURS.match(each[0])):
        for peer in (each for each in rows if _PEERS.match(each[0]) and each[1:] == mine[1:]):
            mine_row, peer_row = table.row(*mine), table.row(*peer)
            if mine_row is not None and peer_row is not None:
                yield Comparison(_case(name, table, mine), name, peer[0], mine_row, peer_row)


def _case(name: str, table: Table, labels: tuple[str, ...]) -> str:
    scope, _, rest = name.rpartition(".")
    workload, _, brokers = rest.partition("@")
    variant = re.sub(r"^(?:aioproducer|shim|ours)[- ]?", "", labels[0])
    more = [
        f"{label} {heading.removesuffix('s') if label == '1' else heading}"
        for heading, label in zip(table.headings[1:], labels[1:], strict=False)
        if heading not in _LEFT_OUT
    ]
    told = [variant, *more, _SCOPES.get(scope, ""), "a real Kafka" if brokers else ""]
    return ", ".join([f"`{workload}`", *(each for each in told if each)])


def compared(found: Tables, *scopes: str) -> list[Comparison]:
    """Those of the tables of some programs; the main one is ``""``."""
    return [
        each
        for scope in scopes
        for name, table in found.items()
        if name.rpartition(".")[0] == scope
        for each in comparisons(name, table)
    ]


def front() -> str:
    """The README's table, and every recorded case in which another client is faster."""
    found = tables()
    heading = f"| 100-byte values | records/s | {_TIMES} confluent-kafka | {_TIMES} aiokafka |"
    lines = [heading, "|---" * 4 + "|"]
    for name, meaning in _FRONT.items():
        pairs = {
            each.peer: each for each in comparisons(name, found[name]) if each.case == f"`{name}`"
        }
        cells = (pairs[peer].ratio(*_RATES) if peer in pairs else "" for peer in _TWO)
        [rate, *_] = (said(number(each.mine["records/s"]) or 0) for each in pairs.values())
        lines.append(f"| {meaning} (`{name}`) | {rate} | {' | '.join(map(str, cells))} |")
    run = found["bulk"].run
    measured = f"Measured on {run.measured_at[:10]}, commit `{run.commit}`."
    leads = f"Cases in which another client leads; {_TIMES} is our figure divided by its own:"
    return "\n".join([*lines, "", measured, leads, "", *slower(found)])


def slower(found: Tables) -> Iterator[str]:
    """A line for each figure of a peer that is better somewhere."""
    cases: dict[tuple[str, str], list[str]] = {}
    for each in compared(found, "", *_SCOPES):
        for heading, ratio in each.slower():
            cases.setdefault((each.peer, heading), []).append(f"{each.case} {ratio}")
    for (peer, heading), those in cases.items():
        leads = f"{_NAMES.get(peer, peer)} leads in {heading.removesuffix(' ms')}"
        yield f"- {leads}: {'; '.join(those)}"


def expected() -> str:
    """The table of the page about performance."""
    found = tables()
    lines = ["| You | Measured |", "|---|---|"]
    for name, meaning in _EXPECTED.items():
        told: dict[str, list[str]] = {}
        for each in comparisons(name, found[name]) if name in found else ():
            if each.peer in (*_TWO, "confluent-idempotent"):
                told.setdefault(each.case, []).append(
                    f"{_beside(each)} {_NAMES.get(each.peer, each.peer)}"
                )
        for case, those in told.items():
            row = next(each.mine for each in comparisons(name, found[name]) if each.case == case)
            of = case.partition("`, ")[2]
            lines.append(f"| {meaning}{of and f' ({of})'} | {_measured(row)}: {'; '.join(those)} |")
    return "\n".join(lines)


def _measured(row: Mapping[str, str]) -> str:
    heading = next(each for each in _RATES if each in row)
    return f"{said(number(row[heading]) or 0)} {heading}"


def _beside(each: Comparison) -> str:
    p50, p99 = (each.ratio(heading) for heading in _LATENCIES)
    late = f", p50 {p50} {_TIMES}, p99 {p99} {_TIMES}" if p50 and p99 else ""
    return f"{each.ratio(*_RATES)} {_TIMES}{late}"


def interface(scope: str) -> str:
    """The table of a program that runs on another client's interface, or how to measure it."""
    return _table(compared(tables(), scope)) or (
        f"`python -m benchmarks.{scope}` measures both on your machine."
    )


def serializers() -> str:
    """The table of values with a schema, or how to measure it."""
    table = tables().get("serializers.serializers")
    return _plain(table) if table else "`python -m benchmarks.serializers` measures it."


def results() -> str:
    """The page of figures. Those of other clients' interfaces stand on the pages about them."""
    found = tables()
    parts = [*_measured_on(found), "Bold: the other client is faster, or takes less CPU time."]
    for heading, scopes in (
        ("Send", ("",)),
        ("Read", ("reading",)),
        ("Web applications", ("web",)),
    ):
        if table := _table(compared(found, *scopes)):
            parts += [f"## {heading}", table]
    for heading, name in (
        ("Start a process, until its first record is delivered", "new_process.first record"),
        ("Install", "light.installation"),
        ("Send the lines of a file", "produce_lines.lines"),
        ("Spark, binary values", "spark.values@kafka"),
        ("Spark, keyed strings in large batches", "spark.json@kafka"),
        ("Spark, JSON from columns", "spark.formats.json@kafka"),
        ("Spark, a stream of micro-batches", "spark.micro_batches@kafka"),
    ):
        if name in found:
            parts += [f"## {heading}", _plain(found[name])]
    return "\n\n".join(parts)


def _measured_on(found: Tables) -> Iterator[str]:
    """A line for each commit on each machine."""
    runs: dict[tuple[str, ...], list[Run]] = {}
    for each in dict.fromkeys(table.run.command for table in found.values()):
        run = next(table.run for table in found.values() if table.run.command == each)
        machine = run.machine
        where = (f"{machine['cores']} cores", machine["processor"], machine["python"])
        runs.setdefault((f"commit `{run.commit}`", *where), []).append(run)
    for key, those in runs.items():
        days = sorted({run.measured_at[:10] for run in those})
        versions = {f"{each} {of}" for run in those for each, of in run.machine["versions"].items()}
        yield (
            f"Measured on {' to '.join(dict.fromkeys((days[0], days[-1])))}, "
            f"{', '.join((*key, *sorted(versions)))}."
        )


def _table(those: list[Comparison]) -> str:
    """A row for each case, with all other clients in a cell."""
    rows: dict[str, list[Comparison]] = {}
    for each in those:
        rows.setdefault(each.case, []).append(each)
    if not rows:
        return ""
    ratios = f"{_TIMES} others' rate, at {_TIMES} their CPU, p50, p99"
    lines = [f"| Case | Rate | CPU-µs | p50, p99 ms | {ratios} |", "|---" * 5 + "|"]
    for case, pairs in rows.items():
        row = pairs[0].mine
        cost = next((row[each] for each in _COSTS if each in row), "")
        late = ", ".join(row[each] for each in _LATENCIES if row.get(each, "-") != "-")
        others = "; ".join(f"{each.peer} {_all_ratios(each)}" for each in pairs)
        lines.append(f"| {case} | {_measured(row)} | {cost} | {late} | {others} |")
    return "\n".join(lines)


def _all_ratios(each: Comparison) -> str:
    told = []
    for prefix, headings, worse in (
        ("", _RATES, operator.lt),
        ("at ", _COSTS, operator.gt),
        ("p50 ", _LATENCIES[:1], operator.gt),
        ("p99 ", _LATENCIES[1:], operator.gt),
    ):
        ratio = each.ratio(*headings)
        if ratio is not None:
            bold = "**" if worse(_value(ratio), 1) else ""
            told.append(f"{prefix}{bold}{ratio}{bold}")
    return ", ".join(told).replace(", at", " at")


def _value(ratio: str) -> float:
    return number(ratio) or 0.0


def _plain(table: Table) -> str:
    shown = [place for place, each in enumerate(table.headings) if each not in _LEFT_OUT]
    rows = [table.headings, ["---"] * len(table.headings), *table.rows]
    return "\n".join(f"| {' | '.join(row[place] for place in shown)} |" for row in rows)
