"""What ``Producer(...)`` does, and what it leaves for ``start()`` and the first send."""

from __future__ import annotations

import inspect
import pickle
import re
import socket
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from aioproducer import BrokerConnectionError, ConfigError, Producer, ProducerConfig, sync
from aioproducer.admin import Admin
from aioproducer.config.options import OPTIONS
from aioproducer.consumer import Consumer
from aioproducer.model import RecordMetadata
from aioproducer.reader import Reader
from aioproducer.sync.record_future import Outcomes, RecordFuture
from aioproducer.sync.record_outcome import ProducerThread
from aioproducer.testing import MockProducer

NOWHERE = "127.0.0.1:1"


def test_a_client_id_is_made_up_where_none_is_given() -> None:
    ids = [Producer(bootstrap_servers=NOWHERE, client_id=given).client_id for given in (None, "")]
    numbers = [int(each.removeprefix("producer-")) for each in ids]
    assert ids == [f"producer-{number}" for number in numbers]
    assert numbers[1] == numbers[0] + 1
    assert Producer(bootstrap_servers=NOWHERE, client_id="shop").client_id == "shop"


@pytest.mark.parametrize("shell", [Producer, sync.Producer])
def test_the_types_of_keys_and_values_may_be_given(shell: Any) -> None:
    made = shell[str, int](bootstrap_servers=NOWHERE, value_serializer=str.encode)
    assert type(made) is shell
    assert made.config.value_serializer is str.encode

    class Shop(shell[str, int]):  # type: ignore[misc]
        pass

    assert isinstance(Shop(bootstrap_servers=NOWHERE), shell)


@pytest.mark.parametrize("shell", [Producer, sync.Producer, MockProducer])
def test_a_signature_shows_every_option_with_its_default(shell: Any) -> None:
    shown = inspect.signature(shell).parameters
    assert [*shown][:1] == ["config"]
    assert shown.keys() >= {"transaction", *OPTIONS}
    assert str(shown["linger_ms"]) == "linger_ms: int | None = None"
    assert str(shown["retry_backoff_ms"]) == "retry_backoff_ms: int = 100"
    config = ProducerConfig(bootstrap_servers=NOWHERE)
    assert inspect.signature(shell).bind(config).args == (config,)

    class Shop(shell):  # type: ignore[misc]
        pass

    class Own(shell):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

    assert inspect.signature(Shop) == inspect.signature(shell)
    assert not inspect.signature(Own).parameters


def test_making_one_needs_no_event_loop_and_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is connected or resolved yet")

    monkeypatch.setattr(socket, "socket", explode)
    monkeypatch.setattr(socket, "getaddrinfo", explode)
    threads = threading.active_count()
    producer = Producer(bootstrap_servers="no-such-host.invalid:9092")
    assert repr(producer).endswith("not started>")
    assert threading.active_count() == threads


@pytest.mark.parametrize("shell", [Producer, sync.Producer])
@pytest.mark.parametrize("config", ["kafka:9092", {"bootstrap.servers": "s3cret"}, ["kafka:9092"]])
def test_the_brokers_have_a_name_among_the_arguments(shell: Any, config: Any) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap_servers=|from_properties") as raised:
        shell(config)
    with pytest.raises(ConfigError, match=r"bootstrap_servers=|from_properties"):
        shell(config, client_id="shop")
    assert type(config).__name__ in str(raised.value)
    assert "s3cret" not in str(raised.value)


class Opened:
    """An interceptor that holds something."""

    closed = 0

    def close(self) -> None:
        type(self).closed += 1


class Json(Opened):
    """A serializer that holds something."""

    closed = 0

    def serialize(self, topic: str, data: Any) -> bytes:
        return b"{}"


class First(Opened):
    """A partitioner that holds something."""

    closed = 0

    def partition(self, *_: Any) -> int:
        return 0


class Fails:
    def __init__(self) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "wrong",
    [
        {"value_serializer": Fails},
        {"key_serializer": Fails},
        {"interceptor_classes": [Opened, Fails]},
    ],
    ids=["value_serializer", "key_serializer", "interceptor"],
)
def test_what_was_opened_is_closed_when_making_it_fails(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Opened, "closed", 0)
    options: dict[str, Any] = {"interceptor_classes": [Opened], **wrong}
    with pytest.raises(ZeroDivisionError):
        Producer(bootstrap_servers=NOWHERE, **options)
    assert Opened.closed == 1


