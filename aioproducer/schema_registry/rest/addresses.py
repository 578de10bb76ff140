"""The addresses of a registry, and the credentials that they may hold. No I/O."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.secret import Secret
from aioproducer.model import is_loopback

__all__ = ["RegistryAddress", "basic_authorization", "registry_addresses", "secrets_in"]

logger = plain_logger(__name__)


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address of one registry."""

    url: str
    """Without credentials, and without a slash at its end."""
    authorization: Secret | None = None
    """The header for the user and the password that the address holds."""

    @property
    def encrypted(self) -> bool:
        """The registry is asked by TLS."""
        return self.url.startswith("https:")


def registry_addresses(
    given: Sequence[Secret], *, with_credentials: bool
) -> tuple[RegistryAddress, ...]:
    """The addresses; blank texts are left out.

    ``with_credentials``: requests have credentials that are not from an address.

    Raises:
        ConfigError: an address can't be used. The message does not show it: it may hold a secret.
    """
    texts = [Secret(each.reveal().strip()) for each in given]
    found = tuple(_address(each) for each in texts if each.reveal())
    if not found:
        raise ConfigError("schema.registry.url: no address is given")
    for each in found:
        if each.authorization is not None and with_credentials:
            raise ConfigError(
                "schema.registry.url: an address contains a user and a password, but other "
                "credentials are set too: remove one of them"
            )
        secrets = with_credentials or each.authorization is not None
        host = urlsplit(each.url).hostname or ""
        if secrets and not each.encrypted and not is_loopback(host):
            logger.warning(
                "schema.registry.url: %s is not encrypted: anyone on the network path can read the"
                " credentials; use https",
                each.url,
            )
    return tuple(dict.fromkeys(found))


def basic_authorization(username: str, password: Secret) -> Secret:
    """The header of basic authentication (RFC 7617). Raises ConfigError."""
    with suppress(UnicodeEncodeError):  # it has the text
        return Secret(f"Basic {b64encode(f'{username}:{password.reveal()}'.encode()).decode()}")
    raise ConfigError("username or password: the text can't be encoded as UTF-8")


def secrets_in(authorization: Secret) -> tuple[Secret, ...]:
    """The secrets of an ``Authorization`` header: the token, or the password and its pair."""
    scheme, _, value = authorization.reveal().partition(" ")
    if scheme != "Basic":
        return (Secret(value),)
    password = b64decode(value).decode().partition(":")[2]
    return (Secret(value), Secret(password))


def _address(text: Secret) -> RegistryAddress:
    found = _read(text.reveal())
    del text
    if isinstance(found, str):
        raise ConfigError(f"schema.registry.url: {found}")
    return found


def _read(text: str) -> RegistryAddress | str:
    """The address, or the reason why there is none."""
    parts = _parts_of(text)
    if parts is None:
        return "the value is not a URL (it is not shown because it may contain a secret)"
    if parts.scheme == "mock":
        return "mock:// is not supported here; use aioproducer.testing.InMemorySchemaRegistry"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "the address must begin with https:// or http://, and name a host"
    if parts.query or parts.fragment:
        return "an address can't have a query or a fragment"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port is not None else ""
    url = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "an address can only contain printable ASCII characters"
    if parts.username is None and parts.password is None:
        return RegistryAddress(url)
    user, password = unquote(parts.username or ""), Secret(unquote(parts.password or ""))
    return RegistryAddress(url, basic_authorization(user, password))


def _parts_of(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts
