"""One fetch of a token for all, ahead of its end and through outages, by Kafka's refresh rules."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.oauthbearer import RefreshRules, Token
from aioproducer.auth.tokens import TokenSource, shared_source
from aioproducer.errors import MissingExtraError, TokenEndpointError, TokenError
from aioproducer.foundation.secret import Secret
from tests.support.clock import Clock, NoJitter
from tests.support.waiting import settle
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt

HOUR = 3600.0


class Provider:
    """Gives ``token-1``, ``token-2``, …, each for an hour, or raises what it is told to."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls = 0
        self.fails: BaseException | None = None
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def __call__(self) -> tuple[str, float]:
        self.calls += 1
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return f"token-{self.calls}", self.clock.now + HOUR


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
async def provider(clock: Clock) -> Provider:
    return Provider(clock)


def source_of(provider: Callable[[], Any], clock: Clock, **options: Any) -> TokenSource:
    return TokenSource(provider, clock=clock, random=NoJitter(), **options)


async def value(source: TokenSource) -> str:
    return (await source.token()).value.reveal()


async def test_a_token_is_kept_until_shortly_before_its_end(
    clock: Clock, provider: Provider
) -> None:
    source = source_of(provider, clock)
    assert await value(source) == "token-1"
    clock.now += HOUR * 0.82
    assert await value(source) == "token-1"
    clock.now += HOUR * 0.01
    assert await value(source) == "token-2"
    assert await value(source) == "token-2"
    assert provider.calls == 2


async def test_all_who_ask_at_once_share_one_fetch(clock: Clock, provider: Provider) -> None:
    provider.gate = asyncio.Event()
    source = source_of(provider, clock)
    askers = [asyncio.create_task(value(source)) for _ in range(50)]
    await provider.asked.wait()
    provider.gate.set()
    assert set(await asyncio.gather(*askers)) == {"token-1"}
    assert provider.calls == 1


async def test_cancelling_an_asker_ends_no_others_fetch(clock: Clock, provider: Provider) -> None:
    provider.gate = asyncio.Event()
    source = source_of(provider, clock)
    first = asyncio.create_task(value(source))
    await provider.asked.wait()
    second = asyncio.create_task(value(source))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    provider.gate.set()
    assert await second == "token-1"
    assert provider.calls == 1


async def test_a_cancelled_asker_wakes_no_other(
    clock: Clock, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    wait = asyncio.wait

    def counted(*arguments: Any, **options: Any) -> Any:
        waits.append(arguments)
        return wait(*arguments, **options)

    monkeypatch.setattr("aioproducer.auth.tokens.asyncio.wait", counted)
    provider.gate = asyncio.Event()
    source = source_of(provider, clock)
    askers = [asyncio.create_task(value(source)) for _ in range(2)]
    await provider.asked.wait()
    askers[0].cancel()
    await settle(20)
    assert len(waits) == 2, "each asker waits once, however the others end"
    provider.gate.set()
    assert await askers[1] == "token-1"


async def test_closing_lets_the_next_asker_begin_anew(clock: Clock, provider: Provider) -> None:
    provider.gate = asyncio.Event()
    source = source_of(provider, clock)
    asker = asyncio.create_task(value(source))
    await provider.asked.wait()
    provider.asked.clear()
    await source.close()
    await provider.asked.wait()
    provider.gate.set()
    assert await asker == "token-2"
    await source.close()


async def test_a_provider_that_ignores_its_cancelling_holds_up_no_close(clock: Clock) -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        asked.set()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return "token"

    source = source_of(stubborn, clock)
    asker = asyncio.create_task(value(source))
    await asked.wait()
    asker.cancel()
    closing = asyncio.create_task(source.close())
    await asyncio.wait([closing], timeout=10)
    in_time = closing.done()
    released.set()
    await closing
    assert in_time
    assert await value(source) == "token", "the source stays usable"


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError("down"), TokenEndpointError("503"), TokenError("401")]
)
async def test_an_old_token_serves_on_while_it_lasts(
    clock: Clock,
    provider: Provider,
    failure: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = source_of(provider, clock)
    await source.token()
    clock.now += HOUR * 0.9
    provider.fails = failure
    with caplog.at_level(logging.WARNING):
        assert await value(source) == "token-1"
        assert await value(source) == "token-1"
    assert provider.calls == 2, "the second asker came before the backoff was over"
    assert len(caplog.records) == 1
    assert "is valid for another 360 s" in caplog.text
    clock.now += 0.1
    assert await value(source) == "token-1"
    assert provider.calls == 3
    clock.now += HOUR * 0.1
    with pytest.raises(type(failure) if isinstance(failure, TokenError) else TokenEndpointError):
        await source.token()
    provider.fails = None
    clock.now += 10
    assert await value(source) == f"token-{provider.calls}"


async def test_the_backoff_doubles_up_to_its_longest(clock: Clock, provider: Provider) -> None:
    provider.fails = ConnectionRefusedError("down")
    source = source_of(provider, clock)
    for calls, wait in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10], 1):
        with pytest.raises(TokenEndpointError):
            await source.token()
        assert provider.calls == calls
        clock.now += wait - 0.01
        with pytest.raises(TokenEndpointError):
            await source.token()
        assert provider.calls == calls
        clock.now += 0.01 + 1e-6


