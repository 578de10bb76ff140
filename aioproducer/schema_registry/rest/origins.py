"""The origin of a client, its arguments or Java properties: secrets hidden, and fit for a pickle.

A pickle has the arguments with their secrets; of properties it has the placeholders, which are
resolved where it is loaded.

The properties are those of ``SchemaRegistryClientConfig`` and ``AbstractKafkaSchemaSerDeConfig`` of
Confluent. A name may have the prefix ``schema.registry.``. TLS options need it, because
``ssl.…`` without it is for brokers.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Protocol

from aioproducer.auth.jaas import parse_jaas
from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.token_endpoint import ClientCredentials, TokenEndpoint
from aioproducer.config.producer_config import PropertiesSource, read_properties
from aioproducer.config.properties import BUILT_IN, THIS_PROCESS, Providers, Reference
from aioproducer.engine.client.environment import SYSTEM
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Hidden, Secret
from aioproducer.schema_registry.rest.authentication import BearerToken, Credentials
from aioproducer.schema_registry.rest.http import (
    HttpSettings,
    HttpTransport,
    http_settings,
    http_transport,
)

__all__ = [
    "RegistryProperties",
    "property_text",
    "registry_properties",
    "Arguments",
    "Asking",
    "Origin",
    "Properties",
]


_PREFIX: Final = "schema.registry."
_HEADER: Final = "request.header."
_TLS: Final = "ssl."
_URL: Final = "schema.registry.url"
_JAAS: Final = "sasl.jaas.config"
_BASIC_SOURCE: Final = "basic.auth.credentials.source"
_NAMES: Final = frozenset(
    {
        _BASIC_SOURCE,
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "bearer.auth.issuer.endpoint.url",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
        "http.connect.timeout.ms",
        "http.read.timeout.ms",
        "max.retries",
        "retries.wait.ms",
        "retries.max.wait.ms",
        "latest.cache.ttl.sec",
        "proxy.host",
        "proxy.port",
    }
)
_WITHOUT_EFFECT: Final = frozenset(
    {
        "url.randomize",
        "use.apache.http.client",
        "missing.cache.size",
        "missing.id.cache.ttl.sec",
        "missing.version.cache.ttl.sec",
        "missing.schema.cache.ttl.sec",
        "bearer.auth.cache.expiry.buffer.seconds",
        "bearer.auth.scope.claim.name",
        "bearer.auth.sub.claim.name",
    }
)
"""Taken, so that the properties of a Java producer can be used as they are."""
_OURS: Final = (_PREFIX, "basic.auth.", "bearer.auth.", _HEADER)
"""The beginnings of names that belong to no one else."""
_HEADERS_OF_CONFLUENT: Final = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}


@dataclass(frozen=True)
class RegistryProperties:
    """The configuration that properties mean."""

    http: HttpSettings
    tls: Callable[[], ssl.SSLContext]
    proxy: str | None
    latest_ttl: float


def registry_properties(given: Mapping[str, Secret]) -> RegistryProperties:
    """Read properties. Raises ConfigError, with the name of a property and not its value."""
    values = _values_in(given)
    url = values.pop(_URL, None)
    if url is None:
        raise ConfigError(f"{_URL} is required")
    options = TlsOptions()
    tls = [(name, each) for name, each in values.items() if name.startswith(_TLS)]
    if tls:
        options = TlsOptions.of_properties(tls, f"{_PREFIX}ssl.…")
    contexts = TlsContexts(options)
    headers = {
        name.removeprefix(_HEADER): each
        for name, each in values.items()
        if name.startswith(_HEADER)
    }
    for name, header in _HEADERS_OF_CONFLUENT.items():
        if name in values:
            headers[header] = values[name]
    milliseconds = [
        number
        for name in ("http.connect.timeout.ms", "http.read.timeout.ms")
        if (number := _number(values, name)) is not None
    ]
    seconds = max(milliseconds) / 1000 if milliseconds else HttpSettings.timeout
    urls = tuple(Secret(each) for each in url.reveal().split(","))
    http = http_settings(urls, _credentials(values, contexts.get), headers, seconds)
    return RegistryProperties(
        http.with_retries(
            _number(values, "max.retries"),
            _seconds(values, "retries.wait.ms"),
            _seconds(values, "retries.max.wait.ms"),
        ),
        contexts.get,
        _proxy(values),
        _latest_ttl(values),
    )


def _values_in(given: Mapping[str, Secret]) -> dict[str, Secret]:
    """The registry's properties without the prefix, their placeholders resolved; and the URL."""
    # Those of a producer need config.providers. A registry's client has no keywords in their place.
    providers = Providers.of({name: each.reveal() for name, each in given.items()}) or BUILT_IN
    values: dict[str, Secret] = {}
    for name in sorted(given, key=lambda each: (each == _JAAS, each.startswith(_PREFIX))):
        # A name with the prefix overrides one without it; the login of brokers comes last.
        short = name if name == _URL else name.removeprefix(_PREFIX)
        if not _is_ours(name, short) or (short == _JAAS and not _inherits(values)):
            continue
        value = given[name]
        reference = Reference.in_value(value, providers)
        values[short] = reference.resolve(name, THIS_PROCESS) if reference else value
    return values


