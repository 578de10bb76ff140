"""Kerberos is required, or its lack is said."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def say_that_there_is_no_kerberos(what: object) -> NoReturn:
    """Skip the test, or fail it where Kerberos is required."""
    if os.environ.get("AIOPRODUCER_REQUIRE_KERBEROS") == "1":
        pytest.fail(f"AIOPRODUCER_REQUIRE_KERBEROS=1, but there is none: {what}", pytrace=False)
    pytest.skip(f"NO KERBEROS HERE, NOTHING IS PROVED: {what}")
