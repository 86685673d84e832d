"""Windows judged one by one, as runs: bad ones in a row are a case, enough good ones after it are its end."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Mark = TypeVar("Mark")


def bad_runs(
    marks: Iterable[Mark], is_bad: Callable[[Mark], bool], is_case: Callable[[list[Mark]], bool], enough_good: int
) -> Iterator[tuple[list[Mark], list[Mark]]]:
    """The bad marks of each episode, and the good ones that ended it; none where it is not over.

    A good mark unmakes what is no case yet, and parts nothing that is one.
    """
    bad: list[Mark] = []
    good: list[Mark] = []
    for mark in marks:
        if is_bad(mark):
            bad, good = [*bad, mark], []
        elif not is_case(bad):
            bad = []
        else:
            good = [*good, mark]
            if len(good) >= enough_good:
                yield bad, good
                bad, good = [], []
    if is_case(bad):
        yield bad, []
