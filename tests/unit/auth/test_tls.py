"""Options of TLS, and the context of the next connection: the same one until its files change."""

from __future__ import annotations

import logging
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from aioproducer.auth.tls import (
    _TLS12,
    TlsContexts,
    TlsOptions,
    choose_suites,
    make_context,
    server_name,
)
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret
from aioproducer.testing.certificates import Authority

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
            "ssl_keystore_location and ssl_keystore_key: give the file or the text",
        ),
        (
            {
                "keystore_key": SECRET,
                "keystore_certificate_chain": "x",
                "keystore_type": "PKCS12",
            },
            "ssl_keystore_key is PEM text: set ssl_keystore_type='PEM'",
        ),
        (
            {
                "keystore_key": SECRET,
                "keystore_certificate_chain": "x",
                "keystore_type": "PEM",
                "keystore_password": SECRET,
            },
            "ssl_keystore_password does not apply to ssl_keystore_key: the password of an "
            "encrypted key is ssl_key_password",
        ),
        ({"keystore_password": SECRET}, "ssl_keystore_password is set, but there is no key"),
        ({"key_password": SECRET}, "ssl_key_password is set, but there is no key"),
        (
            {"truststore_location": "a", "truststore_certificates": "x"},
            "ssl_truststore_location and ssl_truststore_certificates: give the file or the text",
        ),
        (
            {"truststore_type": "PKCS12", "truststore_certificates": "x"},
            "ssl_truststore_certificates is PEM text: set ssl_truststore_type='PEM'",
        ),
        ({"truststore_certificates": "x"}, "PEM text: set ssl_truststore_type='PEM'"),
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
        keystore_type="PEM",
        keystore_key=SECRET,
        keystore_certificate_chain="geheim-2",
        key_password=Secret("geheim-3"),
        truststore_type="PEM",
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


@pytest.fixture
def trusted(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "trusted.pem"
    path.write_text(authority.pem)
    return path


def serials(context: ssl.SSLContext) -> list[object]:
    return [each["serialNumber"] for each in context.get_ca_certs()]


class ObservedContexts(TlsContexts):
    """Counts the contexts that are made; the test may act after each."""

    made = 0

    def _make(self, *options: Any) -> ssl.SSLContext:
        self.made += 1
        context = super()._make(*options)
        self.after()
        return context

    def after(self) -> None: ...


def test_files_are_not_read_again_while_they_are_the_same(trusted: Path) -> None:
    contexts = ObservedContexts(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    assert contexts.get() is first
    assert contexts.made == 1


@pytest.mark.parametrize("how", ["written over", "replaced", "link that leads elsewhere"])
def test_new_content_gives_a_new_context(
    tmp_path: Path, trusted: Path, stranger: Authority, how: str
) -> None:
    location = tmp_path / "link.pem" if how.startswith("link") else trusted
    if location is not trusted:
        location.symlink_to(trusted)
    contexts = TlsContexts(TlsOptions(truststore_location=str(location)))
    first = contexts.get()
    new = tmp_path / "new.pem"
    new.write_text(stranger.pem)
    match how:
        case "written over":
            trusted.write_text(stranger.pem)
        case "replaced":
            new.replace(trusted)
        case _:  # as Kubernetes does with secrets
            other = tmp_path / "other.pem"
            other.symlink_to(new)
            other.replace(location)
    second = contexts.get()
    assert second is not first
    assert serials(second) != serials(first)
    assert contexts.get() is second


def test_same_size_and_time_are_not_the_same_file(trusted: Path, stranger: Authority) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    contexts.get()
    before = trusted.stat()
    content = stranger.pem.ljust(before.st_size)[: before.st_size]
    new = trusted.with_suffix(".new")
    new.write_text(content + " " * (before.st_size - len(content)))
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    made = contexts.get()
    new.replace(trusted)
    if len(stranger.pem) <= before.st_size:
        assert contexts.get() is not made


@pytest.mark.parametrize("harm", ["half written", "gone", "nonsense"])
def test_a_file_that_can_not_be_used_leaves_the_old_context(
    trusted: Path, stranger: Authority, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    caplog.set_level(logging.INFO)
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    match harm:
        case "half written":
            trusted.write_text(stranger.pem[:100])
        case "gone":
            trusted.unlink()
        case _:
            trusted.write_bytes(b"\xff\xfe")
    assert contexts.get() is first
    assert contexts.get() is first
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert str(trusted) in warning.getMessage()
    trusted.write_text(stranger.pem)
    assert serials(contexts.get()) != serials(first)
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
    trusted.unlink()
    contexts.get()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_file_that_changes_while_it_is_read_is_read_again(
    trusted: Path, stranger: Authority
) -> None:
    class ChangesOnce(ObservedContexts):
        def after(self) -> None:
            if self.made == 1:
                trusted.write_text(stranger.pem)

    contexts = ChangesOnce(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    assert serials(contexts.get()) != serials(first)


def test_options_that_are_read_again_count_for_the_next_context(
    trusted: Path, tmp_path: Path, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = tmp_path / "other.pem"
    other.write_text(stranger.pem)
    place = trusted

    def reread() -> TlsOptions:
        if place is tmp_path:
            raise ConfigError("the placeholder can't be read")
        return TlsOptions(truststore_location=str(place))

    contexts = TlsContexts(reread(), reread=reread)
    first = contexts.get()
    assert contexts.get() is first
    place = tmp_path
    assert contexts.get() is first
    assert contexts.get() is first
    place = other
    assert serials(contexts.get()) != serials(first)
    assert contexts.options == reread()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]


def test_a_first_context_that_can_not_be_made_raises_each_time(trusted: Path) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted) + ".gone"))
    for _ in range(2):
        with pytest.raises(ConfigError, match="can't be read"):
            contexts.get()
    trusted.rename(str(trusted) + ".gone")
    contexts.get()


def test_threads_get_the_same_context(trusted: Path) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    together = Barrier(8)
    got = []

    def get() -> None:
        together.wait()
        got.append(contexts.get())

    threads = [Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, got))) == 1


@pytest.mark.parametrize("own", [False, True])
def test_names_that_are_not_verified_get_one_warning(
    own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    TlsContexts(TlsOptions())
    assert caplog.records == []
    options, said = (
        TlsOptions(endpoint_identification_algorithm=""),
        "ssl_endpoint_identification_algorithm=''",
    )
    if own:
        context = ssl.create_default_context()
        context.check_hostname = False
        options, said = TlsOptions(context=context), "ssl_context has check_hostname=False"
    contexts = TlsContexts(options)
    assert contexts.get() is contexts.get()
    [warning] = caplog.records
    assert warning.levelname == "WARNING"
    assert f"{said}: the names in certificates are not verified" in warning.message


def test_our_contexts_are_as_strict_as_pythons_own() -> None:
    context, python = TlsContexts(TlsOptions()).get(), ssl.create_default_context()
    strict = ssl.VERIFY_X509_STRICT
    assert context.verify_flags & strict == python.verify_flags & strict
    assert not context.hostname_checks_common_name


def test_a_context_that_verifies_nothing_gets_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = ssl.create_default_context()
    TlsContexts(TlsOptions(context=own))
    assert caplog.records == []
    own.check_hostname = False
    own.verify_mode = ssl.CERT_NONE
    contexts = TlsContexts(TlsOptions(context=own))
    assert contexts.get() is contexts.get() is own
    assert [
        "ssl_context does not verify certificates" in each.message for each in caplog.records
    ] == [True]
