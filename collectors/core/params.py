"""The settings of a collector and of its process, and the files that they name."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from collectors.core.poll import EVERY_S
from streams.health.health import HealthParams
from streams.instrument.text import refusal
from streams.wire.errors import Misconfigured
from streams.wire.otlp_params import OtlpParams
from streams.wire.topics import Partitions

Content = TypeVar("Content")
Cpu = int | Literal["one"]


def from_json(value: object) -> object:
    """Parse a setting given as JSON text, as on a command line."""
    return orjson.loads(value) if isinstance(value, str) else value


class PublisherParams(BaseModel):
    """Settings of `[collect.<name>.publisher]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: ClassVar[int] = 64 << 20
    """The limit of memory for records that wait for Kafka; past it and the spool, the newest are refused."""
    spool: Path | None = None
    """A folder with one file per collector, by its name. Without it, unsent records are lost when the process ends."""
    spool_bytes: int = Field(default=1 << 30, ge=1 << 16)
    """The limit of the spool; past it the newest records are refused and counted."""
    spool_after_s: ClassVar[float] = 2.0
    """Records are spooled after Kafka has acknowledged none for this long; a kill loses the records since then."""


@dataclass(frozen=True, slots=True)
class Core:
    """The settings of a collector's process: the address of Kafka, its own name, and the limits of its buffer.

    `client_options` are the arguments of an aiokafka client for the cluster; None without Kafka, for a collector that
    only prints. `acknowledged_file` receives the acknowledged counts as JSON, about once a second, for tests that prove
    that no record is lost. `metrics_port` serves self-metrics at `metrics_host`. `reload_settings` reads the settings
    again from the files `configuration`, and raises Misconfigured. `health` are the limits of its health checks.
    `key_file` has the keys of the MACs of its records; None for records without MACs. `otlp` has the receiver of its
    self-metrics, which name it and `cluster`.
    """

    client_options: Mapping[str, Any] | None = None
    partitions: Partitions = field(default_factory=Partitions)
    collector: str = ""
    publisher: PublisherParams = field(default_factory=PublisherParams)
    acknowledged_file: Path | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    reload_settings: Callable[[], BaseModel] | None = None
    configuration: tuple[Path, ...] = ()
    health: HealthParams = field(default_factory=HealthParams)
    key_file: Path | None = None
    otlp: OtlpParams = field(default_factory=OtlpParams)
    cluster: str = ""


class CollectorParams(BaseModel):
    """The base of every collector's Params; frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status_every_s: ClassVar[float] = EVERY_S
    """The interval of statuses of a target whose samples arrive; otherwise a status is sent at each cadence."""
    publisher: PublisherParams = PublisherParams()
    """The buffer between the collector and Kafka."""
    cpu: Cpu | None = None
    """The CPU that the process is pinned to: its number, or `one` for any permitted one; not pinned if unset."""
    supports_spool: ClassVar[bool] = True
    """True if a reading cannot be repeated later, so that a spool is worth its disk space."""

    def files(self) -> tuple[Path, ...]:
        """Return the files that these settings name and that are reloaded when they change."""
        return ()


class HostParams(CollectorParams):
    """The base of the Params of collectors that run on each host."""

    device: str = ""
    """The host's name in the inventory; default: its host name."""

    def device_name(self) -> str:
        """Return the device name of all published records."""
        return self.device or socket.gethostname()


class InventoryParams(CollectorParams):
    """The base of the Params of collectors that read the inventory."""

    inventory: Path | None = None
    """The folder of the inventory; it is read again when a table changes."""
    inventory_check_s: ClassVar[float] = 60.0
    """The interval at which the inventory in effect is read again."""


class InputParams(CollectorParams):
    """The base of the Params of collectors that read a list of inputs of several forms."""

    inputs: Annotated[tuple[str, ...], BeforeValidator(from_json)] = ()
    """The inputs. `syslog`: `udp://0.0.0.0:514`, `tcp://0.0.0.0:601`, `tls://0.0.0.0:6514`, `file:PATH` of lines or
    `topic:NAME` of raw lines in railsight's Kafka. `ib`: URLs of UFM Telemetry (`http://HOST:9001/metrics`), and
    `file:PATTERN` of files of ibdiagnet."""


class LogParams(CollectorParams):
    """The base of the Params of collectors that follow logs."""

    state_file: Path | None = None
    """Stores the position in the logs, so that a restart neither repeats nor loses events; default: NAME.json below
    /var/lib/railsight. The collector `host` stores the ports reported as shut in a second file with the suffix `.shut`.
    """
    state_name: ClassVar[str]
    """The collector's name."""

    def state_path(self) -> Path:
        """Return the file of the position."""
        return self.state_file or Path("/var/lib/railsight") / f"{self.state_name}.json"


