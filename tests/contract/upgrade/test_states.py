"""The state of each released version is restored, and goes on to the findings that it had."""

import orjson
import pytest

from streams.runtime.snapshots import SCHEMA, SnapshotAssembler, split
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Snapshot
from tests.contract.detect.cases import LABELLED, case_messages
from tests.contract.upgrade.states import CASES, STAGES, State, continued, path_of, states, version
from tests.worlds.live_stages import MAKE, LiveStages

REBUILT: dict[tuple[str, str], str] = {}
"""(version, stage) of snapshots that are refused, with the reason: their input is read again."""

STATES = list(states())


def test_this_version_has_states_of_all_cases() -> None:
    """`python -m tests.contract.upgrade.states` writes those of a new version."""
    assert [slug for slug in CASES if not path_of(version(), slug).is_file()] == []


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.version}-{state.slug}")
def test_a_released_state_goes_on_to_the_same_findings(state: State) -> None:
    """Ids, conditions, begins and ends are those that the version itself published from there on."""
    live = LiveStages(LABELLED[state.slug][0].topology)
    is_rebuilt = False
    for number, name in enumerate(STAGES):
        whole = codec.from_bytes(Snapshot, state.snapshots[name])
        if (state.version, name) in REBUILT:
            is_rebuilt = True
            with pytest.raises(Reject):
                MAKE[number]().restore(whole.state)
        else:
            live.restore(number, whole.state)
            assert live.stages[number].watermark_ns == whole.watermark_ns
    if not is_rebuilt:
        assert continued(live, case_messages(state.slug)[state.messages :]) == state.findings != []


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.version}-{state.slug}")
def test_a_state_of_a_newer_version_is_refused_by_name(state: State, caplog: pytest.LogCaptureFixture) -> None:
    """It is passed over and counted, and the older one beside it is restored."""
    whole = codec.from_bytes(Snapshot, state.snapshots["correlate"])
    newer = Snapshot(
        SCHEMA + 1, 2, whole.next_offset, {}, whole.watermark_ns, whole.inventory_digest, b"of a later version"
    )
    assembler = SnapshotAssembler()
    for sequence, one in ((2, whole), (3, newer)):
        for chunk in split("correlate", 0, sequence, one):
            assembler.add(f"{one.epoch}/{sequence}.{chunk.chunk}", chunk)
    assert assembler.best == whole
    assert assembler.highest_epoch == 2
    assert assembler.unreadable == 1
    assert f"its schema is {SCHEMA + 1}, this version reads {SCHEMA}; upgrade this process" in caplog.text


@pytest.mark.parametrize("number", [1, 2, 3], ids=STAGES[1:])
def test_a_state_with_a_field_of_a_newer_version_is_refused(number: int) -> None:
    """Restored without it, what it holds would be lost; `measure` has a schema of its own."""
    state = codec.from_bytes(Snapshot, STATES[0].snapshots[STAGES[number]]).state
    newer = orjson.dumps(orjson.loads(state) | {"of_a_newer_version": {}})
    with pytest.raises(Reject, match=r"unknown of_a_newer_version; upgrade this process"):
        MAKE[number]().restore(newer)


@pytest.mark.parametrize("number", range(len(STAGES)), ids=STAGES)
def test_a_spoiled_state_is_refused_and_changes_nothing(number: int) -> None:
    """Cut, of another stage, or with another schema: never restored in part."""
    own = codec.from_bytes(Snapshot, STATES[0].snapshots[STAGES[number]]).state
    other = codec.from_bytes(Snapshot, STATES[0].snapshots[STAGES[number - 1]]).state
    stage = MAKE[number]()
    stage.start_epoch(1)
    before = stage.snapshot()
    for spoiled in (b"", own[: len(own) // 2], own[:-1], b"{}" * 9, other):
        with pytest.raises(Reject):
            stage.restore(spoiled)
        assert stage.snapshot() == before
