"""GSSAPI: Kerberos tickets, from a keytab or from a ticket cache.

:func:`kerberos_login` reads the options. The package ``gssapi`` (extra ``gssapi``) talks to MIT
Kerberos, which reads ``krb5.conf`` and asks the KDC. Source: RFC 4752; Kafka's
``SaslClientAuthenticator`` and Java's ``GssKrb5Client``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final

from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.mechanism import Login, Mechanism, Options
from aioproducer.errors import (
    ConfigError,
    IllegalSaslStateError,
    MissingExtraError,
    ProducerError,
    SaslAuthenticationFailedError,
    TokenEndpointError,
)
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.foundation.secret import Secret

if TYPE_CHECKING:
    import gssapi
    from gssapi.raw.misc import GSSError

__all__ = ["Gssapi", "GssapiExchange", "KerberosLogin", "kerberos_login"]

_NO_LAYER: Final = 0x01
"""The bit that says that messages after the login are neither signed nor encrypted by GSSAPI, the
only way Kafka knows."""

_KRB5: Final = 0x96C73A00
"""Where the error codes of MIT's krb5 begin; those of RFC 4120 come first."""
_PASSING: Final = {
    _KRB5 + 21: "the principal is not valid yet",
    _KRB5 + 29: "the KDC's service is unavailable",
    _KRB5 + 33: "the ticket is not valid yet",
    _KRB5 + 34: "the server considers the request a replay",
    _KRB5 + 155: "the address of no KDC can be resolved",
    _KRB5 + 156: "no KDC answers",
}
_ADVICE: Final = {
    _KRB5 + 6: (
        "The KDC does not know the client's principal: check the principal in sasl_jaas_config"
    ),
    _KRB5 + 7: "The KDC does not know the brokers' principal: service name and host name must be"
    " those of the brokers (sasl_kerberos_service_name, bootstrap_servers, advertised listeners)",
    _KRB5 + 31: "The keytab's key is outdated: create a new keytab for the principal",
    _KRB5 + 32: "The ticket has expired: get a new one, for example with kinit",
    _KRB5 + 37: "The clocks of this machine and the KDC or the broker differ too much",
    _KRB5 + 154: "neither krb5.conf nor DNS names a KDC for the realm",
}


@dataclass(frozen=True, slots=True)
class KerberosLogin(Login):
    """``GSSAPI``: by a keytab, else by the ticket cache."""

    service_name: str
    principal: str | None = None
    """The client's own principal; None: that of the cache or the keytab."""
    keytab: str | None = None
    ticket_cache: str | None = None
    """The ticket cache; None: that of this process's environment."""

    def make(self, options: Options, clock: Callable[[], float]) -> Gssapi:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""
        return Gssapi(self.service_name, self.principal, self.keytab, self.ticket_cache)


def kerberos_login(sources: LoginSources) -> KerberosLogin:
    """The login by the options.

    Raises:
        ConfigError: the service's name is missing, or the JAAS line asks for a password.
    """
    service_name = sources.text("sasl_kerberos_service_name", "serviceName")
    if service_name is None:
        raise ConfigError(
            "sasl_mechanism='GSSAPI' needs sasl_kerberos_service_name (or serviceName in"
            " sasl_jaas_config), the first part of the brokers' principals: 'kafka' for most"
            " clusters"
        )
    principal = sources.text("sasl_kerberos_principal", "principal")
    keytab = sources.text("sasl_kerberos_keytab", "keyTab" if sources.flag("useKeyTab") else None)
    ticket_cache = None
    if sources.jaas is not None and keytab is None:
        if sources.flag("useKeyTab"):
            raise ConfigError(
                "sasl_jaas_config: useKeyTab=true needs keyTab, the path of the keytab file"
            )
        if not sources.flag("useTicketCache"):
            raise ConfigError(
                "sasl_jaas_config: Krb5LoginModule would ask for a password; set "
                "useKeyTab=true with keyTab, or useTicketCache=true"
            )
        ticket_cache = sources.text(None, "ticketCache")
    return KerberosLogin(service_name, principal, keytab, ticket_cache)


