"""The marked blocks of pages are found, and run as a reader would."""

import time
from pathlib import Path

import pytest

from tests.documented.run import Failed, Reader
from tests.documented.steps import Step, WrongMark, steps

ROOT = Path(__file__).parents[2]
PAGE = """# Page

<!-- step: file notes/a.toml -->
```toml
a = 1
```

<!-- step: background slow -->
```sh
sleep 100
```

Not marked:

```sh
false
```

<!-- step: wait 5 -->
```sh
test -f notes/a.toml
```
"""


def test_marked_blocks_are_steps_in_their_order() -> None:
    """A block without a mark is none."""
    assert steps(PAGE) == [
        Step("file", "notes/a.toml", "a = 1\n", False, 3),
        Step("background", "", "sleep 100\n", True, 8),
        Step("wait", "5", "test -f notes/a.toml\n", False, 19),
    ]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- step: run -->\n\ntext\n", "no block follows"),
        ("<!-- step: jump -->\n```sh\na\n```\n", "unknown kind jump"),
        ("<!-- step: wait soon -->\n```sh\na\n```\n", "wait needs seconds"),
        ("<!-- step: file -->\n```toml\na\n```\n", "file needs"),
        ("<!-- step: run now -->\n```sh\na\n```\n", "run needs"),
    ],
)
def test_a_wrong_mark_is_refused(page: str, message: str) -> None:
    """A misspelt mark would leave its commands out."""
    with pytest.raises(WrongMark, match=message):
        steps(page)


def test_a_page_is_followed_and_its_background_commands_end(tmp_path: Path) -> None:
    """Files are written, and what runs in the background ends with the page."""
    with Reader(tmp_path, None, lambda _: None) as reader:
        reader.follow(steps(PAGE))
        (process,) = reader._background
        assert process.poll() is None
    assert process.poll() is not None
    assert (tmp_path / "notes/a.toml").read_text() == "a = 1\n"


def test_a_failing_command_ends_it_with_its_output(tmp_path: Path) -> None:
    """The message has the line of the page, the command and what it printed."""
    page = "<!-- step: run -->\n```sh\necho why >&2\nfalse\necho not reached\n```\n"
    with (
        pytest.raises(Failed, match=r"(?s)line 1: exit code 1 of.*why") as caught,
        Reader(tmp_path, None, lambda _: None) as reader,
    ):
        reader.follow(steps(page))
    assert "not reached\n" not in str(caught.value).partition("\nwhy")[2]


def test_a_command_without_an_end_is_ended_and_named(tmp_path: Path) -> None:
    """The message has the line of the page, the limit, the command and its last output; its processes are gone."""
    page = "<!-- step: run -->\n```sh\necho started\nsleep 1000 & echo $! > child\nwait\n```\n"
    pattern = r"(?s)line 1: not over after 0\.5 s:.*sleep 1000.*its last output:\nstarted"
    with (
        pytest.raises(Failed, match=pattern),
        Reader(tmp_path, None, lambda _: None, limit_s=0.5) as reader,
    ):
        reader.follow(steps(page))
    end, child = time.monotonic() + 10, int((tmp_path / "child").read_text())
    while _runs(child):
        assert time.monotonic() < end, f"{child} still runs"


def test_a_wait_that_fails_has_the_output_of_its_last_attempt(tmp_path: Path) -> None:
    """With the exit code of that attempt."""
    page = "<!-- step: wait 1 -->\n```sh\necho not yet\nexit 3\n```\n"
    with (
        pytest.raises(Failed, match=r"(?s)line 1: exit code 3 of.*not yet"),
        Reader(tmp_path, None, lambda _: None) as reader,
    ):
        reader.follow(steps(page))


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(") ")[2][0] != "Z"


def test_the_tutorial_and_the_readme_have_marked_commands() -> None:
    """Their marks are valid; the whole run is `make docs-commands`."""
    tutorial = steps((ROOT / "docs/tutorial.md").read_text("utf-8"))
    assert len(tutorial) > 15 and {step.kind for step in tutorial} == {"run", "background", "wait", "file"}
    assert any("make demo" in step.text for step in steps((ROOT / "README.md").read_text("utf-8")))
