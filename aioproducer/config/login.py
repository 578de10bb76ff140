"""The logins that a configuration can ask for, and the one that it asks for.

Each kind of login, and each source of tokens for ``OAUTHBEARER``, is a frozen value of a class of
its own. :func:`login_of` makes the value from the keywords or the JAAS line; ``auth/configured.py``
makes the mechanism from it.

Names and parameters of the tokens that a cloud gives its machines
(``sasl.oauthbearer.metadata.authentication.type``) are librdkafka's, which has ``azure_imds``, and
confluent-kafka's, which has ``aws_iam`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, get_args
from urllib.parse import unquote, urlsplit

from aioproducer.config.addresses import EVENT_HUBS
from aioproducer.config.jaas import LoginSources, mechanisms_of_module, plain_class_name
from aioproducer.config.kinds import Extensions, ProviderOption, UnacceptableError
from aioproducer.config.options import SaslMechanism
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.options import OptionTable

__all__ = [
    "AssertionSettings",
    "AssertionFileSettings",
    "AwsLogin",
    "AwsToken",
    "AwsWebIdentityToken",
    "AzureImdsToken",
    "AzureToken",
    "ClientCredentialsSettings",
    "GcpToken",
    "JwtBearerSettings",
    "KerberosLogin",
    "Login",
    "OAuthLogin",
    "PlainLogin",
    "ProvidedLogin",
    "ProvidedToken",
    "ScramLogin",
    "SignedAssertionSettings",
    "TokenFileSettings",
    "TokenSettings",
    "metadata_settings",
    "oauth_login",
    "asks_over_https",
    "read_login",
    "login_of",
    "mechanism_name_of",
]


@dataclass(frozen=True, slots=True)
class PlainLogin:
    """``PLAIN``: user name and password go over the connection."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: Secret
    token_auth: bool = False
    """The user name is the id of a delegation token, the password its HMAC (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ProvidedLogin:
    """``PLAIN`` or ``SCRAM-…`` with the credentials that the user's own code provides."""

    mechanism: str
    provider: ProviderOption
    token_auth: bool = False


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """``GSSAPI``: by a keytab, else by the ticket cache."""

    service_name: str
    principal: str | None = None
    """The client's own principal; None: that of the cache or the keytab."""
    keytab: str | None = None
    ticket_cache: str | None = None
    """The ticket cache; None: that of this process's environment."""


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """``AWS_MSK_IAM``; by default with AWS's own chain of credentials."""

    region: str | None = None
    profile_name: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    role_external_id: str | None = None
    role_access_key_id: str | None = None
    """The key that asks for the role, instead of the chain's."""
    role_secret_access_key: Secret | None = None
    role_session_token: Secret | None = None
    sts_region: str | None = None


@dataclass(frozen=True, slots=True)
class ProvidedToken:
    """Tokens that the user's own code provides."""

    provider: ProviderOption


@dataclass(frozen=True, slots=True)
class TokenFileSettings:
    """Tokens that another program writes into a file."""

    path: str


@dataclass(frozen=True, slots=True)
class AssertionFileSettings:
    """Signed assertions that another program writes into a file."""

    path: str


@dataclass(frozen=True, slots=True)
class SignedAssertionSettings:
    """Assertions that are signed here (KIP-1139)."""

    private_key_file: str
    private_key_passphrase: Secret | None
    algorithm: str
    template_file: str | None
    audience: str | None
    issuer: str | None
    subject: str | None
    expires_seconds: int
    not_before_seconds: int
    with_id: bool


AssertionSettings: TypeAlias = AssertionFileSettings | SignedAssertionSettings


@dataclass(frozen=True, slots=True)
class ClientCredentialsSettings:
    """The grant ``client_credentials``: with a secret, or with an assertion instead of it."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    client_id: str | None
    client_secret: Secret | None
    scope: str | None
    header_urlencode: bool
    assertion: AssertionSettings | None = None


@dataclass(frozen=True, slots=True)
class JwtBearerSettings:
    """The grant ``jwt-bearer`` (RFC 7523)."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    scope: str | None
    assertion: AssertionSettings


@dataclass(frozen=True, slots=True)
class AwsToken:
    """Tokens for Amazon MSK, made of AWS credentials."""

    credentials: AwsLogin


