"""Defines the settings of notifications; streams.config composes them, reads the secrets and refuses unknown keys."""

from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from streams.wire.login_settings import ClientFiles


class NotifyParams(ClientFiles):
    """Alertmanager's address, the times of pages and repetitions, and the targets of links; empty links are omitted."""

    cluster: str = ""
    """The label `cluster` of every alert; default: `[kafka] cluster`. Several fabrics may share an Alertmanager."""
    alertmanagers: tuple[str, ...] = Field(default=("http://127.0.0.1:9093",), min_length=1)
    """All members of a cluster: each gets every alert, as Alertmanager's documentation requires."""
    username: str | None = None
    """The user of HTTP Basic at Alertmanager."""
    password: SecretStr | None = None
    """The user's password."""
    password_file: Path | None = None
    """The file of the password. Files of passwords and tokens are read for each request, certificates on a change."""
    token: SecretStr | None = None
    """A bearer token, instead of a username and password."""
    token_file: Path | None = None
    """The file of the token."""
    timeout_s: ClassVar[float] = 10
    """The limit of one request."""

    hold_s: float = Field(default=15, ge=0)
    """A page waits this long for a parent finding or for the finding's end (DETECTION 3a)."""
    resend_s: ClassVar[float] = 60
    """Interval of repetitions; a restarted Alertmanager has all alerts again after this time."""
    expire_s: ClassVar[float] = 7200
    """An alert without repetition ends after this time. It must exceed an interruption of the notifier or the path to
    Alertmanager: an alert that expires meanwhile is notified as resolved, and pages again afterwards. The watchdog
    alert, which expires after `watchdog_s`, reports the interruption."""
    resolved_s: float = Field(default=7200, ge=0)
    """An end is repeated for this time after Alertmanager last accepted it after an outage, because a killed
    Alertmanager may not have notified it. It must exceed the longest `group_interval` (an hour in the examples), for
    which Alertmanager retains an end only in memory; Prometheus repeats for 15 minutes."""
    ends_s: ClassVar[float] = 7200
    """After a takeover, the ends of findings within this time are posted again, because the predecessor may not have
    reached an Alertmanager."""
    remediation_s: ClassVar[float] = 86_400
    """Denied, failed and unanswered remediations have an alert for at most this time."""
    watchdog_s: ClassVar[float] = 300
    """The watchdog alert ends if the watermark of findings has not advanced for this time."""

    evidence_lines: ClassVar[int] = 8
    """Lines of evidence in an alert."""
    dashboard_url: str = ""
    """The URL of Grafana, such as `https://grafana.example.net`."""
    runbooks_url: str = ""
    """The base URL of docs/runbooks; the page's name, such as `link-flap.md`, is appended."""
    finding_url: str = ""
    """The URL of a finding's JSON; `{id}` is replaced by its id."""
    link_prefixes: tuple[str, ...] = ()
    """Alerts contain links of findings and remediations only below these URLs or the three above."""

    @field_validator("alertmanagers")
    @classmethod
    def _check_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("the URL of an Alertmanager needs http:// or https:// and a host")
            if parts.username or parts.password:
                raise ValueError(
                    "the URL must not contain credentials, because it is logged; set username and password"
                )
        return tuple(url.rstrip("/") for url in urls)

    @field_validator("link_prefixes")
    @classmethod
    def _check_prefixes(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in prefixes:
            parts = urlsplit(prefix)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ValueError("a prefix of links needs http:// or https:// and a host, and has no query")
        return prefixes

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password must be set together")
        if self.username is not None and self.token is not None:
            raise ValueError("set either username or token, not both")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file requires cert_file")
        return self
