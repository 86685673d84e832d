"""Settings of the gNMI collector: its targets, cadence and login."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    field_validator,
    model_validator,
)

from collectors.core.params import (
    CollectorParams,
    TargetParams,
    configured_targets,
    from_json,
    read_file,
    without_secrets,
)
from collectors.gnmi.profile import profiles
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import ClientFiles, is_loopback

Encoding = Literal["auto", "proto", "json_ietf", "json", "ascii"]
_LOGIN = frozenset({"username", "password", "password_file", "token", "token_file"})
_TLS = frozenset({"tls", "ca_file", "cert_file", "key_file", "server_name"})
"""If a target sets one of these, it inherits none of them."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Target(_Strict):
    """One device: its name in the inventory, and the address of its gNMI server (`host:port`).

    `profiles` names its vendor's profiles, if the device's Capabilities do not. The other settings replace those of the
    collector for this device; secrets are in files.
    """

    name: str = Field(min_length=1)
    """The device's name in the inventory."""
    address: str = Field(pattern=r"^.+:\d{1,5}$")
    """The address of its gNMI server, `host:port`."""
    profiles: tuple[str, ...] = ()
    """The profiles of its vendor, if its Capabilities do not identify it."""
    cadence_s: float | None = Field(default=None, ge=0.05, le=3600)
    encoding: Encoding | None = None
    tls: bool | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    username: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    clear_text: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_secret(cls, values: object) -> object:
        return without_secrets(values, ("password", "token"))

    @field_validator("profiles")
    @classmethod
    def _known(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(named) - profiles().keys():
            raise ValueError(f"unknown profile: {', '.join(sorted(unknown))}; known are {', '.join(profiles())}")
        return named

    @property
    def is_loopback(self) -> bool:
        """True if the connection to it stays on this machine."""
        return is_loopback(self.address)


class StreamParams(CollectorParams):
    """The settings and limits of a collector of gNMI streams."""

    cadence_s: float = Field(default=10.0, ge=0.05, le=3600)
    quiet_s: ClassVar[float] = 0.05
    """A burst is over when the device has sent no sample for this long (trial: gaps in a burst stay below 20 ms)."""
    once_s: ClassVar[float] = 20.0
    """`--once` waits this long, and at least two cadences, for a device's first reading."""
    max_ports: ClassVar[int] = 4096
    """The limit of ports of one device; further ports are left out and counted."""
    max_paths: ClassVar[int] = 200_000
    """The limit of paths of one device; further paths are left out and counted."""
    max_updates_per_s: ClassVar[int] = 250_000
    """A device that sends more is read more slowly, so that it does not delay the others."""


class Params(StreamParams, TargetParams, ClientFiles):
    """Settings of `[collect.gnmi]`.

    Devices come from `targets`, `targets_file` (JSON: a list of {"name", "address"}) or both.
    """

    targets: Annotated[tuple[Target, ...], BeforeValidator(from_json)] = ()
    """The devices; more may come from `targets_file`."""
    cadence_s: float = Field(default=10.0, ge=0.05, le=3600)
    """The interval of samples that is requested from a device."""
    encoding: Encoding = "auto"
    """The encoding of updates; `auto` selects the profile's first one that the device supports."""
    connect_s: ClassVar[float] = 5.0
    """The timeout of a connection's set-up."""
    keepalive_s: ClassVar[float] = 10.0
    """The interval of keepalives; without them, a lost device goes unnoticed for about two hours (DETECTION 2)."""
    keepalive_timeout_s: ClassVar[float] = 5.0
    """A connection is closed if a device does not answer a keepalive for this long."""
    backoff_s: ClassVar[float] = 0.25
    """The first wait before a connection is opened again; it doubles up to `backoff_max_s`."""
    backoff_max_s: ClassVar[float] = 5.0
    """The longest wait: well below the 30 s after which a silent device is a finding (DESIGN 2)."""
    facts_every_s: ClassVar[float] = 3600.0
    """The interval of facts: versions, serial numbers, modules."""
    max_message_bytes: ClassVar[int] = 4 << 20
    """The largest message of a device, gRPC's default; a larger one ends its stream."""
    tls: bool = False
    """Encrypt the connections, and verify the devices' certificates."""
    server_name: str = ""
    """The name in the devices' certificate, if it is not the host of their address."""
    username: str = ""
    """The user at the devices."""
    password: SecretStr | None = None
    """The user's password."""
    password_file: Path | None = None
    """The file of the password; it is read again when it changes."""
    token: SecretStr | None = None
    """Sent as `authorization: Bearer ...`, instead of a username and password."""
    token_file: Path | None = None
    """The file of the token; it is read again when it changes."""
    clear_text: bool = False
    """Allow a password or token without TLS to leave this machine."""

    @model_validator(mode="after")
    def _complete(self) -> "Params":
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file must be set together")
        if not self.tls and (self.ca_file or self.cert_file or self.server_name):
            raise ValueError("ca_file, cert_file, key_file and server_name require tls = true")
        if (self.password is not None) + (self.password_file is not None) != bool(self.username):
            raise ValueError("username requires exactly one of password and password_file")
        if (self.token is not None) + (self.token_file is not None) + bool(self.username) > 1:
            raise ValueError("set only one of username, token and token_file")
        return self

    def all_targets(self) -> tuple[Target, ...]:
        """Return the configured devices; raises Misconfigured for no devices, for duplicates and for invalid files."""
        targets = configured_targets("gnmi", self, self.targets, self.targets_file, _TARGETS)
        for target in targets:
            self.for_target(target).check_exposure(target)
        return targets

    def for_target(self, target: Target) -> "Params":
        """Return the settings of one device; raises Misconfigured."""
        return self.with_overrides(target, f"collect.gnmi: target {target.name}", _LOGIN, _TLS)

    def check_exposure(self, target: Target) -> None:
        """Raise Misconfigured if a password or token would cross the network without TLS."""
        exposed = "a password" if self.username else "a token" if self.token or self.token_file else ""
        if exposed and not (self.tls or self.clear_text or target.is_loopback):
            raise Misconfigured(
                f"collect.gnmi: {exposed} without TLS would cross the network to {target.name}; set tls or clear_text"
            )

    def files(self) -> tuple[Path, ...]:
        named = (self.targets_file, self.password_file, self.token_file)
        of_targets = (path for target in self.targets for path in (target.password_file, target.token_file))
        return tuple(path for path in (*named, *of_targets) if path is not None)

    def secret(self) -> str:
        """Return the password or the token; raises Misconfigured if its file cannot be read."""
        if (file := self.password_file or self.token_file) is not None:
            return read_file("gnmi", file).decode().rstrip("\r\n")
        given = self.password or self.token
        return given.get_secret_value() if given else ""


_TARGETS = TypeAdapter(tuple[Target, ...])
