"""A listener of a broker that logs its clients in: its settings, its users."""

from __future__ import annotations

from typing import Final

from aioproducer.testing.kerberos import KerberosRealm

LISTENER: Final = "LOGIN"
"""``KafkaCluster(listeners={LISTENER: "SASL_PLAINTEXT"})``."""
SERVICE: Final = "kafka"
_SECURITY: Final = "org.apache.kafka.common.security"


def settings_of(*, plain: dict[str, str], realm: KerberosRealm | None = None) -> dict[str, object]:
    """PLAIN with these users and passwords, SCRAM, and GSSAPI if there is a realm.

    With a realm the cluster needs ``jvm_options=(*DEFAULT_JVM_OPTIONS, realm.java_option)``.
    """
    users = " ".join(f'user_{name}="{password}"' for name, password in plain.items())
    modules = {
        "PLAIN": f"{_SECURITY}.plain.PlainLoginModule required {users};",
        "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    }
    if realm is not None:
        modules["GSSAPI"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            f' keyTab="{realm.add_service(SERVICE, "localhost")}"'
            f' principal="{SERVICE}/localhost@{realm.realm}";'
        )
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(modules),
        "sasl.kerberos.service.name": SERVICE,
        **{
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": line
            for mechanism, line in modules.items()
        },
    }
