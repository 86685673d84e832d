"""Real recordings through the whole running pipeline: the same findings as the backtest, killed or not."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Marked, log_contains, once, pid_of, railsight, until
from tests.recordings import FLAPPER

SPEED = "100"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not FLAPPER.exists(), reason="the real recordings are not on this machine"),
]

Key = tuple[str, str, str]


def last_revisions(path: Path) -> dict[Key, dict[str, Any]]:
    """The last revision of each finding by what live and backtest agree on, without its revision."""
    newest: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines():
        result = json.loads(line)
        if result["type"] == "finding":
            finding = result["data"]
            known = newest.get(finding["id"])
            if known is None or int(finding["revision"]) >= int(known["revision"]):
                newest[finding["id"]] = finding
    return {
        (finding["detector"], finding["subject"]["id"], finding["startedAt"]): comparable(finding)
        for finding in newest.values()
    }


def comparable(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a revision without its number; of an open finding also without numbers that wait for the next revision.

    Which of them waits depends on the watermarks of the batches (streams/detect/evidence/revisions.py).
    """
    fields = {name: value for name, value in finding.items() if name != "revision"}
    if finding["status"] in ("RESOLVED", "RETRACTED"):
        return fields
    evidence = [{name: one.get(name) for name in ("metric", "at", "comparison")} for one in finding["evidence"]]
    return fields | {"observedAt": "", "summary": re.sub(r"\d+", "N", finding["summary"]), "evidence": evidence}


def play(folder: Path, *, kill_the_worker: bool) -> Path:
    """Play the flapper through a pipeline of its own; answer where every revision was written."""
    out, run = folder / "played.jsonl", folder / "run"
    command = railsight(
        "demo", "--headless", "--from", str(FLAPPER), "--inventory", str(FLAPPER / "inventory"),
        "--truth", str(FLAPPER / "truth.csv"), "--speed", SPEED, "--run-dir", str(run), "--out", str(out),
    )  # fmt: skip
    with (folder / "report.txt").open("wb") as report:
        demo = Marked(command, folder / "demo.log", stdout=report)
    try:
        if kill_the_worker:
            until(lambda: "playing" in demo.log.read_text() or None, 120, "the recording")
            # Owners write their epoch before their first output: from here on there is something to lose.
            until(lambda: log_contains(run / "process.log", "epoch 1"), 60, "the first owner")
            before = until(lambda: pid_of(run, "process"), 10, "the worker")
            os.kill(before, signal.SIGKILL)
            until(lambda: pid_of(run, "process", before), 30, "the worker after its kill")
        assert demo.process.wait(180) == 0, (folder / "report.txt").read_text() + demo.log.read_text()
        assert demo.left() == []
    finally:
        demo.end()
    return out


@pytest.fixture(scope="session")
def tested(tmp_path_factory: pytest.TempPathFactory) -> dict[Key, dict[str, Any]]:
    """The final revisions of the backtest."""
    out = tmp_path_factory.mktemp("backtest") / "findings.jsonl"
    done = once(
        "backtest", "--samples", str(FLAPPER / "samples.csv.gz"), "--inventory", str(FLAPPER / "inventory"),
        "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return last_revisions(out)


@pytest.mark.parametrize("kill_the_worker", [False, True], ids=["undisturbed", "worker killed"])
def test_a_played_recording_gives_the_findings_of_the_backtest(
    tested: dict[Key, dict[str, Any]], tmp_path: Path, *, kill_the_worker: bool
) -> None:
    """The final revisions are the same, ids included; a worker that is killed changes nothing."""
    assert len(tested) >= 2
    assert last_revisions(play(tmp_path, kill_the_worker=kill_the_worker)) == tested
