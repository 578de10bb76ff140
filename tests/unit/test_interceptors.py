from __future__ import annotations

import asyncio
import dataclasses
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer.engine.interceptors import Interceptors
from aioproducer.engine.observer import ObservedFuture, tell_partition
from aioproducer.errors import ProducerError
from aioproducer.model import ProducerRecord, RecordMetadata

METADATA = RecordMetadata("orders", 0, 42, 0, -1, 1)
NOWHERE = RecordMetadata("orders", 2, -1, -1, -1, -1)
RECORD = ProducerRecord("orders", "v", partition=2, headers={"trace": b"1"})
ERROR = ProducerError("not delivered")


class Recorder:
    """Has all hooks, keeps what it saw, and marks the records that pass."""

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self.sent: list[ProducerRecord] = []
        self.fates: list[tuple[RecordMetadata, BaseException | None]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return dataclasses.replace(record, value=record.value + self.mark)

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.fates.append((metadata, error))

    def close(self) -> None:
        self.closed += 1


class Raising:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send is broken")

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        raise RuntimeError("on_acknowledgement is broken")

    def close(self) -> None:
        raise RuntimeError("close is broken")


class Rubbish:
    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def on_send(self, record: ProducerRecord) -> Any:
        return self.returned


def test_the_chain_runs_in_order_and_each_sees_what_the_one_before_returned() -> None:
    first, second = Recorder("-1"), Recorder("-2")
    record = Interceptors([first, second]).on_send(ProducerRecord("orders", "v"))
    assert record.value == "v-1-2"
    assert [each.value for each in second.sent] == ["v-1"]


def test_hooks_are_optional_each_by_itself() -> None:
    class Nothing:
        pass

    chain = Interceptors([Nothing(), Recorder("!"), Nothing()])
    assert chain.on_send(ProducerRecord("orders", "v")).value == "v!"
    chain.on_acknowledgement(METADATA, None, ())
    chain.close()


def test_an_empty_chain_costs_nothing_and_is_false() -> None:
    chain = Interceptors([])
    record = ProducerRecord("orders", "v")
    assert not chain
    assert Interceptors([Recorder()])
    assert chain.on_send(record) is record


def test_one_that_raises_is_skipped_and_the_others_still_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, after = Recorder("-1"), Recorder("-2")
    chain = Interceptors([before, Raising(), after])
    assert chain.on_send(ProducerRecord("orders", "v")).value == "v-1-2"
    chain.on_acknowledgement(METADATA, None, ())
    chain.on_acknowledgement(NOWHERE, ERROR, ())
    chain.close()
    for recorder in (before, after):
        assert recorder.fates == [(METADATA, None), (NOWHERE, ERROR)]
        assert recorder.closed == 1
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 4
    assert all(record.exc_info for record in said), "a traceback tells where"
    assert "'orders'" in said[0].getMessage()


@pytest.mark.parametrize("returned", [None, b"bytes", "text", ("orders", "v"), object()])
def test_one_that_returns_no_record_is_skipped(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    after = Recorder("!")
    chain = Interceptors([Rubbish(returned), after])
    assert chain.on_send(ProducerRecord("orders", "v")).value == "v!"
    assert "no record" in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_stops_the_program_is_not_swallowed(stop: type[BaseException]) -> None:
    class Stops:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise stop

    with pytest.raises(stop):
        Interceptors([Stops()]).on_send(ProducerRecord("orders", "v"))


def test_the_chain_is_fixed_when_it_is_made() -> None:
    hooks = [Recorder("-1")]
    chain = Interceptors(hooks)
    hooks.append(Recorder("-2"))
    assert chain.on_send(ProducerRecord("orders", "v")).value == "v-1"


# --- the future that tells the chain ----------------------------------------------------------


def intercepted(*hooks: Any) -> tuple[asyncio.Future[RecordMetadata], ObservedFuture]:
    future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    return future, Interceptors(hooks).follow(future, RECORD)


async def test_delivery_reaches_the_chain_and_the_caller() -> None:
    hook = Recorder()
    future, token = intercepted(hook)
    assert not token.done()
    token.set_result(METADATA)
    assert token.done()
    assert await future == METADATA
    assert hook.fates == [(METADATA, None)]


async def test_failure_reaches_the_chain_and_the_caller() -> None:
    hook = Recorder()
    future, token = intercepted(hook)
    token.set_exception(ERROR)
    assert token.done()
    assert token.exception() is ERROR
    assert hook.fates == [(NOWHERE, ERROR)]
    with pytest.raises(ProducerError, match="not delivered"):
        await future


async def test_the_chain_hears_before_the_caller_does() -> None:
    seen: list[bool] = []

    class Looks:
        def on_acknowledgement(self, *_: object) -> None:
            seen.append(future.done())

    future, token = intercepted(Looks())
    token.set_result(METADATA)
    assert seen == [False]
    assert future.done()


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_cancelled_future_still_acknowledges(delivered: bool) -> None:
    hook = Recorder()
    future, token = intercepted(hook)
    future.cancel()
    assert token.caller is future
    assert not token.done(), "its batch has yet to tell the fate"
    if delivered:
        token.set_result(METADATA)
    else:
        token.set_exception(ERROR)
    assert token.done()
    assert token.exception() is None
    assert future.cancelled()
    assert hook.fates == [(METADATA, None) if delivered else (NOWHERE, ERROR)]


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_hook_that_cancels_the_future_does_no_harm(delivered: bool) -> None:
    class Cancels:
        def on_acknowledgement(self, *_: object) -> None:
            future.cancel()

    last = Recorder()
    future, token = intercepted(Cancels(), last)
    if delivered:
        token.set_result(METADATA)
    else:
        token.set_exception(ERROR)
    assert future.cancelled()
    assert len(last.fates) == 1


async def test_a_raising_hook_does_not_keep_the_outcome_from_the_caller() -> None:
    future, token = intercepted(Raising())
    token.set_result(METADATA)
    assert await future == METADATA
    future, token = intercepted(Raising())
    token.set_exception(ERROR)
    with pytest.raises(ProducerError):
        await future


# --- what the chain hears of a failure --------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"), [(None, -1), (3, 3), (0, 0), (-5, -1), ("three", -1), (True, -1)]
)
async def test_the_partition_of_a_record_that_failed(given: Any, told: int) -> None:
    hook = Recorder()
    future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    record = ProducerRecord("orders", "v", partition=given)
    Interceptors([hook]).follow(future, record).refused(ERROR)
    assert hook.fates == [(RecordMetadata("orders", told, -1, -1, -1, -1), ERROR)]
    assert not future.done(), "its caller gets the error at the call"


async def test_a_partition_that_was_chosen_later() -> None:
    hook = Recorder()
    future, token = intercepted(hook)
    for told in (7, None):
        tell_partition(token, told)
    tell_partition(future, 8)
    token.set_exception(ERROR)
    assert [metadata.partition for metadata, _ in hook.fates] == [7]
    assert future.exception() is ERROR


class WithHeaders:
    def __init__(self) -> None:
        self.seen: list[tuple[object, object]] = []

    def on_acknowledgement(self, metadata: object, error: object, headers: object) -> None:
        self.seen.append((error, headers))


class WithHeadersByName(WithHeaders):
    def on_acknowledgement(self, *_: object, headers: object = None) -> None:
        self.seen.append((_[1], headers))


class WithAnotherDefault(WithHeaders):
    def on_acknowledgement(self, metadata: object, error: object, said: object = "own") -> None:
        self.seen.append((error, said))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, ()),
        ({"trace": b"1", "empty": None}, (("trace", b"1"), ("empty", None))),
        ([("a", b"1"), ("a", b"2")], (("a", b"1"), ("a", b"2"))),
        (7, ()),
    ],
)
def test_headers_for_those_that_have_a_parameter_of_that_name(given: Any, told: object) -> None:
    hooks = [WithHeaders(), WithHeadersByName(), WithAnotherDefault()]
    without = Recorder()
    chain = Interceptors([*hooks, without])
    headers = chain.headers_of(ProducerRecord("orders", None, headers=given))
    chain.on_acknowledgement(METADATA, None, headers)
    chain.on_acknowledgement(NOWHERE, ERROR, headers)
    assert hooks[0].seen == hooks[1].seen == [(None, told), (ERROR, told)]
    assert hooks[2].seen == [(None, "own"), (ERROR, "own")]
    assert without.fates == [(METADATA, None), (NOWHERE, ERROR)]


def test_a_hook_without_a_signature() -> None:
    seen: list[Any] = []
    hook = SimpleNamespace(on_acknowledgement=seen.append)
    Interceptors([hook]).on_acknowledgement(METADATA, None, ())
    assert seen == [], "append() takes one argument, which is logged and breaks nothing"
