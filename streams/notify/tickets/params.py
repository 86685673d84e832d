"""Defines the settings of `[tickets]`: the ticket system's URL, login and kind."""

from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streams.wire.login_settings import is_loopback


class JiraParams(BaseModel):
    """The project and the workflow of Jira Cloud."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: str = Field(pattern=r"^[A-Z][A-Z0-9_]+$")
    """The project's key, such as `OPS`."""
    issue_type: str = "Task"
    """The type of new issues."""
    labels: tuple[str, ...] = ("railsight",)
    """Labels of new issues, besides `railsight-ID`, which identifies the issue in searches."""
    close_transition: str = ""
    """The name of the transition that closes an issue; empty: the first one to a status of the category Done."""
    index_s: ClassVar[float] = 120
    """After a takeover or a request without an answer, a search without a result is not trusted for this time: Jira's
    search finds a new issue after seconds to minutes (Atlassian, "Search And Reconcile")."""

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if any(not label or not label.isprintable() or " " in label for label in labels):
            raise ValueError("a label of Jira is not empty and has no blanks")
        return labels


class TicketParams(BaseModel):
    """One ticket system. The file of the token is read before each request, so that the token can be replaced."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["webhook", "jira"] = "webhook"
    """The kind of ticket system."""
    url: str
    """Webhook: the base of the tickets' URLs; Jira: the site, such as `https://example.atlassian.net`."""
    username: str = Field(default="", pattern=r"^[^:]*$")
    """The user of HTTP Basic, whose password is the token (Jira Cloud: the account's e-mail); empty: a bearer token."""
    token_file: Path | None = None
    """The file of the token, or of the password if a username is set."""
    ca_file: Path | None = None
    """The CA that verifies the server's certificate; default: the system's CAs."""
    timeout_s: ClassVar[float] = 10
    """Limit of one request."""
    backoff_s: ClassVar[float] = 1
    """The first wait between attempts."""
    backoff_max_s: ClassVar[float] = 60
    """The longest wait between attempts; each wait doubles."""
    jira: JiraParams | None = None
    """The project and the workflow of Jira Cloud."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the URL of the ticket system needs http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL must not contain credentials, because it is logged; set token_file")
        if parts.query or parts.fragment or not url.isprintable() or " " in url:
            raise ValueError("the URL of the ticket system has no query, no fragment and no blanks")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        is_local = is_loopback(f"[{host}]:0" if ":" in host else f"{host}:0")
        if self.token_file is not None and parts.scheme != "https" and not is_local:
            raise ValueError(
                f"a token needs https://, except on loopback: without it, others on the network can read it on the way"
                f" to {host}; set an https:// url"
            )
        if self.username and self.token_file is None:
            raise ValueError("username needs token_file, the file with its password or API token")
        if (self.kind == "jira") != (self.jira is not None):
            raise ValueError('kind = "jira" and the section [tickets.jira] belong together; set both or neither')
        return self
