"""Defines the arguments with which every client of Kafka connects and logs in: aiokafka, and Faust through it.

Certificates, passwords and tokens are read from their files for each connection (kafka_refusals.py passes them on), so
a renewed file needs no restart.
"""

from pathlib import Path
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from railsight_automation.kafka_refusals import explain_refusals
from railsight_automation.tls_files import FileContext, TlsFiles

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class FilePassword(str):
    """A password with the file that it was read from; the text is the content at that time."""

    __slots__ = ("_path",)
    _path: Path

    @classmethod
    def read(cls, path: Path) -> "FilePassword":
        """Return the password in a file; raises OSError or ValueError."""
        password = cls(path.read_text(encoding="utf-8").rstrip("\r\n"))
        password._path = path
        return password

    def newest(self) -> str:
        """Return the present content of the file, or the former password while the file is unreadable."""
        try:
            return FilePassword.read(self._path)
        except (OSError, ValueError):
            return self


class FileToken(AbstractTokenProvider):  # type: ignore[misc] # aiokafka is untyped
    """The OAUTHBEARER token in a file that another program renews; it is read for each connection."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def token(self) -> str:
        """Return the token; raises OSError."""
        return self.path.read_text(encoding="utf-8").strip()


def client_options(
    bootstrap: str,
    tls: TlsFiles | None = None,
    mechanism: str | None = None,
    username: str = "",
    password: str = "",
    token: FileToken | None = None,
) -> dict[str, Any]:
    """Return the connection arguments of an aiokafka client; raises OSError or ssl.SSLError for unusable files."""
    explain_refusals()
    options: dict[str, Any] = {"bootstrap_servers": [address.strip() for address in bootstrap.split(",")]}
    if tls is not None:
        options["ssl_context"] = FileContext(tls)
    layer = "PLAINTEXT" if tls is None else "SSL"
    if mechanism is None:
        return options | {"security_protocol": layer}
    options |= {"security_protocol": f"SASL_{layer}", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return options | {"sasl_oauth_token_provider": token}
    return options | {"sasl_plain_username": username, "sasl_plain_password": password}
