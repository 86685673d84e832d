"""Records acceptances and changes, so that a crash at any point is safe.

Each line is a JSON object, synced to disk before the next step. A change is recorded with the prior value before it is
made, and confirmed after it was read back. An incomplete last line is a step that was not begun; it is removed.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from railsight_automation.errors import Misconfigured
from railsight_automation.messages import Remediation

RETENTION_NS = 31 * 86_400 * 10**9
"""The topic retains remediations for 30 days, so an older id cannot be delivered again."""


@dataclass
class Change:
    """A changed value, with its remediation and the value before."""

    address: str
    remediation_id: str
    prior: Any
    written: Any
    is_confirmed: bool = False


@dataclass
class Intent:
    """An accepted remediation. `outcome` is empty until it is decided."""

    remediation: Remediation
    accepted_at_ns: int
    instance: str = ""
    """The instance that accepted it; it answers in the same name after a restart."""
    is_begun: bool = False
    is_operated: bool = False
    """True if the operation was begun; it is not begun again."""
    before: Any = None
    """The state before the operation."""
    outcome: str = ""
    detail: str = ""
    prior_values: dict[str, str] = field(default_factory=dict)
    is_answered: bool = False

    def operate(self, before: Any) -> None:
        """Begin the operation."""
        self.is_operated, self.before = True, before


@dataclass
class Journal:
    """The journal of one automation; another process cannot open it at the same time.

    `name` is of the instance. A journal of another instance is refused unless `take_over` names it: a copy of a journal
    would otherwise act beside its original.
    """

    path: Path
    name: str = "local"
    take_over: str = ""
    intents: dict[str, Intent] = field(default_factory=dict)
    """Remediation id -> intent."""
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """Target id -> its changes in effect, in the order in which they were made."""
    positions: dict[str, int] = field(default_factory=dict)
    """Partition -> the offset of the first record that may have to be handled."""
    owner: str = ""
    """The name of the instance that used the journal last."""

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for entry in self._entries():
                self._apply(entry)
            if self.owner not in ("", self.name, self.take_over):
                raise Misconfigured(
                    f"{self.path} is of the instance {self.owner}, not {self.name}; if that process has ended for good,"
                    f" start once with --take-over {self.owner}"
                )
        except BlockingIOError as error:
            self._lock.close()
            raise Misconfigured(f"{self.path} is in use by another process") from error
        except BaseException:
            self._lock.close()
            raise
        self._file: IO[bytes] = self.path.open("ab")
        self.instance = f"{self.name}/{secrets.token_hex(4)}"
        """This process: of two with one actor and name, `decide` confirms an acceptance to one."""
        if self.owner != self.name:
            self._append({"kind": "instance", "name": self.name})

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()
        self._lock.close()

    def accept(self, remediation: Remediation, at_ns: int) -> None:
        """Record that a remediation will be carried out."""
        entry = {"kind": "accepted", "remediation": remediation.to_json(), "at_ns": at_ns, "instance": self.instance}
        self._append(entry)
        for former in remediation.former_ids:
            if former in self.changes and former != remediation.target_id:
                self._append({"kind": "renamed", "former": former, "target": remediation.target_id})

    def begin(self, remediation_id: str) -> None:
        """Record that the first step of a remediation follows."""
        self._append({"kind": "begun", "id": remediation_id})

    def operate(self, remediation_id: str, before: Any) -> None:
        """Record that the operation follows, with the state before it."""
        self._append({"kind": "operated", "id": remediation_id, "before": before})

    def change(self, target_id: str, change: Change) -> None:
        """Record a change that follows, with the prior value."""
        self._append({"kind": "change", "target": target_id, "change": asdict(change)})

    def confirm(self, target_id: str, address: str) -> None:
        """Record that a change was read back."""
        self._append({"kind": "confirmed", "target": target_id, "address": address})

    def find(self, address: str) -> tuple[str, Change] | None:
        """Return the change in effect of a setting, with its target; None without an own change."""
        found = ((target, one) for target, changes in self.changes.items() for one in changes)
        return next(((target, change) for target, change in found if change.address == address), None)

    def undone(self, target_id: str, address: str) -> None:
        """Record that a change is no longer in effect."""
        self._append({"kind": "undone", "target": target_id, "address": address})

    def finish(self, remediation_id: str, outcome: str, detail: str, prior_values: dict[str, str]) -> None:
        """Record the outcome before it is sent."""
        entry = {"kind": "finished", "id": remediation_id, "outcome": outcome, "detail": detail}
        self._append(entry | {"prior_values": prior_values})

    def answered(self, remediation_id: str) -> None:
        """Record that Kafka has the answer."""
        self._append({"kind": "answered", "id": remediation_id})

    def move(self, positions: dict[str, int]) -> None:
        """Record that all records before these offsets are handled."""
        if positions != self.positions:
            self._append({"kind": "positions", "positions": positions})

    def changes_of(self, target_id: str, remediation_id: str | None = None) -> list[Change]:
        """Return the changes in effect of a target, optionally only of one remediation; the newest first."""
        changes = reversed(self.changes.get(target_id, []))
        return [change for change in changes if remediation_id in (None, change.remediation_id)]

    def compact(self, now_ns: int) -> None:
        """Write the present state into a new file, without obsolete entries."""
        self.intents = {
            key: intent
            for key, intent in self.intents.items()
            if not intent.is_answered or intent.accepted_at_ns > now_ns - RETENTION_NS
        }
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as file:
            for entry in self._state():
                file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        self._sync_folder()
        self._file.close()
        self._file = self.path.open("ab")

    def _state(self) -> Iterator[dict[str, Any]]:
        yield {"kind": "instance", "name": self.owner}
        yield {"kind": "positions", "positions": self.positions}
        for key, intent in self.intents.items():
            accepted = {"kind": "accepted", "remediation": intent.remediation.to_json(), "instance": intent.instance}
            yield accepted | {"at_ns": intent.accepted_at_ns}
            if intent.is_begun:
                yield {"kind": "begun", "id": key}
            if intent.is_operated:
                yield {"kind": "operated", "id": key, "before": intent.before}
            if intent.outcome:
                finished = {"kind": "finished", "id": key, "outcome": intent.outcome, "detail": intent.detail}
                yield finished | {"prior_values": intent.prior_values}
            if intent.is_answered:
                yield {"kind": "answered", "id": key}
        for target_id, changes in self.changes.items():
            for change in changes:
                yield {"kind": "change", "target": target_id, "change": asdict(change)}

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(entry)

    def _entries(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            self.path.touch()
            self._sync_folder()
        lines = self.path.read_bytes().split(b"\n")
        if lines[-1]:
            with self.path.open("r+b") as file:
                file.truncate(self.path.stat().st_size - len(lines[-1]))
        for number, line in enumerate(lines[:-1], start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise Misconfigured(f"{self.path}:{number} is damaged: {error}") from error

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _apply(self, entry: dict[str, Any]) -> None:
        match entry["kind"]:
            case "accepted":
                remediation = Remediation.from_json(entry["remediation"])
                self.intents[remediation.id] = Intent(remediation, entry["at_ns"], entry.get("instance", ""))
            case "instance":
                self.owner = entry["name"]
            case "renamed":
                changes = self.changes.pop(entry["former"], [])
                self.changes.setdefault(entry["target"], []).extend(changes)
            case "begun":
                self.intents[entry["id"]].is_begun = True
            case "operated":
                self.intents[entry["id"]].operate(entry["before"])
            case "change":
                self.changes.setdefault(entry["target"], []).append(Change(**entry["change"]))
            case "confirmed":
                next(c for c in self.changes[entry["target"]] if c.address == entry["address"]).is_confirmed = True
            case "undone":
                remaining = [c for c in self.changes[entry["target"]] if c.address != entry["address"]]
                self.changes[entry["target"]] = remaining
                if not remaining:
                    del self.changes[entry["target"]]
            case "finished":
                intent = self.intents[entry["id"]]
                intent.outcome, intent.detail, intent.is_answered = entry["outcome"], entry["detail"], False
                intent.prior_values = entry["prior_values"]
            case "answered":
                self.intents[entry["id"]].is_answered = True
            case "positions":
                self.positions = entry["positions"]
