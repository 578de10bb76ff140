"""aioproducer.auth.configured: the mechanism of a configuration, and the tokens behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from aioproducer.auth.configured import mechanism_of
from aioproducer.auth.mechanism import Mechanism
from aioproducer.config import ProducerConfig
from tests.unit.auth.tokens_for_tests import NOW, Clock


def configured(**options: Any) -> ProducerConfig:
    secured: dict[str, Any] = {
        "bootstrap_servers": "kafka.example:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }
    return ProducerConfig(**{**secured, **options})


def with_provider(provider: Callable[[], Any] | str) -> Mechanism:
    made = mechanism_of(configured(sasl_oauthbearer_token_provider=provider), Clock())
    assert made is not None
    return made


async def said_by(mechanism: Mechanism) -> bytes:
    return (await mechanism.begin("kafka.example")).step(b"")


@dataclass
class Unhashable:
    """Equal to its like, and not hashable, as a dataclass is that is not frozen."""

    calls: int = 0

    def __call__(self) -> tuple[str, float]:
        self.calls += 1
        return "token", NOW + 3600


@dataclass(frozen=True)
class Equal:
    """Equal to its like, whatever token it gives."""

    def token(self) -> str:
        return f"token-{id(self)}"

    __call__ = token


async def test_a_provider_need_not_be_hashable() -> None:
    provider = Unhashable()
    assert b"Bearer token" in await said_by(with_provider(provider))
    assert b"Bearer token" in await said_by(with_provider(provider))
    assert provider.calls == 1


@pytest.mark.parametrize("as_provider", [lambda one: one, lambda one: one.token, partial])
async def test_equal_providers_do_not_share_a_token(
    as_provider: Callable[[Equal], Callable[[], str]],
) -> None:
    one, other = Equal(), Equal()
    assert one == other
    for each in (one, other):
        assert str(id(each)).encode() in await said_by(with_provider(as_provider(each)))


async def test_a_method_is_one_provider_each_time_it_is_looked_up() -> None:
    calls = []

    class Mine:
        def token(self) -> tuple[str, float]:
            calls.append(1)
            return "token", NOW + 3600

    mine = Mine()
    for _ in range(2):
        await said_by(with_provider(mine.token))
    assert len(calls) == 1
