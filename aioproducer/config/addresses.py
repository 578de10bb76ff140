"""``host:port`` lists, whose syntax is checked; nothing is resolved here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import ascii_letters, digits
from typing import Final, TypeAlias

from aioproducer.model import address_of

__all__ = ["NO_CREDENTIALS", "Address", "parse_addresses"]

Address: TypeAlias = tuple[str, int]
"""Host (a name, an IPv4 address, or an IPv6 address without brackets) and port."""

NO_CREDENTIALS: Final = "an address can't contain credentials ('@'); write 'host:port'"
_SCHEME: Final = r"(?s)(?P<scheme>[A-Za-z][\w.+-]*)://(?P<rest>.*)"
_DIGITS_OF_A_PORT: Final = 5
_LEGAL_IN_HOST: Final = f"{ascii_letters}{digits}._-"


def parse_addresses(value: str | Iterable[object]) -> tuple[Address, ...]:
    """``"a:9092,[::1]:9092"``, or a sequence of such strings and ``(host, port)`` pairs.

    Order is kept, duplicates and empty list elements are dropped.

    Raises:
        ValueError: an address is malformed, or there is none; the message says which and why.
    """
    items: Iterable[object] = value.split(",") if isinstance(value, str) else value
    addresses: dict[Address, Address] = {}
    for item in items:
        for address in _parse_item(item):
            addresses.setdefault((address[0].lower(), address[1]), address)
    if not addresses:
        raise ValueError("the list is empty; give at least one 'host:port'")
    return tuple(addresses.values())


def _parse_item(item: object) -> tuple[Address, ...]:
    match item:
        case str():
            return tuple(_parse_address(part.strip()) for part in item.split(",") if part.strip())
        case (str() as host, int() as port) if not isinstance(port, bool):
            return (_parse_address(address_of(host, port)),)
    raise ValueError(f"an address is a 'host:port' string, not {type(item).__name__}")


def _parse_address(text: str) -> Address:
    if "@" in text:
        raise ValueError(NO_CREDENTIALS)
    if scheme := "://" in text and re.fullmatch(_SCHEME, text):
        if scheme["scheme"].upper() != "PLAINTEXT":
            raise ValueError(
                f"{text!r} names a protocol: write {scheme['rest'].rstrip('/')!r}; Kafka's "
                "protocol is the option security_protocol"
            )
        text = scheme["rest"]
    host, port = _split(text)
    numeric = port.isascii() and port.isdigit() and len(port) <= _DIGITS_OF_A_PORT
    if not numeric or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} has to have a port from 1 to 65535, not {port!r}")
    return host, int(port)


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        literal, closed, rest = text[1:].partition("]")
        if not closed:
            raise ValueError(f"{text!r} lacks the closing ']' of an IPv6 address")
        if not _is_ipv6(literal):
            raise ValueError(f"{literal!r} in {text!r} is not an IPv6 address")
        if not rest.startswith(":"):
            raise ValueError(_no_port(text))
        return literal, rest[1:]
    if text.count(":") > 1 and (several := re.search(r"[;|\s]+", text)):
        raise ValueError(f"{text!r} has {several[0]!r} between addresses: write ','")
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(_no_port(text))
    if ":" in host:
        raise ValueError(
            f"{text!r} has several colons: write an IPv6 address in brackets, as in '[::1]:9092'"
        )
    if not host or host.strip(_LEGAL_IN_HOST) or host[0] in "._-" or host[-1] == "-":
        raise ValueError(f"{host!r} in {text!r} is not a host name or address")
    return host, port


def _no_port(text: str) -> str:
    return f"{text!r} has no port; Kafka's usual one is 9092: '{text}:9092'"


def _is_ipv6(text: str) -> bool:
    from ipaddress import IPv6Address

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