def _inherits(values: Mapping[str, Secret]) -> bool:
    """The login of brokers is that of the registry."""
    source = values.get(_BASIC_SOURCE)
    return source is not None and source.reveal().strip().upper() == "SASL_INHERIT"


def _is_ours(name: str, short: str) -> bool:
    """The property is one of the registry's. Raises ConfigError if it is an unknown one."""
    if short in (_URL, _JAAS) or short in _NAMES or short.startswith(_HEADER):
        return True
    if short.startswith(_TLS):
        return name.startswith(_PREFIX)
    if short not in _WITHOUT_EFFECT and name.startswith(_OURS):
        known = {f"{_PREFIX}{each}" if name.startswith(_PREFIX) else each for each in _NAMES}
        nearest = get_close_matches(name, known | {_URL}, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigError(f"unknown property {name!r}{hint}")
    return False


def property_text(value: object) -> Secret:
    """The value of a property, which Java's own may be no text: a number, or nothing."""
    return value if isinstance(value, Secret) else Secret("" if value is None else str(value))


def _credentials(values: Mapping[str, Secret], tls: Callable[[], ssl.SSLContext]) -> Credentials:
    basic, bearer = (
        values[name].reveal().strip().upper() if name in values else None
        for name in (_BASIC_SOURCE, "bearer.auth.credentials.source")
    )
    if bearer == "STATIC_TOKEN" or (bearer is None and "bearer.auth.token" in values):
        return Credentials(bearer_token=_required(values, "bearer.auth.token"))
    if bearer == "OAUTHBEARER":
        return Credentials(bearer_token=_oauth(values, tls))
    if bearer is not None:
        raise ConfigError(
            "bearer.auth.credentials.source must be STATIC_TOKEN or OAUTHBEARER; for other "
            "sources, pass SchemaRegistry a function as bearer_token"
        )
    if basic == "SASL_INHERIT":
        return _pair(*_inherited(values))
    if basic == "USER_INFO" or (basic is None and "basic.auth.user.info" in values):
        pair = _split(_required(values, "basic.auth.user.info"))
        if pair is None:
            raise ConfigError("basic.auth.user.info must have the form user:password")
        return _pair(*pair)
    if basic not in (None, "", "URL"):
        raise ConfigError("basic.auth.credentials.source must be URL, USER_INFO or SASL_INHERIT")
    return Credentials()


def _split(user_info: Secret) -> tuple[Secret, Secret] | None:
    user, colon, password = user_info.reveal().partition(":")
    return (Secret(user), Secret(password)) if colon else None


def _pair(user: Secret, password: Secret) -> Credentials:
    return Credentials(user.reveal(), password)


def _inherited(values: Mapping[str, Secret]) -> tuple[Secret, Secret]:
    options = dict(parse_jaas(_required(values, _JAAS)).options)
    if "username" not in options or "password" not in options:
        raise ConfigError(
            "basic.auth.credentials.source=SASL_INHERIT needs username and password in"
            " sasl.jaas.config"
        )
    return options["username"], options["password"]


def _oauth(values: Mapping[str, Secret], tls: Callable[[], ssl.SSLContext]) -> Callable[[], str]:
    """Gives tokens of an endpoint by client credentials (``OauthCredentialProvider``)."""
    name = "bearer.auth.issuer.endpoint.url"
    endpoint = TokenEndpoint(
        _required(values, name).reveal(),
        clock=lambda: SYSTEM.wall_clock_ns() / 1e9,
        tls=tls,
        option=name,
    )
    scope = values.get("bearer.auth.scope")
    grant = ClientCredentials(
        endpoint,
        _required(values, "bearer.auth.client.id").reveal(),
        _required(values, "bearer.auth.client.secret"),
        None if scope is None else scope.reveal(),
    )
    return lambda: grant().value.reveal()


def _required(values: Mapping[str, Secret], name: str) -> Secret:
    found = values.get(name)
    if found is None or not found.reveal():
        raise ConfigError(f"the source of the registry's credentials requires {name}")
    return found


def _number(values: Mapping[str, Secret], name: str) -> int | None:
    found = values.get(name)
    if found is None:
        return None
    text = found.reveal().strip()
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ConfigError(f"{name} must be a whole number, 0 or more")
    return int(text)


def _seconds(values: Mapping[str, Secret], name: str) -> float | None:
    found = _number(values, name)
    return None if found is None else found / 1000


def _latest_ttl(values: Mapping[str, Secret]) -> float:
    name = "latest.cache.ttl.sec"
    if name in values and values[name].reveal().strip() == "-1":
        return math.inf
    found = _number(values, name)
    return 300.0 if found is None else float(found)


def _proxy(values: Mapping[str, Secret]) -> str | None:
    host, port = values.get("proxy.host"), _number(values, "proxy.port")
    if host is None or not host.reveal():
        return None
    if port is None:
        raise ConfigError("proxy.host needs proxy.port")
    return f"http://{host.reveal()}:{port}"


class Asking(NamedTuple):
    """The transport of a client, and the lifetime of its answers."""

    transport: HttpTransport
    latest_ttl: float


class Origin(Protocol):
    """Equal clients can be made of it, in another process, too."""

    def asking(self) -> Asking:
        """Raises ConfigError."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of :class:`~aioproducer.schema_registry.SchemaRegistry`."""

    urls: tuple[Secret, ...]
    username: str | None
    password: Secret | Hidden | None
    bearer_token: Secret | Callable[[], Any] | None
    ssl_context: ssl.SSLContext | None
    headers: Mapping[str, Secret] | Hidden
    timeout: float
    latest_ttl: float

    def asking(self) -> Asking:
        if isinstance(self.password, Hidden):
            raise ConfigError(f"password: expected a str, not {self.password.type_name}")
        if isinstance(self.headers, Hidden):
            raise ConfigError(f"headers: expected a mapping, not {self.headers.type_name}")
        credentials = Credentials(self.username, self.password, self.bearer_token)
        settings = http_settings(self.urls, credentials, self.headers, self.timeout)
        options = TlsOptions(context=self.ssl_context) if self.ssl_context else TlsOptions()
        if not self.latest_ttl >= 0:
            raise ConfigError("latest_ttl: the seconds can't be negative")
        return Asking(http_transport(settings, TlsContexts(options).get), self.latest_ttl)


@dataclass(frozen=True)
class Properties:
    """Properties by Java's names, as they are written."""

    values: Mapping[str, Secret]

    @classmethod
    def of(cls, source: PropertiesSource) -> Properties:
        """Raises ConfigError if a file can't be read."""
        given = source if isinstance(source, Mapping) else read_properties(source)
        return cls({name: property_text(each) for name, each in given.items()})

    def asking(self) -> Asking:
        found = registry_properties(self.values)
        return Asking(http_transport(found.http, found.tls, found.proxy), found.latest_ttl)


def hidden_urls(url: str | Sequence[str]) -> tuple[Secret, ...]:
    """The addresses in a list, or in a text with commas between them."""
    return tuple(Secret(str(each)) for each in (url.split(",") if isinstance(url, str) else url))


def hidden_headers(headers: Mapping[str, str] | None) -> dict[str, Secret] | Hidden:
    """The values of headers, not to be shown."""
    if headers is not None and not isinstance(headers, Mapping):
        return Hidden(type(headers).__name__)
    return {str(name): Secret(str(value)) for name, value in (headers or {}).items()}


def hidden_token(bearer_token: BearerToken | None) -> Secret | Callable[[], Any] | None:
    """A token that is a text, not to be shown; a function as it is."""
    if bearer_token is None or callable(bearer_token):
        return bearer_token
    return Secret(str(bearer_token))
