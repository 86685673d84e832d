"""The terminal program: what it shows at 80 and 200 columns, without colors, and what its keys do."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from textual.widgets import DataTable

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.topology import Topology
from streams.report.open_findings import FindingFilter
from streams.report.top import views
from streams.report.top.app import Actions, Extras, TopApp
from streams.report.top.state import TopState, fold
from streams.wire.errors import Retry
from streams.wire.inventory_topic import Assembler, to_chunks
from streams.wire.models import CollectorStatus, Control, ControlKind, Message, Severity, Source, Status
from streams.wire.topics import BY_NAME, CONTROLS, FINDINGS, FINDINGS_OPEN, INVENTORY, encode
from tests.fixtures.findings import NS, finding

NOW = 400 * NS
NAMES = (("leaf1", "T0"), ("leaf2", "T0"), ("spine1", "T1"), ("h1", "host"))
INVENTORY_ROWS = Inventory(
    tuple(Device(name, "host" if tier == "host" else "switch", tier, "pod1") for name, tier in NAMES),
    (Link("leaf1", "e1", "spine1", "e1", "fabric-link"), Link("h1", "n0", "leaf2", "e2", "host-link", 0)),
    (),
    (Job("job7", "h1", datetime(2026, 1, 1, tzinfo=UTC)),),
)


def reached(device: str) -> CollectorStatus:
    return CollectorStatus("gnmi@a", 1, Source.SOURCE_GNMI, device, NOW, True)


def filled() -> TopState:
    """A fabric with one critical finding, one that it explains, and a host that no collector reads."""
    state = TopState()
    messages: list[Message | Topology] = [
        Topology(INVENTORY_ROWS), reached("leaf1"), reached("leaf2"), reached("spine1"),
        finding("c0ffee000000aaaa", severity=Severity.CRITICAL),
        finding("beef00000000bbbb", parent_id="c0ffee000000aaaa", summary="the child"),
    ]  # fmt: skip
    for message in messages:
        state.update(message, 1.0)
    return state


class FakeActions:
    """Records the calls; `error` is raised instead of an answer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.error = error

    def explain(self, identity: str) -> list[str]:
        self.calls.append(("explain", identity))
        if self.error is not None:
            raise self.error
        return ["the evidence"]

    def acknowledge(self, identity: str, reason: str) -> str:
        self.calls.append(("ack", identity, reason))
        return f"acknowledged {identity}"


def app_of(state: TopState, fake: FakeActions | None = None, **more: Any) -> TopApp:
    fake = fake or FakeActions()
    return TopApp(state, Actions(fake.explain, fake.acknowledge), now_ns=lambda: NOW, **more)


