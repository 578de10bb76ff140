"""Secrets in options that are none: no error, ``repr`` or log line shows them."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError


def secured(mechanism: str, **options: Any) -> ProducerConfig:
    made = {"bootstrap_servers": "kafka.example:9093", "security_protocol": "SASL_SSL", **options}
    return ProducerConfig(**made, sasl_mechanism=mechanism)  # type: ignore[arg-type]


def oauth(name: str) -> str:
    return f"sasl_oauthbearer_{name}"


@pytest.mark.parametrize("token", ["eyJhbGciOiJub25lIn0.hunter2.x", b"hunter2", ["hunter2"]])
def test_a_token_in_the_provider_s_place_is_not_shown(token: Any) -> None:
    wanted = rf"'package.module:function', or None; the value of type {type(token).__name__} is hid"
    with pytest.raises(ConfigError, match=wanted) as raised:
        secured("OAUTHBEARER", **{oauth("token_provider"): token})
    assert "hunter2" not in str(raised.value)
