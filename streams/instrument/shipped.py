"""Finds files of the repository beside the packages: in a clone where they are, in a wheel its copies of them.

pyproject.toml lists the copies (`tool.hatch.build.targets.wheel.force-include`).
"""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def shipped(path: str, package: Path = PACKAGE) -> Path:
    """Return a file or folder by its path in the repository, such as `dashboards/json`; it may be absent."""
    copy = package / "shipped" / path
    return copy if copy.exists() else package.parent / path
