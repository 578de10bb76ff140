"""The options of librdkafka for TLS, logins and tokens."""

from __future__ import annotations

from typing import Final

from aioproducer.config.librdkafka.row import OAUTH_CONFIG, mapped, refused
from aioproducer.config.librdkafka.values import (
    authorities,
    certificate_file,
    cipher_suites,
    flag,
    grant_type,
    host_name_check,
    pem_text,
    pkcs12,
)

__all__ = ["ROWS"]

_CONTEXT: Final = "pass ssl_context, your own ssl.SSLContext"
_C_API: Final = "use the text or the file: ssl.key.pem, ssl.certificate.pem, ssl.ca.pem"
_KINIT: Final = (
    "omit it: the keytab logs in without kinit, or something else renews the ticket cache"
)
_PROVIDER: Final = "sasl_oauthbearer_token_provider"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_KEY: Final = "ssl_keystore_key"
_CHAIN: Final = "ssl_keystore_certificate_chain"
_AUTHORITIES: Final = "ssl_truststore_certificates"
_ASSERTION: Final = "sasl.oauthbearer.assertion"
_OURS: Final = "sasl_oauthbearer_assertion"
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")

_TLS: Final = (
    mapped("security.protocol", "security_protocol"),
    mapped(
        "ssl.ca.location",
        "ssl_truststore_location ssl_truststore_type",
        authorities,
        "a PEM file, not a directory; 'probe' is the default here",
    ),
    mapped("ssl.ca.pem", f"{_AUTHORITIES} ssl_truststore_type", pem_text(_AUTHORITIES)),
    mapped(
        "ssl.certificate.location",
        f"{_CHAIN} ssl_keystore_type",
        certificate_file(_CHAIN),
        "each connection reads the file again",
    ),
    mapped("ssl.certificate.pem", f"{_CHAIN} ssl_keystore_type", pem_text(_CHAIN)),
    mapped(
        "ssl.key.location",
        f"{_KEY} ssl_keystore_type",
        certificate_file(_KEY),
        "each connection reads the file again; pickles contain its path",
    ),
    mapped("ssl.key.pem", f"{_KEY} ssl_keystore_type", pem_text(_KEY)),
    mapped("ssl.key.password", "ssl_key_password"),
    mapped("ssl.keystore.location", "ssl_keystore_location ssl_keystore_type", pkcs12),
    mapped("ssl.keystore.password", "ssl_keystore_password"),
    mapped("ssl.crl.location", "ssl_crl_location"),
    mapped("ssl.cipher.suites", "ssl_cipher_suites", cipher_suites, "names, not groups of suites"),
    mapped(
        "ssl.endpoint.identification.algorithm",
        "ssl_endpoint_identification_algorithm",
        host_name_check,
        "'none' is '' here",
    ),
    refused("enable.ssl.certificate.verification", _CONTEXT, harmless=_TRUE, instead="ssl_context"),
    refused("ssl.certificate.verify_cb", _CONTEXT, instead="ssl_context"),
    refused("ssl.curves.list ssl.sigalgs.list ssl.providers", _CONTEXT, instead="ssl_context"),
    refused("ssl.engine.location ssl.engine.id", _CONTEXT, instead="ssl_context"),
    refused("ssl.ca.certificate.stores", _CONTEXT, harmless=("Root",), instead="ssl_context"),
    refused("ssl_key ssl_certificate ssl_ca ssl_engine_callback_data", _C_API),
    refused(
        "https.ca.location https.ca.pem",
        "set ssl.ca.location: the token endpoint is checked against the same authorities",
    ),
)

