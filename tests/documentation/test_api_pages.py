"""The API pages show every public name once, and each name's table row leads to it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.documentation.api_pages import AREAS, first_sentence, shown, table, target
from tests.documentation.pages import DOCS, name
from tests.documentation.public_api import public_names

PAGES = sorted(AREAS.glob("*.md"))


def test_every_public_name_is_on_a_page() -> None:
    on_pages = {target(path).path for page in PAGES for path in shown(page)}
    public = [f"{module}.{each}" for module, names in public_names().items() for each in names]
    found = {path: target(path) for path in public}
    missing = [
        path for path, obj in found.items() if not obj.is_module and obj.path not in on_pages
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_first_part_of_a_page_is_its_table(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.index("<!-- api:begin -->") < 800
    assert text.index("<!-- api:end -->") < text.index(":::")
    rows = set(re.findall(r"\]\[([\w.]+)\]", table(page)))
    assert {path for path in shown(page) if not target(path).is_class} <= rows


def test_the_index_leads_to_each_area() -> None:
    index = (DOCS / "reference" / "api.md").read_text("utf-8")
    for page in PAGES:
        assert f"(api/{page.name})" in index


def test_a_row_has_the_first_sentence() -> None:
    said = first_sentence(target("aioproducer.Producer.init_transactions"))
    assert said.endswith(".")
    assert said.count(". ") == 0


def test_every_row_has_a_sentence() -> None:
    rows = [row for page in PAGES for row in table(page).splitlines() if row.startswith("| [")]
    assert len(rows) > 300
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_first_line_of_a_docstring_is_its_first_sentence() -> None:
    """The tables of attributes and methods show this line."""
    docstring = target("aioproducer.Health.can_write").docstring
    assert docstring is not None
    first, second = docstring.value.splitlines()[:2]
    assert first == "True: at least one leader of the partitions in use accepts records."
    assert second.startswith("False:")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("See :meth:`~aioproducer.Producer.send`.", "See `aioproducer.Producer.send`."),
        ("Those of :meth:`from_properties <aioproducer.x>`.", "Those of `from_properties`."),
        ("Like this::\n\n    send()", "Like this:\n\n    send()"),
        ("A tree.\n\n    A\n    └── B    ``c``", "A tree.\n\n    A\n    └── B    c"),
        ("One sentence\nof two lines. Another.", "One sentence of two lines.\nAnother."),
        ("Args:\n    first: a\n        number.", "Args:\n    first: a\n        number."),
    ],
)
def test_docstrings_become_markdown(written: str, shown: str) -> None:
    markdown = runpy.run_path(str(DOCS / ".site" / "roles.py"))["markdown"]
    assert markdown(written) == shown
