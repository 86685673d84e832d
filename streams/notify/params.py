"""What a user may set about notifying; streams.config composes it, reads the secrets and refuses the rest."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class NotifyParams(BaseModel):
    """Whom to tell, when to page, how often to repeat, and where an alert's links lead; empty links are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = ""
    """The label `cluster` of every alert; empty: that of `[kafka]`. Several fabrics may share an Alertmanager."""
    alertmanagers: tuple[str, ...] = Field(default=("http://127.0.0.1:9093",), min_length=1)
    """All of a cluster's members: each gets every alert, as Alertmanager's own documents ask."""
    username: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_s: float = Field(default=10, gt=0)

    hold_s: float = Field(default=15, ge=0)
    """A page waits so long for a cause that explains it, or for the end. DETECTION 3a."""
    resend_s: float = Field(default=60, gt=0)
    """An Alertmanager that restarts forgets its alerts; after so long it knows them again."""
    expire_s: float = Field(default=600, gt=0)
    """An alert that nobody repeats ends after so long. Longer than a restart of ours, which must resolve nothing."""

    evidence_lines: int = Field(default=8, ge=1)
    dashboard_url: str = ""
    """Grafana's address, as `https://grafana.example.net`."""
    runbooks_url: str = ""
    """Where docs/runbooks is served; the page's name, as `link-flap.md`, is put behind it."""
    finding_url: str = ""
    """Where a finding's JSON is served; `{id}` stands for its id."""

    @field_validator("alertmanagers")
    @classmethod
    def _are_plain_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("an Alertmanager's address starts with http:// or https:// and names a host")
            if parts.username or parts.password:
                raise ValueError("credentials do not belong in an address, which is logged; use username and password")
        return tuple(url.rstrip("/") for url in urls)

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        if self.username is not None and self.token is not None:
            raise ValueError("either username or token, not both")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs a cert_file")
        if self.expire_s < 3 * self.resend_s:
            raise ValueError("expire_s must be at least 3 x resend_s, or two lost posts end an alert")
        return self
