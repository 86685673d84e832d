"""Reports why Kafka refuses or closes a connection; aiokafka raises "Unable to bootstrap" for every cause.

Every client of this process, including Faust's, connects through these functions, and each connection uses the newest
content of its password file. A search for the brokers that fails or is cancelled closes its connections; aiokafka
forgets the one that waits for its answer. They replace `create_conn`, `AIOKafkaClient.bootstrap`,
`AIOKafkaConnection.send` and `OAuthAuthenticator` of aiokafka 0.14.0; tests/contract/runtime/test_private_names.py
checks these names.
"""

import asyncio
import datetime as dt
import logging
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import aiokafka.client as client
import aiokafka.conn as connection
from aiokafka import errors
from aiokafka.protocol.admin import SaslHandShakeRequest

from streams.wire.tls_files import FileContext, TlsFiles

_create_conn = client.create_conn
_bootstrap = client.AIOKafkaClient.bootstrap
_send = connection.AIOKafkaConnection.send
_attempts: ContextVar["_Attempts | None"] = ContextVar("attempts", default=None)
_PROBE_S = 5.0

# OpenSSL's codes of certificate verification (openssl/x509_vfy.h).
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNTRUSTED = {2, 18, 19, 20, 21}
_NAME_DIFFERS = {62, 63, 64}

_DENIED = {
    errors.TopicAuthorizationFailedError: "to use the topic",
    errors.GroupAuthorizationFailedError: "to use the consumer group",
    errors.ClusterAuthorizationFailedError: "an operation on the cluster",
    errors.TransactionalIdAuthorizationFailed: "to use the transaction",
}

# The cause is in the error that follows; the configuration refuses a login in clear text off loopback.
_REPEATED = (
    "Unable connect to ",
    'Unable to request metadata from "',
    "Sending username and password",
    "Topic %s is not authorized",
)


@dataclass(slots=True)
class _Attempts:
    """Records what one search for the brokers has tried."""

    causes: list[str] = field(default_factory=list)
    connections: list[Any] = field(default_factory=list)
    is_over: bool = False
    """True after its end; a task that began in it has its context and connects again."""


class ConnectionRefused(errors.KafkaConnectionError):  # type: ignore[misc] # aiokafka is untyped
    """A failed connection to a broker; the text has the address, the cause and the next step."""

    def __str__(self) -> str:
        return str(self.args[0])


class _TokenLogin(connection.OAuthAuthenticator):  # type: ignore[misc] # aiokafka is untyped
    """A login by a token. aiokafka ignores the brokers' refusal, which arrives as data (RFC 7628, section 3.2.2)."""

    async def step(self, payload: bytes | None) -> Any:
        """Return the next message; raises SaslAuthenticationFailed."""
        if payload:
            raise errors.SaslAuthenticationFailed(payload.decode(errors="replace"))
        return await super().step(payload)


def explain_refusals() -> None:
    """Use these functions for all clients of this process; a second call has no effect."""
    client.create_conn = _connect
    client.AIOKafkaClient.bootstrap = _bootstrap_explained
    connection.OAuthAuthenticator = _TokenLogin
    connection.AIOKafkaConnection.send = _send_or_close
    for kind in _DENIED:
        kind.__str__ = _denied
    for name in ("aiokafka", "aiokafka.conn", "aiokafka.cluster"):
        logger = logging.getLogger(name)
        if _is_no_repetition not in logger.filters:
            logger.addFilter(_is_no_repetition)


def _denied(self: errors.KafkaError) -> str:
    """Return one line for an operation that no ACL permits."""
    values = [name for value in self.args for name in (value if isinstance(value, set | frozenset) else (value,))]
    what = f"{_DENIED[type(self)]} {', '.join(sorted(map(str, values)))}".strip()
    return f"Kafka does not permit this user {what}; compare with `railsight acl print`, run `railsight acl check`"


def _is_no_repetition(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_REPEATED)


async def _connect(host: str, port: int, **options: Any) -> Any:
    """Connect as `create_conn` does; raises ConnectionRefused with the cause."""
    newest = getattr(options.get("sasl_plain_password"), "newest", None)
    if newest is not None:
        options["sasl_plain_password"] = newest()
    attempts = _attempts.get()
    if attempts is None or attempts.is_over:
        attempts = _Attempts()
    try:
        made = await _create_conn(host, port, **options)
    except (OSError, errors.KafkaError, TimeoutError) as error:
        cause = f"Kafka at {host}:{port}: {await _cause(error, host, port, options)}"
        attempts.causes.append(cause)
        raise ConnectionRefused(cause) from error
    attempts.connections.append(made)
    return made


async def _bootstrap_explained(self: Any) -> None:
    """Find the brokers as `bootstrap` does; raises ConnectionRefused with the cause of each address."""
    attempts = _Attempts()
    token = _attempts.set(attempts)
    try:
        await _bootstrap(self)
    except BaseException as error:
        for made in attempts.connections:
            made.close()
        if not isinstance(error, errors.KafkaConnectionError):
            raise
        causes = attempts.causes or [await _without_metadata(self, host, port) for host, port, _ in self.hosts]
        raise ConnectionRefused("; ".join(dict.fromkeys(causes))) from error
    finally:
        attempts.is_over = True
        _attempts.reset(token)


