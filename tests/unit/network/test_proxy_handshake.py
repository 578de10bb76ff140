"""The handshakes with proxies: bytes in, bytes and decisions out."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.config import Secret
from aioproducer.config.proxy_url import parse_proxy_url
from aioproducer.engine.network.proxy_handshake import handshake
from aioproducer.errors import AuthenticationError, BrokerConnectionError

GREETING, WITH_LOGIN = b"\5\1\0", b"\5\2\0\2"
KAFKA = b"\5\1\0\3\5kafka\x23\x84"
DONE = b"\5\0\0\1\x7f\0\0\1\4\x38"
BROKER = b"bytes of the broker"


def played(url: str, answers: bytes, host: str = "kafka", port: int = 9092) -> tuple[bytes, bytes]:
    """The bytes that went to the proxy, and those of ``answers`` that were not read."""
    steps = handshake(parse_proxy_url(Secret(url)), host, port)
    sent, received = b"", None
    while True:
        try:
            step = next(steps) if received is None else steps.send(received)
        except StopIteration:
            return sent, answers
        assert step.receive > 0
        assert step.expected
        assert step.if_closed
        sent += step.send
        if len(answers) < step.receive:
            raise EOFError(step.expected)
        received, answers = answers[: step.receive], answers[step.receive :]


def refused(
    url: str,
    answers: bytes,
    kind: type[Exception] = BrokerConnectionError,
    host: str = "kafka",
) -> str:
    with pytest.raises(kind) as raised:
        played(url, answers, host)
    assert "hunter2" not in str(raised.value)
    assert "proxy gate:1080" in str(raised.value)
    return str(raised.value)


# --- SOCKS5 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "done",
    [
        DONE,
        b"\5\0\0\4" + bytes(16) + b"\0\1",
        b"\5\0\0\3\3abc\0\1",
        b"\5\0\0\3\0\0\1",
    ],
)
def test_a_connection_by_socks5(done: bytes) -> None:
    assert played("socks5h://gate", b"\5\0" + done + BROKER) == (GREETING + KAFKA, BROKER)


def test_a_login_by_socks5() -> None:
    url = "socks5h://alice:h%C3%BC@gate"
    sent, left = played(url, b"\5\2" + b"\1\0" + DONE + BROKER)
    assert sent == WITH_LOGIN + b"\1\5alice\3h\xc3\xbc" + KAFKA
    assert left == BROKER
    assert played(url, b"\5\0" + DONE)[0] == WITH_LOGIN + KAFKA  # the proxy wants none


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.1.2.3", b"\1\x0a\1\2\3"),
        ("::1", b"\4" + bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\4\xfe\x80" + bytes(13) + b"\1"),
        ("bücher.example", b"\3\x15xn--bcher-kva.example"),
    ],
)
def test_addresses_and_names_of_brokers(host: str, address: bytes) -> None:
    sent, _ = played("socks5h://gate", b"\5\0" + DONE, host)
    assert sent == GREETING + b"\5\1\0" + address + b"\x23\x84"


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize(
    "host", ["kafka\r\nX: y", "kafka 1", "", "a" * 256, "a..b\udce9", "k@b", "k/b", "kafka:1:x"]
)
def test_a_name_that_is_none_is_not_sent(scheme: str, host: str) -> None:
    with pytest.raises(BrokerConnectionError, match="can't be resolved: it is not a host name"):
        played(f"{scheme}://gate:1", b"", host)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "failed, or can't resolve the host's name (SOCKS5 reply 1)"),
        (2, "rules do not allow it (SOCKS5 reply 2). Configure the proxy to allow kafka:9092"),
        (3, "network can't be reached"),
        (
            4,
            "or the proxy can't resolve its name (SOCKS5 reply 4). With socks5:// in "
            "proxy_url, names are",
        ),
        (5, "refused the connection (SOCKS5 reply 5)"),
        (6, "TTL expired"),
        (7, "does not support CONNECT"),
        (8, "type of address"),
        (200, "an unknown reason (SOCKS5 reply 200)"),
    ],
)
def test_a_refused_connection_by_socks5(code: int, words: str) -> None:
    message = refused("socks5h://gate", b"\5\0\5" + bytes((code,)))
    assert "can't connect to kafka:9092: " in message
    assert words in message


def test_the_other_place_for_names_is_advised() -> None:
    assert "With socks5h:// in proxy_url" in refused("socks5://gate", b"\5\0\5\4")
    assert "With socks5h:// in proxy_url" in refused("socks5://gate", b"\5\0\5\4", host="::1")
    unsupported = refused("socks5h://gate", b"\5\0\5\x08", host="::1")
    assert unsupported.endswith("does not support this type of address (SOCKS5 reply 8)")


def test_refused_logins_by_socks5() -> None:
    login = "socks5://alice:hunter2@gate"
    message = refused("socks5://gate", b"\5\xff", AuthenticationError)
    assert "asks for a login: write it in proxy_url, as in socks5://user:password@" in message
    assert "check the user name" in refused(login, b"\5\2\1\1", AuthenticationError)
    assert "accepts neither a user name" in refused(login, b"\5\xff", AuthenticationError)
    assert "did not offer" in refused("socks5://gate", b"\5\2")
    assert "did not offer" in refused(login, b"\5\1")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (b"HTTP/1.1 400", "Does it speak HTTP? Then write http://"),
        (b"\0\x5b", "Is it a SOCKS5 proxy?"),
        (b"\5\0\4\0", "does not answer in SOCKS5"),
        (b"\5\0\5\0\0\2", "unknown type of address, 2"),
    ],
)
def test_no_socks5(answers: bytes, said: str) -> None:
    assert said in refused("socks5://gate", answers)


# --- CONNECT -------------------------------------------------------------------------------------

CONNECT = b"CONNECT kafka:9092 HTTP/1.1\r\nHost: kafka:9092\r\n"
HTTP = "http://gate:1080"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nVia: x\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 204\r\n\r\n",
        b"HTTP/1.1 200 \r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 200 OK\nVia: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ],
)
@pytest.mark.parametrize("after", [b"", BROKER, b"\n", b"\r\n\r\n"])
def test_a_connection_by_http(head: bytes, after: bytes) -> None:
    assert played(HTTP, head + after) == (CONNECT + b"\r\n", after)


@given(fields=st.text(st.sampled_from("a:\r\n \t"), max_size=60), after=st.binary(max_size=20))
def test_the_head_ends_at_its_first_empty_line(fields: str, after: bytes) -> None:
    answers = b"HTTP/1.1 200 OK\r\n" + fields.encode() + b"\r\n\r\n" + after
    ends = [
        at + len(line)
        for line in (b"\n\n", b"\n\r\n")
        if (at := answers.find(line, len(b"HTTP/1.1 200 OK\r"))) >= 0
    ]
    assert played(HTTP, answers)[1] == answers[min(ends) :]


def test_a_login_by_http() -> None:
    sent, _ = played("http://alice:h%C3%BC:@gate:1", b"HTTP/1.1 200 OK\r\n\r\n")
    told = b64encode("alice:hü:".encode())
    assert sent == CONNECT + b"Proxy-Authorization: Basic " + told + b"\r\n\r\n"


def test_an_ipv6_address_stands_in_brackets() -> None:
    sent, _ = played(HTTP, b"HTTP/1.1 200 OK\r\n\r\n", "fe80::1%eth0")
    assert sent == b"CONNECT [fe80::1]:9092 HTTP/1.1\r\nHost: [fe80::1]:9092\r\n\r\n"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            "403 Forbidden",
            "HTTP 403 'Forbidden'. Configure the proxy to allow CONNECT to kafka:9092",
        ),
        ("405 Method Not Allowed", "Configure the proxy to allow"),
        ("502 Bad Gateway", "HTTP 502 'Bad Gateway'. The proxy may be unable to reach the broker"),
        ("400", "can't connect to kafka:9092: HTTP 400"),
        ("302 Found", "HTTP 302 'Found'"),
        ("500 \x1b[31m" + "x" * 1000, r"HTTP 500 '\x1b[31mxxx"),
    ],
)
def test_a_refused_connection_by_http(status: str, words: str) -> None:
    message = refused(HTTP, f"HTTP/1.1 {status}\r\nServer: x\r\n\r\n".encode())
    assert words in message
    assert len(message) < 600


def test_refused_logins_by_http() -> None:
    login = "http://alice:hunter2@gate:1080"
    head = b"HTTP/1.1 407 No\r\n%b\r\n"
    basic = (
        head % b'Proxy-Authenticate: Digest realm="x"\r\nproxy-authenticate: Basic realm="x"\r\n'
    )
    assert "http://user:password@host:port" in refused(HTTP, basic, AuthenticationError)
    assert "check the user name" in refused(login, basic, AuthenticationError)
    assert "check the user name" in refused(login, head % b"", AuthenticationError)
    others = head % b"Proxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n"
    unauthorized = b"HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n\r\n"
    assert "asks for a login" in refused(HTTP, unauthorized, AuthenticationError)
    assert "check the user name" in refused(login, unauthorized, AuthenticationError)
    for url in (HTTP, login):
        message = refused(url, others, AuthenticationError)
        assert "by 'Negotiate, NTLM', but this client only supports Basic" in message


def test_a_reason_that_repeats_the_password_is_masked() -> None:
    url = "http://alice:hunter2@gate:1080"
    assert "no ********" in refused(url, b"HTTP/1.1 400 no hunter2\r\n\r\n")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (b"\5\xff", "Does it speak SOCKS5? Then write socks5h://"),
        (b"SSH-2.0-OpenSSH", "Is it an HTTP proxy?"),
        (b"HTTP/1.1 OK\r\n\r\n", "Is it an HTTP proxy?"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "16384 bytes without ending"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "16384 bytes without ending"),
    ],
)
def test_no_http(answers: bytes, said: str) -> None:
    assert said in refused(HTTP, answers)


def outcome(url: str, answers: bytes) -> str:
    try:
        played(url, answers)
    except (AuthenticationError, BrokerConnectionError, EOFError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("url", [HTTP, "socks5://gate:1080", "socks5h://alice:hunter2@gate:1080"])
@given(answers=st.binary(max_size=300))
def test_whatever_a_proxy_answers_there_is_an_end(url: str, answers: bytes) -> None:
    assert "hunter2" not in outcome(url, answers)


@pytest.mark.parametrize("url", [HTTP, "socks5h://alice:hunter2@gate:1080"])
@given(data=st.data())
def test_damaged_answers_come_to_an_end(url: str, data: st.DataObject) -> None:
    damaged = bytearray(b"HTTP/1.1 200 OK\r\n\r\n" if url == HTTP else b"\5\2\1\0" + DONE)
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    assert "hunter2" not in outcome(url, bytes(damaged))
