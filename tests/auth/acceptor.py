"""A broker's side of GSSAPI, written from RFC 4752 over MIT Kerberos, for these tests."""

from __future__ import annotations

from pathlib import Path


class Acceptor:
    """One login, seen from the server; each answer is the next challenge."""

    def __init__(self, keytab: Path, *, offer: bytes = b"\x01\x00\x00\x00") -> None:
        import gssapi

        credentials = gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._offer = offer
        self._offered = False
        self.chosen: bytes | None = None
        """The client's layer and size."""
        self.authorized: bytes | None = None
        """Whom the client wants to act for."""

    @property
    def authenticated(self) -> str:
        return str(self._context.initiator_name)

    def answer(self, response: bytes) -> bytes:
        if not self._context.complete:
            return self._context.step(response) or b""
        if not self._offered:
            assert response == b""
            self._offered = True
            wrapped: bytes = self._context.wrap(self._offer, False).message
            return wrapped
        unwrapped = self._context.unwrap(response)
        assert not unwrapped.encrypted
        self.chosen, self.authorized = unwrapped.message[:4], unwrapped.message[4:]
        return b""
