"""A producer whose bootstrap server, or broker, is anything but a Kafka broker that works."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]

from aioproducer import (
    BootstrapError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Producer,
    ProducerClosedError,
    ProducerError,
    errors,
)
from aioproducer.testing.fault_proxy import END, BlackHole, Cut, FaultScript, Rule, Way

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy, StartServer
    from tests.support.fake_kafka import FakeKafka

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
PATIENCE = 60.0
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
}
HASTY: dict[str, Any] = QUICK | {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 3_000,
    "max_block_ms": 3_000,
}

DARK = FaultScript((Rule(BlackHole(), way=Way.REQUEST, count=None),))

Talk = "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]"


def saying(data: bytes, *, then_close: bool = False) -> Any:
    """Answer the first bytes with ``data``."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        await writer.drain()
        while not then_close and await reader.read(65536):
            pass

    return talk


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def hear_and_hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65536)  # else the end is a reset
    writer.close()


PEERS = {
    "silent": (silence, "did not answer an ApiVersions request within 0.5"),
    "hangs up": (hang_up, "closed the connection|Connection reset"),
    "hears and hangs up": (
        hear_and_hang_up,
        r"before it sent its API versions\. If the port speaks TLS, set security_protocol",
    ),
    "http": (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP server, not a Kafka broker"),
    "tls alert": (saying(b"\x15\x03\x03\x00\x02\x02\x0a"), "speaks TLS.*security_protocol"),
    "absurd length": (saying(b"\x7f\xff\xff\xff" + bytes(8)), "2147483647 bytes"),
    "negative length": (saying(b"\xff\xff\xff\xff" + bytes(8)), "-1 bytes"),
    "garbage": (saying(b"\0\0\0\x20" + bytes([0xEE]) * 32), "correlation id"),
    "garbage body": (saying(b"\0\0\0\x20\0\0\0\1" + bytes([0xEE]) * 28), "understood|ERROR_"),
    "truncated": (saying(b"\0\0\0\x20\0\0\0\1\0", then_close=True), "inside a response"),
    "ssh": (saying(b"SSH-2.0-OpenSSH_9.6\r\n"), "Is it a Kafka broker"),
}


@pytest.mark.parametrize(("talk", "match"), PEERS.values(), ids=PEERS)
async def test_a_bootstrap_server_that_is_no_broker(
    start_server: StartServer, talk: Any, match: str
) -> None:
    server = await start_server(talk)
    async with Producer(bootstrap_servers=server.address, **HASTY) as producer:
        future = producer.send("orders", b"v")
        with pytest.raises(BootstrapError, match=match) as raised:
            await asyncio.wait_for(asyncio.shield(future), PATIENCE)
    assert isinstance(raised.value, ConnectionError)
    assert server.address in str(raised.value)
    assert "'orders'" in str(raised.value)
    assert server.accepted > 1 or talk is silence


async def test_each_bootstrap_address_has_its_reason(start_server: StartServer) -> None:
    silent = await start_server(silence)
    http = await start_server(saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refused = f"127.0.0.1:{closed.getsockname()[1]}"
    unknown = "no-such-host.invalid:9092"
    servers = [silent.address, http.address, refused, unknown]
    async with Producer(bootstrap_servers=servers, **HASTY) as producer:
        with pytest.raises(BootstrapError) as raised:
            await producer.send("orders", b"v")
    text = str(raised.value)
    for address in servers:
        assert address in text
    assert "refused" in text
    assert "HTTP" in text
    assert "did not answer" in text or "no response yet" in text
    assert "no-such-host.invalid" in text.split(unknown, 1)[1]


async def test_memory_is_not_taken_for_an_absurd_length(start_server: StartServer) -> None:
    server = await start_server(saying((100 * 1024 * 1024 + 1).to_bytes(4, "big") + bytes(8)))
    async with Producer(bootstrap_servers=server.address, **HASTY) as producer:
        with pytest.raises(BootstrapError, match="104857601 bytes"):
            await producer.send("orders", b"v")


async def test_one_dead_bootstrap_server_of_several(
    kafka: FakeKafka, start_server: StartServer
) -> None:
    silent = await start_server(silence)
    hanging = await start_server(hang_up)
    servers = f"127.0.0.1:1,{silent.address},{hanging.address},{kafka.bootstrap_servers}"
    for _ in range(5):  # whichever comes first
        options = HASTY | {"max_block_ms": 30_000, "delivery_timeout_ms": 30_000}
        async with Producer(bootstrap_servers=servers, **options) as producer:
            sent = await asyncio.wait_for(producer.send("orders", b"v"), PATIENCE)
            assert sent.topic == "orders"


async def test_a_name_with_a_dead_address_first(kafka: FakeKafka) -> None:
    port = kafka.servers[1].port  # IPv4 only; "localhost" may be ::1 first
    async with Producer(bootstrap_servers=f"localhost:{port}", **QUICK) as producer:
        assert (await producer.send("orders", b"v")).offset == 0


# --- close in every state -----------------------------------------------------------------------


async def close_within(producer: Producer, timeout: float, bound: float) -> int:
    began = time.monotonic()
    undelivered = await asyncio.wait_for(producer.close(timeout), PATIENCE)
    assert time.monotonic() - began < bound
    return undelivered


@pytest.mark.parametrize("timeout", [0, 0.1])
@pytest.mark.parametrize("talk", [silence, hang_up], ids=["mid-handshake", "hanging up"])
async def test_close_before_anything_was_known(
    start_server: StartServer, talk: Any, timeout: float
) -> None:
    server = await start_server(talk)
    producer = Producer(bootstrap_servers=server.address)
    await producer.start()
    futures = [producer.send("orders", b"v") for _ in range(3)]
    async with asyncio.timeout(PATIENCE):
        while not server.accepted:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert await close_within(producer, timeout, timeout + 5) == 3
    assert all(isinstance(future.exception(), ProducerClosedError) for future in futures)


async def test_close_while_the_broker_is_a_black_hole(
    kafka: FakeKafka, start_proxy: StartProxy
) -> None:
    proxy = await start_proxy(kafka.servers[1].port)
    kafka.advertised[1] = proxy.port
    producer = Producer(bootstrap_servers=proxy.address)
    await producer.start()
    await producer.send("orders", b"first")
    proxy.play(DARK)
    futures = [producer.send("orders", b"v") for _ in range(5)]
    flushing = asyncio.create_task(producer.flush())
    await asyncio.sleep(0)
    assert await close_within(producer, 0.2, 5) == 5
    await asyncio.wait_for(flushing, 60)
    assert all(isinstance(future.exception(), ProducerClosedError) for future in futures)


@pytest.mark.parametrize("api", [METADATA, PRODUCE, API_VERSIONS, INIT_PRODUCER_ID])
async def test_close_while_one_kind_of_request_is_not_answered(kafka: FakeKafka, api: int) -> None:
    kafka.mute.add(api)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    producer.send("orders", b"v")
    await kafka.until_received(api)
    assert await close_within(producer, 0.1, 5) == 1


async def test_a_connection_that_is_a_black_hole_for_a_while(
    kafka: FakeKafka, start_proxy: StartProxy
) -> None:
    proxy = await start_proxy(kafka.servers[1].port)
    kafka.advertised[1] = proxy.port
    options = QUICK | {"request_timeout_ms": 2_000}
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        await producer.send("orders", b"0")
        proxy.play(DARK)
        future = producer.send("orders", b"1")
        await asyncio.wait([future], timeout=0.3)
        assert not future.done()
        proxy.play(FaultScript())
        assert (await asyncio.wait_for(future, PATIENCE)).offset == 1
    assert kafka.values("orders") == [b"0", b"1"]


@pytest.mark.parametrize("at", [0, 1, 3, 4, 8, 20, 40, END])
@pytest.mark.parametrize("api", [API_VERSIONS, METADATA, INIT_PRODUCER_ID])
async def test_a_cut_anywhere_in_an_answer(
    kafka: FakeKafka, start_proxy: StartProxy, api: int, at: int
) -> None:
    cut = Cut(at)
    script = FaultScript((Rule(cut, api), Rule(cut, PRODUCE, after=2)))
    proxy = await start_proxy(kafka.servers[1].port, script)
    kafka.advertised[1] = proxy.port
    async with Producer(bootstrap_servers=proxy.address, **QUICK) as producer:
        await asyncio.wait_for(producer.send("orders", b"0"), PATIENCE)
        for number in range(1, 10):
            sent = await asyncio.wait_for(producer.send("orders", b"%d" % number), PATIENCE)
            assert sent.offset == number
    assert proxy.counts == {Cut: 2}
    assert kafka.values("orders") == [b"%d" % number for number in range(10)]


# --- metadata -----------------------------------------------------------------------------------


async def test_an_unknown_topic_is_named(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **HASTY) as producer:
        with pytest.raises(MetadataTimeoutError, match=r"'nope'.*UNKNOWN_TOPIC") as raised:
            await producer.send("nope", b"v")
        assert isinstance(raised.value, TimeoutError)
        with pytest.raises(MetadataTimeoutError, match=r"'nope'.*UNKNOWN_TOPIC"):
            await producer.partitions_for("nope")
        waiting = producer.send("later", b"v")
        asked = asyncio.create_task(producer.partitions_for("later"))
        await asyncio.sleep(0)
        kafka.create_topic("later", 2)
        assert (await asyncio.wait_for(waiting, PATIENCE)).offset == 0
        assert await asyncio.wait_for(asked, PATIENCE) == (0, 1)
    assert len(kafka.requests(METADATA)) > 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [(29, errors.TopicAuthorizationFailedError), (17, errors.InvalidTopicError)],
)
async def test_a_topic_that_is_refused_is_told_at_once(
    kafka: FakeKafka, code: int, kind: type[ProducerError]
) -> None:
    kafka.topic_errors["secret"] = code
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        futures = [producer.send("secret", b"v") for _ in range(3)]
        for future in futures:
            with pytest.raises(kind, match="secret"):
                await asyncio.wait_for(future, 60)
        with pytest.raises(kind, match="secret"):
            await asyncio.wait_for(producer.partitions_for("secret"), 60)
        assert (await producer.send("orders", b"v")).offset == 0
        assert producer.metrics()["producer-topic-metrics"]["secret"]["record-error-total"] == 3
        # and when the permission is given, the next send works
        del kafka.topic_errors["secret"]
        kafka.create_topic("secret")
        assert await asyncio.wait_for(producer.partitions_for("secret"), 60) == (0,)
        assert (await asyncio.wait_for(producer.send("secret", b"v"), 60)).offset == 0


async def test_one_refresh_serves_everybody(kafka: FakeKafka) -> None:
    for number in range(20):
        kafka.create_topic(f"t{number}")
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(f"t{n % 20}", b"v") for n in range(1000)]
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    assert len(kafka.requests(METADATA)) == 1


