"""The picture of the demo's screen: `python -m tests.documented.demo_picture --tab o --out docs/pictures/demo.svg`.

Runs the demo with its screen on no terminal, and saves what the screen shows after a time, as Textual draws it.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path

from lab.demo.process_specs import DemoPlan
from lab.demo.run import Demo
from lab.demo.screen import tabs
from lab.demo.state import DemoState
from streams.report.top.app import Extras, TopApp, actions
from streams.runtime.foreground import run_and_stop
from streams.runtime.supervise import Supervisor

OUT = Path(__file__).parents[2] / "docs/pictures/demo.svg"
SECONDS = 60.0
"""The duration of the demo's faults; the picture is taken before they have all ended."""


def main(arguments: list[str]) -> int:
    """Run one demo and write the picture; return 1 if the demo ended before it."""
    parser = argparse.ArgumentParser(prog="python -m tests.documented.demo_picture", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="the SVG file")
    parser.add_argument("--tab", default="p", help="the key of the tab")
    parser.add_argument("--after", type=float, default=55.0, help="seconds of faults before the picture")
    parser.add_argument("--columns", type=int, default=110)
    parser.add_argument("--lines", type=int, default=21)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        supervisor = Supervisor(Path(folder))
        demo = Demo(DemoPlan(Path(folder), SECONDS), DemoState(time.monotonic()), supervisor)
        picture = run_and_stop(_picture(demo, options), None, supervisor.stop)
    if picture is None:
        return 1
    # Textual names fonts on a server; without them a viewer takes its own.
    options.out.write_text(re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL), encoding="utf-8")
    return 0


async def _picture(demo: Demo, options: argparse.Namespace) -> str | None:
    """Return the screen after the time, None if the demo ended before."""
    running = asyncio.ensure_future(demo.run())
    while demo.phase != "running" and not running.done():  # noqa: ASYNC110 — nothing sets an event
        await asyncio.sleep(0.2)
    shown = tabs(
        demo.state.view, demo.supervisor.states, lambda: (time.monotonic(), time.time_ns()),
        lambda: demo.addresses.get("kafka", ""), lambda: demo.truths, acts=False,
    )  # fmt: skip
    app = TopApp(demo.state.view, actions(lambda: demo.running_settings), Extras(lambda: f"demo: {demo.phase}", shown))
    async with app.run_test(size=(options.columns, options.lines)) as pilot:
        await asyncio.wait((running,), timeout=options.after)
        if running.done():
            running.result()
            return None
        await pilot.press(options.tab)
        await pilot.pause()
        picture = app.export_screenshot(title="railsight demo")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return picture


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
