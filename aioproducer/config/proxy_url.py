"""The URL of a proxy, read. No message shows the login that a URL may hold."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from aioproducer.foundation.secret import Secret, without_frames
from aioproducer.model import address_of

__all__ = ["HTTP", "Proxy", "ProxyLogin", "parse_proxy_url"]

HTTP: Final = "http"
_LOCAL_NAMES: Final = "socks5"
_SCHEMES: Final = (
    "'socks5h://host:port' (SOCKS5, the proxy resolves the brokers' names), 'socks5://host:port' "
    "(names are resolved here) or 'http://host:port' (CONNECT)"
)
_SOCKS_PORT: Final = "1080"
_HIGHEST_PORT: Final = 65535
_MOST_BYTES: Final = 255
"""The longest user name and password of SOCKS5 (RFC 1929)."""
_URL: Final = (
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:(?P<login>[^/?#]*)@)?"
    r"(?P<host>\[[^\]@/]*\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?)(?::(?P<port>[^@/?#]*))?/?"
)


class ProxyLogin(NamedTuple):
    """A login at a proxy. A user name may be a token, so neither part is shown."""

    user: Secret
    password: Secret


class Proxy(NamedTuple):
    """A proxy, and how it is spoken to."""

    scheme: str
    host: str
    port: int
    login: ProxyLogin | None

    @property
    def resolves_names(self) -> bool:
        """True if the proxy looks up the brokers' names."""
        return self.scheme != _LOCAL_NAMES

    def __str__(self) -> str:
        return f"proxy {address_of(self.host, self.port)}"


def parse_proxy_url(url: Secret) -> Proxy:
    """The proxy that ``url`` names.

    Raises:
        ValueError: it is not such a URL; the message says what is expected instead.
    """
    return without_frames(_proxy, url)


def _proxy(url: Secret) -> Proxy:
    found = re.fullmatch(_URL, url.reveal())
    if found is None:
        raise ValueError(
            f"{_SCHEMES}, with user:password@ before the host if the proxy asks for a login. "
            "Percent-encode the characters %/?#@: in the login, as in p%40ss for p@ss"
        )
    scheme = _scheme(found["scheme"])
    return Proxy(
        scheme, _host(found["host"]), _port(scheme, found["port"]), _login(scheme, found["login"])
    )


def _scheme(written: str | None) -> str:
    scheme = (written or "").lower()
    if scheme in (HTTP, _LOCAL_NAMES, "socks5h"):
        return scheme
    if scheme == "https":
        raise ValueError(
            "'http://host:port': TLS to the proxy itself is not supported. TLS to the brokers "
            "passes through the proxy unchanged (security_protocol='SSL' or 'SASL_SSL')"
        )
    if not scheme:
        raise ValueError(f"a URL that begins with its scheme: {_SCHEMES}")
    raise ValueError(f"{_SCHEMES}, not the scheme {scheme!r}")


def _host(written: str) -> str:
    if not written.startswith("["):
        return written
    from ipaddress import IPv6Address

    try:
        return str(IPv6Address(written[1:-1]))
    except ValueError:
        raise ValueError("an IPv6 address between '[' and ']', as in 'socks5://[::1]:1080'") from (
            None
        )


def _port(scheme: str, written: str | None) -> int:
    if not written and scheme != HTTP:
        written = _SOCKS_PORT
    if not written:
        raise ValueError(
            "a port, as in 'http://host:3128': HTTP proxies have no standard port (3128 and 8080 "
            "are common)"
        )
    if not re.fullmatch(r"[0-9]{1,5}", written) or not 1 <= int(written) <= _HIGHEST_PORT:
        raise ValueError("a URL whose port is a number from 1 to 65535")
    return int(written)


def _login(scheme: str, written: str | None) -> ProxyLogin | None:
    if not written:
        return None
    user, _, password = written.partition(":")
    try:
        login = ProxyLogin(*(Secret(unquote(each, errors="strict")) for each in (user, password)))
    except UnicodeDecodeError:
        raise ValueError("a URL whose user name and password are percent-encoded UTF-8") from None
    if not login.user.reveal():
        raise ValueError("a URL with a user name before the password, as in user:password@host")
    if scheme == HTTP:
        if ":" in login.user.reveal():
            raise ValueError("a URL whose user name has no ':', which Basic logins can't send")
    elif any(len(each.reveal().encode()) > _MOST_BYTES for each in login):
        raise ValueError("a URL whose user name and password have at most 255 bytes, as in SOCKS5")
    return login