async def test_errors_before_the_next_try_are_objects_of_their_own(
    clock: Clock, provider: Provider
) -> None:
    provider.fails = ConnectionRefusedError("down")
    source = source_of(provider, clock)
    errors = []
    for _ in range(3):
        with pytest.raises(TokenEndpointError, match="ConnectionRefusedError: down") as caught:
            await source.token()
        errors.append(caught.value)
    assert len(set(map(id, errors))) == 3
    assert provider.calls == 1


@pytest.mark.parametrize(
    ("raised", "given"),
    [
        (KeyError("access_token"), TokenError),
        (TypeError("wrong"), TokenError),
        (TokenError("no"), TokenError),
        (MissingExtraError("httpx2"), MissingExtraError),
        (TimeoutError(), TokenEndpointError),
        (OSError("net"), TokenEndpointError),
        (Exception("of a library that nobody knows"), TokenEndpointError),
        (asyncio.CancelledError(), TokenEndpointError),
    ],
    ids=repr,
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_a_provider_raises_reaches_the_asker(
    clock: Clock, raised: BaseException, given: type[Exception], threaded: bool
) -> None:
    async def on_the_loop() -> str:
        raise raised

    def in_a_thread() -> str:
        raise raised

    source = source_of(in_a_thread if threaded else on_the_loop, clock)
    with pytest.raises(given) as caught:
        await source.token()
    assert type(caught.value) is given


@pytest.mark.parametrize(
    ("raised", "given"),
    [
        (KeyError("access_token"), TokenEndpointError),
        (ValueError("Expecting value: line 1 column 1"), TokenEndpointError),
        (TypeError("wrong"), TokenError),
        (AttributeError("wrong"), TokenError),
    ],
    ids=repr,
)
async def test_an_odd_answer_to_a_provider_that_has_worked_passes(
    clock: Clock, provider: Provider, raised: BaseException, given: type[Exception]
) -> None:
    source = source_of(provider, clock)
    source.discard(await source.token())
    provider.fails = raised
    with pytest.raises(given, match=type(raised).__name__):
        await source.token()
    provider.fails = None
    clock.now += HOUR
    assert await value(source) == "token-3"


@pytest.mark.parametrize("raised", [SystemExit(3), StopIteration(), KeyboardInterrupt()], ids=repr)
async def test_no_exception_in_a_thread_ends_the_loop(clock: Clock, raised: BaseException) -> None:
    def provider() -> str:
        raise raised

    with pytest.raises(TokenEndpointError, match=type(raised).__name__):
        await source_of(provider, clock).token()


async def test_a_provider_that_is_not_async_runs_beside_the_loop(clock: Clock) -> None:
    threads = []

    def provider() -> tuple[str, float]:
        threads.append(threading.current_thread())
        return "token", clock.now + HOUR

    assert await value(source_of(provider, clock)) == "token"
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


async def test_a_plain_function_may_return_an_awaitable(clock: Clock, provider: Provider) -> None:
    def call() -> Awaitable[object]:
        return provider()

    assert await value(source_of(call, clock)) == "token-1"


async def test_a_provider_that_hangs_ends_by_the_timeout(clock: Clock, provider: Provider) -> None:
    provider.gate = asyncio.Event()
    source = source_of(provider, clock, timeout=0.01)
    with pytest.raises(TokenEndpointError, match=r"within 0\.01 s"):
        await source.token()
    clock.now += 10
    provider.gate.set()
    assert await value(source) == "token-2"


async def test_a_provider_that_hangs_for_ever_takes_a_bounded_number_of_threads(
    clock: Clock,
) -> None:
    gate, calls = threading.Event(), 0

    def provider() -> str:
        nonlocal calls
        calls += 1
        gate.wait()
        return "late"

    source, other = source_of(provider, clock, timeout=0.01), source_of(lambda: "token", clock)
    try:
        while calls < 4:  # a call whose thread begins too late is never made
            with pytest.raises(TokenEndpointError, match=r"within 0\.01 s|provider hangs"):
                await source.token()
            clock.now += 100
        with pytest.raises(TokenEndpointError, match=r"provider hangs: 4 calls .* not returned"):
            await source.token()
        assert calls == 4
        assert await value(other) == "token"
    finally:
        gate.set()
    clock.now += 100
    while True:  # the threads have to end
        try:
            assert await value(source) == "late"
            break
        except TokenEndpointError:
            clock.now += 100


async def test_who_has_a_valid_token_waits_a_moment_only(clock: Clock, provider: Provider) -> None:
    source = source_of(provider, clock, patience=0.01)
    await source.token()
    clock.now += HOUR * 0.9
    provider.gate = asyncio.Event()
    assert await value(source) == "token-1"
    assert await value(source) == "token-1"
    provider.gate.set()
    await settle(10)
    assert await value(source) == "token-2"
    assert provider.calls == 2


async def test_a_token_without_a_known_end_is_asked_for_at_each_login(clock: Clock) -> None:
    tokens = iter(["one", "two"])

    async def provider() -> str:
        return next(tokens)

    source = source_of(provider, clock)
    assert await value(source) == "one"
    assert await value(source) == "two"
    assert await value(source) == "two", "the provider fails now, and nobody knows of an end"


async def test_a_refused_token_is_not_used_again(clock: Clock, provider: Provider) -> None:
    source = source_of(provider, clock)
    refused = await source.token()
    source.discard(refused)
    assert await value(source) == "token-2"
    source.discard(refused)
    assert await value(source) == "token-2", "the old one's refusal says nothing of the new one"
    provider.fails = OSError("down")
    source.discard(await source.token())
    with pytest.raises(TokenEndpointError):
        await source.token()


async def test_a_token_that_has_expired_when_it_comes(clock: Clock) -> None:
    async def provider() -> str:
        return jwt({"exp": ends}, "s3cr3t")

    ends = clock.now - 7
    source = source_of(provider, clock)
    with pytest.raises(TokenError, match="expired 7 s ago") as caught:
        await source.token()
    assert "s3cr3t" not in everything_in(caught.value)
    clock.now += 1
    ends = clock.now + HOUR
    await source.token()
    clock.now += HOUR
    with pytest.raises(TokenEndpointError, match="expired 0 s ago"):
        await source.token()


async def test_an_answer_that_is_no_token_stays_in_no_frame(clock: Clock) -> None:
    async def provider() -> str:
        return "Bearer s3cr3t"

    source = source_of(provider, clock)
    with pytest.raises(TokenError) as caught:
        await source.token()
    assert "s3cr3t" not in everything_in(caught.value)
    assert "s3cr3t" not in everything_in(vars(source)["_failure"])


def test_a_source_serves_loops_one_after_the_other(clock: Clock) -> None:
    calls = []

    async def provider() -> tuple[str, float]:
        calls.append(asyncio.get_running_loop())
        return "token", clock.now + HOUR

    source = source_of(provider, clock)
    assert asyncio.run(value(source)) == "token"
    assert asyncio.run(value(source)) == "token"
    assert len(calls) == 1


def test_a_loop_that_ends_in_a_fetch_leaves_it_to_others(clock: Clock) -> None:
    asked: list[asyncio.Event] = []

    async def provider() -> tuple[str, float]:
        if len(asked) == 1:
            asked[0].set()
            asked.append(asyncio.Event())
            await asyncio.Event().wait()
        return "token", clock.now + HOUR

    source = source_of(provider, clock)

    async def leave() -> None:
        asked.append(asyncio.Event())
        asker = asyncio.create_task(source.token())
        await asked[0].wait()
        asker.cancel()

    asyncio.run(leave())
    assert asyncio.run(value(source)) == "token"


def test_loops_of_several_threads_share_one_fetch(clock: Clock) -> None:
    asked, go = threading.Barrier(4), threading.Event()
    calls = []

    def provider() -> tuple[str, float]:
        calls.append(1)
        go.wait(30)
        return "token", clock.now + HOUR

    source = source_of(provider, clock)
    found = []

    async def ask() -> str:
        asker = asyncio.create_task(value(source))
        await asyncio.sleep(0)
        asked.wait(30)
        go.set()
        return await asker

    threads = [threading.Thread(target=lambda: found.append(asyncio.run(ask()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == ["token"] * 4
    assert len(calls) == 1


def test_equal_settings_share_a_source(clock: Clock) -> None:
    made = []

    def make() -> TokenSource:
        made.append(1)
        return TokenSource(lambda: "token", clock=clock)

    settings = ("endpoint", "id", Secret("s3cr3t"))
    one = shared_source(settings, make)
    assert shared_source(("endpoint", "id", Secret("s3cr3t")), make) is one
    assert shared_source(("endpoint", "id", Secret("other")), make) is not one
    for number in range(100):
        shared_source((number,), make)
    assert shared_source(settings, make) is not one, "old ones go"


def test_a_token_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Token(Secret("t")).expires = 7.0  # type: ignore[misc]


FACTOR = 0.8 + 0.05 * 0.5


@pytest.mark.parametrize(
    ("lifetime", "after"),
    [
        (3600, 3600 * FACTOR),
        (900, 600),  # 0.825 is 742.5, too near to the end: 300 seconds before it
        (400, 100),
        (361, 61),
        (359, 359 * FACTOR),  # shorter than 60 + 300: both are left out
        (10, 10 * FACTOR),
        (0, 0),
        (-5, 0),
    ],
)
def test_kafkas_rules(lifetime: float, after: float) -> None:
    found = RefreshRules().refresh_at(NOW, NOW + lifetime, NoJitter())
    assert found == pytest.approx(NOW + after, abs=1e-3)


def test_the_shortest_period_between_two_fetches() -> None:
    rules = RefreshRules(window_factor=0.5, window_jitter=0, min_period=900, buffer=0)
    assert rules.refresh_at(NOW, NOW + 1000, NoJitter()) == NOW + 900


@given(
    st.floats(0, 1e8),
    st.floats(0.5, 1.0),
    st.floats(0, 0.25),
    st.floats(0, 900),
    st.floats(0, 3600),
    st.integers(),
)
def test_never_before_now_and_about_never_after_the_end(
    lifetime: float, factor: float, jitter: float, least: float, buffer: float, seed: int
) -> None:
    rules = RefreshRules(factor, jitter, least, buffer)
    found = rules.refresh_at(NOW, NOW + lifetime, Random(seed))
    assert NOW <= found <= NOW + lifetime * max(1.0, factor + jitter) + 1e-3
