"""Fuzzes every parser of the registry, each in a process of its own, and prints what was run and what was found.

    python -m tests.fuzz --minutes 30 [--target NAME ...]     the time is divided over the targets
    python -m tests.fuzz --reproduce TARGET FILE              run one input again
    python -m tests.fuzz --list

An input that breaks a target's promise is written to a file; its name and the command that runs it again are printed,
and the exit code is 1. `--keep` adds the inputs that reached new code to tests/fuzz/corpus.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.registry import BY_NAME, MODULE_OF, TARGETS
from tests.fuzz.target import CORPUS, MemoryMeter, check, corpus_files

_MAX_FILES = 20
"""Files of one target in the repository's corpus, each of at most _MAX_FILE_BYTES."""
_MAX_FILE_BYTES = 1024
_GRACE_S = 120.0
"""For the start, which takes some ten seconds, and for the longest single input."""


@dataclass
class Outcome:
    """The run of one target."""

    name: str
    executions: int = 0
    coverage: str = "-"
    finding: Path | None = None
    reason: str = ""


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--target", action="append", choices=sorted(BY_NAME), help="repeatable; default: all")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"), help="folder for inputs that fail")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--reproduce", nargs=2, metavar=("TARGET", "FILE"))
    given = parser.parse_args()
    if given.list:
        print("\n".join(BY_NAME))
        return 0
    if given.reproduce:
        name, file = given.reproduce
        accepted = check(BY_NAME[name], Path(file).read_bytes(), MemoryMeter())
        print(f"{name}: {'accepted' if accepted else 'refused'} as it should be")
        return 0
    names = given.target or [target.name for target in TARGETS]
    seconds = max(1, round(given.minutes * 60 / len(names)))
    outcomes = [_fuzz(name, seconds, given.crashes, keep=given.keep) for name in names]
    found = [(one.name, one.reason, one.finding) for one in outcomes if one.finding is not None]
    print(f"{sum(one.executions for one in outcomes)} executions of {len(outcomes)} targets, {len(found)} findings")
    for name, reason, path in found:
        print(f"finding: {name}: {reason}\n  input: {path}")
        if path.suffix != ".log":
            print(f"  again: {sys.executable} -m tests.fuzz --reproduce {name} {path}")
    return 1 if found else 0


def _fuzz(name: str, seconds: int, crashes: Path, *, keep: bool) -> Outcome:
    outcome = Outcome(name)
    with tempfile.TemporaryDirectory(prefix="railsight-fuzz-") as made:
        folder = Path(made)
        corpus, artifacts = folder / "corpus", folder / "artifacts"
        artifacts.mkdir()
        _copy_corpus(name, corpus)
        log = _run(name, corpus, [f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/"], seconds + _GRACE_S)
        if match := re.search(r"stat::number_of_executed_units:\s*(\d+)", log):
            outcome.executions = int(match[1])
        if covered := re.findall(r"\bcov: (\d+)", log):
            outcome.coverage = covered[-1]
        for artifact in sorted(artifacts.iterdir()):
            crashes.mkdir(parents=True, exist_ok=True)
            outcome.finding = crashes / f"{name}-{artifact.name}"
            shutil.copyfile(artifact, outcome.finding)
            outcome.reason = _reason(log)
        if outcome.finding is None and "stat::number_of_executed_units" not in log:
            outcome.finding, outcome.reason = crashes / f"{name}.log", "the fuzzer ended by itself"
            crashes.mkdir(parents=True, exist_ok=True)
            outcome.finding.write_text(log)
        if keep and outcome.finding is None:
            _keep(name, corpus)
    print(f"{name}: {outcome.executions} executions, coverage {outcome.coverage}, {outcome.reason or 'no finding'}",
          flush=True)  # fmt: skip
    return outcome


def _copy_corpus(name: str, folder: Path) -> None:
    folder.mkdir()
    for number, data in enumerate(BY_NAME[name].inputs()):
        (folder / f"seed-{number}").write_bytes(data)


def _run(name: str, corpus: Path, options: list[str], within_s: float) -> str:
    command = [sys.executable, "-m", "tests.fuzz.coverage_guided", MODULE_OF[name], name, *options, str(corpus)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within_s, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return f"{(error.stdout or b'').decode(errors='replace')}\nthe fuzzer did not end within {within_s:g} s"
    return done.stdout.decode(errors="replace")


def _reason(log: str) -> str:
    """Return the exception that ended a run, else the fuzzer's own message, else its last line."""
    for pattern in (r"=== Uncaught Python exception: ===\n(.*)", r"ERROR: libFuzzer: (.*)"):
        if found := re.search(pattern, log):
            return found[1].strip()[:300]
    return (log.strip().splitlines() or ["no output"])[-1][:300]


def _keep(name: str, corpus: Path) -> None:
    """Add the smallest inputs that reached new code to the repository's corpus."""
    found = {path.read_bytes() for path in corpus.iterdir()} - {*BY_NAME[name].inputs()}
    new = sorted((data for data in found if len(data) <= _MAX_FILE_BYTES), key=lambda data: (len(data), data))
    for data in new[: max(0, _MAX_FILES - len(corpus_files(name)))]:
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        (CORPUS / name / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
