"""Listeners of a broker that log their clients in: their settings, their users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioproducer.testing.kerberos import KerberosRealm
from aioproducer.testing.oauth2_server import OAuth2Server

SERVICE: Final = "kafka"
_SECURITY: Final = "org.apache.kafka.common.security"


def settings_of(
    listener: str,
    *,
    plain: dict[str, str],
    kerberos: str | None = None,
    tokens: tuple[OAuth2Server, str] | None = None,
    without: Iterable[str] = (),
) -> dict[str, object]:
    """PLAIN with these users and passwords, SCRAM, GSSAPI with the JAAS line ``kerberos``, and
    OAUTHBEARER if tokens of an issuer are taken; but no mechanism ``without``.

    The cluster needs ``jvm_options=(*DEFAULT_JVM_OPTIONS, *java_options(realm, server))``.
    """
    users = " ".join(f'user_{name}="{password}"' for name, password in plain.items())
    modules = {
        "PLAIN": f"{_SECURITY}.plain.PlainLoginModule required {users};",
        "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    }
    if kerberos is not None:
        modules["GSSAPI"] = kerberos
    if tokens is not None:
        modules["OAUTHBEARER"] = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
    modules = {name: line for name, line in modules.items() if name not in without}
    prefix = f"listener.name.{listener.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(modules),
        "sasl.kerberos.service.name": SERVICE,
        **{
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": line
            for mechanism, line in modules.items()
        },
        **({} if tokens is None else _validation(prefix, *tokens)),
    }


def kerberos_line(realm: KerberosRealm) -> str:
    """The JAAS line of brokers of this realm."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        f' keyTab="{realm.add_service(SERVICE, "localhost")}"'
        f' principal="{SERVICE}/localhost@{realm.realm}";'
    )


def _validation(prefix: str, server: OAuth2Server, issuer: str) -> dict[str, object]:
    """Kafka's own validator, and whose tokens it takes."""
    validator = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": validator,
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": f"{server.of(issuer)}/jwks",
        f"{prefix}.sasl.oauthbearer.expected.issuer": server.of(issuer),
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
    }


def java_options(realm: KerberosRealm | None, server: OAuth2Server, *issuers: str) -> list[str]:
    """What brokers of :func:`settings_of` have to be told."""
    urls = ",".join(f"{server.of(issuer)}/jwks" for issuer in issuers)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"
    return [allowed] if realm is None else [allowed, realm.java_option]
