"""Recordings of real targets (telegraf's test cases), read in place: their interface counters and states."""

import numpy as np
import orjson
import pytest
from google.protobuf import json_format

from collectors.core.columns import Reading
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.fabric.catalogue import Metric
from tests.recordings import DATA

TELEGRAF = DATA / "gnmi/telegraf"
CASES = sorted(folder.name for folder in TELEGRAF.iterdir() if folder.is_dir()) if TELEGRAF.exists() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"no recordings at {TELEGRAF}")


def replay(case: str) -> tuple[Reading | None, CollectorMetrics]:
    """Return the last reading of a recording, with all earlier values."""
    metrics = CollectorMetrics()
    connection = Connection(case, Params(cadence_s=3600), DeviceIdentity(), metrics, on_change=False)
    received_ns = 0
    for response in orjson.loads((TELEGRAF / case / "responses.json").read_bytes()):
        sent = json_format.ParseDict(response, gnmi_pb2.SubscribeResponse(), ignore_unknown_fields=True)
        lite = gnmi_lite_pb2.SubscribeResponse.FromString(sent.SerializeToString())
        received_ns = max(received_ns, lite.update.timestamp)
        connection.process(lite.update, received_ns)
    return connection.flush(received_ns + 10**12), metrics


def rows(reading: Reading) -> dict[str, dict[tuple[Metric, int], float]]:
    """Return the values, by port."""
    found: dict[str, dict[tuple[Metric, int], float]] = {row: {} for row in reading.row}
    for table in (reading.counters, reading.gauges):
        for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
            for row, value in zip(reading.row, values, strict=True):
                if not np.isnan(value) and value != 2**64 - 1:
                    found[row][metric, index] = float(value)
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_recording_is_read_without_an_error(case: str) -> None:
    """The reader continues after any message of a real target."""
    replay(case)


def test_the_key_that_is_missing_from_the_path_is_taken_from_the_name() -> None:
    """issue_14063: an interface without key, with modules before every element; its name is among the values."""
    reading, _ = replay("issue_14063")
    assert reading is not None
    ((name, values),) = rows(reading).items()
    assert name == '\\"1\\'
    assert {metric for metric, _ in values} == {
        Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS, Metric.RX_DISCARDS, Metric.RX_ERRORS,
        Metric.TX_ERRORS, Metric.RX_FCS_ERRORS,
    }  # fmt: skip
    assert set(values.values()) == {0.0}


def test_plain_counters_of_a_port() -> None:
    """issue_14530: reported zeros are zeros, and values that were not reported are absent."""
    reading, _ = replay("issue_14530")
    assert reading is not None
    values = rows(reading)["Ethernet35"]
    assert values[Metric.RX_FCS_ERRORS, -1] == 0
    assert (Metric.LINK_TRANSITIONS, -1) not in values
    assert len(values) == 9


def test_lanes_of_a_module_come_from_bytes_that_are_floats() -> None:
    """issue_17154: power in four bytes, bias as a float, "NA" as absent."""
    reading, metrics = replay("issue_17154")
    assert reading is not None
    values = rows(reading)["et-0/0/0"]
    assert values[Metric.TX_POWER_DBM, 0] == pytest.approx(2.32, abs=1e-3)
    assert values[Metric.RX_POWER_DBM, 0] == pytest.approx(-0.07, abs=1e-3)
    assert values[Metric.BIAS_MA, 0] == 90
    assert values[Metric.MODULE_TEMPERATURE_C, -1] == pytest.approx(36.66, abs=1e-3)
    assert metrics.value("unreadable") == 0


def test_subinterfaces_and_foreign_models_are_no_ports() -> None:
    """A subinterface, a BGP session with a key of no model, a power supply and a vendor's tree have no metrics."""
    for case in ("tagging_subinterfaces", "issue_11011", "issue_12831", "issue_15046", "issue_12931"):
        assert replay(case)[0] is None, case


def test_a_delete_beside_an_empty_update_and_the_state_that_follows() -> None:
    """issue_17412: the last state counts."""
    reading, _ = replay("issue_17412")
    assert reading is not None
    assert rows(reading) == {"Eth-Trunk5.1234": {(Metric.OPER_UP, -1): 0.0}}