class Gssapi(Mechanism):
    """Kerberos with the tickets of one principal.

    ``keytab``: the file with the principal's key; tickets are got with it, again before they
    expire, and kept in memory. Without one tickets are taken from a cache (``ticket_cache``, or the
    default one), where somebody else renews them: ``kinit``, ``k5start``. The cache is read again
    at each login; with a ``ticket_cache`` it comes before the keytab.

    Raises:
        MissingExtraError: the package ``gssapi`` is not installed, or lacks its C library.
        ConfigError: the service has no name.
    """

    __slots__ = ("_acquiring", "_options", "_use_ticket_cache", "name")

    def __init__(
        self,
        service_name: str = "kafka",
        principal: str | None = None,
        keytab: str | None = None,
        ticket_cache: str | None = None,
    ) -> None:
        if not service_name or "@" in service_name or "/" in service_name:
            raise ConfigError(
                f"sasl_kerberos_service_name={service_name!r} is not a service name: "
                "use the part of the brokers' principal before the '/', such as "
                "'kafka'"
            )
        _require_library()
        self.name = "GSSAPI"
        self._acquiring = free_lock()
        """One login at a time asks the KDC; the others find the ticket in memory."""
        self._use_ticket_cache = keytab is None or ticket_cache is not None
        self._options = KerberosLogin(service_name, principal, keytab, ticket_cache)

    async def begin(self, host: str) -> GssapiExchange:
        """Start a login at ``service@host``; the KDC is asked by the first step."""
        return GssapiExchange(self, f"{self._options.service_name}@{host}")

    def credentials(self) -> gssapi.Credentials:
        """Credentials that last; blocks while the KDC is asked.

        Raises:
            GSSError: there are none.
        """
        from gssapi.raw.misc import GSSError

        with self._acquiring:
            if not self._use_ticket_cache:
                return self._acquire(self._of_keytab())
            try:
                return self._acquire(self._of_ticket_cache())
            except GSSError:
                if self._options.keytab is None:
                    raise
                return self._acquire(self._of_keytab())

    @property
    def source(self) -> str:
        """The place that tickets come from, for messages."""
        options = self._options
        keytab = f"the keytab {options.keytab}"
        cache = f"the ticket cache {options.ticket_cache or '(the default one)'}"
        whose = f" for {options.principal}" if options.principal else ""
        if not self._use_ticket_cache:
            return keytab + whose
        return (cache if options.keytab is None else f"{cache} and {keytab}") + whose

    def _acquire(self, store: dict[str | bytes, str | bytes]) -> gssapi.Credentials:
        import gssapi

        principal = self._options.principal
        name = principal and gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(
            name=name or None,
            usage="initiate",
            mechs=[gssapi.MechType.kerberos],
            store=store or None,
        )
        _ = credentials.lifetime  # an error where tickets have expired
        return credentials

    def _of_keytab(self) -> dict[str | bytes, str | bytes]:
        """MIT Kerberos gets tickets when the cache in memory has none, or old ones.

        The cache is named after its tickets: the producers of a process share them.
        """
        keytab = self._options.keytab or ""
        owner = sha256(f"{keytab}\0{self._options.principal or ''}".encode()).hexdigest()
        return {"client_keytab": keytab, "ccache": f"MEMORY:aioproducer-{owner[:32]}"}

    def _of_ticket_cache(self) -> dict[str | bytes, str | bytes]:
        cache = self._options.ticket_cache
        return {} if cache is None else {"ccache": cache}


class _State(Enum):
    CONTEXT = auto()
    """Tokens go to and fro until both sides have a security context."""
    LAYER = auto()
    """The server offers its security layers next."""
    OVER = auto()


