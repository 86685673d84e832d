"""Settings of the SNMP collector: its targets, cadence and login."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    model_validator,
)

from collectors.core.params import TargetParams, configured_targets, from_json, read_file, without_secrets
from collectors.snmp.engine import V2C, V3, Login
from streams.wire.errors import Misconfigured

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]]+))(?::(\d{1,5}))?")
Version = Literal["2c", "3"]
Authentication = Literal["none", "sha1", "sha224", "sha256", "sha384", "sha512"]
Privacy = Literal["none", "aes128", "aes192", "aes256", "aes192-blumenthal", "aes256-blumenthal"]
_LOGIN = frozenset(
    {
        "version", "community", "community_file", "username", "auth", "auth_secret", "auth_secret_file", "privacy",
        "privacy_secret", "privacy_secret_file", "context",
    }
)  # fmt: skip
"""The settings of a login: if a target sets one of these, it inherits none of them."""
_SHORTEST_SECRET = 8
"""RFC 3414 (11.2) forbids shorter secrets."""


class Target(BaseModel):
    """One device: its name in the inventory, and the address of its agent: `host`, `host:port` or `[v6]:port`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """The device's name in the inventory."""
    address: str = Field(pattern=rf"^{_ADDRESS.pattern}$")
    """The address of its agent: `host`, `host:port` or `[v6]:port`."""
    # This device's settings that replace those of the collector; secrets are in files.
    cadence_s: float | None = Field(default=None, ge=0.1, le=3600)
    timeout_s: float | None = Field(default=None, ge=0.05, le=20)
    optics_every_s: float | None = Field(default=None, ge=0)
    if_types: tuple[int, ...] | None = None
    every_interface: bool | None = None
    version: Version | None = None
    community_file: Path | None = None
    username: str | None = None
    auth: Authentication | None = None
    auth_secret_file: Path | None = None
    privacy: Privacy | None = None
    privacy_secret_file: Path | None = None
    context: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_secret(cls, values: object) -> object:
        return without_secrets(values, ("community", "auth_secret", "privacy_secret"))

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host and the port; 161 by default."""
        return _host_and_port(self.address, 161)


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    assert found is not None, "checked by the pattern"
    return found[1] or found[2], int(found[3] or port)


class Params(TargetParams):
    """Settings of `[collect.snmp]`.

    Devices come from `targets`, `targets_file` (JSON: a list of {"name", "address"}) or both. A target may have its own
    login, cadence and other settings (see Target). A secret is a value, so that it may come from the environment, or a
    file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    targets: Annotated[tuple[Target, ...], BeforeValidator(from_json)] = ()
    """The devices; more may come from `targets_file`."""
    cadence_s: float = Field(default=30.0, ge=0.1, le=3600)
    """The interval of polls."""
    deadline_s: ClassVar[float] = 20.0
    """A poll that has not finished within this time is cancelled."""
    timeout_s: float = Field(default=2.0, ge=0.05, le=20)
    """The wait for an answer before a request is repeated, at most `deadline_s`."""
    tries: ClassVar[int] = 3
    """The number of transmissions of a request; UDP loses some."""
    varbinds_per_request: ClassVar[int] = 100
    """Two frames; on a network that drops fragments, requests become smaller automatically (read.py)."""
    optics_every_s: float = Field(default=60.0, ge=0)
    """The interval of reading the modules' sensors, which is slow on many switches; 0 disables it."""
    facts_every_s: ClassVar[float] = 3600.0
    """The interval of facts: versions, serial numbers, modules."""
    facts_deadline_s: ClassVar[float] = 120.0
    """Facts that have not arrived within this time are cancelled."""
    if_types: Annotated[tuple[int, ...], Field(min_length=0)] = ()
    """The ifTypes that are read; by default ports with a cable. `--once --print` shows every interface."""
    every_interface: bool = False
    """Read VLANs, loopbacks and port channels like ports."""
    max_ports: ClassVar[int] = 4096
    """The limit of ports of one device; further ports are left out and counted."""
    max_varbinds: ClassVar[int] = 200_000
    """The limit of varbinds in one walk of a device."""
    max_values_per_s: ClassVar[int] = 25_000
    """The limit of one device, a sixth to a third of a core: 512 ports take a second, 4,096 half of the deadline."""

    version: Version = "2c"
    """The version of SNMP."""
    community: SecretStr | None = None
    """The community of version 2c."""
    community_file: Path | None = None
    """The file of the community."""
    username: str = ""
    """The user of version 3."""
    auth: Authentication = "sha256"
    """The authentication of version 3."""
    auth_secret: SecretStr | None = None
    """The secret of the authentication, at least 8 characters."""
    auth_secret_file: Path | None = None
    """The file of that secret."""
    privacy: Privacy = "aes128"
    """The encryption of version 3."""
    privacy_secret: SecretStr | None = None
    """The secret of the encryption, at least 8 characters."""
    privacy_secret_file: Path | None = None
    """The file of that secret."""
    context: str = ""
    """The context of version 3."""

    traps: str = Field(default="", pattern=rf"^({_ADDRESS.pattern})?$")
    """The address for traps and informs (`0.0.0.0:162`); they are not received if it is empty."""
    max_traps_per_s: ClassVar[int] = 200
    """The limit of one device; further traps are refused and counted."""

    def files(self) -> tuple[Path, ...]:
        """Return the files to reload when they change."""
        named = (self.targets_file, self.community_file, self.auth_secret_file, self.privacy_secret_file)
        of_targets = (
            path
            for target in self.targets
            for path in (target.community_file, target.auth_secret_file, target.privacy_secret_file)
        )
        return tuple(path for path in (*named, *of_targets) if path is not None)

    def traps_address(self) -> tuple[str, int] | None:
        """Return the address for traps; None if they are not received."""
        return _host_and_port(self.traps, 162) if self.traps else None

    @model_validator(mode="after")
    def _complete(self) -> "Params":
        if self.version == "2c":
            for name in ("username", "auth_secret", "auth_secret_file", "privacy_secret", "privacy_secret_file"):
                if getattr(self, name):
                    raise ValueError(f"{name} requires version = 3")
        elif self.community is not None or self.community_file is not None:
            raise ValueError("community requires version = 2c")
        if self.privacy != "none" and self.auth == "none":
            raise ValueError("privacy requires auth")
        return self

    def all_targets(self) -> tuple[Target, ...]:
        """Return the configured devices; raises Misconfigured for no devices, for duplicates and for invalid files."""
        return configured_targets("snmp", self, self.targets, self.targets_file, _TARGETS)

    def for_target(self, target: Target) -> "Params":
        """Return the settings of one device; raises Misconfigured."""
        return self.with_overrides(target, f"collect.snmp: target {target.name}", _LOGIN)

    def login(self) -> Login:
        """Return the credentials; raises Misconfigured if a secret is missing, given twice, too short or unreadable."""
        if self.version == "2c":
            return Login(V2C, community=self._secret("community", shortest=1))
        if not self.username:
            raise Misconfigured("collect.snmp: version 3 requires username")
        return Login(
            V3,
            user=self.username,
            authentication=self.auth,
            authentication_secret=self._secret("auth_secret") if self.auth != "none" else "",
            privacy=self.privacy,
            privacy_secret=self._secret("privacy_secret") if self.privacy != "none" else "",
            context=self.context,
        )

    def _secret(self, name: str, shortest: int = _SHORTEST_SECRET) -> str:
        given: SecretStr | None = getattr(self, name)
        file: Path | None = getattr(self, f"{name}_file")
        if (given is None) == (file is None):
            raise Misconfigured(f"collect.snmp: set exactly one of {name} and {name}_file")
        secret = (
            read_file("snmp", file).decode().rstrip("\r\n")
            if file is not None
            else given.get_secret_value()
            if given
            else ""
        )
        if len(secret) < shortest:
            raise Misconfigured(f"collect.snmp: {name} is shorter than {shortest} characters")
        return secret


_TARGETS = TypeAdapter(tuple[Target, ...])
