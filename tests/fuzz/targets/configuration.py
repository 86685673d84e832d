"""The configuration: its file, and the environment."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from streams.config.settings import load
from streams.wire.errors import Misconfigured
from tests.fuzz.target import Target, scratch_folder


@cache
def _file() -> Path:
    return scratch_folder("configuration") / "railsight.toml"


@cache
def _collectors() -> "dict[str, type]":
    from collectors.bridge.collector import SPEC as BRIDGE
    from collectors.gnmi.collector import SPEC as GNMI
    from collectors.host.collector import SPEC as HOST
    from collectors.nic.collector import SPEC as NIC
    from collectors.snmp.collector import SPEC as SNMP

    return {spec.name: spec.Params for spec in (BRIDGE, GNMI, HOST, NIC, SNMP)}


def _parse_file(data: bytes) -> None:
    _file().write_bytes(data)
    load(_file(), _collectors(), {})
    load(_file(), None, {})


def _file_seeds() -> Iterator[bytes]:
    yield (
        b'[kafka]\nbootstrap = "127.0.0.1:9092"\ntelemetry_partitions = 8\n[store]\nurl = "http://127.0.0.1:8123"\n'
        b"[detect.down]\nopen_after_s = 4\n[runtime]\nmetrics_port = 9100\n[notify]\nalertmanagers = ['http://127.0.0.1:9093']\n"
    )
    yield (
        b'[collect.gnmi]\ncadence_s = 10\n[[collect.gnmi.targets]]\nname = "leaf1"\naddress = "127.0.0.1:9339"\n'
        b'[collect.snmp]\n[[collect.snmp.targets]]\nname = "sw1"\naddress = "127.0.0.1"\n'
    )
    yield b'[tickets]\nsystem = "jira"\nurl = "https://x"\n[tickets.jira]\nproject = "NET"\n'


def _parse_environment(data: bytes) -> None:
    """Read lines of the form `SECTION__KEY=value` as variables."""
    lines = data.decode("utf-8", "replace").replace("\0", "").split("\n")
    load(None, None, {f"RAILSIGHT__{name}": value for name, _, value in (line.partition("=") for line in lines)})


TARGETS = (
    Target("configuration-file", _parse_file, (Misconfigured,), _file_seeds),
    Target(
        "configuration-environment",
        _parse_environment,
        (Misconfigured,),
        lambda: (
            b'KAFKA__BOOTSTRAP=127.0.0.1:9092\nNOTIFY__ALERTMANAGERS=["http://127.0.0.1:9093"]\nRUNTIME__METRICS_PORT=9100',
        ),
    ),
)
