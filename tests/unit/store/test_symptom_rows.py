"""Tests symptoms as rows: the columns of each payload, and replaced symptoms."""

import orjson
import pytest

from streams.store.rows.row_builder import MessageRowBuilder, SourcedMessage
from streams.store.rows.symptom_rows import SYMPTOMS, SymptomRow, symptom_rows
from streams.wire.models import Source, Symptom, SymptomsReplaced
from streams.wire.symptoms import CongestionState, PauseBegan, PauseDirection, Payload, Restart, SourceSilence
from tests.fixtures.wire_examples import PAYLOADS

S = 1_000_000_000
PAUSE = PauseBegan(PauseDirection.RECEIVED, 3 * S, 0.9, 4)


def row(payload: Payload) -> SymptomRow:
    return next(symptom_rows(Symptom("leaf", "q", payload, 5 * S, source=Source.SOURCE_GNMI)))


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_every_payload_has_a_row_with_its_fields(payload: Payload) -> None:
    """The kind is the derived one, and `detail` has the fields by name."""
    made = row(payload)
    assert (made.device, made.port, made.kind, made.at_ns) == ("leaf", "q", payload.kind.name.lower(), 5 * S)
    assert orjson.loads(made.detail).keys() == set(type(payload).__slots__)


def test_columns_are_filled_from_the_payloads_that_have_them() -> None:
    """A silence has its collector, a restart its boot, a congestion its begin."""
    silence = row(SourceSilence(False, "c", True, "refused", 2, 10 * S, 7))
    assert (silence.collector, silence.collector_silent, silence.count) == ("c", True, 2)
    assert (silence.cadence_ns, silence.boot_id) == (10 * S, 7)
    assert row(Restart(9)).boot_id == 9
    assert (row(PAUSE).since_ns, orjson.loads(row(PAUSE).detail)["direction"]) == (3 * S, "received")


def test_replaced_symptoms_are_a_marker_and_their_replacements() -> None:
    """The marker has the start of the replaced interval and the number of replacements."""
    pause = Symptom("leaf", "q", PAUSE, 5 * S, source=Source.SOURCE_GNMI)
    state = CongestionState.PAUSE_RECEIVED
    replaced = SymptomsReplaced("leaf", "q", Source.SOURCE_GNMI, state, 2 * S, (pause, pause))
    builder = MessageRowBuilder(SYMPTOMS, items_of=symptom_rows)
    assert builder.add(SourcedMessage(0, 11, 1000, replaced)) == 3
    assert [one.kind for one in symptom_rows(replaced)] == ["pause_received_replaced", *["pause_received_began"] * 2]
    marker = next(symptom_rows(replaced))
    assert (marker.at_ns, marker.since_ns, marker.count) == (2 * S, 2 * S, 2)
    assert [rows.count for rows in builder.finish()] == [3]
    assert builder.finish() == []
