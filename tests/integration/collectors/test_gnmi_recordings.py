"""Reads recordings of real targets over real gRPC by `collect gnmi --once --print`, and compares with Telegraf.

Every value of Telegraf's that the catalog contains is read; the page's table lists the others, with a reason.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from pathlib import Path

import orjson
import pytest
from google.protobuf import json_format

from collectors.gnmi.v1 import gnmi_pb2
from lab.constants import command_with
from tests.fakes.gnmi_replay import Replay, replaying
from tests.recordings import DATA

TELEGRAF = DATA / "gnmi/telegraf"
CASES = sorted(folder.name for folder in TELEGRAF.iterdir() if folder.is_dir()) if TELEGRAF.exists() else []
PAGE = Path(__file__).parents[3] / "docs/collectors/gnmi.md"

pytestmark = pytest.mark.skipif(not CASES, reason=f"no recordings at {TELEGRAF}")

NAMED = {
    "in_octets": "rx_bytes", "out_octets": "tx_bytes", "in_pkts": "rx_packets", "out_pkts": "tx_packets",
    "in_discards": "rx_discards", "out_discards": "tx_discards", "in_errors": "rx_errors", "out_errors": "tx_errors",
    "in_fcs_errors": "rx_fcs_errors",
    "in_crc_error_pkts": "rx_fcs_errors", "module_temp": "module_temperature_c", "oper_status": "oper_up",
    "lanediags/lane/lane_laser_bias_current": "bias_ma", "lanediags/lane/lane_laser_output_power_dbm": "tx_power_dbm",
    "lanediags/lane/lane_laser_receiver_power_dbm": "rx_power_dbm",
    "lanediags/lane/lane_rx_loss_of_signal_alarm": "rx_los",
}  # fmt: skip
"""Telegraf's fields with the meaning of a metric of the catalog, listed here independently of the profiles."""
_WORDS = {"up": 1.0, "down": 0.0, "true": 1.0, "false": 0.0}
_FIELD = re.compile(r'((?:\\.|[^=,\\])+)=("(?:\\.|[^"\\])*"|[^,]*),?')


def on_purpose() -> list[tuple[str, str]]:
    """(case, field) as globs: the rows of the page's table of intended omissions."""
    table = PAGE.read_text().partition("## Comparison with Telegraf")[2]
    rows = re.findall(r"^\| `([^`]+)` \| ((?:`[^`]+`(?:, )?)+) \| [^|]{20,} \|$", table, re.MULTILINE)
    return [(case, field) for case, fields in rows for field in re.findall(r"`([^`]+)`", fields)]


def lines(case: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Return (tags, fields) of each of Telegraf's lines."""
    for line in (TELEGRAF / case / "expected.out").read_text().splitlines():
        series, _, rest = line.partition(" ")
        fields, _, _ = rest.rpartition(" ")
        tags = {key: value for key, _, value in (tag.partition("=") for tag in re.split(r"(?<!\\),", series)[1:])}
        yield tags, {name: value.strip('"') for name, value in _FIELD.findall(fields)}


def expected(case: str) -> dict[tuple[str, str], float]:
    """Return (port, metric) of every value of Telegraf's ports that the catalog contains."""
    found: dict[tuple[str, str], float] = {}
    left = [fields for known, fields in on_purpose() if known == case]
    for tags, result in lines(case):
        for name, value in result.items():
            if any(fnmatchcase(name, glob) for glob in left):
                continue
            assert name in NAMED, f"{case}: {name} is neither a metric's nor in the page's table"
            lane = f"[{tags['lane_number']}]" if "lane_number" in tags else ""
            port = tags.get("name") or re.sub(r"\\(.)", r"\1", result["name"])
            number = _WORDS[value.lower()] if value.lower() in _WORDS else float(value.rstrip("ui"))
            found[port, NAMED[name] + lane] = number
    return found


def responses(case: str) -> list[gnmi_pb2.SubscribeResponse]:
    read = orjson.loads((TELEGRAF / case / "responses.json").read_bytes())
    return [json_format.ParseDict(one, gnmi_pb2.SubscribeResponse(), ignore_unknown_fields=True) for one in read]


async def printed() -> tuple[dict[str, dict[tuple[str, str], float]], str]:
    """Return the command's output for all recordings, by recording, and its report of those without a value."""
    async with AsyncExitStack() as stack:
        targets = [
            {"name": case, "address": await stack.enter_async_context(replaying(Replay(responses(case))))}
            for case in CASES
        ]
        process = await asyncio.create_subprocess_exec(
            *command_with({"collect.gnmi.once_s": 4}, "collect", "gnmi", "--once", "--print"),
            "--set", f"targets={orjson.dumps(targets).decode()}", "--set", "cadence_s=2",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, errors = await asyncio.wait_for(process.communicate(), 60)
    found: dict[str, dict[tuple[str, str], float]] = {case: {} for case in CASES}
    for line in out.splitlines():
        row = orjson.loads(line)
        assert row["source"] == "gnmi"
        for metric, value in row["metrics"].items():
            found[row["device"]][row["port"], metric] = value
    return found, errors.decode()


async def test_every_catalogued_value_of_telegraf_is_read() -> None:
    """Values and ports agree in both directions: nothing is missing and nothing is added."""
    found, errors = await printed()
    for case in CASES:
        wanted = expected(case)
        assert found[case].keys() == wanted.keys(), case
        assert found[case] == {key: pytest.approx(value, rel=1e-6) for key, value in wanted.items()}, case
        # Recordings without a known value are named at the end.
        assert (f"railsight: no reading of {case}: " in errors) is (not wanted)
    assert sum(len(rows) for rows in found.values()) >= 30


def test_every_documented_difference_occurs() -> None:
    """Every row of the page occurs in a recording, so that no exception is unused."""
    fields = {case: {name for _, result in lines(case) for name in result} for case in CASES}
    unused = [row for row in on_purpose() if not any(fnmatchcase(name, row[1]) for name in fields[row[0]])]
    assert unused == []
