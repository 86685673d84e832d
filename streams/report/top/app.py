"""Runs the terminal program: tabs of the fabric, findings, links and jobs, with keyboard control.

Draws the rows of views.py at a fixed interval. The command line provides `Actions`, the effects of keys outside of the
terminal.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App, ComposeResult, ScreenStackError
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from streams.config.settings import Settings
from streams.report.explanation import NoSuchFinding, explain_finding
from streams.report.open_findings import FindingFilter, acknowledge
from streams.report.top import views
from streams.report.top.state import TopState
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Severity
from streams.wire.topics import OPERATOR, READER

REFRESH_S = 0.5
_NEXT_SEVERITY = {
    Severity.SEVERITY_UNSPECIFIED: Severity.WARNING,
    Severity.WARNING: Severity.CRITICAL,
    Severity.CRITICAL: Severity.SEVERITY_UNSPECIFIED,
}


@dataclass(frozen=True, slots=True)
class Actions:
    """The effects of keys outside of the terminal; both block, run in a thread, and raise Retry or Misconfigured."""

    explain: Callable[[str], Sequence[str]]
    """Returns the lines that explain one finding with its evidence."""
    acknowledge: Callable[[str, str], str]
    """Acknowledges a finding with a reason, and returns a line that confirms it."""


@dataclass(frozen=True, slots=True)
class Extras:
    """The additions of `demo`: a line at the top, and more tabs by title."""

    status: Callable[[], str] = lambda: ""
    tabs: Mapping[str, Callable[[], RenderableType]] = field(default_factory=dict)


class Explanation(ModalScreen[None]):
    """A screen with one finding and its evidence, above the table."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._text = Text("reading the evidence …", "dim")

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explanation"):
            yield Static(self._text, id="lines")
        yield Footer()

    def show(self, lines: Sequence[str]) -> None:
        """Replace the text."""
        self.query_one("#lines", Static).update(Text("\n".join(lines)))


class Reason(ModalScreen[str | None]):
    """A screen that requests the reason of an acknowledgement; its result is None if it is cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel")]

    def __init__(self, summary: str) -> None:
        super().__init__()
        self._summary = summary

    def compose(self) -> ComposeResult:
        yield Static(Text(f"Acknowledge: {self._summary}"))
        yield Input(placeholder="reason (may be empty); Enter acknowledges, Escape cancels", id="reason")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the reason."""
        self.dismiss(event.value)


