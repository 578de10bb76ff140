"""Cipher suites by the names of Java and IANA, and what OpenSSL calls them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from aioproducer.errors import ConfigError

__all__ = ["CipherSuites", "choose_suites"]

_TLS13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_NO_SUITES: Final = frozenset({"TLS_EMPTY_RENEGOTIATION_INFO_SCSV"})
"""Signals in the form of a cipher suite; OpenSSL sends them by itself."""

_KEY_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CCM": "AES256-CCM",
}
_TLS12: Final = {
    f"TLS_{exchange}_WITH_{cipher}": f"{begin}{end}"
    for exchange, begin in _KEY_EXCHANGES.items()
    for cipher, end in _CIPHERS.items()
} | {
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
# RFC 5289 and 6655 define no suites with elliptic curves and RSA in CCM.
for _missing in ("TLS_ECDHE_RSA_WITH_AES_128_CCM", "TLS_ECDHE_RSA_WITH_AES_256_CCM"):
    del _TLS12[_missing]
_OF_OPENSSL: Final = frozenset(_TLS12.values())


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """Chosen suites, by OpenSSL's names: those up to TLS 1.2, and those of TLS 1.3."""

    tls12: tuple[str, ...]
    tls13: frozenset[str]

    @property
    def restricts_tls13(self) -> bool:
        """Some suites of TLS 1.3 are left out; Python's ssl always offers all of them."""
        return bool(self.tls13) and self.tls13 != _TLS13


def choose_suites(names: Iterable[str]) -> CipherSuites:
    """The suites of ``ssl_cipher_suites``, by Java's or OpenSSL's names.

    Raises :class:`ConfigError` for a name that is unknown, or that of a suite that is broken.
    """
    tls12: list[str] = []
    tls13: set[str] = set()
    for name in names:
        if name in _TLS13:
            tls13.add(name)
        elif name in _OF_OPENSSL:
            tls12.append(name)
        elif name in _TLS12:
            tls12.append(_TLS12[name])
        elif name not in _NO_SUITES:
            near = get_close_matches(name, [*_TLS13, *_TLS12], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(
                f"ssl_cipher_suites names {name!r}, which is unknown here, or too weak{hint}"
            )
    if not tls12 and not tls13:
        raise ConfigError("ssl_cipher_suites names no cipher suite")
    return CipherSuites(tuple(dict.fromkeys(tls12)), frozenset(tls13))