async def _cause(error: BaseException, host: str, port: int, options: Mapping[str, Any]) -> str:
    """Return the cause of a failed connection, and the next step."""
    # A broker's alert about our certificate arrives after the handshake and closes the connection.
    for found in (error, error.__cause__):
        if isinstance(found, ssl.SSLError):
            return _tls_cause(found, options)
    uses_tls = options.get("security_protocol") in ("SSL", "SASL_SSL")
    match error:
        case (
            errors.SaslAuthenticationFailed() | errors.UnsupportedSaslMechanismError() | errors.IllegalSaslStateError()
        ):
            return await _login_cause(error, host, port, options)
        case ConnectionRefusedError():
            return "connection refused; start the broker, or correct the address"
        case socket.gaierror():
            return f"the name cannot be resolved ({error.strerror}); correct the address"
        case TimeoutError():
            return "no answer in time; check the address and the firewall"
        case errors.KafkaConnectionError() | EOFError() if not uses_tls and await _answers_tls(host, port):
            return "the broker expects TLS, and this client has none; set tls = true and the CA file"
        case ConnectionResetError() | errors.KafkaConnectionError() | EOFError() if uses_tls:
            return (
                "the connection was closed in the TLS handshake; the port may be one without TLS, or the broker"
                " refuses the client's certificate"
            )
        case _:
            return str(error) or type(error).__name__


def _tls_cause(error: ssl.SSLError, options: Mapping[str, Any]) -> str:
    context = options.get("ssl_context")
    files = context.files if isinstance(context, FileContext) else TlsFiles()
    ca = "the system's CAs" if files.ca is None else str(files.ca)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _UNTRUSTED:
            return f"the broker's certificate is not signed by {ca}; set the CA file to the CA of the brokers"
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            return f"the broker's certificate is not valid now ({error.verify_message}); renew it, or check the clock"
        if error.verify_code in _NAME_DIFFERS:
            return f"the broker's certificate is for another name ({error.verify_message}); use a name that it has"
        return f"the broker's certificate is not accepted ({error.verify_message}); check the certificate and {ca}"
    reason = str(error.reason or error).replace("_", " ").lower()
    if "certificate required" in reason:
        return "the broker requires a client's certificate; set the certificate and key file"
    if ("alert" in reason and "cert" in reason) or "unknown ca" in reason:
        return f"the broker refuses the client's certificate {files.cert}{_validity(files)} ({reason}); renew it"
    return f"no TLS connection ({reason}); the port may be one without TLS"


def _validity(files: TlsFiles) -> str:
    """Return a text for an expired client certificate; empty if it is valid or unreadable."""
    with suppress(OSError, ValueError, ImportError):
        from cryptography import x509

        if files.cert is not None:
            end = x509.load_pem_x509_certificate(files.cert.read_bytes()).not_valid_after_utc
            if end < dt.datetime.now(dt.UTC):  # noqa: TID251 — a message, no decision
                return f", which expired at {end:%Y-%m-%dT%H:%M:%SZ}"
    return ""


async def _login_cause(error: BaseException, host: str, port: int, options: Mapping[str, Any]) -> str:
    mechanism = options.get("sasl_mechanism")
    if isinstance(error, errors.IllegalSaslStateError):
        return f"the broker expects no login at this port; use the port with {mechanism}, or remove the login"
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        accepted = await _mechanisms(host, port, options) or "none that this client has"
        return f"the broker does not accept {mechanism}, but {accepted}; set one of these as the SASL mechanism"
    if mechanism == "OAUTHBEARER":
        return f"the broker refuses the token ({error.args[0] if error.args else 'invalid'}); check the token's file"
    user = options.get("sasl_plain_username")
    return f"the broker refuses the login of user {user} by {mechanism}; check the user's name and the password's file"


async def _answers_tls(host: str, port: int) -> bool:
    """Return whether a server answers a TLS handshake; sends nothing else."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError, ssl.SSLError, TimeoutError):
        async with asyncio.timeout(_PROBE_S):
            await writer.wait_closed()
    return True


async def _without_metadata(self: Any, host: str, port: int) -> str:
    """Return the reason why a broker that accepted the connection does not answer the first request."""
    options = {"security_protocol": self._security_protocol, "ssl_context": self._ssl_context}
    if accepted := await _mechanisms(host, port, options):
        return (
            f"Kafka at {host}:{port}: the broker requires a login, by {accepted}; set the SASL mechanism, the user's"
            " name and the password's file"
        )
    return f"Kafka at {host}:{port}: the broker closes the connection of a client without login; check its listeners"


async def _mechanisms(host: str, port: int, options: Mapping[str, Any]) -> str:
    """Return a text with the login mechanisms that a broker accepts; empty if it sends none."""
    plain = {
        "security_protocol": "SSL" if "SSL" in str(options.get("security_protocol")) else "PLAINTEXT",
        "ssl_context": options.get("ssl_context"),
    }
    with suppress(errors.KafkaError, OSError, TimeoutError):
        opened = await _create_conn(host, port, request_timeout_ms=int(_PROBE_S * 1000), **plain)
        try:
            answer = await opened.send(SaslHandShakeRequest("none"))
        finally:
            opened.close()
        return ", ".join(answer.enabled_mechanisms)
    return ""


def _send_or_close(self: Any, *args: Any, **options: Any) -> Any:
    """Send as `AIOKafkaConnection.send` does; convert the error of a write to a connection that the broker just closed.

    asyncio raises an OSError or nothing then; uvloop raises a RuntimeError ("the handler is closed"), which would end a
    process during a commit or fetch.
    """
    try:
        return _send(self, *args, **options)
    except errors.KafkaError:  # also a RuntimeError
        raise
    except RuntimeError as error:
        self.close(reason=connection.CloseReason.CONNECTION_BROKEN)
        raise errors.KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error
