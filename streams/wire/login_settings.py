"""Defines the settings with which all clients of Kafka encrypt connections and log in.

Refuses settings with which a login or a certificate would be used in clear text.
"""

import ipaddress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streams.wire.bounded_batches import bound_batches
from streams.wire.errors import Misconfigured
from streams.wire.kafka_login import FilePassword, FileToken, client_options
from streams.wire.tls_files import TlsFiles


def is_loopback(address: str) -> bool:
    """Return True if connections to `host`, `host:port` or `[IPv6]:port` stay on this machine."""
    host, colon, _ = address.strip().rpartition(":")
    host = host if colon else address.strip()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        # Clients read `::1:9092` as an address without a port.
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def remote_addresses(bootstrap: str) -> tuple[str, ...]:
    """Return the comma-separated addresses that are not on loopback."""
    return tuple(address.strip() for address in bootstrap.split(",") if not is_loopback(address))


class ClientFiles(BaseModel):
    """The files of a client that connects by TLS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca_file: Path | None = None
    """The CA of the servers' certificates, in PEM; default: the system's. A renewed file is used without a restart."""
    cert_file: Path | None = None
    """The client's certificate (mTLS), in PEM."""
    key_file: Path | None = None
    """The key of that certificate; default: it is in `cert_file`, except for `[collect.gnmi]`, which needs both."""


class ServerFiles(BaseModel):
    """The files of a server that others connect to by TLS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert_file: Path | None = None
    """The certificate of this server, in PEM; required off loopback."""
    key_file: Path | None = None
    """The key of that certificate; default: it is in `cert_file`, except for `[collect.dialout]`, which needs both."""
    client_ca_file: Path | None = None
    """The CA of clients' certificates, in PEM: only clients with a certificate of it connect. A person or program needs
    no token then, and the certificate of a device must have its name."""


class LoginSettings(ClientFiles):
    """The addresses of the brokers, and the settings of connections to them."""

    bootstrap: str = ""
    """The brokers' addresses, `host:port`, comma-separated."""
    tls: bool = False
    """Encrypt the connections, and verify the brokers' certificates and names."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """The SASL mechanism; without one, clients do not log in."""
    username: str = ""
    """The user."""
    password: SecretStr | None = Field(default=None, repr=False)
    """The user's password."""
    password_file: Path | None = None
    """The file of the password; it is read for each connection."""
    token_file: Path | None = None
    """The file of the OAUTHBEARER token, which another program renews; it is read for each connection."""

    @model_validator(mode="after")
    def _complete(self) -> "LoginSettings":
        secrets = (self.password is not None) + (self.password_file is not None)
        if self.sasl_mechanism == "OAUTHBEARER":
            if self.token_file is None or self.username or secrets:
                raise ValueError("sasl_mechanism OAUTHBEARER needs a token_file, and no username or password")
        elif self.token_file is not None:
            raise ValueError("token_file needs sasl_mechanism OAUTHBEARER")
        else:
            self._check_password(secrets)
        if (self.ca_file or self.cert_file or self.key_file) and not self.tls:
            raise ValueError("ca_file, cert_file and key_file need tls = true")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs a cert_file")
        if self.sasl_mechanism and not self.tls and (remote := remote_addresses(self.bootstrap)):
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs TLS, except on loopback: without it, others on the network"
                f" can read the login at {', '.join(remote)}; set tls = true"
            )
        return self

    def _check_password(self, secrets: int) -> None:
        if self.sasl_mechanism and not (self.username and secrets == 1):
            raise ValueError("sasl_mechanism needs a username and one of password and password_file")
        if not self.sasl_mechanism and (self.username or secrets):
            raise ValueError("username and password need a sasl_mechanism")

    def client_options(self) -> dict[str, Any]:
        """Return the connection arguments of an aiokafka client, whose batches are bounded; raises Misconfigured."""
        bound_batches()
        tls = TlsFiles(self.ca_file, self.cert_file, self.key_file) if self.tls else None
        token = None if self.token_file is None else FileToken(self.token_file)
        try:
            return client_options(self.bootstrap, tls, self.sasl_mechanism, self.username, self._secret(), token)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; a path may have a null byte
            files = () if tls is None else tls.present()
            raise Misconfigured(
                f"kafka: cannot load the TLS files {', '.join(map(str, files))} ({error}); check ca_file, cert_file and"
                " key_file"
            ) from error

    def _secret(self) -> str:
        """Return the password, from its file if one is set."""
        if self.password_file is None:
            return self.password.get_secret_value() if self.password else ""
        try:
            return FilePassword.read(self.password_file)
        except (OSError, ValueError) as error:
            raise Misconfigured(
                f"kafka.password_file: cannot read {self.password_file} ({error}); check the path and its permissions"
            ) from error