class GssapiExchange:
    """One login: the tokens of a security context, then the agreement on no security layer.

    ``complete`` becomes true with the last response, which must still be sent. The server proved
    itself before that: the context is mutual, and its offer was signed.
    """

    blocking: ClassVar[bool] = True
    sent_secrets: ClassVar[tuple[Secret, ...]] = ()
    refusal: ClassVar[None] = None
    __slots__ = ("_context", "_mechanism", "_state", "_target", "complete")

    def __init__(self, mechanism: Gssapi, target: str) -> None:
        self._mechanism = mechanism
        self._target = target
        self._context: gssapi.SecurityContext | None = None
        self._state = _State.CONTEXT
        self.complete = False

    def step(self, challenge: bytes) -> bytes:
        """See :class:`aioproducer.auth.mechanism.Exchange`.

        Raises:
            SaslAuthenticationFailedError: there is no ticket, or the server can't be trusted.
            TokenEndpointError: the KDC does not answer at present.
            IllegalSaslStateError: the server sent a challenge out of turn.
        """
        from gssapi.raw.misc import GSSError

        state, self._state = self._state, _State.OVER
        try:
            if state is _State.CONTEXT and self._context is None and not challenge:
                return self._begin()
            if state is _State.CONTEXT and self._context is not None and challenge:
                return self._go_on(self._context, challenge)
            if state is _State.LAYER and self._context is not None and challenge:
                return self._agree(self._context, challenge)
        except GSSError as error:
            failure = self._failure(error)
        else:
            raise IllegalSaslStateError(
                f"GSSAPI: the server of {self._target} sent {'an' if challenge else 'an empty,'} "
                "unexpected challenge"
            )
        raise failure

    def _begin(self) -> bytes:
        import gssapi

        self._context = gssapi.SecurityContext(
            name=gssapi.Name(self._target, gssapi.NameType.hostbased_service),
            creds=self._mechanism.credentials(),
            mech=gssapi.MechType.kerberos,
            flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
            usage="initiate",
        )
        token = self._context.step()
        self._state = _State.CONTEXT
        return token or b""

    def _go_on(self, context: gssapi.SecurityContext, challenge: bytes) -> bytes:
        import gssapi

        token = context.step(challenge)
        if not context.complete:
            self._state = _State.CONTEXT
            return token or b""
        wanted = {gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity}
        if not wanted <= set(context.actual_flags):
            raise self._refused("the server did not prove that it is the one named in the ticket")
        self._state = _State.LAYER
        return token or b""

    def _agree(self, context: gssapi.SecurityContext, challenge: bytes) -> bytes:
        """Section 3.1 of RFC 4752: a bit mask of layers, and a size that no layer has a use for."""
        offer = context.unwrap(challenge).message
        if len(offer) != 4:
            raise self._refused(
                f"the server's offer of security layers has {len(offer)} bytes, not 4"
            )
        if not offer[0] & _NO_LAYER:
            raise self._refused(
                "the server requires a security layer, which Kafka's protocol does "
                "not support; use SASL_SSL"
            )
        principal = str(context.initiator_name).encode()
        response: bytes = context.wrap(bytes([_NO_LAYER, 0, 0, 0]) + principal, False).message
        self.complete = True
        return response

    def _refused(self, what: str) -> SaslAuthenticationFailedError:
        return SaslAuthenticationFailedError(f"GSSAPI: the login at {self._target} failed: {what}")

    def _failure(self, error: GSSError) -> ProducerError:
        """``error`` as one of ours; its text names principals, realms and files, never a key."""
        import gssapi

        code = error.min_code & 0xFFFFFFFF
        said = "; ".join(_sentences(error))
        if (passing := _PASSING.get(code)) is not None:
            return TokenEndpointError(
                f"GSSAPI: no ticket for {self._target} at the moment, {passing}: {said}"
            )
        no_ticket = (
            gssapi.exceptions.MissingCredentialsError,
            gssapi.exceptions.ExpiredCredentialsError,
            gssapi.exceptions.InvalidCredentialsError,
        )
        advice = _ADVICE.get(code, "")
        if isinstance(error, no_ticket) and not advice:
            advice = (
                f"No ticket in {self._mechanism.source} is usable: check that the file "
                "exists, is readable and contains the principal, and that its tickets "
                "have not expired (klist)"
            )
        return self._refused(f"{said}. {advice}".rstrip(". ") + ".")


def _sentences(error: GSSError) -> list[str]:
    """The library's words for both codes, the general and Kerberos' own."""
    general = error.get_all_statuses(error.maj_code, True)
    return [*general, *error.get_all_statuses(error.min_code, False)]


def _require_library() -> None:
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        missing = MissingExtraError(
            "GSSAPI needs the package gssapi: pip install 'aioproducer[gssapi]'. The "
            "package has no wheels for Linux: pip compiles it, which on Debian needs "
            "apt-get install libkrb5-dev gcc python3-dev. At run time "
            f"libgssapi-krb5-2 is enough. The import failed with: {error}"
        )
    else:
        return
    raise missing
