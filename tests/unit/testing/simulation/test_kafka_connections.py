"""Connections of the model: any pieces, one request at a time, faults, logins, ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.passwords import Plain, Scram
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.secret import Secret
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel, ModelConnection
from aioproducer.testing.simulation.kafka.messages import header_of, read_response, write_request
from tests.support.conversations.chat import API_VERSIONS, INIT_PRODUCER_ID, PRODUCE, Chat
from tests.support.conversations.lines import NOW, ModelLine

NEVER = 10**9


class Client:
    """One connection, and what came over it."""

    def __init__(self, model: KafkaModel, broker: int = 1) -> None:
        self.responses: list[bytes] = []
        self.closed = False
        self.connection: ModelConnection = model.connect(
            broker, self.responses.append, self._close, NOW
        )

    def _close(self) -> None:
        self.closed = True

    @property
    def correlations(self) -> list[int]:
        return [int.from_bytes(each[4:8], "big") for each in self.responses]


class Recording(ModelLine):
    """A line that keeps requests and sends none."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames

    def send(self, broker: int, frame: bytes, party: str = "") -> None:
        self.frames.append(frame)

    def response(self, broker: int, party: str = "") -> bytes | None:
        return None


def model(**options: object) -> KafkaModel:
    return KafkaModel(3, random=Random(1), options=ClusterOptions(**options))  # type: ignore[arg-type]


def versions(correlation: int, version: int = 0) -> bytes:
    said = {"client_software_name": "name", "client_software_version": "1"}
    return write_request(API_VERSIONS, version, correlation, "client", said)


@given(st.lists(st.integers(1, 30), max_size=12))
def test_requests_come_in_any_pieces(sizes: list[int]) -> None:
    client = Client(model())
    stream = versions(1) + versions(2, 4) + versions(3)
    for size in [*sizes, NEVER]:
        client.connection.receive(stream[:size], NOW)
        stream = stream[size:]
    assert client.correlations == [1, 2, 3]


def test_a_newer_version_of_api_versions_is_answered_in_the_oldest_layout() -> None:
    client = Client(model())
    frame = bytearray(versions(7))
    frame[6:8] = (99).to_bytes(2, "big")
    client.connection.receive(frame, NOW)
    correlation, body = read_response(API_VERSIONS, 0, client.responses[0][4:])
    assert (correlation, body.error_code) == (7, 35)
    assert [each.api_key for each in body.api_keys] == [API_VERSIONS]


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\2ab",
        b"\xff\xff\xff\xff",
        write_request(
            API_VERSIONS, 4, 1, "c", {"client_software_name": "", "client_software_version": ""}
        )[:-3]
        + b"\xff\xff\xff",
        b"\0\0\0\x0a" + (66).to_bytes(2, "big") + bytes(8),
    ],
)
def test_what_is_no_request_ends_the_connection(stream: bytes) -> None:
    client = Client(model())
    client.connection.receive(stream, NOW)
    assert client.closed
    assert not client.responses
    client.connection.receive(versions(1), NOW)
    assert not client.responses


