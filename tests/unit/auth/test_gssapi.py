"""GSSAPI without its library."""

from __future__ import annotations

import sys

import pytest

from aioproducer.auth.gssapi import Gssapi
from aioproducer.errors import ConfigError, MissingExtraError


@pytest.mark.parametrize("name", ["", "kafka/broker", "kafka@broker"])
def test_a_principal_is_no_service_name(name: str) -> None:
    with pytest.raises(ConfigError, match="not a service name"):
        Gssapi(name)


def test_without_the_library_the_error_names_all_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(MissingExtraError) as caught:
        Gssapi("kafka")
    for needed in ("aioproducer[gssapi]", "libkrb5-dev", "gcc", "libgssapi-krb5-2"):
        assert needed in str(caught.value)
