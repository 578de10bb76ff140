"""The options of SASL, with Kafka's names and defaults (``org.apache.kafka.common.config.
SaslConfigs``); a few are librdkafka's, where Java has them in the JAAS line alone."""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aioproducer.config.kinds import Choice, JaasLine, Nullable, Text
from aioproducer.config.option import Group, Importance, option
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import SecretText
from aioproducer.config.tls_options import TlsOptions

__all__ = ["SaslMechanism", "SaslOptions"]

SaslMechanism = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"
]

MEDIUM = Importance.MEDIUM
_NAME = Nullable(Text(empty=False))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SaslOptions(TlsOptions):
    """The options of logins."""

    sasl_mechanism: SaslMechanism | None = option(
        Nullable(Choice(SaslMechanism)), None, Group.SASL, MEDIUM, kafka_default="GSSAPI"
    )
    """The kind of login. A SASL protocol needs this option, for Kafka's default is seldom what is
    meant; None is `GSSAPI` where a login of Kerberos is configured."""

    sasl_username: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The user name for `PLAIN` and `SCRAM-…` (librdkafka's name; Java has it in
    `sasl_jaas_config`)."""

    sasl_password: Secret | None = option(Nullable(SecretText()), None, Group.SASL, MEDIUM)
    """The password for `PLAIN` and `SCRAM-…`, beside `sasl_username`."""

    sasl_jaas_config: Secret | None = option(Nullable(JaasLine()), None, Group.SASL, MEDIUM)
    """The JAAS line that Java clients take their credentials from: the login modules of `PLAIN`,
    `SCRAM`, `OAUTHBEARER`, Kerberos and MSK's IAM are known."""

    sasl_kerberos_service_name: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The name of the brokers' principals, for most clusters `kafka`; `GSSAPI` needs it, here or as
    `serviceName` of the JAAS line."""

    sasl_kerberos_principal: str | None = option(_NAME, None, Group.SASL)
    """The client's own principal, for `GSSAPI` (librdkafka's name). None: that of the ticket cache
    or the keytab."""

    sasl_kerberos_keytab: str | None = option(_NAME, None, Group.SASL)
    """The keytab file to log in with for `GSSAPI` (librdkafka's name). None: the ticket cache that
    `kinit` fills."""

    sasl_aws_profile_name: str | None = option(_NAME, None, Group.SASL)
    """The profile of the AWS configuration for `AWS_MSK_IAM`; `awsProfileName` of the JAAS line.
    None: AWS's own chain of credentials."""

    sasl_aws_role_arn: str | None = option(_NAME, None, Group.SASL)
    """The role to take on for `AWS_MSK_IAM`; `awsRoleArn` of the JAAS line."""

    sasl_aws_role_session_name: str | None = option(_NAME, None, Group.SASL)
    """The name of the role's session; `awsRoleSessionName` of the JAAS line."""

    sasl_aws_role_external_id: str | None = option(_NAME, None, Group.SASL)
    """The external id that the role's owner asks for; `awsRoleExternalId` of the JAAS line."""

    sasl_aws_sts_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the service that is asked for the role; `awsStsRegion` of the JAAS line."""

    sasl_aws_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the cluster. None reads it from the brokers' host names; name it where those
    are of a domain of your own."""

    sasl_login_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's own are known and need nothing; any other is refused by name."""

    sasl_login_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's `OAuthBearerLoginCallbackHandler` is known. Any other is refused by
    name, unless `sasl_oauthbearer_token_provider` stands in for it."""

    sasl_client_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. `software.amazon.msk.auth.iam.IAMClientCallbackHandler` and Kafka's own are
    known; any other is refused by name."""
