"""The states of all stages in the middle of labelled cases, as each released version wrote them.

`python -m tests.contract.upgrade.states` writes those of this version, where there are none yet. **Added, never
edited**: test_states.py lists those that a release cannot read any more; their input is read again.
"""

import base64
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streams.replay.driver import event_time
from streams.runtime.snapshots import SCHEMA
from streams.wire import codec
from streams.wire.models import Finding, Message, Snapshot, Status
from tests.contract.detect.cases import LABELLED, case_messages
from tests.worlds.live_stages import LiveStages
from tests.worlds.observations import last

FOLDER = Path(__file__).parent / "states"
ROOT = Path(__file__).parents[3]
STAGES = ("measure", "correlate", "attribute", "decide")
CASES = (
    "link/flap", "link/down", "link/degrading", "rail/degraded", "congestion/pfc-storm", "host/gpu-fault",
    "telemetry/stale", "device/clock-skew", "fleet/version-drift",
)  # fmt: skip

Summary = list[list[str | int]]


@dataclass(frozen=True, slots=True)
class State:
    """One case of one version: snapshots by stage, the number of messages in them, and the findings at the end."""

    version: str
    slug: str
    snapshots: dict[str, bytes]
    messages: int
    findings: Summary


def path_of(version: str, slug: str) -> Path:
    """Return the file of a case."""
    return FOLDER / version / f"{slug.replace('/', '-')}.json"


def states() -> Iterator[State]:
    """Yield all states of all versions."""
    for path in sorted(FOLDER.glob("*/*.json")):
        known = json.loads(path.read_text(encoding="utf-8"))
        snapshots = {stage: base64.b64decode("".join(text)) for stage, text in known["snapshots"].items()}
        yield State(path.parent.name, known["case"], snapshots, known["messages"], known["findings"])


def summary(findings: list[Finding]) -> Summary:
    """Return the fields of the last revisions by which consumers know an episode."""
    return sorted(
        [one.id, one.condition.name, one.status.name, one.started_at_ns, one.resolved_at_ns or 0]
        for one in last(findings)
        if one.status is not Status.RETRACTED
    )


def continued(live: LiveStages, messages: list[Message]) -> Summary:
    """Return the findings that are published from here on to the end of a case."""
    already = len(live.published)
    for message in messages:
        live.process(message)
    live.end(event_time(messages[-1])[0] + 30 * 10**9)
    return summary([one for one in live.published[already:] if isinstance(one, Finding)])


def version() -> str:
    """Return the version of this repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def _write(slug: str) -> None:
    path = path_of(version(), slug)
    if path.exists():
        return
    world, truth = LABELLED[slug]
    messages = case_messages(slug)
    middle_ns = truth.start_ns + (truth.end_ns - truth.start_ns) * 3 // 5
    cut = next(number for number, one in enumerate(messages) if event_time(one)[0] >= middle_ns)
    live = LiveStages(world.topology)
    for message in messages[:cut]:
        live.process(message)
    snapshots = {}
    for name, stage in zip(STAGES, live.stages, strict=True):
        whole = Snapshot(SCHEMA, 1, {"t/0": cut}, {}, stage.watermark_ns, world.topology.digest, stage.snapshot())
        text = base64.b64encode(codec.to_bytes(whole)).decode()
        snapshots[name] = [text[start : start + 110] for start in range(0, len(text), 110)]
    known = {"case": slug, "messages": cut, "findings": continued(live, messages[cut:]), "snapshots": snapshots}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in CASES:
        _write(each)
