"""Reads the configuration from a TOML file; refuses unknown keys, and reports all errors at once."""

import ipaddress
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import grpc

from railsight_automation.errors import Misconfigured
from railsight_automation.gnmi_client import Access
from railsight_automation.host_commands import REBOOT, SECTIONS, CommandParams, problems
from railsight_automation.kubernetes_nodes import KubernetesParams
from railsight_automation.links import LinkParams
from railsight_automation.slurm import SlurmParams
from railsight_automation.status import StatusParams
from streams.wire.kafka_login import MECHANISMS


@dataclass(frozen=True)
class KafkaParams:
    """Settings of `[kafka]`."""

    bootstrap: str = "127.0.0.1:9092"
    remediations: str = "railsight.remediations.v1"
    results: str = "railsight.remediation-results.v1"
    losses: str = "railsight.input-losses.v1"
    """The topic for reports of records that Kafka deleted before they were read; empty: they are only logged."""
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    username: str = ""
    password_file: str = ""
    token_file: str = ""
    """The file of the token for OAUTHBEARER; like password and certificates, it is read for each connection."""
    mechanism: str = "SCRAM-SHA-512"

    def problems(self) -> list[str]:
        """Return the errors: files without TLS, an incomplete login, a login without TLS off loopback."""
        found = []
        if not self.tls and (self.ca or self.cert or self.key):
            found.append("kafka.ca, cert and key need kafka.tls = true")
        if bool(self.cert) != bool(self.key):
            found.append("kafka.cert and kafka.key need each other")
        if bool(self.username) != bool(self.password_file):
            found.append("kafka.username and kafka.password_file need each other")
        if self.mechanism not in MECHANISMS:
            found.append(f"kafka.mechanism: {self.mechanism!r} is none of {', '.join(MECHANISMS)}")
        if (self.mechanism == "OAUTHBEARER") != bool(self.token_file) or (self.token_file and self.username):
            found.append("kafka.token_file and mechanism OAUTHBEARER need each other, without a username")
        remote = [address.strip() for address in self.bootstrap.split(",") if not _is_loopback(address.strip())]
        if (self.username or self.token_file) and not self.tls and remote:
            found.append(
                "kafka.username needs TLS, except on loopback: without it, others on the network can read the login"
                f" at {', '.join(remote)}; set kafka.tls = true"
            )
        return found


@dataclass(frozen=True)
class GnmiParams:
    """Settings of `[gnmi]`."""

    targets: str = ""
    """A JSON file with a list of `{"name": …, "address": …}`, as the collector reads it."""
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    username: str = ""
    password_file: str = ""
    timeout_s: float = 10.0

    def addresses(self, folder: Path) -> dict[str, str]:
        """Return the address of each device."""
        path = folder / self.targets
        try:
            return {str(target["name"]): str(target["address"]) for target in json.loads(path.read_bytes())}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise Misconfigured(f"gnmi.targets: {path}: {error}") from error

    def access(self, folder: Path) -> Access:
        """Return the parameters of connections to devices."""
        tls = None
        if self.tls:
            tls = grpc.ssl_channel_credentials(*(_bytes(folder, name) for name in (self.ca, self.key, self.cert)))
        return Access(tls, self.server_name, self.username, password(folder, self.password_file), self.timeout_s)


@dataclass(frozen=True)
class Config:
    """The whole configuration.

    Actions on links need `[gnmi]`, actions on hosts `[slurm]` or `[kubernetes]`; other actions need a command.
    """

    actor: str = ""
    """The name of this automation in the results."""
    instance: str = ""
    """The name of this process among those of the actor; by default the name of this machine."""
    fabric: str = "local"
    """The name of the fabric in signatures: `kafka.cluster` of the pipeline."""
    journal: str = "/var/lib/railsight-automation/journal.jsonl"
    signing_key: str = ""
    """The file of the private key that signs the results, if `decide` has `trusted_keys`."""
    trusted_keys: tuple[str, ...] = ()
    """Public keys of `decide`; if any are set, a remediation that none of them signed is no order."""
    confirm_s: float = 30.0
    """Longest wait for the revision with which `decide` confirms an acceptance after its guards."""
    kafka: KafkaParams = field(default_factory=KafkaParams)
    status: StatusParams | None = None
    """The address of metrics and health; without the section nothing is served."""
    gnmi: GnmiParams | None = None
    links: LinkParams = field(default_factory=LinkParams)
    slurm: SlurmParams | None = None
    kubernetes: KubernetesParams | None = None
    reset_nic: CommandParams | None = None
    reboot_host: CommandParams | None = None
    upgrade_firmware: CommandParams | None = None
    tune_congestion: CommandParams | None = None

    @property
    def commands(self) -> dict[str, CommandParams]:
        """The configured commands by action."""
        found = {action: getattr(self, section) for action, section in SECTIONS.items()}
        return {action: params for action, params in found.items() if params is not None}


