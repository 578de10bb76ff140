"""The types that options are given in, wider than those they are held in.

A function that takes ``**options: Unpack[ProducerOptions]`` has keywords that type checkers and
editors know. The names are those of ``OptionTable``; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from aioproducer.config.addresses import Address
from aioproducer.config.hooks import InterceptorOption, PartitionerOption, SerializerOption
from aioproducer.config.options import (
    CompressionType,
    DnsLookup,
    RecoveryStrategy,
    SecurityProtocol,
)
from aioproducer.config.sasl_options import SaslMechanism
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import TokenProviderOption
from aioproducer.config.tls_options import StoreType
from aioproducer.config.token_options import AssertionAlgorithm

__all__ = ["AcksArgument", "ProducerOptions"]

AcksArgument: TypeAlias = Literal["all", "-1", "0", "1", -1, 0, 1]


class TlsKeywords(TypedDict, total=False):
    """The options of TLS as keywords."""

    ssl_context: Any
    ssl_truststore_location: str | None
    ssl_truststore_type: StoreType
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_type: StoreType
    ssl_keystore_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_endpoint_identification_algorithm: Literal["https", ""]
    ssl_protocol: Literal["TLSv1.3", "TLSv1.2", "TLS"]
    ssl_enabled_protocols: str | Iterable[str]
    ssl_cipher_suites: str | Iterable[str]
    ssl_crl_location: str | None


class LoginKeywords(TlsKeywords, total=False):
    """The options of logins and tokens as keywords."""

    sasl_mechanism: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_jaas_config: str | Secret | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_aws_profile_name: str | None
    sasl_aws_role_arn: str | None
    sasl_aws_role_session_name: str | None
    sasl_aws_role_external_id: str | None
    sasl_aws_sts_region: str | None
    sasl_aws_region: str | None
    sasl_login_class: str | None
    sasl_login_callback_handler_class: str | None
    sasl_client_callback_handler_class: str | None
    sasl_oauthbearer_token_provider: TokenProviderOption | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: str | Mapping[str, str]
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class ProducerOptions(LoginKeywords, total=False):
    """Every option as keyword; ``bootstrap_servers`` alone is required."""

    bootstrap_servers: str | Iterable[str | Address]
    client_id: str | None
    acks: AcksArgument
    compression_type: CompressionType
    linger_ms: int | None
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: RecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    client_dns_lookup: DnsLookup
    send_buffer_bytes: int
    receive_buffer_bytes: int
    key_serializer: SerializerOption | None
    value_serializer: SerializerOption | None
    partitioner: PartitionerOption | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    interceptor_classes: Iterable[InterceptorOption]
    security_protocol: SecurityProtocol
    transactional_id: str | None
    transaction_timeout_ms: int
    metrics_num_samples: int
    metrics_sample_window_ms: int