class TopApp(App[None]):
    """The program; `run_async` returns when a person quits."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    TabbedContent { height: 1fr; }
    #headline { height: auto; background: $panel; }
    #legend { height: 1; }
    #fabric { height: auto; max-height: 60%; }
    #filter { display: none; height: 1; border: none; }
    DataTable { height: 1fr; }
    TabPane { padding: 0; }
    ModalScreen { background: $background 60%; }
    #explanation { height: 1fr; background: $surface; }
    Reason { align: center middle; }
    Reason Static { background: $panel; padding: 0 1; }
    """
    TITLE = "railsight"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit"),
        Binding("f", "view('fabric-tab')", "Fabric"),
        Binding("o", "view('findings-tab')", "Open"),
        Binding("l", "view('links-tab')", "Links"),
        Binding("j", "view('jobs-tab')", "Jobs"),
        Binding("p", "more", "More", show=False),
        Binding("e", "explain", "Explain"),
        Binding("a", "acknowledge", "Ack"),
        Binding("slash", "search", "Find", key_display="/"),
        Binding("s", "severity", "Severity"),
        Binding("r", "roots", "Roots"),
    ]

    def __init__(
        self,
        state: TopState,
        actions: Actions,
        extras: Extras | None = None,
        *,
        first_tab: str = "fabric-tab",
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__()
        self.state = state
        self._actions = actions
        self._extras = extras or Extras()
        self._first_tab = first_tab
        self._now_ns = now_ns
        self._wanted = FindingFilter()
        self._search = ""
        self._rows: dict[str, list[views.Row]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        with TabbedContent(initial=self._first_tab):
            with TabPane("Fabric", id="fabric-tab"):
                with VerticalScroll(id="fabric", can_focus=False):
                    yield Static(id="marks")
                yield Static(views.legend(), id="legend")
                yield _table("changes", views.CHANGE_COLUMNS)
            with TabPane("Findings", id="findings-tab"):
                yield _table("findings", views.FINDING_COLUMNS)
            with TabPane("Links", id="links-tab"):
                yield _table("links", views.LINK_COLUMNS)
            with TabPane("Jobs", id="jobs-tab"):
                yield _table("jobs", views.JOB_COLUMNS)
            for number, title in enumerate(self._extras.tabs):
                with TabPane(title, id=f"extra-{number}-tab"), VerticalScroll():
                    yield Static(id=f"extra-{number}")
        yield Input(placeholder="search; Enter keeps it, Escape clears it", id="filter")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Draw at once, and then at the interval."""
        self._draw()
        self._focus_table()
        self.set_interval(REFRESH_S, self._draw)

    def _draw(self) -> None:
        """Draw the headline and the visible tab, if no other screen covers them."""
        # The last tick may occur while the program removes the widgets and the screen at its end.
        with suppress(NoMatches, ScreenStackError):
            if self.screen is self.screen_stack[0]:
                self._draw_tab()

    def _draw_tab(self) -> None:
        now_ns = self._now_ns()
        lines = [self._extras.status(), views.headline(self.state, now_ns), self._selection()]
        self.query_one("#headline", Static).update(Text("\n".join(line for line in lines if line)))
        match self.query_one(TabbedContent).active:
            case "fabric-tab":
                self.query_one("#marks", Static).update(Group(*views.fabric_lines(self.state)))
                self._fill("changes", views.change_rows(self.state))
            case "findings-tab":
                self._fill("findings", views.finding_rows(self.state, self._wanted, self._search, now_ns))
            case "links-tab":
                self._fill("links", views.link_rows(self.state, self._search))
            case "jobs-tab":
                self._fill("jobs", views.job_rows(self.state, self._search))
            case _:
                for number, draw in enumerate(self._extras.tabs.values()):
                    self.query_one(f"#extra-{number}", Static).update(draw())

    def _selection(self) -> str:
        """Return a text with the active filters; empty without filters."""
        parts = []
        if self._wanted.severity:
            parts.append(f"{self._wanted.severity.name} and higher")
        if self._wanted.roots:
            parts.append("without findings that others explain")
        if self._search:
            parts.append(f"with {self._search!r}")
        return f"selected: {', '.join(parts)}" if parts else ""

    def _fill(self, name: str, rows: list[views.Row]) -> None:
        """Show the rows; the cursor stays at its row."""
        before = self._rows.get(name, [])
        if rows == before:
            return
        table = self.query_one(f"#{name}", DataTable)
        key = before[table.cursor_row].key if before and table.cursor_row < len(before) else ""
        at = next((i for i, row in enumerate(rows) if key and row.key == key), min(table.cursor_row, len(rows) - 1))
        self._rows[name] = rows
        table.clear()
        for row in rows:
            # A text would be parsed as markup: a name may have brackets.
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row.cells))
        if rows:
            table.move_cursor(row=max(at, 0), animate=False)

    def _selected(self) -> str:
        """Return the finding's id of the row at the cursor; empty without a finding."""
        name = self.query_one(TabbedContent).active.removesuffix("-tab")
        name = "changes" if name == "fabric" else name
        rows = self._rows.get(name, [])
        cursor = self.query_one(f"#{name}", DataTable).cursor_row if rows else 0
        return rows[cursor].key.partition("/")[0] if cursor < len(rows) else ""

    def action_view(self, tab: str) -> None:
        """Show a tab."""
        self.query_one(TabbedContent).active = tab
        self._draw()
        self._focus_table()

    def action_more(self) -> None:
        """Show the next of the tabs that the demo adds."""
        tabs = [f"extra-{number}-tab" for number in range(len(self._extras.tabs))]
        active = self.query_one(TabbedContent).active
        if tabs:
            self.action_view(tabs[(tabs.index(active) + 1) % len(tabs)] if active in tabs else tabs[0])

    def on_tabbed_content_tab_activated(self) -> None:
        """Draw a tab that was selected by the mouse or the arrow keys."""
        self._draw()

    def _focus_table(self) -> None:
        for table in self.query(DataTable):
            if table.id == self.query_one(TabbedContent).active.removesuffix("-tab").replace("fabric", "changes"):
                table.focus()

    def on_data_table_row_selected(self) -> None:
        """Explain the finding of the row when Enter is pressed."""
        self.action_explain()

    def action_explain(self) -> None:
        """Explain the selected finding."""
        if not (identity := self._selected()):
            self.notify("this row has no finding")
            return
        screen = Explanation(identity)
        self.push_screen(screen)
        self.run_worker(self._explain(screen, identity), exclusive=True)

    async def _explain(self, screen: Explanation, identity: str) -> None:
        lines = await _blocking(lambda: self._actions.explain(identity))
        if screen.is_current:
            screen.show(lines if isinstance(lines, list | tuple) else [str(lines)])

    def action_acknowledge(self) -> None:
        """Request a reason, and acknowledge the selected finding."""
        identity = self._selected()
        finding = self.state.findings.get(identity)
        if finding is None or finding.is_closed:
            self.notify("only an open finding can be acknowledged")
            return

        def publish(reason: str | None) -> None:
            if reason is not None:
                self.run_worker(self._acknowledge(identity, reason))

        self.push_screen(Reason(finding.summary or finding.subject.id), publish)

    async def _acknowledge(self, identity: str, reason: str) -> None:
        result = await _blocking(lambda: self._actions.acknowledge(identity, reason))
        self.notify(str(result), markup=False)

    def action_search(self) -> None:
        """Show the search field."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the rows while a person types."""
        if event.input.id == "filter":
            self._search = event.value
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the text and return to the table."""
        if event.input.id == "filter":
            self._end_search()

    def on_key(self, event: object) -> None:
        """Clear the search when Escape is pressed."""
        field = self.query_one("#filter", Input)
        if getattr(event, "key", "") == "escape" and field.display:
            field.value = ""
            self._end_search()

    def _end_search(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = bool(field.value)
        self._focus_table()

    def action_severity(self) -> None:
        """Select the next lowest severity: all, WARNING, CRITICAL."""
        self._wanted = replace(self._wanted, severity=_NEXT_SEVERITY[self._wanted.severity])
        self._draw()

    def action_roots(self) -> None:
        """Select root findings only, or all."""
        self._wanted = replace(self._wanted, roots=not self._wanted.roots)
        self._draw()


async def run_until_cancelled(app: TopApp) -> None:
    """Run the program until a person quits; restore the terminal when the caller cancels."""
    running = asyncio.ensure_future(app.run_async())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        app.exit()
        await running
        raise


async def _blocking(call: Callable[[], object]) -> object:
    """Run a call in a thread; return its result, or the text of an expected error."""
    try:
        return await asyncio.to_thread(call)
    except (Retry, Misconfigured) as error:
        return str(error)


def _table(name: str, columns: Sequence[str]) -> DataTable[str | Text]:
    table: DataTable[str | Text] = DataTable(id=name, cursor_type="row", zebra_stripes=False)
    for column in columns:
        table.add_column(column)
    return table


def actions(settings: Callable[[], Settings | None]) -> Actions:
    """Return the actions for a pipeline; `settings` returns None while its servers start."""

    def running() -> Settings:
        if (found := settings()) is None:
            raise Retry("the servers are starting; try again")
        return found

    def explain(identity: str) -> list[str]:
        found = running()
        clickhouse = ClickHouse(found.store)
        try:
            return list(explain_finding(found.kafka.of_part(READER), clickhouse, identity, samples=True).lines())
        except NoSuchFinding as error:
            raise Retry(str(error)) from error
        finally:
            clickhouse.close()

    return Actions(
        explain, lambda identity, reason: acknowledge(running().kafka.of_part(OPERATOR), identity, reason, None)
    )
