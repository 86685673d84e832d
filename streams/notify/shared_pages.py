"""Assigns critical findings to pages: findings of one condition at one device share the page of the first of them.

Two uplinks of a leaf that are lost within minutes are one case for the person on call. The second joins the page of the
first, which gets a follow-up that names both. The device is that of the subject's first end, of a link its lower end:
the links of two hosts to one leaf are two cases.

A finding joins only a page that is active, so that no acknowledgement or maintenance hides a fault that began after it.
What has joined a page is covered by its acknowledgement. If the page ends in another way while the joined finding is
open, that finding has its own page after another hold.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from streams.wire.models import Condition, Finding

_JOIN_NS = 900 * 1_000_000_000
"""The most between the starts of two findings on one page (choice): the person still works on the first one. A later
fault is a new incident, which a pager must not add to one that was acknowledged there."""


class Standing(Enum):
    """The state of a critical finding with regard to paging."""

    NOT = "not"
    """Its hold lasts, or it is in maintenance."""
    ACKNOWLEDGED = "acknowledged"
    PAGES = "pages"


@dataclass(slots=True)
class SharedPages:
    """The page of each finding that pages: its own, or that of the finding that it has joined."""

    standing_of: Callable[[Finding], Standing]
    _at: dict[tuple[Condition, str], dict[str, Finding]] = field(default_factory=dict)
    _places: dict[str, tuple[Condition, str]] = field(default_factory=dict)
    """Finding id -> its place as first reported, so that a change of the inventory does not page."""
    _page_by_id: dict[str, str] = field(default_factory=dict)
    """Finding id -> the id of the finding that has the page."""
    _joins: dict[str, int] = field(default_factory=dict)
    """The id of a finding that has a page -> how many findings have joined it."""

    def add(self, finding: Finding) -> Iterable[str]:
        """Record a revision of a critical finding; return the ids of the findings at its place."""
        here = self._at.setdefault(self._places.setdefault(finding.id, _place(finding)), {})
        here[finding.id] = finding
        return here

    def remove(self, identity: str) -> Iterable[str]:
        """Remove a finding that ended or is no longer critical; return the ids of the others at its place."""
        self._leave(identity)
        place = self._places.pop(identity)
        here = self._at[place]
        del here[identity]
        if not here:
            del self._at[place]
        return here

    def restore(self, identity: str, page: str) -> None:
        """Record the page of a critical finding that the predecessor posted."""
        if identity != page and self.page_of(identity) != page:
            self._joins[page] = self.joins(page) + 1
        self._page_by_id |= {page: page, identity: page}

    def page_of(self, identity: str) -> str:
        """Return the id of the finding that has the page of a finding; empty without a page."""
        return self._page_by_id.get(identity, "")

    def joins(self, page: str) -> int:
        """Return how many findings have joined a page."""
        return self._joins.get(page, 0)

    def others(self, page: Finding) -> list[Finding]:
        """Return the findings that are on the page of another, by their start."""
        joined = (one for one in self._beside(page) if one.id != page.id and self.page_of(one.id) == page.id)
        return sorted(joined, key=lambda one: (one.started_at_ns, one.id))

    def has_lost_page(self, finding: Finding) -> bool:
        """Return whether the page that a finding has joined ended without an acknowledgement; it has no page then."""
        page = self.page_of(finding.id)
        if page in ("", finding.id):
            return False
        other = next((one for one in self._beside(finding) if one.id == page), None)
        if other is not None and self.page_of(page) == page and self.standing_of(other) is not Standing.NOT:
            return False
        self._leave(finding.id)
        return True

    def assign(self, finding: Finding) -> str:
        """Give a finding that pages its page, and take it from one that does not; return the page that it joins now."""
        standing, page = self.standing_of(finding), self.page_of(finding.id)
        if standing is not Standing.PAGES:
            if standing is Standing.NOT or page != finding.id:
                self._leave(finding.id)
            return ""
        if page:
            return ""
        active = [one for one in self._beside(finding) if self.page_of(one.id) == one.id and _are_close(one, finding)]
        first = next((one for one in active if self.standing_of(one) is Standing.PAGES), finding)
        self._page_by_id[finding.id] = first.id
        if first is finding:
            return ""
        self._joins[first.id] = self.joins(first.id) + 1
        return first.id

    def _beside(self, finding: Finding) -> Iterable[Finding]:
        place = self._places.get(finding.id)
        return () if place is None else self._at[place].values()

    def _leave(self, identity: str) -> None:
        self._page_by_id.pop(identity, None)
        self._joins.pop(identity, None)


def _place(finding: Finding) -> tuple[Condition, str]:
    """Return the condition and the device; a subject without a device is its own place."""
    end = finding.subject.a
    return finding.condition, end.device if end is not None else finding.subject.id


def _are_close(one: Finding, other: Finding) -> bool:
    return abs(one.started_at_ns - other.started_at_ns) <= _JOIN_NS
