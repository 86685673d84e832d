"""The settings of the bridge, and its output for a file."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from collectors.bridge.collector import SPEC
from collectors.bridge.params import Params
from collectors.bridge.series import Input
from collectors.core.params import Core
from streams.fabric.catalogue import Metric
from streams.wire.errors import Misconfigured, Retry
from tests.fixtures.bridge_records import START_NS, all_of, fold_of, merged


@pytest.mark.parametrize(
    ("result", "meant"),
    [
        ("a", [("a", "auto")]),
        ("a, b", [("a", "auto"), ("b", "auto")]),
        (["a", {"name": "b", "format": "gnmic"}], [("a", "auto"), ("b", "gnmic")]),
        ('[{"name": "b", "format": "telegraf-json"}]', [("b", "telegraf-json")]),
    ],
)
def test_topics_are_names_or_names_with_formats(result: Any, meant: list[tuple[str, str]]) -> None:
    """As text of a command line, or as the configuration has them."""
    assert [(topic.name, topic.format) for topic in Params.model_validate({"topics": result}).topics] == meant


@pytest.mark.parametrize(
    "wrong",
    [{"topics": [{"name": ""}]}, {"topics": [{"name": "a", "format": "csv"}]}, {"username": "u"},
     {"username": "u", "password": "p", "password_file": "f"}, {"inputs": {"a": "cpu"}}, {"unknown": 1}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Before anything is read."""
    with pytest.raises(ValidationError):
        Params.model_validate(wrong)


def test_the_peers_kafka_may_be_another() -> None:
    """With its own login; without it ours is the one."""
    ours = {"bootstrap_servers": "ours:9092"}
    assert Params().source_options(ours) == ours
    other = Params.model_validate({"bootstrap": "theirs:9092", "username": "u", "password": "p", "tls": True})
    options = other.source_options(ours)
    assert (options["bootstrap_servers"], options["security_protocol"]) == (["theirs:9092"], "SASL_SSL")
    assert options["sasl_plain_password"] == "p"
    with pytest.raises(Misconfigured, match="ca_file"):
        Params.model_validate({"bootstrap": "a:1", "tls": True, "ca_file": "/nowhere"}).source_options(None)
    login = {"username": "u", "password_file": "/nowhere"}
    with pytest.raises(Misconfigured, match="password_file"):
        Params.model_validate({"bootstrap": "127.0.0.1:1", **login}).source_options(None)


def test_a_login_without_tls_is_refused_off_loopback() -> None:
    """One error names each remote address and the setting; a CA file without TLS is refused as well."""
    login = {"username": "u", "password": "p"}
    with pytest.raises(ValidationError, match=r"at theirs:9092; set tls = true"):
        Params.model_validate({"bootstrap": "127.0.0.1:1,theirs:9092", **login})
    assert Params.model_validate({"bootstrap": "127.0.0.1:1,[::1]:2", **login}).username == "u"
    with pytest.raises(ValidationError, match=r"ca_file, cert_file and key_file need tls = true"):
        Params.model_validate({"bootstrap": "theirs:9092", "ca_file": "ca.pem"})


def test_a_measurement_may_be_reported_to_come_from_an_input() -> None:
    """A site without the tags that identify the path."""
    line = f"nics,host=gpu1,interface=ens1 rx_bytes_phy=5i {START_NS}"
    assert all_of(fold_of(), [line]) == []
    result = all_of(fold_of(inputs={"nic*": Input.ETHTOOL}), [line])
    assert merged(result) == {"ens1": {(Metric.RX_BYTES, -1): 5}}


async def test_a_files_records_are_printed(tmp_path: Path) -> None:
    """One record a line, whichever format each is in; the newest of each metric of each port."""
    file = tmp_path / "records"
    tags = "source=leaf1,name=Et1,path=/interfaces/interface/state/counters"
    event = {"name": "s", "timestamp": START_NS + 10**10, "tags": {"source": "leaf1:57400", "interface_name": "Et1"},
             "values": {"/interfaces/interface/state/oper-status": "UP"}}  # fmt: skip
    lines = f"m,{tags} in_octets=1u {START_NS}\nm,{tags} in_octets=2u {START_NS + 10**10}\n{{\n"
    file.write_bytes(lines.encode() + orjson.dumps(event))
    rows = [orjson.loads(row) async for row in SPEC.once(Params(file=file), Core())]
    assert rows == [
        {"time": START_NS + 10**10, "device": "leaf1", "source": "bridge", "port": "Et1",
         "metrics": {"rx_bytes": 2, "oper_up": 1.0}}
    ]  # fmt: skip


async def test_nothing_to_print_is_reported(tmp_path: Path) -> None:
    """A missing file, an empty one, and neither file nor topics."""
    with pytest.raises(Misconfigured, match="no/such"):
        _ = [row async for row in SPEC.once(Params(file=Path("no/such")), Core())]
    empty = tmp_path / "empty"
    empty.write_text("cpu,host=a usage=1\n")
    with pytest.raises(Retry, match="no known values"):
        _ = [row async for row in SPEC.once(Params(file=empty), Core())]
    with pytest.raises(Misconfigured, match="no source topics"):
        _ = [row async for row in SPEC.once(Params(), Core())]
