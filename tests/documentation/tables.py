"""The generated parts of the documentation; ``make docs-tables`` refreshes them.

A generated part stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``. ``figures.py``
describes the figures of the benchmarks, which also stand in sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from aioproducer import errors
from aioproducer.config import __main__ as options
from aioproducer.consumer import ConsumerOptions
from aioproducer.engine.metrics import names as metric_names
from aioproducer.engine.transactions.transaction import diagram
from aioproducer.errors import __main__ as codes
from aioproducer.observability import series
from tests.documentation import api_pages, figures, librdkafka_table, public_api
from tests.documentation.pages import DOCS, PAGES, ROOT

__all__ = ["COMMAND", "PARTS", "Part"]

COMMAND: Final = "make docs-tables"


class Part(NamedTuple):
    """One generated part of a page."""

    page: Path
    name: str
    text: Callable[[], str]

    def refreshed(self) -> str:
        """The page with this part as it should be."""
        page = self.page.read_text("utf-8")
        begin, end = f"<!-- {self.name}:begin -->", f"<!-- {self.name}:end -->"
        if (page.count(begin), page.count(end)) != (1, 1):
            raise ValueError(f"{self.page}: {begin} and {end} have to stand there once each")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        return f"{before}{begin}\n{self.text().strip()}\n{end}{after}"


def _tree() -> str:
    """The tree in the docstring of :mod:`aioproducer.errors`."""
    lines = (errors.__doc__ or "").replace("``", "").splitlines()
    tree = [line.removeprefix("    ") for line in lines if line.startswith("    ")]
    return "\n".join(("```text", *tree, "```"))


PARTS: Final = (
    Part(DOCS / "reference" / "configuration.md", "config", options.markdown),
    Part(DOCS / "how-to" / "from-confluent-kafka.md", "librdkafka", librdkafka_table.markdown),
    Part(
        DOCS / "how-to" / "consuming.md",
        "consumer-options",
        lambda: options.option_table(ConsumerOptions),
    ),
    Part(DOCS / "reference" / "metrics.md", "metrics", metric_names.markdown),
    Part(DOCS / "reference" / "metrics.md", "series", series.markdown),
    Part(DOCS / "reference" / "errors.md", "errors", codes.markdown),
    Part(DOCS / "reference" / "errors.md", "errors-tree", _tree),
    Part(DOCS / "reference" / "public-names.md", "public-names", public_api.markdown),
    Part(
        DOCS / "explanation" / "architecture.md",
        "transactions",
        lambda: f"```mermaid\n{diagram()}\n```",
    ),
    Part(ROOT / "README.md", "figures", figures.front),
    Part(ROOT / "benchmarks" / "RESULTS.md", "figures", figures.results),
    Part(DOCS / "explanation" / "performance.md", "figures", figures.expected),
    Part(DOCS / "how-to" / "from-aiokafka.md", "figures", partial(figures.interface, "shim")),
    Part(
        DOCS / "how-to" / "from-confluent-kafka.md",
        "figures",
        partial(figures.interface, "compat_confluent"),
    ),
    Part(DOCS / "how-to" / "schema-registry.md", "figures", figures.serializers),
    *(
        Part(page, "api", partial(api_pages.table, page))
        for page in sorted(api_pages.AREAS.glob("*.md"))
    ),
)


if __name__ == "__main__":
    for part in PARTS:
        part.page.write_text(part.refreshed(), "utf-8")
    for each in PAGES:
        each.write_text(figures.renewed(each.read_text("utf-8")), "utf-8")
