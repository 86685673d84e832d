"""`railsight findings` lists what is open, and on request what ended lately."""

import time
from dataclasses import replace

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_io import publish
from streams.wire.models import Control, ControlKind, Severity, Status
from streams.wire.topics import CONTROLS, FINDINGS, FINDINGS_OPEN, encode
from tests.fixtures.findings import finding
from tests.integration.runtime.commands import railsight

HOUR_NS = 3_600_000_000_000


async def test_the_worst_is_first_and_planned_work_is_marked(bootstrap: str) -> None:
    """--since adds findings that ended since then, in the past tense; retracted and longer ended ones are left out."""
    kafka, now = KafkaSettings.model_validate({"bootstrap": bootstrap}), time.time_ns()
    minor = finding("aaaa-minor", started_at_ns=now - 40 * HOUR_NS, observed_at_ns=now - HOUR_NS)
    worse = replace(minor, id="bbbb-worse", severity=Severity.CRITICAL)
    over = replace(worse, id="cccc-over", revision=2, status=Status.RESOLVED, resolved_at_ns=now - 2 * HOUR_NS)
    long_over = replace(over, id="dddd-long-over", resolved_at_ns=now - 30 * HOUR_NS)
    retracted = replace(over, id="eeee-retracted", status=Status.RETRACTED)
    revisions = [minor, worse, replace(over, revision=1, status=Status.OPEN, resolved_at_ns=None), over, long_over]
    await publish(kafka, [encode(FINDINGS, one, key=one.id) for one in (*revisions, retracted)])
    await publish(kafka, [encode(FINDINGS_OPEN, one, key=one.id) for one in (minor, worse)])

    def listed(*options: str) -> list[str]:
        done = railsight("findings", "--bootstrap", bootstrap, *options)
        assert done.returncode == 0, done.stderr
        return [line.split()[0] for line in done.stdout.splitlines()[1:]]

    assert listed() == ["bbbb-worse", "aaaa-minor"]
    assert listed("--since", "12h") == ["bbbb-worse", "cccc-over", "aaaa-minor"]
    assert listed("--since", "2d") == ["bbbb-worse", "cccc-over", "dddd-long-ov", "aaaa-minor"]
    ack = Control("m", ControlKind.MAINTENANCE, "leaf1", now, now + HOUR_NS, "me")
    await publish(kafka, [encode(CONTROLS, ack, key=ack.id)])
    table = railsight("findings", "--bootstrap", bootstrap, "--since", "12h").stdout.splitlines()
    assert [" maintenance " in line for line in table[1:]] == [True, False, True]
    assert [line.endswith("was down") for line in table[1:]] == [False, True, False]
    refused = railsight("findings", "--bootstrap", bootstrap, "--since", "soon")
    assert refused.returncode == 2 and "not a duration" in refused.stderr
