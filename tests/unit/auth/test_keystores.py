"""Keystores and truststores: PEM, PKCS#12, JKS; good, damaged, with and without passwords."""

from __future__ import annotations

import builtins
import errno
import os
import re
import shlex
import shutil
import ssl
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioproducer.auth import tls
from aioproducer.auth.keystores import pem_blocks
from aioproducer.auth.tls import TlsOptions, make_context
from aioproducer.errors import ConfigError, MissingExtraError
from aioproducer.foundation.secret import Secret
from aioproducer.testing.certificates import Authority, Certificate
from tests.unit.auth.tls_servers import TlsServer, talk

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda pem: pem,
    "Kafka's one line": lambda pem: pem.replace("\n", " "),
    "backslash and n": lambda pem: pem.replace("\n", "\\n"),
    "one line without any space": lambda pem: pem.replace("\n", ""),
    "of Windows": lambda pem: pem.replace("\n", "\r\n"),
    "escaped, of Windows": lambda pem: pem.replace("\n", "\\r\\n"),
    "indented": lambda pem: pem.replace("\n", "\n    "),
    "with comments": lambda pem: f"Bag Attributes: é\n  none: yes\n{pem}\nthe end",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_blocks_in_every_form(client: Certificate, form: str) -> None:
    pem = client.pem("geheim")
    found = pem_blocks(Secret(FORMS[form](pem)))
    (key,) = found.keys
    assert key.reveal().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert key.reveal() + "".join(found.certificates) == pem


