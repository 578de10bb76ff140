"""The ways to ask a proxy for a connection: SOCKS5, and CONNECT of HTTP. No I/O.

A handshake is a generator: it yields the bytes to send and the number of bytes to read, and gets
exactly these. So nothing is read beyond the proxy's answer.

Sources: RFC 1928 and RFC 1929 (SOCKS5), RFC 9110, section 9.3.6 (CONNECT), RFC 7617 (Basic).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Generator
from ipaddress import ip_address
from typing import Final, NamedTuple, NoReturn, TypeAlias

from aioproducer.config.proxy_url import HTTP, Proxy, ProxyLogin
from aioproducer.errors import AuthenticationError, BrokerConnectionError
from aioproducer.foundation.secret import printable
from aioproducer.model import address_of, has_name

__all__ = ["Handshake", "Step", "handshake"]


class Step(NamedTuple):
    """A step of a handshake."""

    send: bytes
    receive: int
    """Bytes to read: exactly so many."""
    expected: str
    """The proxy's answer in words, a noun."""
    if_closed: str
    """The likely reason, as a sentence, if the proxy closes the connection instead."""


Handshake: TypeAlias = Generator[Step, bytes, None]

_IS_IT_SOCKS5: Final = "Is it a SOCKS5 proxy?"
_IS_IT_HTTP: Final = "Is it an HTTP proxy?"
_WRONG_LOGIN: Final = "It may refuse the login: check the user name and password in proxy_url"
_NO_WAY: Final = "The proxy may be unable to reach the broker, or to resolve its name"
"""The reason for which ``ssh -D`` closes a connection."""

_VERSION: Final = 5
_NO_LOGIN, _PASSWORD, _NO_METHOD = 0, 2, 0xFF
_CONNECT: Final = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES: Final = {_IPV4: 4, _IPV6: 16}
_PORT_BYTES: Final = 2

_RULES: Final = 2
_REPLIES: Final = {
    1: "the proxy has failed, or can't resolve the host's name",  # the latter: microsocks
    _RULES: "the proxy's rules do not allow it",
    3: "the network can't be reached from the proxy",
    4: "the host can't be reached from the proxy, or the proxy can't resolve its name",
    5: "the host refused the connection",
    6: "the route is too long (TTL expired)",
    7: "the proxy does not support CONNECT",
    8: "the proxy does not support this type of address",
}

_MOST_OF_A_HEAD: Final = 16_384
"""Bytes of the status line and header fields of all answers, interim ones included."""
_STATUS_LINE: Final = rb"HTTP/[0-9](?:\.[0-9])? ([0-9]{3})(?:[ \t]+([^\r\n]*))?\r?\n"
_CHALLENGE: Final = rb"(?im)^proxy-authenticate:[ \t]*([!-+\--~]+)"
_SUCCESS: Final = range(200, 300)
_LOGIN_REQUIRED: Final = (407, 401)  # tinyproxy refuses a wrong login with 401
_REFUSALS: Final = (403, 405)


def handshake(proxy: Proxy, host: str, port: int) -> Handshake:
    """Ask ``proxy`` for a connection to ``host``, a name or an address.

    Raises:
        AuthenticationError: the proxy wants a login, or refuses the one of the URL.
        BrokerConnectionError: the proxy can't connect, or does not speak the protocol.
    """
    return (_connect if proxy.scheme == HTTP else _socks5)(proxy, host, port)


def _socks5(proxy: Proxy, host: str, port: int) -> Handshake:
    address = _socks_address(host)  # before anything is sent
    methods = (_NO_LOGIN,) if proxy.login is None else (_NO_LOGIN, _PASSWORD)
    answer = yield Step(
        bytes((_VERSION, len(methods), *methods)),
        2,
        "answer to the greeting of SOCKS5",
        _IS_IT_SOCKS5,
    )
    _check_version(proxy, answer)
    if answer[1] == _PASSWORD and proxy.login is not None:
        request = _password_request(proxy.login)
        status = yield Step(request, 2, "answer to the login", _WRONG_LOGIN)
        if status[1]:
            _refused_login(proxy)
    elif answer[1] != _NO_LOGIN:
        _no_method(proxy, answer[1])
    target = address_of(host, port)
    request = bytes((_VERSION, _CONNECT, 0)) + address + port.to_bytes(_PORT_BYTES, "big")
    expected = f"answer to the request for {target}"
    answer = yield Step(request, 2, expected, _NO_WAY)
    _check_version(proxy, answer)
    if answer[1]:
        _no_connection(proxy, target, answer[1], by_name=_packed(host) is None)
    kind = (yield Step(b"", 2, expected, _NO_WAY))[1]
    length = _ADDRESS_BYTES.get(kind)
    if kind == _NAME:
        length = (yield Step(b"", 1, expected, _NO_WAY))[0]
    if length is None:
        raise BrokerConnectionError(f"{proxy} answered with an unknown type of address, {kind}")
    yield Step(b"", length + _PORT_BYTES, expected, _NO_WAY)  # the proxy's own address


def _socks_address(host: str) -> bytes:
    packed = _packed(host)
    if packed is not None:
        return bytes((_IPV4 if len(packed) == _ADDRESS_BYTES[_IPV4] else _IPV6,)) + packed
    name = _encoded(host)
    return bytes((_NAME, len(name))) + name


