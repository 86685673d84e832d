"""Settings of the dial-out collector: its address, its TLS, and the devices that may send."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Self
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from collectors.core.params import configured_targets, from_json, read_file
from collectors.gnmi.params import StreamParams
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import ServerFiles, is_loopback


class Target(BaseModel):
    """One device that sends: its name in the inventory, and how the collector recognizes its connections."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """The device's name in the inventory."""
    node: str = ""
    """The name that the device reports (MDT's node id, gNMI's target), if that is not `name`."""
    addresses: tuple[str, ...] = ()
    """The addresses that the device connects from; with client certificates they are an additional condition."""
    certificate: str = ""
    """The common name or DNS name in its client certificate, if that is not `name`."""
    zone: str = ""
    """The zone of the clock of a sender of syslog (`America/Los_Angeles`, `UTC-8`), if its lines do not name it."""
    relay: bool = False
    """True for a relay of syslog: each of its lines names its device."""

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(str(ipaddress.ip_address(address)) for address in given)
        except ValueError as error:
            raise ValueError(f"{error}; names are not resolved here") from error

    @property
    def node_name(self) -> str:
        """The name that the device reports."""
        return self.node or self.name

    @property
    def certificate_name(self) -> str:
        """The name in its client certificate."""
        return self.certificate or self.name


class ListenerParams(ServerFiles):
    """Settings of the collectors that devices connect to."""

    targets_file: Path | None = None
    """A file with devices (JSON: a list of {"name", "addresses"}); it is read again when it changes."""
    targets: Annotated[tuple[Target, ...], BeforeValidator(from_json)] = ()
    """The devices that may send; more may come from `targets_file`."""

    @model_validator(mode="after")
    def _complete_files(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file must be set together")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError("client_ca_file requires cert_file and key_file")
        return self

    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.targets_file,) if path is not None)


class Params(ListenerParams, StreamParams):
    """Settings of `[collect.dialout]`.

    Devices come from `targets`, `targets_file` (JSON: a list of {"name", "addresses"}) or both. A connection from any
    other device is refused.
    """

    listen: str = Field(default="127.0.0.1:57500", pattern=r"^.+:\d{1,5}$")
    """The address to listen on, `host:port`; an address reachable from other machines needs TLS or `clear_text`."""
    clear_text: bool = False
    """Allow devices to connect without TLS from other machines."""
    cadence_s: float = Field(default=10.0, ge=0.05, le=3600)
    """The interval at which the devices are configured to send; a device without samples for three is silent."""
    max_message_bytes: ClassVar[int] = 4 << 20
    """The largest message, also of a message sent in parts; a larger one ends its stream."""
    max_streams: ClassVar[int] = 32
    """The limit of concurrent streams of one device; further streams are refused."""

    @model_validator(mode="after")
    def _complete(self) -> "Params":
        if self.cert_file is None and not (self.clear_text or is_loopback(self.listen)):
            raise ValueError("listening off this machine without TLS: set cert_file and key_file, or clear_text")
        return self

    def all_targets(self) -> dict[str, Target]:
        """Return the devices by name; raises Misconfigured for no devices, duplicates, or a device without identity."""
        targets = configured_targets("dialout", self, self.targets, self.targets_file, _TARGETS)
        for target in targets:
            if target.relay or target.zone:
                raise Misconfigured(
                    f"collect.dialout: target {target.name}: relay and zone are settings of collect.syslog"
                )
            if self.client_ca_file is None and not target.addresses:
                raise Misconfigured(
                    f"collect.dialout: target {target.name}: without client certificates (client_ca_file) a device is "
                    "recognized by its addresses; set addresses"
                )
        return {target.name: target for target in targets}

    def tls(self) -> tuple[bytes, bytes, bytes | None] | None:
        """Return the key, the certificate and the CA of clients; None without TLS. Raises Misconfigured."""
        if self.cert_file is None or self.key_file is None:
            return None
        authority = None if self.client_ca_file is None else read_file("dialout", self.client_ca_file)
        return read_file("dialout", self.key_file), read_file("dialout", self.cert_file), authority


_TARGETS = TypeAdapter(tuple[Target, ...])


class Peer(NamedTuple):
    """The other end of a connection: its address, and the names in its client certificate."""

    address: str
    names: frozenset[str]


def peer_of(address: str, authentication: Mapping[str, Iterable[bytes]]) -> Peer:
    """Return the peer of gRPC's `ipv4:192.0.2.1:5000` or `ipv6:%5B::1%5D:5000`, and of its authentication context."""
    host = unquote(address).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        found = ipaddress.ip_address(host)
        host = str(getattr(found, "ipv4_mapped", None) or found)
    except ValueError:
        host = ""
    names = (
        name.decode(errors="replace")
        for kind in ("x509_common_name", "x509_subject_alternative_name")
        for name in authentication.get(kind, ())
    )
    return Peer(host, frozenset(names))


def candidates(targets: Iterable[Target], peer: Peer, *, by_certificate: bool) -> tuple[Target, ...]:
    """Return the devices that match a connection; none for an unknown connection."""
    return tuple(
        target
        for target in targets
        if (not by_certificate or target.certificate_name in peer.names)
        and (peer.address in target.addresses or (by_certificate and not target.addresses))
    )


def named(possible: Sequence[Target], node: str) -> Target | None:
    """Return the device that reports this name; without a name, the only possible device."""
    if not node:
        return possible[0] if len(possible) == 1 else None
    return next((target for target in possible if target.node_name == node), None)
