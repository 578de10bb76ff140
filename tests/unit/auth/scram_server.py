"""The server's side of SCRAM, written from RFC 5802 for these tests alone."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode


class ScramServer:
    """A server that knows one user; it keeps what a server keeps, and no password."""

    def __init__(
        self,
        digest: str,
        username: str,
        password: bytes,
        *,
        salt: bytes = b"a salt of it",
        iterations: int = 4096,
        nonce: str = "server",
    ) -> None:
        self.digest = digest
        salted = hashlib.pbkdf2_hmac(digest, password, salt, iterations)
        self.stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        self.server_key = hmac.digest(salted, b"Server Key", digest)
        self.username = username
        self.salt = salt
        self.iterations = iterations
        self.nonce = nonce
        self.extensions: list[str] = []
        self._bare = ""
        self._first = ""

    def first(self, message: bytes) -> bytes:
        header, bare = message.decode()[:3], message.decode()[3:]
        assert header == "n,,"
        name, nonce, *self.extensions = bare.split(",")
        assert name[:2] == "n="
        assert name[2:].replace("=2C", ",").replace("=3D", "=") == self.username
        assert nonce[:2] == "r="
        salt = b64encode(self.salt).decode()
        self._bare = bare
        self._first = f"{nonce}{self.nonce},s={salt},i={self.iterations}"
        return self._first.encode()

    def final(self, message: bytes) -> bytes:
        without_proof, _, proof = message.decode().rpartition(",p=")
        assert without_proof == f"c=biws,{self._first.split(',')[0]}"
        login = f"{self._bare},{self._first},{without_proof}".encode()
        signature = hmac.digest(self.stored_key, login, self.digest)
        key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self.digest, key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + b64encode(hmac.digest(self.server_key, login, self.digest))
