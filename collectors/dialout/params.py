"""Settings of the dial-out collector: its address, its TLS, and the devices that may send."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from collectors.core.params import configured_targets, from_json, read_file
from collectors.gnmi.params import StreamParams
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import ServerFiles, is_loopback
from streams.wire.tls_files import FileContext, TlsFiles

Pem = tuple[bytes, bytes, bytes | None]
"""The key, the certificate, and the CA of clients."""


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
    """True for a relay of syslog or OTLP: each line or resource names its device."""

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

    def pem(self, kind: str) -> Pem | None:
        """Return the key, the certificate and the CA of clients; None without TLS. Raises Misconfigured."""
        if self.cert_file is None or self.key_file is None:
            return None
        authority = None if self.client_ca_file is None else read_file(kind, self.client_ca_file)
        return read_file(kind, self.key_file), read_file(kind, self.cert_file), authority

    def file_context(self, kind: str) -> FileContext | None:
        """Return the context of TLS, which reads renewed files; None without one. Raises Misconfigured."""
        if self.cert_file is None:
            return None
        files = TlsFiles(self.client_ca_file, self.cert_file, self.key_file, of_server=True)
        try:
            return FileContext(files)
        except OSError as error:  # ssl.SSLError is an OSError
            raise Misconfigured(
                f"collect.{kind}: cannot load {', '.join(map(str, files.present()))}: {error}"
            ) from error


class PushParams(ListenerParams, StreamParams):
    """Settings of the collectors that devices send to.

    Devices come from `targets`, `targets_file` (JSON: a list of {"name", "addresses"}) or both. A connection from any
    other device is refused.
    """

    port: ClassVar[int]
    """The port of `listen` if it has none."""
    listen: str = Field(default="127.0.0.1", pattern=r"^(\[[^\]]+\]|[^:]+)(:\d{1,5})?$")
    """The address to listen on, `host` or `host:port`; an address reachable from other machines needs TLS or
    `clear_text`. Ports: `dialout` 57500; `otlp` 4317 for gRPC, and the next one for HTTP."""
    clear_text: bool = False
    """Allow devices to connect without TLS from other machines."""
    cadence_s: float = Field(default=10.0, ge=0.05, le=3600)
    """The interval at which the devices are configured to send; a device without samples for three is silent."""

    @model_validator(mode="after")
    def _encrypted(self) -> Self:
        if self.cert_file is None and not (self.clear_text or is_loopback(self.address())):
            raise ValueError("listening off this machine without TLS: set cert_file and key_file, or clear_text")
        return self

    def address(self, after: int = 0) -> str:
        """Return `host:port`, or a port after it; port 0 stays 0."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or self.listen.endswith("]"):
            host, port = self.listen, str(self.port)
        return f"{host}:{int(port) + after if int(port) else 0}"


class Params(PushParams):
    """Settings of `[collect.dialout]`."""

    port: ClassVar[int] = 57500
    max_message_bytes: ClassVar[int] = 4 << 20
    """The largest message, also of a message sent in parts; a larger one ends its stream."""
    max_streams: ClassVar[int] = 32
    """The limit of concurrent streams of one device; further streams are refused."""

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


_TARGETS = TypeAdapter(tuple[Target, ...])


class Peer(NamedTuple):
    """The other end of a connection: its address, and the names in its client certificate."""

    address: str
    names: frozenset[str]


def peer_of(address: str, authentication: Mapping[str, Iterable[bytes]]) -> Peer:
    """Return the peer of gRPC's `ipv4:192.0.2.1:5000` or `ipv6:%5B::1%5D:5000`, and of its authentication context."""
    host = unquote(address).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        host = str(ipaddress.ip_address(plain(host)))
    except ValueError:
        host = ""
    names = (
        name.decode(errors="replace")
        for kind in ("x509_common_name", "x509_subject_alternative_name")
        for name in authentication.get(kind, ())
    )
    return Peer(host, frozenset(names))


def plain(address: str) -> str:
    """Return an address in its usual form, without a scope; IPv4 within IPv6 as IPv4."""
    if ":" not in address:
        return address
    found = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found)


def certificate_names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Return the common names and DNS names of a certificate, as Python's ssl module has it."""
    common = (value for names in certificate.get("subject", ()) for key, value in names if key == "commonName")
    return frozenset((*common, *(value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")))


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
