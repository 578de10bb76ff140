"""Options of TLS that contradict each other, or have no meaning here."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from typing import Any

import pytest

from aioproducer.auth.cipher_suites import _TLS12, choose_suites
from aioproducer.auth.tls import TlsOptions, make_context, server_name
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

SECRET = Secret("geheim-1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"keystore_type": "BCFKS"},
            "ssl_keystore_type='BCFKS' is not supported; use one of JKS, PKCS12",
        ),
        ({"truststore_type": "jks"}, "ssl_truststore_type='jks'"),
        ({"keystore_key": SECRET}, "ssl_keystore_key also needs ssl_keystore_certificate_chain"),
        (
            {"keystore_certificate_chain": "x"},
            "ssl_keystore_certificate_chain also needs ssl_keystore_key",
        ),
        (
            {
                "keystore_key": SECRET,
                "keystore_certificate_chain": "x",
                "keystore_location": "a.pem",
            },
            "ssl_keystore_location and ssl_keystore_key exclude each other",
        ),
        (
            {
                "keystore_key": SECRET,
                "keystore_certificate_chain": "x",
                "keystore_type": "PKCS12",
            },
            "ssl_keystore_key is PEM, but ssl_keystore_type='PKCS12'",
        ),
        (
            {
                "keystore_key": SECRET,
                "keystore_certificate_chain": "x",
                "keystore_password": SECRET,
            },
            "ssl_key_password",
        ),
        ({"keystore_password": SECRET}, "ssl_keystore_password is set, but there is no key"),
        ({"key_password": SECRET}, "ssl_key_password is set, but there is no key"),
        (
            {"truststore_location": "a", "truststore_certificates": "x"},
            "ssl_truststore_location and ssl_truststore_certificates exclude each other",
        ),
        (
            {"truststore_type": "PKCS12", "truststore_certificates": "x"},
            "ssl_truststore_certificates are PEM",
        ),
        ({"truststore_password": SECRET}, "but no ssl_truststore_location"),
        (
            {"endpoint_identification_algorithm": "LDAPS"},
            "ssl_endpoint_identification_algorithm='LDAPS' is unknown; use 'https', or ''",
        ),
        ({"enabled_protocols": ("TLSv1.2", "TLSv1.1")}, "TLSv1.1 is insecure and not supported"),
        ({"enabled_protocols": ("SSLv3",)}, "SSLv3 is insecure and not supported"),
        ({"protocol": "TLSv1"}, "TLSv1 is insecure and not supported"),
        ({"enabled_protocols": ("TLS",)}, "'TLS' is not a TLS version"),
        ({"enabled_protocols": ("TLSv1.4",)}, "'TLSv1.4' is not a TLS version"),
        ({"enabled_protocols": ()}, "no TLS version is left"),
        ({"enabled_protocols": ("TLSv1.3",), "protocol": "TLSv1.2"}, "contradict each other"),
        (
            {"enabled_protocols": ("TLSv1.2",), "cipher_suites": ("TLS_AES_256_GCM_SHA384",)},
            "contradict each other",
        ),
        (
            {"cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385",)},
            "'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385', which is unknown here, or too weak; did you "
            "mean TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384?",
        ),
        ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_MD5",)}, "'TLS_RSA_WITH_RC4_128_MD5', which"),
        ({"cipher_suites": ("TLS_EMPTY_RENEGOTIATION_INFO_SCSV",)}, "names no cipher suite"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        TlsOptions(**options)
    assert "geheim" not in str(caught.value)


def test_a_context_of_ones_own_stands_alone() -> None:
    own = ssl.create_default_context()
    assert TlsOptions(context=own, keystore_type="JKS").context is own
    with pytest.raises(ConfigError, match="ssl_protocol, ssl_crl"):
        TlsOptions(context=own, crl_location="x", protocol="TLSv1.2")
    with pytest.raises(ConfigError, match="ssl_context is a context for servers"):
        TlsOptions(context=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))


def test_nothing_secret_is_shown() -> None:
    options = TlsOptions(
        keystore_key=SECRET,
        keystore_certificate_chain="geheim-2",
        key_password=Secret("geheim-3"),
        truststore_certificates="geheim-4",
    )
    assert "geheim" not in repr(options)
    assert "geheim" not in str(options)


@pytest.mark.parametrize(
    ("options", "lowest", "highest"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"protocol": "TLS"}, "TLSv1_2", "TLSv1_3"),
        ({"enabled_protocols": ("TLSv1.3",)}, "TLSv1_3", "TLSv1_3"),
        ({"protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "TLSv1_3", "TLSv1_3"),
        ({"cipher_suites": ("TLS_RSA_WITH_AES_256_GCM_SHA384",)}, "TLSv1_2", "TLSv1_2"),
        (
            {"cipher_suites": ("TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES256-GCM-SHA384")},
            "TLSv1_2",
            "TLSv1_3",
        ),
    ],
)
def test_the_versions_of_a_context(options: dict[str, Any], lowest: str, highest: str) -> None:
    context = make_context(TlsOptions(**options))
    assert context.minimum_version.name == lowest
    assert context.maximum_version.name == highest


def test_a_context_offers_the_chosen_suites_in_their_order() -> None:
    suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    context = make_context(TlsOptions(cipher_suites=suites))
    offered = [each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS")]
    assert offered == ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_a_suite_that_this_openssl_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TLS_RSA_WITH_AES_256_GCM_SHA384"
    monkeypatch.setitem(_TLS12, name, "NO-SUCH-SUITE")
    with pytest.raises(ConfigError, match="names NO-SUCH-SUITE, which this Python's OpenSSL"):
        make_context(TlsOptions(cipher_suites=(name,)))
    with pytest.raises(ConfigError, match="names NO-SUCH-SUITE, which this Python's OpenSSL"):
        make_context(TlsOptions(cipher_suites=(name, "TLS_RSA_WITH_AES_128_GCM_SHA256")))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="NO openssl HERE")
def test_the_table_of_names_is_that_of_openssl() -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = dict(line.split()[:3:2] for line in listed.splitlines())
    known = {name: ours for name, ours in _TLS12.items() if name in theirs}
    assert known == {name: theirs[name] for name in known}
    assert sorted(set(_TLS12) - set(known)) == []


def test_all_good_suites_of_tls_1_3_are_no_restriction() -> None:
    all_of_them = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]
    assert choose_suites(all_of_them).restricts_tls13
    assert not choose_suites([*all_of_them, "TLS_CHACHA20_POLY1305_SHA256"]).restricts_tls13
    assert not choose_suites(["AES256-GCM-SHA384"]).restricts_tls13


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("broker.example", "broker.example"),
        ("broker.example.", "broker.example"),
        ("kafka_1", "kafka_1"),
        ("10.0.0.7", "10.0.0.7"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
    ],
)
def test_the_name_in_a_certificate(host: str, name: str) -> None:
    assert server_name(host) == name