HOOKS: dict[str, Any] = {
    "interceptor_classes": [Opened],
    "key_serializer": Json,
    "value_serializer": Json,
    "partitioner": First,
}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """How often each kind of hook was closed."""
    kinds = (Opened, Json, First)
    for kind in kinds:
        monkeypatch.setattr(kind, "closed", 0)
    return lambda: [kind.closed for kind in kinds]


async def test_hooks_are_closed_once_with_the_producer(closed: Callable[[], list[int]]) -> None:
    async with Producer(bootstrap_servers=NOWHERE, **HOOKS) as producer:
        assert closed() == [0, 0, 0]
    assert closed() == [1, 2, 1]
    await producer.close()
    assert closed() == [1, 2, 1]


async def test_hooks_are_closed_with_a_producer_that_was_never_started(
    closed: Callable[[], list[int]],
) -> None:
    producer = Producer(bootstrap_servers=NOWHERE, **HOOKS)
    for _ in range(2):
        assert await producer.close() == 0
        assert closed() == [1, 2, 0], "the partitioner is made at the start"


def test_hooks_are_closed_with_a_blocking_producer(closed: Callable[[], list[int]]) -> None:
    producer = sync.Producer(bootstrap_servers=NOWHERE, **HOOKS)
    for _ in range(2):
        assert producer.close() == 0
        assert closed() == [1, 2, 0]
    with sync.Producer(bootstrap_servers=NOWHERE, **HOOKS):
        pass
    assert closed() == [2, 4, 1]


def test_a_serializer_of_the_users_own_stays_open(closed: Callable[[], list[int]]) -> None:
    mine = Json()
    with sync.Producer(bootstrap_servers=NOWHERE, key_serializer=mine, partitioner=First()):
        pass
    assert closed() == [0, 0, 0]


