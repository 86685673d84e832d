"""A boot time that the test sets."""

from dataclasses import dataclass

S = 10**9


NOW = 1_795_255_200 * S


ZERO = NOW - 40 * 86_400 * S


@dataclass
class SetZero:
    """A boot time that the test sets."""

    ns: int = ZERO

    def __call__(self) -> int:
        return self.ns
