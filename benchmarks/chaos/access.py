"""The secured cluster: its certificates, its user, and sessions that last some seconds."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioproducer.testing.certificates import Authority, kafka_broker_properties
from aioproducer.testing.fault_proxy import FaultProxies
from aioproducer.testing.kafka_cluster.broker import CLIENT_LISTENER
from benchmarks.chaos.plan import BROKERS

_USER: Final = "chaos"
_PASSWORD: Final = "of-these-tests-alone"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Access:
    """How a client gets in: TLS and SCRAM-SHA-256."""

    authority: str
    """The file (PEM) of whom it trusts."""
    username: str = _USER
    password: str = _PASSWORD


def secured(
    directory: Path, session_ms: int, **options: Any
) -> tuple[Access, FaultProxies, dict[str, Any]]:
    """A new authority, proxies that speak TLS on both sides, and the options of the cluster.

    The proxies have to read frames, so they end one TLS connection and begin another.
    """
    authority = Authority()
    certificate = authority.issue("broker")
    trusted = directory / "authority.pem"
    trusted.write_text(authority.pem)
    proxies = FaultProxies(
        BROKERS,
        tls=certificate.server_context(),
        target_tls=ssl.create_default_context(cadata=authority.pem),
    )
    prefix = f"listener.name.{CLIENT_LISTENER.lower()}"
    config = {
        **options.pop("config", {}),
        **kafka_broker_properties(certificate, listener=CLIENT_LISTENER),
        f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{prefix}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{prefix}.connections.max.reauth.ms": session_ms,
    }
    user = f"SCRAM-SHA-256=[name={_USER},password={_PASSWORD}]"
    cluster = {
        **options,
        "config": config,
        "listeners": {CLIENT_LISTENER: "SASL_SSL"},
        "format_options": ("--add-scram", user),
    }
    return Access(str(trusted)), proxies, cluster


def unsecured(**options: Any) -> tuple[None, FaultProxies, dict[str, Any]]:
    """Plain text, for everyone."""
    return None, FaultProxies(BROKERS), options