_LOGINS: Final = (
    mapped("sasl.mechanisms sasl.mechanism", "sasl_mechanism", note="required for a login"),
    mapped("sasl.username", "sasl_username"),
    mapped("sasl.password", "sasl_password"),
    mapped(
        "sasl.kerberos.service.name",
        "sasl_kerberos_service_name",
        note="by default 'kafka' for GSSAPI, as in librdkafka",
    ),
    mapped("sasl.kerberos.principal", "sasl_kerberos_principal"),
    mapped("sasl.kerberos.keytab", "sasl_kerberos_keytab"),
    refused("sasl.kerberos.kinit.cmd", _KINIT),
    refused("sasl.kerberos.min.time.before.relogin", _KINIT, harmless=("0",)),
)

_TOKENS: Final = (
    mapped(
        "oauth_cb",
        _PROVIDER,
        lambda value: {_PROVIDER: value},
        "called in a thread with sasl.oauthbearer.config; it can return the same tuple",
    ),
    mapped(
        "sasl.oauthbearer.config",
        f"{_PROVIDER} {_PARAMETERS}",
        lambda value: {OAUTH_CONFIG: value},
        "the argument of oauth_cb, or the parameters of metadata authentication",
    ),
    refused("oauthbearer_token_refresh_cb", f"use {_PROVIDER}", instead=_PROVIDER),
    refused(
        "enable.sasl.oauthbearer.unsecure.jwt",
        f"provide unsigned tokens with {_PROVIDER}",
        harmless=_FALSE,
        instead=_PROVIDER,
    ),
    refused(
        "sasl.oauthbearer.method",
        "set sasl.oauthbearer.token.endpoint.url, or oauth_cb",
        harmless=("oidc", "default"),
    ),
    mapped(
        "sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id",
        "sasl_oauthbearer_client_credentials_client_id",
    ),
    mapped(
        "sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret",
        "sasl_oauthbearer_client_credentials_client_secret",
    ),
    mapped("sasl.oauthbearer.scope", "sasl_oauthbearer_scope"),
    mapped("sasl.oauthbearer.extensions", "sasl_oauthbearer_extensions"),
    mapped("sasl.oauthbearer.token.endpoint.url", "sasl_oauthbearer_token_endpoint_url"),
    mapped("sasl.oauthbearer.grant.type", "sasl_oauthbearer_jwt_retriever_class", grant_type),
    refused(
        "sasl.oauthbearer.sub.claim.name",
        "omit it: the broker reads the claim, not the client",
        harmless=("sub",),
    ),
    mapped(
        "sasl.oauthbearer.metadata.authentication.type",
        "sasl_oauthbearer_metadata_authentication_type",
    ),
    mapped(f"{_ASSERTION}.algorithm", f"{_OURS}_algorithm"),
    mapped(f"{_ASSERTION}.private.key.file", f"{_OURS}_private_key_file"),
    mapped(f"{_ASSERTION}.private.key.passphrase", f"{_OURS}_private_key_passphrase"),
    refused(
        f"{_ASSERTION}.private.key.pem",
        f"write the key into a file: {_OURS}_private_key_file",
        instead=f"{_OURS}_private_key_file",
    ),
    mapped(f"{_ASSERTION}.file", f"{_OURS}_file"),
    mapped(f"{_ASSERTION}.claim.aud", f"{_OURS}_claim_aud"),
    mapped(f"{_ASSERTION}.claim.iss", f"{_OURS}_claim_iss"),
    mapped(f"{_ASSERTION}.claim.sub", f"{_OURS}_claim_sub"),
    mapped(f"{_ASSERTION}.claim.exp.seconds", f"{_OURS}_claim_exp_seconds"),
    mapped(f"{_ASSERTION}.claim.nbf.seconds", f"{_OURS}_claim_nbf_seconds"),
    mapped(
        f"{_ASSERTION}.claim.jti.include",
        f"{_OURS}_claim_jti_include",
        flag(f"{_OURS}_claim_jti_include"),
    ),
    mapped(f"{_ASSERTION}.jwt.template.file", f"{_OURS}_template_file"),
)

ROWS: Final = (*_TLS, *_LOGINS, *_TOKENS)