async def test_metadata_is_refreshed_by_its_age_and_notices_more_partitions(
    kafka: FakeKafka,
) -> None:
    options = QUICK | {"metadata_max_age_ms": 60}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"v")
        kafka.create_topic("orders", 3)
        seen = len(kafka.requests(METADATA))
        async with asyncio.timeout(20):  # no other timer of an idle producer rings by then
            await kafka.until_received(METADATA, seen + 2)
        assert (await producer.send("orders", b"v", partition=2)).partition == 2
        assert producer.metrics()["producer-metrics"]["metadata-age"] < 5


async def test_added_partitions_can_be_used_by_number_at_once(kafka: FakeKafka) -> None:
    """The metadata is young: only the record says that there is more."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send("orders", b"v")
        values = [b"%d" % number for number in range(20)]
        early = [producer.send("orders", value, partition=2) for value in values[:10]]
        columns = pa.RecordBatch.from_pydict(
            {"value": values[10:], "partition": pa.array([2] * 10, pa.int32())}
        )
        bulk = asyncio.create_task(producer.send_many("orders", columns))
        await kafka.until_received(METADATA, 2)
        assert not any(future.done() for future in early)
        kafka.create_topic("orders", 3)
        offsets = [(await asyncio.wait_for(future, PATIENCE)).offset for future in early]
        report = await asyncio.wait_for(bulk, PATIENCE)
        assert [*offsets, *report.offsets] == list(range(20))
        asked = [[str(each.name) for each in got.body.topics] for got in kafka.requests(METADATA)]
    assert kafka.values("orders", 2) == values
    assert all(names == ["orders"] for names in asked)


async def test_only_a_topic_that_is_new_or_gone_is_asked_for(kafka: FakeKafka) -> None:
    names = [f"t{number}" for number in range(50)]
    for name in names:
        kafka.create_topic(name)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **HASTY) as producer:
        await asyncio.gather(*(producer.send(name, b"v") for name in names))
        first = len(kafka.requests(METADATA))
        await producer.send("orders", b"v")
        kafka.topic_errors["t7"] = 3
        with pytest.raises(MetadataTimeoutError):
            await producer.send("nope", b"v")
        asked = [{str(each.name) for each in got.body.topics} for got in kafka.requests(METADATA)]
    assert set().union(*asked[:first]) == set(names)
    assert asked[first] == {"orders"}
    assert len(asked) > first + 3
    assert all(each == {"nope"} for each in asked[first + 1 :])


async def test_nothing_is_asked_before_the_first_send(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(50):
            await asyncio.sleep(0)
        assert kafka.received == []
        assert kafka.servers[1].accepted == 0
        await producer.send("orders", b"v")
        assert kafka.servers[1].accepted >= 1


async def test_a_topic_that_is_made_anew(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(1, {"orders": 3}, versions={PRODUCE: (7, 13)})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        assert (await producer.send("orders", b"old", partition=2)).offset == 0
        await kafka.servers[1].stop()
        kafka.model.cluster.delete_topic(kafka.model.topic("orders"))
        kafka.create_topic("orders", 1)
        await kafka.servers[1].start()
        sent = await asyncio.wait_for(producer.send("orders", b"new", partition=0), PATIENCE)
        assert sent.offset == 0
    assert kafka.values("orders") == [b"new"]


async def test_rebootstrap_when_every_known_broker_is_gone(
    start_kafka: StartKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """All brokers are replaced under new addresses; the bootstrap address leads to the new one."""
    caplog.set_level(logging.INFO, "aioproducer")
    kafka = await start_kafka(2, {"orders": 1})
    kafka.in_metadata = {1}
    entrance = kafka.servers[2].address  # answers for the cluster, leads nothing
    async with Producer(bootstrap_servers=entrance, **QUICK) as producer:
        await producer.send("orders", b"0")
        await kafka.servers[1].stop()
        await kafka.servers[2].cut()
        kafka.lead("orders", 0, 2)
        kafka.in_metadata = {2}
        sent = await asyncio.wait_for(producer.send("orders", b"1"), PATIENCE)
        assert sent.offset == 1
    assert "bootstrap" in caplog.text
    assert kafka.values("orders") == [b"0", b"1"]


async def test_an_answer_with_addresses_where_nobody_is(kafka: FakeKafka) -> None:
    """One wrong answer must not be the last word: another bootstrap connection is still there."""
    kafka.advertised[1] = 1
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        future = producer.send("orders", b"v")
        await kafka.until_received(METADATA)
        await asyncio.wait([future], timeout=0.1)
        assert not future.done()
        kafka.advertised.clear()
        assert (await asyncio.wait_for(future, 30)).offset == 0


async def test_a_broker_under_a_new_address(start_kafka: StartKafka, start_proxy: Any) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        for partition in (0, 1):
            await producer.send("orders", b"0", partition=partition)
        await kafka.servers[1].stop()
        kafka.servers[1].port = 0  # another free port
        await kafka.servers[1].start()
        sent = await asyncio.wait_for(producer.send("orders", b"1", partition=0), PATIENCE)
        assert sent.offset == 1


async def test_an_idle_connection_is_closed_and_opened_again(kafka: FakeKafka) -> None:
    options = QUICK | {"connections_max_idle_ms": 50}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"0")
        async with asyncio.timeout(PATIENCE):
            while producer.metrics()["producer-metrics"]["connection-count"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert (await producer.send("orders", b"1")).offset == 1
        assert producer.metrics()["producer-metrics"]["connection-close-total"] >= 1
    assert not [each for each in kafka.requests(PRODUCE) if each.body.acks != -1]


async def test_a_broker_that_stops_answering_is_told_apart_by_its_error(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **HASTY) as producer:
        await producer.send("orders", b"0")
        kafka.mute.add(PRODUCE)
        with pytest.raises(
            DeliveryTimeoutError, match=r"did not answer a PRODUCE.*request_timeout_ms"
        ):
            await asyncio.wait_for(producer.send("orders", b"1"), PATIENCE)


async def test_the_client_says_who_it_is(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, client_id="shop") as producer:
        await producer.send("orders", b"v")
    request = kafka.requests(API_VERSIONS)[0].body
    assert request.client_software_name == "aioproducer"
    assert request.client_software_version[:1].isdigit()


# --- a proxy that knows no newer versions of ApiVersions ------------------------------------------


@pytest.mark.parametrize(("highest", "refused"), [(4, []), (3, [4]), (2, [4, 3]), (0, [4, 3])])
async def test_a_proxy_that_hangs_up_at_a_newer_version_is_asked_with_an_older_one(
    start_kafka: StartKafka, caplog: pytest.LogCaptureFixture, highest: int, refused: list[int]
) -> None:
    """Once: the next connections begin with the version that it knows."""
    caplog.set_level(logging.INFO)
    kafka = await start_kafka(1, {"orders": 1})
    kafka.hangs_up_above = highest
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **HASTY) as producer:
        await producer.send("orders", b"one espresso")
        await kafka.servers[1].cut()
        await producer.send("orders", b"and one more")
    assert kafka.values("orders") == [b"one espresso", b"and one more"]
    assert kafka.hung_up == refused
    assert "sent its API versions" not in caplog.text, "it is no failure"


async def test_an_address_that_refused_every_version_is_asked_with_all_of_them_in_turn(
    start_kafka: StartKafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = await start_kafka(1, {"orders": 1})
    kafka.hangs_up_above = -1
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **HASTY) as producer:
        sent = producer.send("orders", b"one espresso")
        await kafka.until(lambda: len(kafka.hung_up) >= 9)
        assert kafka.hung_up[:9] == [4, 3, 0] * 3
        said = "API versions. If the port speaks TLS, set security_protocol to 'SSL' or 'SASL_SSL'"
        assert said in caplog.text
        assert "a proxy that knows none of the ApiVersions versions 4, 3 and 0" in caplog.text
        kafka.hangs_up_above = 3
        await sent


async def test_check_passes_through_such_a_proxy_at_once(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    kafka.hangs_up_above = 0
    async with Producer(bootstrap_servers=kafka.servers[1].address, **HASTY) as producer:
        await producer.check(topics=["orders"])
    assert kafka.hung_up == [4, 3, 4, 3]


# --- another cluster, whose brokers are too old to check connections ------------------------------


def producer_ids(kafka: FakeKafka) -> list[tuple[int, bytes | None]]:
    """Of the batches that came in: the producer id and the first value."""
    found = []
    for request in kafka.requests(PRODUCE):
        for topic in request.body.topic_data:
            for data in topic.partition_data:
                batch = MemoryRecords(bytes(data.records)).next_batch()
                found.append((batch.producer_id, next(batch).value))
    return found


@pytest.mark.parametrize("brokers", [1, 2])
async def test_no_batch_reaches_another_cluster_with_the_id_of_the_former_one(
    start_kafka: StartKafka, caplog: pytest.LogCaptureFixture, brokers: int
) -> None:
    """Its own producer may have that id, and its batches would make ours look like duplicates."""
    caplog.set_level(logging.WARNING)
    kafka = await start_kafka(brokers, {"orders": 1})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", b"before")
        kafka.cluster_id = "another"
        for server in kafka.servers.values():
            await server.cut()
        await producer.send("orders", b"after")
    (former, _), *others = producer_ids(kafka)
    assert [value for _, value in others] == [b"after"], "once"
    assert others[0][0] != former
    assert "'another'" in caplog.text


async def test_the_first_connections_are_not_asked_for_their_cluster(
    start_kafka: StartKafka,
) -> None:
    """A broker that does not check connections is asked once another connection was lost."""
    kafka = await start_kafka(2, {"orders": 2})
    servers = kafka.servers[1].address
    async with Producer(bootstrap_servers=servers, **QUICK) as producer:
        for partition in (0, 1):
            await producer.send("orders", b"", partition=partition)
        of_records = {each.connection for each in kafka.requests(PRODUCE)}
        assert all(each.body.topics for each in kafka.requests(METADATA))
        await kafka.servers[1].cut()
        await producer.send("orders", b"", partition=0)
        [asked] = [each for each in kafka.requests(METADATA) if not each.body.topics]
        assert asked.connection == kafka.requests(PRODUCE)[-1].connection
        assert asked.connection not in of_records
