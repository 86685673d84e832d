"""One example of every message of every topic, with every field set: what the golden bytes are first written from.

`python -m tests.contract.wire.examples` writes a golden file for each example that has none yet; it edits none.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streams.fabric.catalogue import Metric
from streams.fabric.heard import Hears
from streams.wire import models as m
from streams.wire.topics import TOPICS, Topic, encode

GOLDEN = Path(__file__).parent / "golden"
_AT = 1_790_000_000_123_456_789
_RUN = 0xF123_4567_89AB_CDEF

SAMPLES = m.Samples(
    "leaf1", m.Source.SOURCE_GNMI, "gnmi-0", _RUN, 7, _AT, _AT + 5_000, 42, m.RowKind.ROW_KIND_PORT, ("e1", "e2"), 99,
    m.Table((Metric.RX_BYTES, Metric.LANE_RAW_ERRORS), (-1, 3),
            np.array([[2**63 + 1, m.ABSENT_COUNTER], [0, 5]], "<u8")),
    m.Table((Metric.OPER_UP, Metric.RX_POWER_DBM), (-1, 0), np.array([[1.0, 0.0], [-2.5, np.nan]], "<f8")),
    (0, 250),
)  # fmt: skip
EVENT = m.Event(
    "leaf1",
    "e1",
    m.EventKind.LINK_DOWN,
    _AT,
    _AT + 1,
    m.Source.SOURCE_SNMP,
    "snmp-0",
    _RUN,
    3,
    "line protocol down",
    -79,
)
FACTS = m.Facts(
    "host1", _AT, m.Source.SOURCE_NIC, "Mellanox", "MT4129", "28.39", _AT - 10, "S1",
    (m.Component("e1", "transceiver", "PN1", "SN1", "1.2", ("mlx5_0", "ens1"), {"rx_power_low_alarm_dbm": -9.9}),),
    (m.Neighbor("e1", "leaf1", "Ethernet1/1"),),
)  # fmt: skip
STATUS = m.CollectorStatus(
    "gnmi-0", _RUN, m.Source.SOURCE_GNMI, "leaf1", _AT, False, "refused", _AT - 9, -3, 10_000_000_000
)
_A, _Z = m.Endpoint("host1", "e0", "SN0"), m.Endpoint("leaf1", "e1")
SUBJECT = m.Subject("link:host1/e0--leaf1/e1", _A, _Z, "host-link", 0, 1, "pod1", "site1", "team1", ("port:host1/e0",))
FINDING = m.Finding(
    "f" * 32, (3 << 32) | 9, True, m.Condition.LINK_FLAP, m.Status.RESOLVED, m.Severity.CRITICAL, SUBJECT, _AT, _AT + 1,
    _AT + 2, _AT + 3, "it went down 3 times", m.Cause.OPTIC,
    (
        m.Evidence(
            "it went down", "oper_up", _A, 3.0, 0.0, "threshold", 4, _AT, _AT + 1, "gnmi-0", m.Source.SOURCE_GNMI, _Z,
            "refused",
        ),
    ),
    0.95,
    m.Coverage(1, 2, ("leaf1/e1",)), m.BlastRadius(("host1",), ("job1",), 8, 0.125),
    m.Forecast(_AT, _AT - 1, _AT + 1), "p" * 32, 2, "link/flap", "1", "abc", "def", False, "docs/x.md", "http://g/1",
)  # fmt: skip
REMEDIATION = m.Remediation(
    "r" * 32,
    (3 << 32) | 10,
    ("f" * 32,),
    m.Action.DRAIN_LINK,
    m.Verdict.DENIED,
    SUBJECT,
    "flaps",
    "surviving-capacity",
    0.75,
    0.5,
    _AT,
    _AT + 600_000_000_000,
    0.5,
    "optic",
    "anna",
    "docs/x.md",
)
RESULT = m.RemediationResult("r" * 32, m.Outcome.DONE, _AT, "netbot", "drained")
CONTROL = m.Control("c1", m.ControlKind.KILL_SWITCH, "pod:1", _AT, _AT + 1, "anna", "storm")
PROGRESS = m.Progress("measure", 3, 2, m.IDLE_NS, -1, 1_000, 12)
SYMPTOM = m.Symptom(
    "leaf1",
    "e1",
    m.SymptomKind.DOWNS_COUNTED,
    _AT,
    _AT - 1,
    m.Source.SOURCE_GNMI,
    True,
    2,
    _RUN,
    "gnmi-0",
    True,
    "x",
    5,
)
WINDOW = m.Window(
    "leaf1", "e1", m.Source.SOURCE_GNMI, _AT, _AT + 60_000_000_000, _AT - 1, _AT + 50_000_000_000,
    (Metric.RX_FCS_ERRORS, Metric.RX_POWER_DBM), (m.NO_INDEX, 3), (7.0, -4.25), (0.0, -1.5),
)  # fmt: skip
RAILS = m.PeerWindow(
    "host1", m.Source.SOURCE_NIC, _AT, _AT + 60_000_000_000, _AT - 1, _AT + 50_000_000_000, ("mlx5_0", "mlx5_1"),
    (Metric.TX_BYTES, Metric.SPEED_BPS), (7.0, -1.0, 4e11, 2e11),
)  # fmt: skip
EPISODE = m.Episode(FINDING, (_AT, _AT + 1), ("link:host2/e0--leaf1/e2",))
CABLING = m.CablingReport("leaf1", "e1", m.Source.SOURCE_GNMI, Hears.ANOTHER, _AT, "host2", "e0", _AT - 1)
CENSUS = m.VersionCensus(
    3, _AT, (m.VersionCount("os", "Arista", "7060X6", m.Source.SOURCE_GNMI, "4.30", 9, 9, _AT, ("leaf1",), (_AT - 1,)),)
)
CHUNK = m.SnapshotChunk("measure", 1, 4, 8, 0, 2, b"\x00\xff")
INVENTORY = m.InventoryChunk("d" * 64, _AT, 1, 2, b"\x28\xb5\x2f\xfd")
JOB = m.Job("job1", "host1", _AT, _AT + 1)
REJECTED = m.Rejected("railsight.samples.v1", 2, 77, "measure", "not a Samples", _AT, b"\xff")

EXAMPLES: dict[type, m.Message] = {
    type(one): one
    for one in (
        SAMPLES, EVENT, FACTS, STATUS, FINDING, REMEDIATION, RESULT, CONTROL, PROGRESS, SYMPTOM, WINDOW, RAILS, EPISODE,
        CABLING, CENSUS, CHUNK, INVENTORY, JOB, REJECTED,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Golden:
    """What may stand in a topic, and the file that holds an example of it."""

    topic: Topic
    model: type[m.Message]
    version: int

    @property
    def path(self) -> Path:
        """Its file: bytes in hexadecimal, or the JSON as it is."""
        suffix = "json" if self.topic.json else "hex"
        return GOLDEN / f"{self.topic.name}.{self.model.__name__.lower()}.{self.version}.{suffix}"


FIRST = tuple(Golden(t, model, 1) for t in TOPICS if t.model for model in (t.model, *t.others)) + tuple(
    Golden(t, model, 1) for t in TOPICS if not t.model for model in t.others
)


def _write() -> None:
    for golden in FIRST:
        if golden.path.exists():
            continue
        value = encode(golden.topic, EXAMPLES[golden.model]).value
        assert value is not None
        golden.path.write_text(f"{value.decode() if golden.topic.json else value.hex()}\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