def test_a_request_waits_for_the_response_before() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    client = Client(line.model, chat.leader)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fetch = write_request(
        1,
        12,
        1,
        "client",
        {
            "replica_id": -1,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "isolation_level": 0,
            "session_epoch": -1,
            "topics": [{"topic": chat.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
        },
    )
    client.connection.receive(fetch + versions(2), line.now)
    assert client.correlations == []
    assert line.model.most_in_flight(1) == 1
    line.wait(1.0)
    assert client.correlations == [1, 2]


def test_a_lost_connection_ends_after_the_request_that_was_begun() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    frames: list[bytes] = []
    chat.line = Recording(frames)
    for sequence in range(2):
        chat.produce(sequence, producer=(5, 0))
    client = Client(line.model, chat.leader)
    client.connection.receive(b"".join(frames), line.now)
    client.connection.lost(line.now)
    line.wait(1.0)
    assert not client.responses
    assert [each.sequence for each in line.model.log(chat.topic, 0)] == [0]


def test_throttled_connections_are_not_read() -> None:
    kafka = model()
    kafka.throttle(800)
    client = Client(kafka)
    client.connection.receive(versions(1, 3) + versions(2), NOW)
    _, body = read_response(API_VERSIONS, 3, client.responses[0][4:])
    assert body.throttle_time_ms == 800
    assert client.correlations == [1]
    assert kafka.tick(NOW) == pytest.approx(NOW + 0.8)
    kafka.tick(NOW + 0.8)
    assert client.correlations == [1, 2]


def test_errors_take_the_place_of_the_work() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    line.model.fail_next(PRODUCE, 7, times=2)
    codes = [
        chat.produce(0, producer=(5, 0)).responses[0].partition_responses[0].error_code
        for _ in range(3)
    ]
    assert codes == [7, 7, 0]
    assert len(line.model.log(chat.topic, 0)) == 1


def test_errors_of_another_broker_stay_there() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    line.model.fail_next(INIT_PRODUCER_ID, 15, broker=chat.followers[0])
    assert chat.init(patient=False)[0] >= 0


def test_a_lost_response_leaves_the_record_in_the_log() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    line.model.lose_next_response(PRODUCE)
    assert chat.produce(0, producer=(5, 0)) is None
    assert len(line.model.log(chat.topic, 0)) == 1
    repeated = chat.produce(0, producer=(5, 0)).responses[0].partition_responses[0]
    assert (repeated.error_code, repeated.base_offset) == (0, 0)
    assert len(line.model.log(chat.topic, 0)) == 1


def test_a_crashed_broker_refuses_connections_until_it_is_back() -> None:
    kafka = model()
    client = Client(kafka, 2)
    kafka.crash(2, NOW)
    assert client.closed
    with pytest.raises(ConnectionRefusedError, match="broker 2 is down"):
        Client(kafka, 2)
    kafka.restart(2, NOW)
    assert not Client(kafka, 2).closed


def test_the_same_seed_gives_the_same_bytes() -> None:
    def life(seed: int) -> tuple[list[object], float]:
        line = ModelLine.of(3, ClusterOptions(), seed)
        said = []
        for name in ("one", "two"):
            line.model.create_topic(name, 3)
        client = Client(line.model)
        request = {
            "topics": None,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        client.connection.receive(write_request(3, 12, 1, "client", request), line.now)
        said += client.responses
        line.model.crash(2, line.now)
        line.wait(5.0)
        client.connection.receive(write_request(3, 12, 2, "client", request), line.now)
        return [*said, *client.responses], line.now

    assert life(3) == life(3)
    assert life(3) != life(4)


def test_headers_of_requests() -> None:
    assert header_of(versions(9, 3)[4:]) == (API_VERSIONS, 3, 9)


def test_a_fetch_of_an_unknown_topic_does_not_wait() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    begun = line.now
    chat.topic = "unknown"
    answer = chat.fetch(0, wait=500).responses[0].partitions[0]
    assert (answer.error_code, line.now) == (3, begun)


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted() -> None:
    line = ModelLine.of(3, ClusterOptions())
    chat = Chat(line, "topic")
    topic = line.model.cluster.topics[chat.topic]
    begun = line.now
    line.model.cluster.schedule.at(begun + 0.1, lambda now: line.model.cluster.delete_topic(topic))
    answer = chat.fetch(0, wait=500).responses[0].partitions[0]
    assert answer.error_code == 3
    assert line.now == pytest.approx(begun + 0.1)


HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3

USER, PASSWORD = "user", "pencil"


def kafka(lifetime_ms: int = 0) -> KafkaModel:
    options = ClusterOptions(credentials={USER: PASSWORD}, session_lifetime_ms=lifetime_ms)
    return KafkaModel(1, random=Random(1), options=options)


def ask(client: Client, api: int, version: int, now: float = NOW, **values: Any) -> Any:
    """The response; None: there is none."""
    before = len(client.responses)
    client.connection.receive(write_request(api, version, 1, "client", values), now)
    if len(client.responses) == before:
        return None
    return read_response(api, version, client.responses[-1][4:])[1]


def metadata(client: Client, now: float = NOW) -> Any:
    return ask(
        client,
        METADATA,
        12,
        now,
        topics=(),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def log_in(client: Client, mechanism: Mechanism, now: float = NOW) -> Any:
    """The last answer to a login."""
    assert not ask(client, HANDSHAKE, 1, now, mechanism=mechanism.name).error_code
    exchange = asyncio.run(mechanism.begin("broker"))
    said = b""
    while True:
        told = ask(client, AUTHENTICATE, 2, now, auth_bytes=exchange.step(said))
        if told.error_code or exchange.complete:
            return told
        said = told.auth_bytes
        if mechanism.name != "PLAIN" and said.startswith(b"v="):
            exchange.step(said)
            assert exchange.complete, "the broker has proved that it knows the password"
            return told


MECHANISMS: dict[str, Callable[[str], Mechanism]] = {
    "PLAIN": lambda password: Plain(USER, Secret(password)),
    "SCRAM-SHA-256": lambda password: Scram("SCRAM-SHA-256", USER, Secret(password)),
    "SCRAM-SHA-512": lambda password: Scram("SCRAM-SHA-512", USER, Secret(password)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_right_password_lets_in(name: str) -> None:
    client = Client(kafka())
    assert not log_in(client, MECHANISMS[name](PASSWORD)).error_code
    assert len(metadata(client).brokers) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_wrong_password_ends_the_connection(name: str) -> None:
    client = Client(kafka())
    told = log_in(client, MECHANISMS[name]("wrong"))
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed


def test_requests_before_the_login_end_the_connection() -> None:
    client = Client(kafka())
    assert metadata(client) is None
    assert client.closed


def test_an_unknown_mechanism_is_answered_with_the_known_ones() -> None:
    client = Client(kafka())
    told = ask(client, HANDSHAKE, 1, mechanism="GSSAPI")
    assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "PLAIN" in told.mechanisms
    assert client.closed


def test_a_session_that_is_not_renewed_ends_with_the_next_request() -> None:
    client = Client(kafka(lifetime_ms=3000))
    assert log_in(client, MECHANISMS["PLAIN"](PASSWORD)).session_lifetime_ms == 3000
    assert metadata(client, NOW + 2.9) is not None
    assert metadata(client, NOW + 3.1) is None
    assert client.closed


def test_a_renewed_session_goes_on() -> None:
    client = Client(kafka(lifetime_ms=3000))
    for now in (NOW, NOW + 2, NOW + 4):
        assert not log_in(client, MECHANISMS["SCRAM-SHA-256"](PASSWORD), now).error_code
    assert metadata(client, NOW + 6) is not None
