"""A real token endpoint for tests: `no.nav.security:mock-oauth2-server`, in Java.

It gives a signed token to every client, for any secret or signed assertion, and has the keys by
which a broker verifies the token.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from aioproducer.testing.kafka_distribution import (
    KafkaUnavailableError,
    cached_folder,
    copy_jars,
    find_java,
)
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["OAuth2Server"]

_POM: Final = Path(__file__).parent / "pom-oauth2-server.xml"
_SHA256: Final = "42befa11a0aa6024a2aa1d4ac764924e2342df16bcfb2450e5a937d0d92a834a"
_MAIN: Final = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
_HOST: Final = "127.0.0.1"
_START_TIMEOUT: Final = 60.0


class OAuth2Server:
    """A running server; a context manager, whose methods block.

    The ``issuer`` is one path of the server. Its ``token_url`` is for a client's configuration, and
    its ``jwks_url`` is for a broker's.
    """

    def __init__(
        self,
        issuer: str = "kafka",
        *,
        token_seconds: int = 3600,
        claims: dict[str, Any] | None = None,
        others: Mapping[str, int] | None = None,
    ) -> None:
        """Start it. ``claims`` are added to each token; ``token_seconds``: the lifetime of one.

        ``others``: issuers in addition to the first one, each with the seconds of its tokens.

        Raises KafkaUnavailableError if Java, or the first time Maven, is missing.
        """
        java = find_java()
        digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]
        jars = cached_folder(
            f"oauth2-server-{digest}",
            lambda folder: copy_jars("the OAuth 2 server", _POM, folder / "libs", sha256=_SHA256),
        )
        self.issuer = issuer
        self.port = free_ports(1)[0]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
        self._supervisor = ProcessSupervisor()
        try:
            self._process = self._supervisor.start(
                [
                    java.executable,
                    *("-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{jars / 'libs'}/*", _MAIN),
                ],
                stdout=self._log,
                stderr=self._log,
                env={
                    **os.environ,
                    **self._environment({issuer: token_seconds, **(others or {})}, claims or {}),
                },
            )
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        self._supervisor.close()
        self._log.close()

    @property
    def issuer_url(self) -> str:
        """The claim ``iss`` of its tokens."""
        return self.of(self.issuer)

    @property
    def token_url(self) -> str:
        """The address for ``sasl.oauthbearer.token.endpoint.url`` of a client."""
        return f"{self.issuer_url}/token"

    @property
    def jwks_url(self) -> str:
        """The address for ``sasl.oauthbearer.jwks.endpoint.url`` of a broker (of Kafka 4: and its
        property ``org.apache.kafka.sasl.oauthbearer.allowed.urls``)."""
        return f"{self.issuer_url}/jwks"

    def of(self, issuer: str) -> str:
        """The issuer's address, ``issuer_url``; its ``/token`` and its ``/jwks`` are below it."""
        return f"http://{_HOST}:{self.port}/{issuer}"

    def log(self) -> str:
        """The output of the server."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _environment(self, seconds: dict[str, int], claims: dict[str, Any]) -> dict[str, str]:
        callbacks = [
            {
                "issuerId": issuer,
                "tokenExpiry": good_for,
                "requestMappings": [
                    {
                        "requestParam": "grant_type",
                        "match": "*",
                        "claims": {"sub": "${clientId}", "aud": ["kafka"], **claims},
                    }
                ],
            }
            for issuer, good_for in seconds.items()
        ]
        config = {"interactiveLogin": False, "tokenCallbacks": callbacks}
        return {
            "SERVER_HOSTNAME": _HOST,
            "SERVER_PORT": str(self.port),
            "JSON_CONFIG": json.dumps(config),
        }

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{_HOST}:{self.port}/isalive", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise KafkaUnavailableError(f"the OAuth 2 server did not start:\n{self.log()[-4000:]}")