class PortParams(HostParams):
    """Settings of the host's directory trees, and of the choice and names of its ports; equal for both collectors.

    A pattern (`fabric`, `management`, `exclude`) is a glob over any name of a port: RDMA device, netdev, MAC, GUID or
    PCI address.
    """

    root: Path = Path("/")
    """The directory that has `sys` and `proc`, or a sysfs itself. For another machine's tree, no ethtool, GPUs, LLDP or
    rtnetlink are read."""
    port_name: Literal["rdma", "netdev", "guid", "pci"] = "rdma"
    """The kind of name that is published; the others are aliases. A port without it is published by another name."""
    fabric: tuple[str, ...] = ()
    """Patterns of ports that belong to the fabric, whatever their kind suggests."""
    management: tuple[str, ...] = ()
    """Patterns of ports that belong to the management network."""
    exclude: tuple[str, ...] = ()
    """Patterns of ports that are never read, except for their names."""


def without_secrets(values: object, names: tuple[str, ...]) -> object:
    """Return the fields of a target; raise ValueError for a secret: lists of targets are committed."""
    for name in names:
        if isinstance(values, dict) and name in values:
            raise ValueError(f"a secret must not be in a list of targets: set {name}_file to the path of its file")
    return values


class TargetParams(CollectorParams):
    """The base of the Params of collectors with many targets."""

    targets_file: Path | None = None
    """A file with devices (JSON: a list of {"name", "address"}); it is read again when it changes."""
    share_group: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Processes of one group, each configured with all targets, divide them; without a group, this one reads all."""
    share_session_s: ClassVar[float] = 10.0
    """The others take over a member's targets after this long without it. Brokers accept no less than 6 by default."""

    def with_overrides(self, target: BaseModel, name: str, *groups: frozenset[str]) -> Self:
        """Return the settings of one target: its own settings replace the collector's.

        A target that sets one of a group of settings, such as those of a login, inherits none of that group. Raises
        Misconfigured; the error contains no value, because a value may be secret.
        """
        given: dict[str, Any] = {
            field: getattr(target, field) for field in target.model_fields_set & type(self).model_fields.keys()
        }
        if not given:
            return self
        replaced = given.keys() | {field for group in groups if group & given.keys() for field in group}
        inherited = {field: getattr(self, field) for field in self.model_fields_set - replaced}
        try:
            return type(self).model_validate(inherited | given)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise Misconfigured(f"{name}: {f'{field} ' if field else ''}{refusal(first)}") from error


def read_file(kind: str, path: Path) -> bytes:
    """Return the content of a file that `[collect.<kind>]` names."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"collect.{kind}: {path}: {error.strerror}") from error


def read_json(kind: str, path: Path, adapter: TypeAdapter[Content]) -> Content:
    """Return the parsed content; an error names the first wrong field, and never its value, which may be secret."""
    try:
        return adapter.validate_json(read_file(kind, path))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Misconfigured(f"collect.{kind}: {path}: {'.'.join(map(str, first['loc']))} {refusal(first)}") from error


class Named(Protocol):
    """A target; its name is the device's name in the inventory."""

    @property
    def name(self) -> str: ...


NamedTarget = TypeVar("NamedTarget", bound=Named)


def configured_targets(
    kind: str, params: BaseModel, given: tuple[NamedTarget, ...], file: Path | None,
    adapter: TypeAdapter[tuple[NamedTarget, ...]],
) -> tuple[NamedTarget, ...]:  # fmt: skip
    """Return the targets of the settings and of their file; raises Misconfigured if there are none, or two of one name.

    A configured list or file may be empty: a site without devices starts, and reads the devices that a reload adds.
    """
    targets = given + (read_json(kind, file, adapter) if file else ())
    if not (targets or file or "targets" in params.model_fields_set):
        raise Misconfigured(f"collect.{kind}: no targets; set targets or targets_file")
    names = [target.name for target in targets]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise Misconfigured(f"collect.{kind}: duplicate targets: {', '.join(duplicates)}")
    return targets
