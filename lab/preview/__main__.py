"""`python -m lab.preview` draws every board from the data of a demo, and takes pictures with chromium.

`--demo DIR` is the folder of `railsight demo --run-dir DIR`, during the demo or after it (ClickHouse is restarted). The
pages are written to `--out`; pictures need Debian's chromium. `--list` prints the panels with data as a table.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dashboards.__main__ import BOARDS, FOLDER
from lab.preview.page import page
from lab.preview.reading import Rows, Run, View, opened, panel_queries
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse

PICTURE_WIDTH = 1600
MOST_PIXELS = 1000
"""The maximum height of a picture; the page has the rest, the docs do not."""
_NEWEST = "SELECT toUnixTimestamp(max(arrived_at)) AS newest FROM sample_messages"


def http_run(url: str, user: str, password: str, database: str) -> Run:
    """Return a function that runs a query by HTTP; it raises LookupError with ClickHouse's message."""

    def run(sql: str) -> Rows:
        headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
        request = urllib.request.Request(f"{url}/?database={database}", f"{sql}\nFORMAT JSON".encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                rows: Rows = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise LookupError(f"{error.read().decode()}\n{sql}") from error
        return rows

    return run


@contextmanager
def clickhouse_of(demo: Path) -> Iterator[Run]:
    """Yield the ClickHouse of a demo; it is started again if the demo is over."""
    addresses: Mapping[str, Any] = json.loads((demo / "demo.json").read_text())
    password = Path(addresses["clickhouse_password_file"]).read_text().strip()
    running = http_run(addresses["clickhouse"], "default", password, addresses["database"])
    try:
        running("SELECT 1")
    except (OSError, LookupError):
        with EmbeddedClickHouse(ClickHouseParams(data=demo / "clickhouse")) as server:
            yield http_run(server.url, server.user, server.password, addresses["database"])
    else:
        yield running


def photograph(chromium: str, html: Path, picture: Path, height: int) -> None:
    """Write a picture of a page."""
    with tempfile.TemporaryDirectory() as profile:
        size = f"--window-size={PICTURE_WIDTH},{min(height, MOST_PIXELS)}"
        subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size,
                f"--user-data-dir={profile}", f"--screenshot={picture.resolve()}", html.resolve().as_uri(),
            ],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip


def list_panels(board: Mapping[str, Any], run: Run, view: View) -> str:
    """Return a row of Markdown: the board, its panels with a value, and its panels without one."""
    has_value: dict[str, bool] = defaultdict(bool)
    for panel, _, sql in panel_queries(board, view):
        has_value[panel["title"]] |= any(value not in (None, "") for row in run(sql) for value in row.values())
    given, empty = ([title for title, known in has_value.items() if known is wanted] for wanted in (True, False))
    return f"| {board['title']} | {', '.join(given)} | {', '.join(empty) or '–'} |"


def main() -> int:
    """Draw or list the boards; return the exit code."""
    given = _arguments()
    chosen = dict(one.split("=", 1) for one in given.set)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if given.list:
        print("| board | panels with data | without |\n|---|---|---|")
    else:
        given.out.mkdir(parents=True, exist_ok=True)
    with clickhouse_of(given.demo) as run:
        end_s = round(datetime.fromisoformat(given.at).astimezone(UTC).timestamp()) if given.at else _newest_s(run)
        for name in given.board or BOARDS:
            made = json.loads((FOLDER / f"{name}.json").read_text())
            view = opened(made, run, View(end_s - round(given.minutes * 60), end_s, 10, {}), chosen)
            if given.list:
                print(list_panels(made, run, view))
                continue
            html, height = page(made, run, view, PICTURE_WIDTH, given.theme)
            target = given.out / f"{name}.html"
            target.write_text(html, encoding="utf-8")
            if chromium is not None:
                photograph(chromium, target, given.out / f"{name}.png", height)
            print(f"{name}: {len(made['panels'])} panels, {target if chromium is None else target.with_suffix('.png')}")
    if chromium is None and not given.list:
        print("no chromium on PATH: pages only (Debian: apt-get install chromium)", file=sys.stderr)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.preview", description=__doc__)
    parser.add_argument("--demo", type=Path, required=True, help="folder of a demo (railsight demo --run-dir DIR)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="folder for pages and pictures")
    what.add_argument("--list", action="store_true", help="print the panels with data, and those without")
    parser.add_argument("--minutes", type=float, default=30, help="time range; default 30")
    parser.add_argument("--at", help="its end, RFC 3339; default: the newest row")
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    parser.add_argument("--board", choices=tuple(BOARDS), action="append", help="only this one (may be repeated)")
    parser.add_argument("--set", action="append", default=[], metavar="VARIABLE=VALUE", help="value of a variable")
    return parser.parse_args()


def _newest_s(run: Run) -> int:
    (row,) = run(_NEWEST)
    return int(row["newest"])


if __name__ == "__main__":
    sys.exit(main())
