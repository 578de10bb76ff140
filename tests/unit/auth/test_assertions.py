"""aioproducer.auth.token_endpoint: what is signed, with which key, checked by its public half."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from aioproducer.auth.token_endpoint import AssertionFile, SignedAssertion
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, TokenError
from tests.support.clock import Clock
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def write(path: Path, key: Any, password: bytes | None = None) -> Path:
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return path


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def parts(assertion: Secret) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    content, _, signature = assertion.reveal().rpartition(".")
    header, payload = (json.loads(decoded(part)) for part in content.split("."))
    return header, payload, content.encode(), decoded(signature)


def test_rs256(tmp_path: Path) -> None:
    assertion = SignedAssertion(
        write(tmp_path / "key.pem", rsa_key()),
        Clock(NOW),
        claims=(("iss", "me"), ("aud", "idp"), ("sub", "you")),
    ).create()
    header, payload, content, signature = parts(assertion)
    assert header == {"alg": "RS256", "typ": "JWT"}
    now = int(NOW)
    assert payload == {
        "iss": "me", "aud": "idp", "sub": "you", "iat": now, "exp": now + 300, "nbf": now - 60,
    }  # fmt: skip
    rsa_key().public_key().verify(signature, content, padding.PKCS1v15(), hashes.SHA256())


def test_es256_with_a_passphrase(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = write(tmp_path / "key.pem", key, b"s3cr3t")
    signed = SignedAssertion(file, Clock(NOW), "es256", Secret("s3cr3t"))
    header, _, content, signature = parts(signed.create())
    assert header["alg"] == "ES256"
    assert len(signature) == 64, "R and S as they are, not DER"
    whole = encode_dss_signature(
        int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    )
    key.public_key().verify(whole, content, ec.ECDSA(hashes.SHA256()))
    assert "s3cr3t" not in repr(signed)


def test_layers_replace_each_other_as_in_kafka(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps(
            {"header": {"kid": "k", "alg": "none"}, "payload": {"iss": "file", "exp": 1, "x": [1]}}
        )
    )
    signed = SignedAssertion(
        write(tmp_path / "key.pem", rsa_key()),
        Clock(NOW),
        claims=(("iss", "option"), ("aud", "idp")),
        template_file=template,
        seconds=(10, 0),
        include_jti=True,
    )
    header, payload, _, _ = parts(signed.create())
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "k"}
    assert payload.pop("jti") != parts(signed.create())[1]["jti"]
    now = int(NOW)
    assert payload == {
        "iss": "file", "aud": "idp", "x": [1], "iat": now, "exp": now + 10, "nbf": now,
    }  # fmt: skip
    for wrong in ("[]", "s3cr3t", '{"header": 7}', '{"payload": []}'):
        template.write_text(wrong)
        with pytest.raises(TokenError, match="template") as caught:
            signed.create()
        assert "s3cr3t" not in everything_in(caught.value)


@pytest.mark.parametrize(
    ("key", "password", "algorithm", "passphrase", "told"),
    [
        (rsa_key(), None, "ES256", None, "not contain a key on the curve P-256"),
        (
            ec.generate_private_key(ec.SECP384R1()),
            None,
            "ES256",
            None,
            "not contain a key on the curve P-256",
        ),
        (ec.generate_private_key(ec.SECP256R1()), None, "RS256", None, "not contain an RSA key"),
        (rsa_key(), b"right", "RS256", None, "no passphrase is set"),
        (rsa_key(), b"right", "RS256", Secret("wrong s3cr3t"), "passphrase is wrong"),
    ],
)
def test_keys_that_do_not_fit(
    key: Any,
    password: bytes | None,
    algorithm: str,
    passphrase: Secret | None,
    told: str,
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "key.pem", key, password)
    with pytest.raises(TokenError, match=told) as caught:
        SignedAssertion(file, Clock(NOW), algorithm, passphrase).create()
    everything = everything_in(caught.value)
    assert "s3cr3t" not in everything
    assert "PRIVATE KEY" not in everything
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\xff\x00", b"x" * 1_100_000])
def test_files_that_are_no_key(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    with pytest.raises(TokenError, match=r"key\.pem"):
        SignedAssertion(file, Clock(NOW)).create()


def test_a_key_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    signed = SignedAssertion(file, Clock(NOW))
    with pytest.raises(TokenError, match="No such file"):
        signed.create()
    write(file, rsa_key())
    signed.create()


def test_an_algorithm_that_kafka_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="RS256 or ES256"):
        SignedAssertion(tmp_path, Clock(NOW), "none")


def test_an_assertion_that_others_make(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text(jwt({"iss": "me"}) + "\n")
    assert AssertionFile(file).create().reveal() == jwt({"iss": "me"})
    file.write_text("s3cr3t")
    with pytest.raises(TokenError, match="contains no JWT") as caught:
        AssertionFile(file).create()
    assert "s3cr3t" not in everything_in(caught.value)