def text_of(app: TopApp) -> list[str]:
    """Return the lines on the screen, without colors."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_every_view_fits_the_terminal_and_means_the_same_without_colors(size: tuple[int, int]) -> None:
    """Ids, severities and the legend are text; nothing is wider or longer than the terminal."""
    app = app_of(filled(), extras=Extras(lambda: "demo: running", {"Pipeline": lambda: "stages"}))
    expected = {
        "f": ("C", "? not read", "c0ffee000000", "CRITICAL", "link/down", "leaves", "1 CRITICAL, 1 WARNING", "demo: "),
        "o": ("c0ffee000000", "CRITICAL", "link/down", "↳ the child"),
        "l": ("leaf1/e1", "spine1/e1", "CRITICAL", "c0ffee000000", "no finding"),
        "j": ("job7", "not read", "q Quit", "r Roots"),
    }
    async with app.run_test(size=size) as pilot:
        await pilot.press("p")
        await pilot.pause()
        assert "stages" in "\n".join(text_of(app))
        for key, parts in expected.items():
            await pilot.press(key)
            await pilot.pause()
            lines = text_of(app)
            text = "\n".join(lines)
            assert len(lines) <= size[1] and max(map(len, lines)) <= size[0], key
            assert [part for part in parts if part not in text] == [], f"{key}\n{text}"


@pytest.mark.parametrize("name", ["[/]", "[red]x", "[link=http://evil.example]x[/link]", "[@click=app.quit]x[/]"])
async def test_brackets_in_a_name_are_text(name: str) -> None:
    """Names of jobs and devices, summaries and answers are no markup, which would end the program or call an action."""
    state = filled()
    jobs = (Job(f"job{name}", "h1", datetime(2026, 1, 1, tzinfo=UTC)),)
    state.update(Topology(replace(INVENTORY_ROWS, jobs=jobs)), 1.0)
    state.update(finding("c0ffee000000aaaa", severity=Severity.CRITICAL, summary=f"lost {name}"), 1.0)
    answers: list[tuple[str, object]] = []

    class Recording(TopApp):
        def notify(self, message: str, **options: Any) -> None:
            answers.append((message, options.get("markup")))

    app = Recording(state, Actions(lambda _: [name], lambda *_: f"answer {name}"), now_ns=lambda: NOW)
    async with app.run_test(size=(200, 50)) as pilot:
        for key, expected in (("o", f"lost {name}"), ("j", f"job{name}"), ("o", "lost")):
            await pilot.press(key)
            await pilot.pause()
            assert expected in "\n".join(text_of(app))
        await app._acknowledge("c0ffee000000aaaa", "")
    assert answers == [(f"answer {name}", False)]


async def test_enter_explains_and_escape_returns() -> None:
    """The explanation is read in a thread; an error is its text."""
    fake = FakeActions()
    app = app_of(filled(), fake, first_tab="findings-tab")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert fake.calls == [("explain", "c0ffee000000aaaa")]
        assert "the evidence" in "\n".join(text_of(app))
        await pilot.press("escape")
        fake.error = Retry("Kafka does not answer")
        await pilot.press("down", "e")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert fake.calls[-1] == ("explain", "beef00000000bbbb")
        assert "Kafka does not answer" in "\n".join(text_of(app))


async def test_an_acknowledgement_has_a_reason() -> None:
    """Escape publishes nothing; Enter publishes the reason."""
    fake = FakeActions()
    app = app_of(filled(), fake, first_tab="findings-tab")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "escape")
        await pilot.pause()
        assert fake.calls == []
        await pilot.press("a")
        await pilot.press(*"known", "enter")
        await app.workers.wait_for_complete()
        assert fake.calls == [("ack", "c0ffee000000aaaa", "known")]


async def test_keys_select_findings() -> None:
    """A search, a severity, roots; the selection is named, and Escape ends the search."""
    app = app_of(filled(), first_tab="findings-tab")
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.query_one("#findings", DataTable)
        await pilot.press("slash", *"child", "enter")
        assert table.row_count == 1
        assert "with 'child'" in "\n".join(text_of(app))
        await pilot.press("slash", "escape")
        assert table.row_count == 2
        await pilot.press("s", "s")
        assert table.row_count == 1
        await pilot.press("s", "r")
        assert table.row_count == 1


async def test_the_cursor_stays_at_its_finding() -> None:
    """A worse finding that arrives moves the row, and the cursor with it."""
    state = filled()
    fake = FakeActions()
    app = app_of(state, fake, first_tab="findings-tab")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down")
        state.update(finding("f00d00000000dddd", severity=Severity.CRITICAL, started_at_ns=NS), 2.0)
        await pilot.press("o", "e")
        await app.workers.wait_for_complete()
        assert fake.calls == [("explain", "beef00000000bbbb")]


async def test_a_tick_after_the_end_draws_nothing() -> None:
    """The timer may fire once more when the screen is gone."""
    app = app_of(filled())
    async with app.run_test():
        pass
    app.action_roots()


def test_an_acknowledged_finding_shows_who() -> None:
    """The column has the actor; an unacknowledged one a dash."""
    state = filled()
    state.update(Control("ack/x", ControlKind.ACKNOWLEDGE, "c0ffee000000aaaa", NS, actor="ada"), 1.0)
    assert [row.cells[4] for row in views.finding_rows(state, FindingFilter(), "", NOW)] == ["ada", "-"]


def test_many_devices_of_a_tier_are_counted() -> None:
    """A pod of 1,024 hosts is one line."""
    state = TopState()
    state.update(Topology(Inventory(tuple(Device(f"h{i}", "host", "host", "p") for i in range(1024)))), 1.0)
    assert [line.plain.strip() for line in views.fabric_lines(state)] == ["p", "hosts    1024  ? 1024"]


class Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def test_topics_become_the_state() -> None:
    """Chunks are an inventory, tombstones end findings and controls, and a broken record changes nothing."""
    state, assembler = TopState(), Assembler()

    def receive(topic: str, key: str, message: Any) -> None:
        record = None if message is None else encode(BY_NAME[topic], message)
        value, headers = (None, ()) if record is None else (record.value, record.headers)
        fold(state, Record(topic, key.encode(), value, headers), assembler, 1.0)

    for chunk in to_chunks(INVENTORY_ROWS, NS):
        receive(INVENTORY.name, "v", chunk)
    receive(FINDINGS_OPEN.name, "a", finding("a"))
    receive(CONTROLS.name, "k", Control("k", ControlKind.MAINTENANCE, "pod:x", NS))
    assert state.topology is not None and len(state.topology.devices) == 4
    assert [one.id for one in state.open_findings] == ["a"]
    receive(FINDINGS.name, "a", finding("a", revision=2, status=Status.RESOLVED, resolved_at_ns=NOW))
    assert [one.status for one in state.changes] == [Status.OPEN, Status.RESOLVED]
    receive(FINDINGS_OPEN.name, "a", None)
    receive(CONTROLS.name, "k", None)
    fold(state, Record(FINDINGS.name, b"a", b"{"), assembler, 1.0)
    assert (state.findings, state.controls) == ({}, {})