@dataclass(frozen=True, slots=True)
class AwsWebIdentityToken:
    """Tokens of AWS STS, for brokers that trust AWS as their identity provider."""

    region: str
    audience: str
    duration_seconds: int
    signing_algorithm: str
    tags: tuple[tuple[str, str], ...] = ()
    sts_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class AzureToken:
    """Tokens of Microsoft Entra for a managed or workload identity."""

    resource: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class AzureImdsToken:
    """Tokens of Azure's instance metadata service, by a query of the user's own."""

    url: str = field(repr=False)
    """Not shown: its query may hold a key."""


@dataclass(frozen=True, slots=True)
class GcpToken:
    """Tokens of Google's metadata server, in the form that its Kafka brokers take."""


TokenSettings: TypeAlias = (
    ProvidedToken
    | TokenFileSettings
    | ClientCredentialsSettings
    | JwtBearerSettings
    | AwsToken
    | AwsWebIdentityToken
    | AzureToken
    | AzureImdsToken
    | GcpToken
)


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """``OAUTHBEARER``. Timeouts and the window of refreshes are options of their own."""

    source: TokenSettings
    extensions: tuple[tuple[str, str], ...] = ()


Login: TypeAlias = PlainLogin | ScramLogin | ProvidedLogin | KerberosLogin | AwsLogin | OAuthLogin


_TYPE: Final = "sasl_oauthbearer_metadata_authentication_type"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_GCP_HANDLER: Final = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
_IMDS_URL: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_COMMA: Final = r"(?<!\\),"
_TAG: Final = "tag_"
_NAMES: Final[dict[str, str]] = {
    "azure": "resource|client_id",
    "azure_imds": "query",
    "aws_iam": ("region|audience|duration_seconds|signing_algorithm|sts_endpoint|aws_debug|tag_.+"),
    "gcp": "",
}
"""The keys of each type, as a pattern."""
_AWS_SECONDS: Final = "300"
_AWS_ALGORITHM: Final = "ES384"


def metadata_settings(sources: LoginSources) -> TokenSettings | None:
    """The source of tokens that needs no secret; None: none is asked for.

    Raises:
        ConfigError: a parameter is missing, unknown, or has no use.
    """
    config = sources.config
    kind = config.sasl_oauthbearer_metadata_authentication_type
    handler = config.sasl_login_callback_handler_class
    if kind == "none" and handler is not None and plain_class_name(handler) == _GCP_HANDLER:
        kind = "gcp"
    if kind == "none":
        if config.sasl_oauthbearer_config is not None:
            raise ConfigError(f"{_PARAMETERS} has no use without {_TYPE}: set that, or remove it")
        return None
    return _READERS[kind](config, _parameters(kind, config.sasl_oauthbearer_config or ""))


def _parameters(kind: str, text: str) -> dict[str, str]:
    """``key=value,key=value``; a comma in a value is written as ``\\,``."""
    found = {}
    for each in re.split(_COMMA, text) if text.strip() else ():
        name, sign, value = (part.strip() for part in each.partition("="))
        if not sign or not value:
            raise ConfigError(
                f"{_PARAMETERS} must have the form 'key=value,key=value', with '\\,' for a comma in"
                " a value (it is not shown because it may contain a secret)"
            )
        if not re.fullmatch(_NAMES[kind], name):
            known = _NAMES[kind].replace("|", ", ").replace(".+", "NAME")
            told = f"its keys are {known}" if known else "it has none: remove the option"
            raise ConfigError(
                f"{_PARAMETERS}: the key {name[:100]!r} is unknown for {_TYPE}={kind!r}; {told}"
            )
        found[name] = value.replace("\\,", ",")
    return found


