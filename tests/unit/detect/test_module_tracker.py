"""Tests what is published of the transceivers of devices."""

from streams.detect.measure.facts_tracker import ModuleTracker
from streams.wire.models import Component, Facts, Message, PortModules, Source

GNMI = Source.SOURCE_GNMI


def facts(at_ns: int, *components: Component) -> Facts:
    return Facts("leaf1", at_ns, GNMI, components=components)


def published(tracker: ModuleTracker, *each: Facts) -> list[Message | None]:
    for one in each:
        tracker.on_facts(one)
    return [output.message for output in tracker.outputs()]


def test_transceivers_are_published_once_by_their_port() -> None:
    """The port is the alias if there is one; other parts, and modules without a part number, are not published."""
    own = facts(
        1, Component("Ethernet1 optics", "transceiver", "PN1", alias=("Ethernet1",)),
        Component("e2", "transceiver", "PN2"), Component("e3", "transceiver"), Component("psu", "power", "PN9"),
    )  # fmt: skip
    tracker = ModuleTracker()
    assert published(tracker, own) == [PortModules("leaf1", GNMI, 1, ("Ethernet1", "e2"), ("PN1", "PN2"))]
    assert published(tracker, own) == []


def test_a_change_is_published_and_late_facts_are_not() -> None:
    """An exchanged module is news; Facts that are older than the newest change nothing."""
    tracker = ModuleTracker()
    old, new = Component("e1", "transceiver", "PN1"), Component("e1", "transceiver", "PN2")
    assert len(published(tracker, facts(10, old), facts(20, new))) == 2
    assert published(tracker, facts(15, old)) == []
    assert published(tracker, facts(30)) == [PortModules("leaf1", GNMI, 30)]


def test_a_device_without_transceivers_publishes_nothing() -> None:
    """A host has NICs; it costs nothing."""
    assert published(ModuleTracker(), facts(1, Component("mlx5_0", "nic", "MCX75"))) == []


def test_a_snapshot_retains_what_was_published() -> None:
    """After a restart equal Facts are no news."""
    own, tracker, again = facts(1, Component("e1", "transceiver", "PN1")), ModuleTracker(), ModuleTracker()
    published(tracker, own)
    again.load(tracker.dump())
    assert published(again, own) == []