_PLAIN = {
    "actor": str, "instance": str, "fabric": str, "journal": str, "signing_key": str, "trusted_keys": tuple[str, ...],
    "confirm_s": float,
}  # fmt: skip
_SECTIONS = {
    "kafka": KafkaParams,
    "status": StatusParams,
    "gnmi": GnmiParams,
    "links": LinkParams,
    "slurm": SlurmParams,
    "kubernetes": KubernetesParams,
    **dict.fromkeys(SECTIONS.values(), CommandParams),
}


def load(path: Path) -> Config:
    """Return the configuration of a file; raise Misconfigured with all its errors."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    errors: list[str] = []
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name in _SECTIONS and isinstance(value, dict):
            checked[name] = _section(_SECTIONS[name], value, f"{name}.", errors)
        elif name in _PLAIN and (plain := _value(_PLAIN[name], value)) is not None:
            checked[name] = plain
        else:
            errors.append(f"{name}: unknown, or of the wrong type")
    if not checked.get("actor"):
        errors.append("actor: is required")
    if not {"gnmi", "slurm", "kubernetes", *SECTIONS.values()} & set(values):
        errors.append(
            "neither [gnmi] nor [slurm] nor [kubernetes] nor a command is there: no action could be carried out"
        )
    if {"slurm", "kubernetes"} <= set(values):
        errors.append("[slurm] and [kubernetes] are both there: run two automations, each with its own hosts")
    config = Config(**checked)
    errors += [*config.kafka.problems(), *_command_problems(config)]
    if errors:
        raise Misconfigured(f"{path}: {'; '.join(errors)}")
    return config


def _command_problems(config: Config) -> list[str]:
    has_scheduler = config.slurm is not None or config.kubernetes is not None
    found = [
        problem
        for action, params in config.commands.items()
        for problem in problems(action, params, has_scheduler=has_scheduler, has_boot_id=config.kubernetes is not None)
    ]
    if config.slurm is not None and config.slurm.reboot and REBOOT in config.commands:
        found.append("slurm.reboot and [reboot_host] are both there: remove one")
    return found


def _is_loopback(address: str) -> bool:
    host, colon, _ = address.rpartition(":")
    host = host if colon else address
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        # Clients read `::1:9092` as an address without a port.
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def password(folder: Path, name: str) -> str:
    """Return the content of a password file, or an empty text without one."""
    return (_bytes(folder, name) or b"").decode().strip()


def _bytes(folder: Path, name: str) -> bytes | None:
    if not name:
        return None
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise Misconfigured(f"{folder / name}: {error.strerror}") from error


def _section(kind: type, values: dict[str, Any], where: str, errors: list[str]) -> Any:
    hints = get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name not in {known.name for known in fields(kind)}:
            errors.append(f"{where}{name}: unknown")
        elif (checked := _value(hints[name], value)) is None:
            errors.append(f"{where}{name}: {value!r} is of the wrong type")
        else:
            made[name] = checked
    return kind(**made)


def _value(hint: Any, value: Any) -> Any:
    """Return a value of the declared type, or None if its type differs."""
    if hint in (str, bool):
        return value if type(value) is hint else None
    if hint is float:
        return float(value) if type(value) in (int, float) and value > 0 else None
    if hint == tuple[str, ...]:
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return tuple(value) if is_list else None
    return _mapping(hint, value)


def _mapping(hint: Any, value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, dict):
        return None
    inner = hint.__args__[1]
    if inner is str:
        return value if all(isinstance(item, str) for item in value.values()) else None
    return value if all(_mapping(inner, item) is not None for item in value.values()) else None