def test_each_kind_of_key(client: Certificate) -> None:
    for label in ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        found = pem_blocks(Secret(f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----"))
        assert len(found.keys) == 1
    public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
    assert pem_blocks(Secret(public)).keys == ()


def test_headers_of_an_old_format_keep_their_lines() -> None:
    body = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA"
    text = f"-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n"
    (key,) = pem_blocks(Secret(text)).keys
    assert key.reveal() == text


def test_a_block_without_an_end_is_none(client: Certificate) -> None:
    half = client.chain_pem[:-30]
    assert pem_blocks(Secret(half)).certificates == ()
    assert pem_blocks(Secret(half + client.chain_pem)).certificates != (client.chain_pem,) * 2
    assert pem_blocks(Secret("")).keys == ()


PASSWORD = "geheim-1"
SECRETS = re.compile("geheim|PRIVATE KEY-----.?.?M")
"""Passwords, and the beginnings of keys."""
needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="NO keytool HERE")


def keytool(*arguments: str | Path) -> None:
    """A keystore made by Java's own tool."""
    made = subprocess.run(
        ["keytool", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert made.returncode == 0, made.stdout + made.stderr


def refusal(options: TlsOptions) -> str:
    """The message; no frame of the traceback holds a secret."""
    with pytest.raises(ConfigError) as caught:
        make_context(options)
    for each in (caught.value, caught.value.__context__, caught.value.__cause__):
        for frame, _ in traceback.walk_tb(each.__traceback__ if each else None):
            if frame.f_code.co_filename != __file__:
                assert not SECRETS.search(repr(frame.f_locals)), frame
    return str(caught.value)


@pytest.fixture
def our_server(authority: Authority, broker: Certificate) -> TlsServer:
    return TlsServer(broker.server_context(trusts=authority))


KEYSTORES: dict[str, Callable[[Path, Certificate], dict[str, Any]]] = {
    "PEM": lambda path, client: {
        "keystore_location": str(client.write(path)),
        "keystore_type": "PEM",
    },
    "PEM by its content": lambda path, client: {"keystore_location": str(client.write(path))},
    "PEM, encrypted": lambda path, client: {
        "keystore_location": str(client.write(path, PASSWORD)),
        "key_password": Secret(PASSWORD),
    },
    "texts on one line": lambda _, client: {
        "keystore_type": "PEM",
        "keystore_key": Secret(client.key_pem().replace("\n", " ")),
        "keystore_certificate_chain": client.chain_pem.replace("\n", "\\n"),
    },
    "encrypted text": lambda _, client: {
        "keystore_type": "PEM",
        "keystore_key": Secret(client.key_pem(PASSWORD).replace("\n", "\\n")),
        "keystore_certificate_chain": client.chain_pem,
        "key_password": Secret(PASSWORD),
    },
    "PKCS12": lambda path, client: {
        "keystore_location": str(path) if path.write_bytes(client.pkcs12(PASSWORD)) else "",
        "keystore_type": "PKCS12",
        "keystore_password": Secret(PASSWORD),
    },
    "PKCS12 by its content": lambda path, client: {
        "keystore_location": str(path) if path.write_bytes(client.pkcs12(PASSWORD)) else "",
        "keystore_password": Secret(PASSWORD),
        "key_password": Secret(PASSWORD),
    },
    "PKCS12 without a password": lambda path, client: {
        "keystore_location": str(path) if path.write_bytes(client.pkcs12()) else "",
    },
}


def forbidden(*_: Any) -> int:
    raise PermissionError(errno.EPERM, "memfd_create is forbidden")


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("form", KEYSTORES)
async def test_every_form_of_a_keystore_logs_in(
    tmp_path: Path,
    authority: Authority,
    our_server: TlsServer,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    where: str,
) -> None:
    if where == "file":
        monkeypatch.setattr(os, "memfd_create", forbidden)
        monkeypatch.setattr(tls, "_IN_MEMORY", str(tmp_path))
    client = Authority("Between", under=authority).issue("client-7")
    options = TlsOptions(
        truststore_type="PEM",
        truststore_certificates=authority.pem,
        **KEYSTORES[form](tmp_path / "store", client),
    )
    with our_server as server:
        assert await talk(server, options) == b"ping"
        assert server.clients == ["client-7"]
    assert {path.name for path in tmp_path.iterdir()} <= {"store"}


def test_a_key_in_a_file_is_there_for_a_moment_and_for_this_user_alone(
    tmp_path: Path, client: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "memfd_create", forbidden)
    monkeypatch.setattr(tls, "_IN_MEMORY", str(tmp_path))
    seen = []

    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, certfile: str, **more: Any) -> None:
        seen.append((Path(certfile).parent, Path(certfile).stat().st_mode & 0o777))
        load(context, certfile, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    make_context(
        TlsOptions(
            keystore_type="PEM",
            keystore_key=Secret(client.key_pem()),
            keystore_certificate_chain=client.chain_pem,
        )
    )
    assert seen == [(tmp_path, 0o600)]
    assert list(tmp_path.iterdir()) == []


def texts(key: str, chain: str, **others: Any) -> TlsOptions:
    return TlsOptions(
        keystore_type="PEM", keystore_key=Secret(key), keystore_certificate_chain=chain, **others
    )


def test_keys_that_can_not_be_used(client: Certificate, broker: Certificate) -> None:
    locked = client.key_pem(PASSWORD)
    assert "is encrypted: set ssl_key_password" in refusal(texts(locked, client.chain_pem))
    wrong = texts(locked, client.chain_pem, key_password=Secret("geheim-2"))
    assert "ssl_key_password is wrong, or the private key is damaged" in refusal(wrong)
    endless = texts(locked, client.chain_pem, key_password=Secret("geheim" * 1000))
    assert "ssl_key_password is wrong" in refusal(endless)
    another = texts(client.key_pem(), broker.chain_pem)
    assert "does not belong to the first certificate" in refusal(another)
    assert "has no private keys" in refusal(texts("x", client.chain_pem))
    two = client.key_pem() + broker.key_pem()
    assert "has 2 private keys; exactly one is needed" in refusal(texts(two, client.chain_pem))
    assert "contains no certificate" in refusal(texts(client.key_pem(), "geheim é €"))
    damaged = texts(client.key_pem().replace("M", "A"), client.chain_pem)
    assert "damaged or refused" in refusal(damaged)
    bad_chain = client.chain_pem.replace("M", "A")
    assert "damaged or refused" in refusal(texts(client.key_pem(), bad_chain))


def test_files_that_can_not_be_used(tmp_path: Path, client: Certificate) -> None:
    path = tmp_path / "store"

    def keystore(content: bytes, **others: Any) -> str:
        path.write_bytes(content)
        return refusal(TlsOptions(keystore_location=str(path), **others))

    missing = TlsOptions(keystore_location=str(path))
    assert f"ssl_keystore_location={str(path)!r} can't be read: No such file" in refusal(missing)
    assert "Is a directory" in refusal(TlsOptions(truststore_location=str(tmp_path)))
    assert "can't be read" in refusal(TlsOptions(truststore_location="a\0b"))
    assert "is neither PEM nor PKCS#12" in keystore(b"")
    assert "is neither PEM nor PKCS#12" in keystore(b"\xff\x00geheim")
    assert "is a file in PEM, but ssl_keystore_type='PKCS12': set ssl_keystore_type='PEM'" in (
        keystore(client.pem().encode(), keystore_type="PKCS12")
    )
    assert "is a file in PKCS12, but ssl_keystore_type='PEM'" in (
        keystore(client.pkcs12(), keystore_type="PEM")
    )
    assert "remove ssl_keystore_password" in (
        keystore(client.pem().encode(), keystore_password=Secret(PASSWORD))
    )
    assert "ssl_keystore_password is not set" in keystore(client.pkcs12(PASSWORD))
    assert "Check that ssl_keystore_password is right" in (
        keystore(client.pkcs12(PASSWORD), keystore_password=Secret("geheim-2"))
    )
    assert "that the file is complete" in (
        keystore(client.pkcs12(PASSWORD)[:-9], keystore_password=Secret(PASSWORD))
    )
    assert "has no private keys" in keystore(client.chain_pem.encode())
    assert "contains no certificate: after the private key" in keystore(client.key_pem().encode())

    path.write_bytes(client.key_pem().encode())
    assert "contains no certificate" in refusal(TlsOptions(truststore_location=str(path)))
    assert "contains no revocation list" in refusal(TlsOptions(crl_location=str(path)))
    path.write_text(client.chain_pem.replace("M", "A"))
    assert "contains a damaged certificate" in refusal(TlsOptions(truststore_location=str(path)))
    path.write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----")
    assert "contains a damaged revocation list" in refusal(TlsOptions(crl_location=str(path)))


def test_a_truststore_may_be_of_pkcs12_or_pem(
    tmp_path: Path, authority: Authority, stranger: Authority, client: Certificate
) -> None:
    path = tmp_path / "trusted"
    path.write_text(authority.pem + stranger.pem)
    assert len(make_context(TlsOptions(truststore_location=str(path))).get_ca_certs()) == 2
    own = Certificate(client.certificate, client.key, (authority.certificate,))
    path.write_bytes(own.pkcs12(PASSWORD))
    options = TlsOptions(truststore_location=str(path), truststore_password=Secret(PASSWORD))
    assert make_context(options).get_ca_certs() != []


@needs_keytool
@pytest.mark.parametrize(
    ("form", "password"),
    [
        ((), PASSWORD),
        (("-J-Dkeystore.pkcs12.legacy",), PASSWORD),
        (
            (
                "-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE",
                "-J-Dkeystore.pkcs12.macAlgorithm=NONE",
            ),
            None,
        ),
    ],
    ids=["encrypted", "encrypted as by old releases of Java", "without a password"],
)
async def test_truststores_of_java(
    tmp_path: Path,
    authority: Authority,
    broker: Certificate,
    form: tuple[str, ...],
    password: str | None,
) -> None:
    pem, store = tmp_path / "ca.pem", tmp_path / "trusted.p12"
    pem.write_text(authority.pem)
    keytool(
        *form,
        *("-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", store),
        *("-storetype", "PKCS12", "-storepass", PASSWORD),
    )
    options = TlsOptions(
        truststore_location=str(store),
        truststore_password=None if password is None else Secret(password),
    )
    with TlsServer(broker.server_context()) as server:
        assert await talk(server, options) == b"ping"


@needs_keytool
async def test_the_command_that_converts_a_keystore_of_java(
    tmp_path: Path,
    authority: Authority,
    client: Certificate,
    our_server: TlsServer,
) -> None:
    """The command out of the message is run, and what it makes logs in."""
    pkcs12, store = tmp_path / "given.pkcs12", tmp_path / "client's own.jks"
    pkcs12.write_bytes(client.pkcs12(PASSWORD))
    passwords = ("-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, "-noprompt")
    keytool(
        *("-importkeystore", "-srckeystore", pkcs12, "-srcstoretype", "PKCS12"),
        *("-destkeystore", store, "-deststoretype", "JKS", *passwords),
    )
    message = refusal(TlsOptions(keystore_location=str(store), keystore_password=Secret(PASSWORD)))
    found = re.search(
        r"Convert it with `(keytool .*)`, and set ssl_keystore_location=(.*)$", message
    )
    assert found is not None, message
    command = shlex.split(found[1])
    assert command[-2:] == ["-deststoretype", "PKCS12"]
    keytool(*command[1:], *passwords)
    options = TlsOptions(
        truststore_type="PEM",
        truststore_certificates=authority.pem,
        keystore_location=str(store.with_suffix(".p12")),
        keystore_password=Secret(PASSWORD),
    )
    assert repr(options.keystore_location) == found[2]
    with our_server as server:
        assert await talk(server, options) == b"ping"
        assert server.clients == ["client"]


@pytest.mark.parametrize(
    ("magic", "kind"), [(b"\xfe\xed\xfe\xed", "JKS"), (b"\xce\xce\xce\xce", "JCEKS")]
)
def test_a_keystore_of_java_is_recognized_by_its_first_bytes(
    tmp_path: Path, magic: bytes, kind: str
) -> None:
    path = tmp_path / "trusted.p12"
    path.write_bytes(magic + b"\x00\x00\x00\x02")
    said = refusal(TlsOptions(truststore_location=str(path), truststore_type="PKCS12"))
    assert f"-srcstoretype {kind} -destkeystore {path}.p12 -deststoretype PKCS12`" in said
    assert f"set ssl_truststore_location='{path}.p12'" in said


def test_pkcs12_without_cryptography_names_the_extra(
    tmp_path: Path, client: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    path.write_bytes(client.pkcs12())
    real_import = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real_import(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'aioproducer\[tls\]'"):
        make_context(TlsOptions(keystore_location=str(path)))
    path.write_text(client.pem())
    make_context(TlsOptions(keystore_location=str(path)))