def _azure(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    resource = parameters.get("resource") or _event_hubs(config)
    if resource is None:
        raise ConfigError(
            f"{_TYPE}='azure' needs {_PARAMETERS}='resource=…', the application ID URI of the"
            " cluster: no name in bootstrap_servers is one of Azure Event Hubs"
        )
    return AzureToken(resource, parameters.get("client_id"))


def _event_hubs(config: OptionTable) -> str | None:
    """The resource of the first host of Event Hubs, as in Microsoft's samples for Java."""
    named = (host.lower() for host, _ in config.bootstrap_servers)
    return next((f"https://{host}" for host in named if host.endswith(EVENT_HUBS)), None)


def _azure_imds(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    url = config.sasl_oauthbearer_token_endpoint_url
    query = parameters.get("query")
    if url is None and query is None:
        raise ConfigError(
            f"{_TYPE}='azure_imds' needs {_PARAMETERS}='query=api-version=2018-02-01&resource=…'"
            " (librdkafka's form), or the whole address as sasl_oauthbearer_token_endpoint_url;"
            f" {_TYPE}='azure' needs neither for Event Hubs"
        )
    url = url or _IMDS_URL
    if query is not None:
        url = f"{url}{'&' if '?' in url else '?'}{query}"
    return AzureImdsToken(url)


def _aws_iam(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    region = parameters.get("region") or config.sasl_aws_region
    audience = parameters.get("audience")
    if region is None or audience is None:
        raise ConfigError(
            f"{_TYPE}='aws_iam' needs {_PARAMETERS}='region=…,audience=…'; for Amazon MSK set"
            " sasl_mechanism='AWS_MSK_IAM' instead"
        )
    if parameters.get("aws_debug", "none").lower() != "none":
        raise ConfigError(f"{_PARAMETERS}: aws_debug would print credentials: remove it")
    seconds = parameters.get("duration_seconds", _AWS_SECONDS)
    if not re.fullmatch("[0-9]{1,9}", seconds):
        raise ConfigError(f"{_PARAMETERS}: duration_seconds={seconds!r} must be a number")
    return AwsWebIdentityToken(
        region,
        audience,
        int(seconds),
        parameters.get("signing_algorithm", _AWS_ALGORITHM),
        tuple(
            (name.removeprefix(_TAG), value)
            for name, value in sorted(parameters.items())
            if name.startswith(_TAG)
        ),
        parameters.get("sts_endpoint"),
    )


def _gcp(config: OptionTable, parameters: dict[str, str]) -> TokenSettings:
    return GcpToken()


_READERS: Final[dict[str, Callable[[OptionTable, dict[str, str]], TokenSettings]]] = {
    "azure": _azure,
    "azure_imds": _azure_imds,
    "aws_iam": _aws_iam,
    "gcp": _gcp,
}


_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_RETRIEVER: Final = re.compile(
    rf"(?:{re.escape(_OAUTH)}\.)?(Default|ClientCredentials|JwtBearer|File)JwtRetriever"
)
_HANDLERS: Final = frozenset(
    {
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.internals.OAuthBearerSaslClientCallbackHandler",
    }
)
_ADVICE: Final = {
    "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler": (
        "set sasl_oauthbearer_metadata_authentication_type='azure'"
    ),
}
_LOCAL_HOSTS: Final = ("", "localhost")
_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"
_CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"


def oauth_login(sources: LoginSources) -> OAuthLogin:
    """The login by token.

    Raises:
        ConfigError: an option is missing, contradicts, or is a Java class that is not known here.
    """
    return OAuthLogin(_source(sources), _extensions(sources))


def _source(sources: LoginSources) -> TokenSettings:
    config = sources.config
    if config.sasl_oauthbearer_token_provider is not None:
        return _provided(config)
    if (settings := metadata_settings(sources)) is not None:
        return settings
    for name in ("sasl_login_callback_handler_class", "sasl_client_callback_handler_class"):
        _check_handler(name, getattr(config, name))
    if sources.beginning_with("unsecuredLogin"):
        raise ConfigError(
            "sasl_jaas_config: unsecuredLogin… creates unsigned tokens, which is not "
            "supported; provide such a token with sasl_oauthbearer_token_provider"
        )
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        raise ConfigError(
            f"sasl_mechanism='OAUTHBEARER' needs sasl_oauthbearer_token_provider, or {_URL} with"
            f" {_CLIENT_ID} and {_CLIENT_SECRET}, or {_METADATA}"
        )
    return _from_url(url, sources)


def _provided(config: OptionTable) -> ProvidedToken:
    for name in (_URL, _CLIENT_ID, _CLIENT_SECRET, _METADATA):
        if getattr(config, name) not in (None, "none"):
            raise ConfigError(
                f"sasl_oauthbearer_token_provider and {name} are two sources of tokens: set only "
                "one"
            )
    provider = config.sasl_oauthbearer_token_provider
    if provider is None:
        raise ConfigError("sasl_oauthbearer_token_provider is not set")
    return ProvidedToken(provider)


def _check_handler(name: str, handler: str | None) -> None:
    if handler is None or plain_class_name(handler) in _HANDLERS:
        return
    advice = _ADVICE.get(
        plain_class_name(handler),
        "remove it, and provide tokens with sasl_oauthbearer_token_provider or an endpoint",
    )
    raise ConfigError(f"{name}={handler!r}: Java classes cannot be loaded; {advice}")


def _from_url(url: str, sources: LoginSources) -> TokenSettings:
    config = sources.config
    parts = urlsplit(url)
    is_file = parts.scheme.lower() == "file"
    how = _retriever(config, is_file=is_file)
    if is_file != (how == "File") or (not is_file and not parts.netloc):
        wanted = "a file, 'file:///…'" if how == "File" else "a URL, 'https://…'"
        raise ConfigError(f"{_URL} must be {wanted} for tokens from {how}JwtRetriever")
    if is_file:
        if parts.netloc not in _LOCAL_HOSTS or not parts.path.startswith("/"):
            raise ConfigError(
                f"{_URL} is not a local file; write it as file:///var/run/secrets/token"
            )
        return TokenFileSettings(unquote(parts.path))
    if parts.scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{_URL} must begin with 'https://' (or 'file:', 'http://' in tests)")
    scope = sources.text("sasl_oauthbearer_scope", "scope")
    if how == "JwtBearer":
        return JwtBearerSettings(url, scope, _assertion(config))
    return _client_credentials(url, scope, sources)


def _retriever(config: OptionTable, *, is_file: bool) -> str:
    name = config.sasl_oauthbearer_jwt_retriever_class
    known = _RETRIEVER.fullmatch(plain_class_name(name))
    if known is None:
        raise ConfigError(
            f"sasl_oauthbearer_jwt_retriever_class={name!r}: Java classes cannot be "
            "loaded; supported are Kafka's DefaultJwtRetriever, "
            "ClientCredentialsJwtRetriever, JwtBearerJwtRetriever and "
            "FileJwtRetriever; set your own as sasl_oauthbearer_token_provider"
        )
    if known[1] == "Default":
        return "File" if is_file else "ClientCredentials"
    return known[1]


def _client_credentials(
    url: str, scope: str | None, sources: LoginSources
) -> ClientCredentialsSettings:
    config = sources.config
    client_id = sources.text(_CLIENT_ID, "clientId")
    secret = sources.secret(_CLIENT_SECRET, "clientSecret")
    assertion = None
    if (
        config.sasl_oauthbearer_assertion_file is not None
        or config.sasl_oauthbearer_assertion_claim_iss is not None
    ):
        assertion = _assertion(config)
    elif client_id is None or secret is None:
        missing, jaas_name = (
            (_CLIENT_ID, "clientId") if client_id is None else (_CLIENT_SECRET, "clientSecret")
        )
        raise ConfigError(
            f"tokens of {_URL} need {missing} (or {jaas_name} in sasl_jaas_config), or an assertion"
            " by the options sasl_oauthbearer_assertion_…"
        )
    urlencode = config.sasl_oauthbearer_header_urlencode
    return ClientCredentialsSettings(url, client_id, secret, scope, urlencode, assertion)


def _assertion(config: OptionTable) -> AssertionSettings:
    if config.sasl_oauthbearer_assertion_file is not None:
        return AssertionFileSettings(config.sasl_oauthbearer_assertion_file)
    key = config.sasl_oauthbearer_assertion_private_key_file
    if key is None:
        raise ConfigError(
            "an assertion needs sasl_oauthbearer_assertion_private_key_file to sign it, or"
            " sasl_oauthbearer_assertion_file with a signed one"
        )
    return SignedAssertionSettings(
        private_key_file=key,
        private_key_passphrase=config.sasl_oauthbearer_assertion_private_key_passphrase,
        algorithm=config.sasl_oauthbearer_assertion_algorithm,
        template_file=config.sasl_oauthbearer_assertion_template_file,
        audience=config.sasl_oauthbearer_assertion_claim_aud,
        issuer=config.sasl_oauthbearer_assertion_claim_iss,
        subject=config.sasl_oauthbearer_assertion_claim_sub,
        expires_seconds=config.sasl_oauthbearer_assertion_claim_exp_seconds,
        not_before_seconds=config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        with_id=config.sasl_oauthbearer_assertion_claim_jti_include,
    )


def _extensions(sources: LoginSources) -> tuple[tuple[str, str], ...]:
    of_line = sources.beginning_with("extension_")
    try:
        Extensions().accept(of_line)
    except UnacceptableError:
        raise ConfigError(
            "sasl_jaas_config: extension_NAME=value needs a name of only letters, other than"
            " 'auth', and a printable value"
        ) from None
    return tuple({**of_line, **dict(sources.config.sasl_oauthbearer_extensions)}.items())


_KAFKA: Final = "org.apache.kafka.common.security"
_LOGIN_CLASSES: Final = frozenset(
    {
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    }
)
_CLIENT_HANDLERS: Final = {
    f"{_KAFKA}.authenticator.SaslClientCallbackHandler": None,
    f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler": "OAUTHBEARER",
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "AWS_MSK_IAM",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": "OAUTHBEARER",
}
_MSK_TOKENS: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORDS: Final = ("PLAIN", *_SCRAM)
_KERBEROS_OPTIONS: Final = (
    "sasl_kerberos_service_name",
    "sasl_kerberos_principal",
    "sasl_kerberos_keytab",
)
_MEANT_FOR: Final[dict[str, tuple[str, ...]]] = {
    "sasl_username": _PASSWORDS,
    "sasl_password": _PASSWORDS,
    "sasl_credentials_provider": _PASSWORDS,
    "sasl_kerberos_principal": ("GSSAPI",),
    "sasl_kerberos_keytab": ("GSSAPI",),
    "sasl_aws_profile_name": ("AWS_MSK_IAM",),
    "sasl_aws_role_arn": ("AWS_MSK_IAM",),
    "sasl_oauthbearer_token_provider": ("OAUTHBEARER",),
    "sasl_oauthbearer_client_credentials_client_id": ("OAUTHBEARER",),
    "sasl_oauthbearer_client_credentials_client_secret": ("OAUTHBEARER",),
}
"""The options that name the principal: for another mechanism they are a mistake, not a leftover."""


def login_of(config: OptionTable) -> Login | None:
    """The login of ``config``; None for a protocol without one.

    Raises:
        ConfigError: the mechanism, or something that it needs, is missing, or two options
            contradict each other.
    """
    if not config.security_protocol.startswith("SASL_"):
        return None
    sources = LoginSources(config)
    return read_login(mechanism_name_of(sources), sources)


def read_login(mechanism: SaslMechanism, sources: LoginSources) -> Login:
    """The login of ``sources`` by ``mechanism``. Raises as :func:`login_of`."""
    config = sources.config
    _check_mechanism(mechanism, sources)
    _check_classes(mechanism, config)
    if mechanism in _PASSWORDS:
        return _password_login(mechanism, sources)
    if mechanism == "GSSAPI":
        return _kerberos_login(sources)
    if mechanism == "AWS_MSK_IAM":
        return _aws_login(sources)
    handler = config.sasl_login_callback_handler_class
    provided = config.sasl_oauthbearer_token_provider is not None
    if handler is not None and plain_class_name(handler) == _MSK_TOKENS and not provided:
        return OAuthLogin(AwsToken(_aws_login(sources)))
    return oauth_login(sources)


def asks_over_https(login: Login) -> bool:
    """True if a token's source is asked over HTTPS with the authorities of ``ssl_truststore_…``."""
    match login:
        case OAuthLogin(ClientCredentialsSettings() | JwtBearerSettings() | AzureToken()):
            return True
        case OAuthLogin(ProvidedToken(provider)):
            return hasattr(provider, "tls")  # an AzureIdentity
    return False


def mechanism_name_of(sources: LoginSources) -> SaslMechanism:
    """``sasl_mechanism``, or ``GSSAPI`` where a login of Kerberos is all that is configured.

    Kafka's default is GSSAPI always. A user that forgets the mechanism beside a user name then gets
    an error about Kerberos; an error that asks for the mechanism says what to do.

    Raises:
        ConfigError: the mechanism has to be set.
    """
    config = sources.config
    if config.sasl_mechanism is not None:
        return config.sasl_mechanism
    meant = () if sources.jaas is None else mechanisms_of_module(sources.jaas.login_module)
    if meant == ("GSSAPI",) or (
        not meant and any(getattr(config, name) is not None for name in _KERBEROS_OPTIONS)
    ):
        return "GSSAPI"
    raise ConfigError(
        f"security_protocol={config.security_protocol!r} needs sasl_mechanism, which is not set;"
        f" it is one of {', '.join(meant or get_args(SaslMechanism))}"
        + (" for this login module" if meant else "")
    )


def _check_mechanism(mechanism: str, sources: LoginSources) -> None:
    if sources.jaas is not None:
        meant = mechanisms_of_module(sources.jaas.login_module)
        if mechanism not in meant:
            raise ConfigError(
                f"sasl_mechanism={mechanism!r} and sasl_jaas_config contradict each "
                f"other: the login module is for {' and '.join(meant)}; set "
                "sasl_mechanism to that, or use the JAAS line of the mechanism"
            )
    for name, mechanisms in _MEANT_FOR.items():
        if mechanism not in mechanisms and getattr(sources.config, name) is not None:
            raise ConfigError(
                f"{name} is for sasl_mechanism {' or '.join(map(repr, mechanisms))}, not"
                f" {mechanism!r}: set that, or remove {name}"
            )


def _check_classes(mechanism: str, config: OptionTable) -> None:
    login_class = config.sasl_login_class
    if login_class is not None and plain_class_name(login_class) not in _LOGIN_CLASSES:
        raise ConfigError(
            f"sasl_login_class={login_class!r}: Java classes cannot be loaded; remove it, or "
            "provide tokens with sasl_oauthbearer_token_provider"
        )
    if mechanism == "OAUTHBEARER":
        return  # a token provider can do the work of its handlers
    handler = config.sasl_login_callback_handler_class
    if handler is not None:
        raise ConfigError(
            f"sasl_login_callback_handler_class={handler!r}: Java classes cannot be loaded, and "
            f"{mechanism} needs none; remove it"
        )
    handler = config.sasl_client_callback_handler_class
    if handler is not None:
        meant = _CLIENT_HANDLERS.get(plain_class_name(handler), "")
        if meant == "":
            raise ConfigError(
                f"sasl_client_callback_handler_class={handler!r}: Java classes cannot be loaded; "
                "remove it"
            )
        if meant not in (None, mechanism):
            raise ConfigError(
                f"sasl_client_callback_handler_class={handler!r} is for sasl_mechanism {meant!r},"
                f" not {mechanism!r}"
            )


def _password_login(mechanism: str, sources: LoginSources) -> Login:
    if (provider := sources.config.sasl_credentials_provider) is not None:
        return _provided_login(mechanism, provider, sources)
    username = sources.text("sasl_username", "username")
    password = sources.secret("sasl_password", "password")
    if username is None:
        raise _missing(mechanism, "username")
    if password is None:
        raise _missing(mechanism, "password")
    token_auth = sources.flag("tokenauth")
    if mechanism != "PLAIN":
        return ScramLogin(mechanism, username, password, token_auth)
    return PlainLogin(username, password)


def _provided_login(
    mechanism: str, provider: ProviderOption, sources: LoginSources
) -> ProvidedLogin:
    for keyword, jaas_name in (("sasl_username", "username"), ("sasl_password", "password")):
        if sources.secret(keyword, jaas_name) is not None:
            raise ConfigError(
                f"sasl_credentials_provider and {keyword} (or {jaas_name} in sasl_jaas_config) "
                "are two sources of credentials: set only one"
            )
    return ProvidedLogin(mechanism, provider, sources.flag("tokenauth"))


def _missing(mechanism: str, name: str) -> ConfigError:
    return ConfigError(
        f"sasl_mechanism={mechanism!r} needs sasl_{name}, or {name} in sasl_jaas_config, or"
        " sasl_credentials_provider"
    )


def _kerberos_login(sources: LoginSources) -> KerberosLogin:
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


def _aws_login(sources: LoginSources) -> AwsLogin:
    login = AwsLogin(
        region=sources.text("sasl_aws_region", None),
        profile_name=sources.text("sasl_aws_profile_name", "awsProfileName"),
        role_arn=sources.text("sasl_aws_role_arn", "awsRoleArn"),
        role_session_name=sources.text("sasl_aws_role_session_name", "awsRoleSessionName"),
        role_external_id=sources.text("sasl_aws_role_external_id", "awsRoleExternalId"),
        role_access_key_id=sources.text(None, "awsRoleAccessKeyId"),
        role_secret_access_key=sources.secret(None, "awsRoleSecretAccessKey"),
        role_session_token=sources.secret(None, "awsRoleSessionToken"),
        sts_region=sources.text("sasl_aws_sts_region", "awsStsRegion"),
    )
    if (login.role_access_key_id is None) != (login.role_secret_access_key is None):
        raise ConfigError(
            "sasl_jaas_config: awsRoleAccessKeyId and awsRoleSecretAccessKey belong together"
        )
    if login.role_arn is None:
        for name in ("role_session_name", "role_external_id", "role_access_key_id"):
            if getattr(login, name) is not None:
                raise ConfigError(
                    f"{name} of an AWS login is for a role: set sasl_aws_role_arn (awsRoleArn in"
                    " sasl_jaas_config)"
                )
    return login
