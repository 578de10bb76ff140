"""The API pages show every public name once, and each name's table row leads to it."""

from __future__ import annotations

import re
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
