"""`python -m tests.documented [--clean] [PAGE...]`: runs the marked commands of pages.

With --clean in a fresh clone of this repository, whose environment the README's own commands make: the README, the
tutorial and the page of recordings. Without it in an empty folder with the programs of this environment: the tutorial.
"""

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.documented.run import Failed, Reader
from tests.documented.steps import steps

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial.md"
CLEAN = (ROOT / "README.md", TUTORIAL, ROOT / "docs/recordings.md")


def main(arguments: list[str]) -> int:
    """Run the pages, print each step with its seconds, and return 1 at the first failure."""
    begin, commands = time.monotonic(), 0
    is_clean = "--clean" in arguments
    pages = [Path(one) for one in arguments if one != "--clean"] or (CLEAN if is_clean else (TUTORIAL,))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "railsight"
        programs = Path(sys.executable).parent
        if is_clean:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
            programs = folder / ".venv/bin"
        else:
            folder.mkdir()
        for page in pages:
            print(page, flush=True)
            try:
                with Reader(folder, programs, partial(print, flush=True)) as reader:
                    found = steps(page.read_text("utf-8"))
                    reader.follow(found)
            except Failed as failure:
                print(f"{page}: {failure}", file=sys.stderr)
                return 1
            commands += sum(step.kind != "file" for step in found)
    print(f"{commands} blocks of commands in {(time.monotonic() - begin) / 60:.1f} min")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
