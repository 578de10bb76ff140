"""The pages for users of other clients name every option of those clients."""

from __future__ import annotations

from typing import Final

import pytest

from aioproducer.config.options import OPTIONS
from tests.documentation.pages import DOCS

PAGE: Final = (DOCS / "how-to" / "from-kafka-python.md").read_text("utf-8")


def test_the_options_of_kafka_python_are_there_unless_they_are_ours() -> None:
    kafka = pytest.importorskip("kafka")
    missing = {
        name
        for name in kafka.KafkaProducer.DEFAULT_CONFIG
        if name not in OPTIONS
        and f"`{name}`" not in PAGE
        and f"`{name}=" not in PAGE
        and f"`{name}," not in PAGE
    }
    assert missing == set()
