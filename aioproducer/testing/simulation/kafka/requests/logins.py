"""SaslHandshake and SaslAuthenticate with PLAIN and SCRAM, and sessions that end (KIP-368).

Source: Kafka's ``SaslServerAuthenticator``, ``PlainSaslServer``, ``ScramSaslServer``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import lru_cache
from typing import Final

from aioproducer.engine.protocol import Api
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Closing, Login
from aioproducer.testing.simulation.kafka.messages import Fields

_BEFORE_LOGIN: Final = (Api.SASL_HANDSHAKE, Api.API_VERSIONS, Api.SASL_AUTHENTICATE)
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS: Final = 4096
_SALT: Final = b"salt of the simulation"
_NO_CHANNEL_BINDING: Final = "n,,"


def admits(login: Login, api: int, now: float) -> bool:
    """Whether a request may be answered; else the broker ends the connection."""
    if not login.required or api == Api.SASL_HANDSHAKE:
        return True
    if not login.authenticated or login.mechanism is not None:  # it logs in, or logs in again
        return api in _BEFORE_LOGIN
    return login.ends_at is None or now < login.ends_at


def sasl_handshake(call: Call) -> Answer:
    """Choose a mechanism."""
    mechanisms = call.cluster.options.sasl_mechanisms
    if not call.login.required:
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    if call.body.mechanism not in mechanisms:
        return Closing(
            {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": mechanisms}
        )
    call.login.mechanism = call.body.mechanism
    call.login.said = None
    return {"error_code": ErrorCode.NONE, "mechanisms": mechanisms}


def sasl_authenticate(call: Call) -> Answer:
    """One step of the exchange."""
    login = call.login
    if not login.required or login.mechanism is None:
        return _failed(ErrorCode.ILLEGAL_SASL_STATE)
    if call.injected:
        return _failed(call.injected)
    try:
        answer = _step(call, login.mechanism, call.body.auth_bytes)
    except (ValueError, LookupError):
        return _failed(ErrorCode.SASL_AUTHENTICATION_FAILED)
    lifetime = call.cluster.options.session_lifetime_ms
    if login.said is None:  # complete
        login.mechanism = None
        login.authenticated = True
        login.ends_at = call.now + lifetime / 1000 if lifetime else None
    else:
        lifetime = 0
    return _answered(answer, lifetime)


def _step(call: Call, mechanism: str, said: bytes) -> bytes:
    """The broker's next message. Raises ValueError or LookupError if the login fails."""
    passwords = call.cluster.options.credentials or {}
    if mechanism == "PLAIN":
        _, user, password = said.decode().split("\0")
        if passwords[user] != password:
            raise ValueError("a wrong password")
        return b""
    hash_name = _HASHES[mechanism]
    if call.login.said is None:
        first = said.decode()
        if not first.startswith(_NO_CHANNEL_BINDING):
            raise ValueError("another binding")
        bare = first.removeprefix(_NO_CHANNEL_BINDING)
        attributes = _attributes(bare)
        user = attributes["n"].replace("=2C", ",").replace("=3D", "=")
        nonce = attributes["r"] + f"{call.cluster.random.getrandbits(64):x}"
        salt = base64.b64encode(_SALT).decode()
        challenge = f"r={nonce},s={salt},i={_ITERATIONS}"
        call.login.said = (passwords[user], nonce, f"{bare},{challenge}")
        return challenge.encode()
    password, nonce, exchanged = call.login.said
    last = said.decode()
    without_proof, _, proof = last.rpartition(",p=")
    if _attributes(without_proof)["r"] != nonce:
        raise ValueError("another nonce")
    stored, server = _keys(password, hash_name)
    signed = f"{exchanged},{without_proof}".encode()
    signature = hmac.digest(stored, signed, hash_name)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    if hashlib.new(hash_name, key).digest() != stored:
        raise ValueError("a wrong password")
    call.login.said = None
    return b"v=" + base64.b64encode(hmac.digest(server, signed, hash_name))


@lru_cache
def _keys(password: str, hash_name: str) -> tuple[bytes, bytes]:
    """The stored key and the server key (RFC 5802)."""
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), _SALT, _ITERATIONS)
    client = hmac.digest(salted, b"Client Key", hash_name)
    return hashlib.new(hash_name, client).digest(), hmac.digest(salted, b"Server Key", hash_name)


def _attributes(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _answered(said: bytes, lifetime_ms: int) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "auth_bytes": said,
        "session_lifetime_ms": lifetime_ms,
    }


def _failed(code: ErrorCode) -> Closing:
    return Closing(
        {
            "error_code": code,
            "error_message": "Authentication failed: invalid credentials",
            "auth_bytes": b"",
            "session_lifetime_ms": 0,
        }
    )
