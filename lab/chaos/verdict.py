"""Compares acknowledged messages and the truth of the fabric with the results of the reader. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.chaos.load import Acknowledged, Identity
from lab.chaos.reader import Revision
from streams.wire.topics import EVENTS, SAMPLES

CLOSED = ("RESOLVED", "RETRACTED")
_SHOWN = 3


@dataclass
class Observation:
    """The results of the reader."""

    messages: Mapping[str, Counter[tuple[str, int]]]
    sample_rows: Mapping[tuple[str, int], int]
    findings: Sequence[Revision]
    finding_rows: Counter[tuple[str, int]]
    open_topic: Mapping[str, bytes | None]
    rejected: Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class FindingTruth:
    """The subjects that must have an open link/down at the end, and the subjects that may have had one."""

    open: frozenset[str]
    ever: frozenset[str]
    since: str = ""
    """RFC 3339; earlier findings of link/down belong to an earlier sequence."""
    may_lose: bool = False
    """True if a fault deletes unread records: findings that state losses of input are then true."""

    def is_loss(self, finding: Mapping[str, Any]) -> bool:
        """Return True if a finding states a loss of input that this or an earlier sequence has caused."""
        return finding.get("cause") == "RETENTION" and (self.may_lose or finding["startedAt"] < self.since)


@dataclass
class Verdict:
    """The lost and duplicate identities, and a line for every other breach."""

    lost: list[Identity] = field(default_factory=list)
    double: list[Identity] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)


def count_messages(acknowledged: Mapping[Identity, Acknowledged], seen: Observation) -> Verdict:
    """Return the acknowledged messages that are missing, that are stored twice, and that have missing rows."""
    verdict = Verdict()
    tables = {SAMPLES.name: "samples", EVENTS.name: "events"}
    wrong_rows = []
    for identity, message in acknowledged.items():
        times = seen.messages[tables[identity.topic]][identity.device, identity.sequence]
        if times == 0:
            verdict.lost.append(identity)
        elif identity.topic == SAMPLES.name:
            rows = seen.sample_rows.get((identity.device, identity.sequence), 0)
            if times == 1 and rows != message.rows:
                wrong_rows.append(f"{identity.device}/{identity.sequence}: {rows} rows of {message.rows}")
    for topic, table in tables.items():
        verdict.double += [Identity(topic, *key) for key, times in seen.messages[table].items() if times > 1]
    verdict.breaches += _listed("messages with a wrong number of rows", wrong_rows)
    return verdict


def check_findings(seen: Observation, truth: FindingTruth) -> list[str]:
    """Return a line for each breach of the promises about findings."""
    contents: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    for one in seen.findings:
        contents[one.id, one.revision].add(one.value)
    newest = newest_revisions(seen.findings)
    stored = {key for key, times in seen.finding_rows.items() if times}
    return [
        *_listed("revisions with two contents", [f"{i}/{r}" for (i, r), values in contents.items() if len(values) > 1]),
        *_listed("revisions without a row", [f"{i}/{r}" for i, r in contents if (i, r) not in stored]),
        *_listed("revisions with two rows", [f"{i}/{r}" for (i, r), times in seen.finding_rows.items() if times > 1]),
        *_listed("rows without a record", [f"{i}/{r}" for i, r in stored if (i, r) not in contents]),
        *_listed("episodes with two ids", _twins(newest)),
        *_listed("findings-open differs from findings", _open_topic_differences(newest, seen.open_topic)),
        *check_open(newest, truth),
    ]


def check_open(newest: Iterable[Revision], truth: FindingTruth) -> list[str]:
    """Return the differences between the open findings and the truth."""
    open_, ever, losses = [], set(), 0
    for one in newest:
        fields = one.fields
        condition, subject = fields["condition"], fields["subject"]["id"]
        if condition == "LINK_DOWN" and fields["status"] != "RETRACTED" and fields["startedAt"] >= truth.since:
            ever.add(subject)
        losses += fields.get("cause") == "RETENTION" and fields["startedAt"] >= truth.since
        if fields["status"] not in CLOSED and not truth.is_loss(fields):
            open_.append((condition, subject))
    wanted = {("LINK_DOWN", subject) for subject in truth.open}
    return [
        *(["no finding states that records were deleted unread"] if truth.may_lose and not losses else []),
        *_listed("open findings that are not true", [" ".join(one) for one in open_ if one not in wanted]),
        *_listed("open findings that are missing", [" ".join(one) for one in wanted if one not in set(open_)]),
        *_listed("invented link/down", sorted(ever - truth.ever)),
        *_listed("missed link/down", sorted(truth.ever - ever)),
    ]


def newest_revisions(findings: Sequence[Revision]) -> list[Revision]:
    """Return the highest revision of each finding."""
    newest: dict[str, Revision] = {}
    for one in findings:
        if one.id not in newest or one.revision >= newest[one.id].revision:
            newest[one.id] = one
    return list(newest.values())


def check_rejected(
    poisoned: Sequence[tuple[str, int, int]], persisted: frozenset[str], rejected: Counter[tuple[str, int, int]]
) -> list[str]:
    """Return the poisoned records of persisted topics that were not rejected exactly once."""
    wrong = [
        f"{topic}/{partition}/{offset} {rejected[topic, partition, offset]} times"
        for topic, partition, offset in poisoned
        if topic in persisted and rejected[topic, partition, offset] != 1
    ]
    return _listed("poisoned records not rejected once", wrong)


def _twins(newest: Iterable[Revision]) -> list[str]:
    """Return the episodes with two findings: one detector, one subject, one start."""
    episodes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for one in newest:
        fields = one.fields
        if fields["status"] != "RETRACTED":
            episodes[fields["detector"], fields["subject"]["id"], fields["startedAt"]].add(one.id)
    return [f"{detector} {subject}" for (detector, subject, _), ids in episodes.items() if len(ids) > 1]


def _open_topic_differences(newest: Iterable[Revision], last: Mapping[str, bytes | None]) -> list[str]:
    open_ids = {one.id for one in newest if one.fields["status"] not in CLOSED}
    listed = {key for key, value in last.items() if value is not None}
    return sorted(open_ids ^ listed)


def _listed(what: str, found: Sequence[str]) -> list[str]:
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"{len(found)} {what}: {', '.join(found[:_SHOWN])}{more}"]