def _packed(host: str) -> bytes | None:
    """The bytes of an address; None for a name."""
    try:
        return ip_address(host).packed
    except ValueError:
        return None


def _encoded(host: str) -> bytes:
    """A name as a proxy gets it. Names come from brokers, too, so the characters are checked."""
    try:
        name = host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        name = b""
    if not re.fullmatch(rb"[A-Za-z0-9._-]{1,255}", name) or not has_name(host):
        raise BrokerConnectionError(
            f"the name {printable(host)} can't be resolved: it is not a host name"
        )
    return name


def _check_version(proxy: Proxy, answer: bytes) -> None:
    if answer[0] != _VERSION:
        hint = (
            "Does it speak HTTP? Then write http:// in proxy_url"
            if answer[:1] == b"H"
            else _IS_IT_SOCKS5
        )
        raise BrokerConnectionError(f"{proxy} does not answer in SOCKS5. {hint}")


def _password_request(login: ProxyLogin) -> bytes:
    user, password = (each.reveal().encode() for each in login)
    return bytes((1, len(user))) + user + bytes((len(password),)) + password


def _no_method(proxy: Proxy, method: int) -> NoReturn:
    if method != _NO_METHOD:
        raise BrokerConnectionError(f"{proxy} chose a login method that the client did not offer")
    if proxy.login is None:
        _no_login(proxy)
    raise AuthenticationError(
        f"{proxy} accepts neither a user name and password, nor clients without a login"
    )


def _no_login(proxy: Proxy) -> NoReturn:
    raise AuthenticationError(
        f"{proxy} asks for a login: write it in proxy_url, as in "
        f"{proxy.scheme}://user:password@host:port"
    )


def _refused_login(proxy: Proxy) -> NoReturn:
    raise AuthenticationError(
        f"{proxy} refused the login: check the user name and password in proxy_url"
    )


def _no_connection(proxy: Proxy, target: str, code: int, *, by_name: bool) -> NoReturn:
    advice = f". Configure the proxy to allow {target}" if code == _RULES else ""
    if code in (3, 4, 8) and (by_name or not proxy.resolves_names):
        other = "socks5://" if proxy.resolves_names else "socks5h://"
        where = "here" if proxy.resolves_names else "at the proxy"
        advice = f". With {other} in proxy_url, names are resolved {where}"
    reason = _REPLIES.get(code, "an unknown reason")
    raise BrokerConnectionError(
        f"{proxy} can't connect to {target}: {reason} (SOCKS5 reply {code}){advice}"
    )


def _connect(proxy: Proxy, host: str, port: int) -> Handshake:
    bare = host if _packed(host) is not None else _encoded(host).decode()
    target = address_of(bare.partition("%")[0], port)
    fields = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    if proxy.login is not None:
        told = ":".join(each.reveal() for each in proxy.login).encode()
        fields += f"Proxy-Authorization: Basic {b64encode(told).decode()}\r\n"
    to_send, expected = f"{fields}\r\n".encode(), f"answer to CONNECT {target}"
    read = 0
    while True:
        head = b""
        while not head.endswith((b"\n\n", b"\n\r\n")):
            # An empty line ends the head. This many bytes are missing of it at least.
            missing = 1 if head.endswith((b"\n", b"\n\r")) else 2
            head += yield Step(to_send, missing, expected, _NO_WAY if head else _IS_IT_HTTP)
            to_send = b""
            if read + len(head) > _MOST_OF_A_HEAD:
                raise BrokerConnectionError(
                    f"{proxy} sent {_MOST_OF_A_HEAD} bytes without ending its answer to CONNECT"
                )
            if not b"HTTP/".startswith(head[:5]):
                _no_http(proxy, head)
        read += len(head)
        status = re.match(_STATUS_LINE, head)
        if status is None:
            _no_http(proxy, head)
        code = int(status[1])
        if code in _SUCCESS:
            return
        if code > _SUCCESS[-1]:
            _no_tunnel(proxy, target, code, status[2] or b"", head)


def _no_http(proxy: Proxy, head: bytes) -> NoReturn:
    hint = (
        "Does it speak SOCKS5? Then write socks5h:// in proxy_url"
        if head.startswith(b"\5")
        else _IS_IT_HTTP
    )
    raise BrokerConnectionError(f"{proxy} does not answer in HTTP. {hint}")


def _no_tunnel(proxy: Proxy, target: str, code: int, reason: bytes, head: bytes) -> NoReturn:
    if code in _LOGIN_REQUIRED:
        schemes = [each.decode().rstrip(",") for each in re.findall(_CHALLENGE, head)]
        if schemes and not any(each.lower() == "basic" for each in schemes):
            raise AuthenticationError(
                f"{proxy} asks for a login by {printable(', '.join(schemes))}, but this client "
                "only supports Basic"
            )
        if proxy.login is None:
            _no_login(proxy)
        _refused_login(proxy)
    login = () if proxy.login is None else proxy.login
    said = f" {printable(reason.decode('latin-1'), *login)}" if reason else ""
    advice = ""
    if code in _REFUSALS:
        advice = f". Configure the proxy to allow CONNECT to {target}: many only allow port 443"
    elif code >= 500:
        advice = f". {_NO_WAY}"
    raise BrokerConnectionError(f"{proxy} can't connect to {target}: HTTP {code}{said}{advice}")
