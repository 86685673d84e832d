"""Holds the evidence of `correlate` for all detectors: histories of links, restarts and silent sources."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from streams.detect.evidence.link_history import LinkHistory, training_intervals
from streams.detect.evidence.params import LinkParams
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval
from streams.wire.models import Source, Subject, Symptom
from streams.wire.symptoms import SymptomKind


@dataclass(slots=True)
class SharedEvidence:
    """The evidence of the pods of one partition. Only the stage changes it."""

    links: dict[str, LinkHistory] = field(default_factory=dict)
    """Subject id -> history of the link."""
    restarts: dict[str, list[Interval]] = field(default_factory=dict)
    """Device -> the intervals in which it restarted."""
    silent: dict[str, list[Source]] = field(default_factory=dict)
    """Device -> its silent sources."""

    def link(self, subject: Subject) -> LinkHistory:
        """Return the history of a link; begins one if there is none."""
        return self.links.get(subject.id) or self.links.setdefault(subject.id, LinkHistory(subject))

    def links_of_device(self, device: str) -> list[str]:
        return [key for key, history in self.links.items() if any(end.device == device for end in history.ends())]

    def set_silence(self, symptom: Symptom) -> None:
        """Record that a source of a device became silent or resumed; other symptoms show that it reports."""
        silent = [source for source in self.silent.pop(symptom.device, []) if source is not symptom.source]
        if symptom.kind is SymptomKind.SOURCE_SILENT:
            silent.append(symptom.source)
        if silent:
            self.silent[symptom.device] = silent

    def add_restart(self, symptom: Symptom, retained_since_ns: int) -> bool:
        """Record a restart; return False if it is known."""
        known = self.restarts.get(symptom.device, [])
        interval = (symptom.since_ns or symptom.at_ns, symptom.at_ns)
        if interval in known:
            return False
        self.restarts[symptom.device] = [*(i for i in known if i[1] >= retained_since_ns), interval]
        return True

    def training_intervals(self, params: LinkParams, subject_id: str) -> list[Interval]:
        """Return the intervals in which a link was down, trained or was administratively down."""
        history = self.links.get(subject_id)
        return [] if history is None else training_intervals(params, history, self.restarts)

    def receive(self, other: "SharedEvidence", pod: str, subject_at: Callable[[Port], Subject]) -> dict[str, str]:
        """Adopt the evidence of another pod; return the ids of its links, old to new.

        The inventory that moved the links to this pod may not be in effect here yet.
        """
        for device, intervals in other.restarts.items():
            known = self.restarts.setdefault(device, [])
            known += [interval for interval in intervals if interval not in known]
        for device, sources in other.silent.items():
            self.silent.setdefault(device, sources)
        names: dict[str, str] = {}
        for key, history in other.links.items():
            end = history.ends()[0]
            now = subject_at(Port(end.device, end.port))
            former_ids = history.subject.former_ids
            names[key] = now.id
            former_ids = former_ids if now.id == key else (*former_ids, key)
            self.link(replace(now, pod=pod, former_ids=former_ids)).merge(history)
        return names

    def rebase(self, subject_at: Callable[[Port], Subject]) -> dict[str, str]:
        """Give each link the subject of a new inventory, with the old id in `former_ids`.

        Return the ids that changed, old to new.
        """
        renamed: dict[str, str] = {}
        for key in list(self.links):
            history = self.links[key]
            end = history.ends()[0]
            now = subject_at(Port(end.device, end.port))
            former_ids = history.subject.former_ids
            if now.id == key:
                history.subject = replace(now, former_ids=former_ids)
                continue
            del self.links[key]
            self.link(replace(now, former_ids=(*former_ids, key))).merge(history)
            renamed[key] = now.id
        return renamed
