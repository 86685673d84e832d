"""Recordings of real targets through Telegraf and gnmic give the same values as the project's own collector."""

import orjson
import pytest
from google.protobuf import json_format

from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.fabric.catalogue import Metric
from tests.fakes.gnmic_formatter import events
from tests.fixtures.bridge_records import Rows, all_of, fold_of, merged, rows
from tests.recordings import DATA

TELEGRAF = DATA / "gnmi/telegraf"
CASES = sorted(folder.name for folder in TELEGRAF.iterdir() if folder.is_dir()) if TELEGRAF.exists() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"no recordings at {TELEGRAF}")


def responses(case: str) -> list[gnmi_pb2.SubscribeResponse]:
    read = orjson.loads((TELEGRAF / case / "responses.json").read_bytes())
    return [json_format.ParseDict(one, gnmi_pb2.SubscribeResponse(), ignore_unknown_fields=True) for one in read]


def own(case: str) -> Rows:
    """Return the own collector's reading of the target's responses."""
    connection = Connection(case, Params(cadence_s=3600), DeviceIdentity(), CollectorMetrics(), on_change=False)
    received_ns = 0
    for sent in responses(case):
        lite = gnmi_lite_pb2.SubscribeResponse.FromString(sent.SerializeToString())
        received_ns = max(received_ns, lite.update.timestamp)
        connection.process(lite.update, received_ns)
    reading = connection.flush(received_ns + 10**12)
    return {} if reading is None else rows(reading)


def of_telegraf(case: str) -> Rows:
    """Return the bridge's reading of Telegraf's output."""
    return merged(all_of(fold_of(), [(TELEGRAF / case / "expected.out").read_bytes()]))


def of_gnmic(case: str) -> Rows:
    """Return the bridge's reading of gnmic's output."""
    return merged(all_of(fold_of(), [orjson.dumps(events(one, case)) for one in responses(case)]))


def close(first: Rows, second: Rows) -> bool:
    """Return whether both readings are equal, to the precision of a float32."""
    return first.keys() == second.keys() and all(
        values.keys() == second[row].keys()
        and all(value == pytest.approx(second[row][column], rel=1e-6) for column, value in values.items())
        for row, values in first.items()
    )


@pytest.mark.parametrize("case", CASES)
def test_telegrafs_lines_say_what_our_own_collector_reads(case: str) -> None:
    """Value by value, whatever the target's dialect; what is none of ours is nothing from either."""
    assert close(of_telegraf(case), own(case)), (of_telegraf(case), own(case))


@pytest.mark.parametrize("case", CASES)
def test_gnmics_events_say_what_our_own_collector_reads(case: str) -> None:
    """Value by value: keys among the tags, JSON flattened, floats as base64, modules and origins before the names."""
    assert close(of_gnmic(case), own(case)), (of_gnmic(case), own(case))


def test_the_recordings_hold_what_they_are_here_for() -> None:
    """Counters, a state and lanes are among them, so that agreement is not that of two empty hands."""
    found = [of_telegraf(case) for case in CASES]
    metrics = {metric for rows in found for values in rows.values() for metric, _ in values}
    assert {Metric.RX_BYTES, Metric.OPER_UP, Metric.RX_POWER_DBM, Metric.MODULE_TEMPERATURE_C} <= metrics