@pytest.mark.parametrize("why", ["name", "partitioner"])
async def test_what_was_opened_is_closed_when_starting_fails(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_knows(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody_knows)
    monkeypatch.setattr(Opened, "closed", 0)
    options: dict[str, dict[str, Any]] = {
        "name": {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"},
        "partitioner": {"partitioner": Fails},
    }
    producer = Producer(bootstrap_servers=NOWHERE, interceptor_classes=[Opened], **options[why])
    with pytest.raises((BrokerConnectionError, ZeroDivisionError)):
        await producer.start()
    assert Opened.closed == 1


@pytest.mark.parametrize("make", [Producer, sync.Producer])
@pytest.mark.parametrize("wrong", [{"linger_ms": -1}, {"no_such_option": 1}, {}])
def test_no_frame_of_a_refusal_has_a_secret(
    make: Callable[..., Any], wrong: dict[str, Any]
) -> None:
    """Tools that show the values of frames beside a traceback then show none."""
    with pytest.raises(ConfigError) as caught:
        make(bootstrap_servers="a:1", sasl_password="hunter2", **wrong)
    error: BaseException | None = caught.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if "/aioproducer/" in frame.f_code.co_filename:
                values = [each for name, each in frame.f_locals.items() if name != "self"]
                assert "hunter2" not in repr(values), frame.f_code.co_qualname
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("shell", [Producer, sync.Producer])
def test_a_producer_is_not_pickled_and_its_configuration_is(shell: Any) -> None:
    made = shell(bootstrap_servers=NOWHERE, client_id="shop")
    with pytest.raises(TypeError, match=r"'shop' can't be pickled: pass producer\.config"):
        pickle.dumps(made)
    assert shell(pickle.loads(pickle.dumps(made.config))).config == made.config


CLIENTS: list[Any] = [Producer, sync.Producer, MockProducer, Admin]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_address_or_a_dict_in_the_place_of_a_configuration(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes no str .*\(bootstrap_servers='host:port'\)"):
        client(NOWHERE)
    with pytest.raises(ConfigError, match=r"takes no dict .*from_librdkafka.*from_properties"):
        client({"bootstrap.servers": NOWHERE})
    with pytest.raises(ConfigError, match="is a ProducerConfig, not a int"):
        client(9092)


def test_a_configuration_takes_keywords() -> None:
    with pytest.raises(ConfigError, match=r"ProducerConfig\(bootstrap_servers='host:port'\)"):
        ProducerConfig(NOWHERE)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"ProducerConfig\(\*\*options\).*from_librdkafka"
    ) as raised:
        ProducerConfig({"sasl.password": "hunter2"})  # type: ignore[arg-type]
    seen = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert not [line for line in seen.format() if "hunter2" in line and "tests" not in line]
    made = ProducerConfig(bootstrap_servers=NOWHERE)
    with pytest.raises(ConfigError, match=r"not a ProducerConfig.*config\.replace"):
        ProducerConfig(made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("client", "name", "advice"),
    [
        (Producer, "stop", "Producer has no stop(): use `await producer.close()`"),
        (Producer, "send_and_wait", "use `await producer.send(...)`"),
        (Producer, "produce", "use send()"),
        (Producer, "poll", "leave it out"),
        (sync.Producer, "send_and_wait", "use send(...).result()"),
        (MockProducer, "stop", "MockProducer has no stop(): use"),
        (partial(Consumer, "orders", group_id="g"), "getmany", "lists(500, max_wait_ms=1000)"),
        (partial(Consumer, "orders", group_id="g"), "poll", "await consumer.record(max_wait_ms="),
        (partial(Reader, "orders"), "getone", "use `async for record in reader`"),
        (partial(Consumer, "orders", group_id="g"), "assign", "aioproducer.Reader"),
    ],
)
def test_a_method_of_another_client_names_ours(client: Any, name: str, advice: str) -> None:
    made = client(bootstrap_servers=NOWHERE)
    assert not hasattr(made, name)
    with pytest.raises(AttributeError, match=re.escape(advice)):
        getattr(made, name)
    assert name not in dir(made)
    assert "close" in dir(made)


A_CONSUMER: Final = partial(Consumer, "orders", group_id="g")
A_READER: Final = partial(Reader, "orders")


@pytest.mark.parametrize("error", [AttributeError, TypeError])
@pytest.mark.parametrize("client", [Producer, MockProducer, Admin, A_READER, A_CONSUMER])
def test_an_asynchronous_client_in_a_plain_block_says_so(
    client: Any, error: type[Exception]
) -> None:
    made = client(bootstrap_servers=NOWHERE)
    with pytest.raises(error, match=r"has no __enter__\(\): use `async with`"), made:
        pass
    assert not hasattr(made, "__enter__")


async def test_a_blocking_producer_in_an_asynchronous_block_says_so() -> None:
    with pytest.raises(TypeError, match=r"has no __aenter__\(\): use `with`"):
        async with sync.Producer(bootstrap_servers=NOWHERE):  # type: ignore[attr-defined]
            pass


@pytest.mark.parametrize(
    ("client", "advice"),
    [
        (A_READER, "Reader has no __iter__(): use `async for record in reader`"),
        (A_CONSUMER, "Consumer has no __iter__(): use `async for record in consumer`"),
    ],
)
def test_records_in_a_plain_loop_say_so(client: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=re.escape(advice)):
        iter(client(bootstrap_servers=NOWHERE))


async def test_a_transaction_in_a_plain_block_says_so() -> None:
    advice = "use `async with producer.transaction():`"
    async with MockProducer(bootstrap_servers=NOWHERE, transactional_id="shop") as producer:
        block: Any = producer.transaction()
        with pytest.raises(TypeError, match=re.escape(f"has no __enter__(): {advice}")), block:
            pass
        with pytest.raises(TypeError, match=re.escape(f"has no __await__(): {advice}")):
            await block


@pytest.mark.parametrize("field", RecordMetadata._fields)
def test_a_future_of_a_blocking_producer_names_the_way_to_its_result(field: str) -> None:
    future = RecordFuture(Outcomes(ProducerThread(print, "me")))
    advice = f"RecordFuture has no {field}: use .result().{field}"
    with pytest.raises(AttributeError, match=re.escape(advice)):
        getattr(future, field)
    assert not hasattr(future, field)
    assert field not in dir(future)


def test_a_method_that_a_subclass_has_after_all_is_listed() -> None:
    class Stoppable(Producer):
        def stop(self) -> None:
            pass

    made = Stoppable(bootstrap_servers=NOWHERE)
    assert made.stop() is None  # type: ignore[func-returns-value]
    assert "stop" in dir(made)
    assert "poll" not in dir(made)


def test_names_of_others_cost_no_attribute_of_ours() -> None:
    assert Producer.__getattribute__ is object.__getattribute__
    assert not hasattr(Producer, "__getattr__")
