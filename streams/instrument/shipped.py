"""Finds files of the repository beside the packages: the files themselves in a clone, their copies in a wheel.

pyproject.toml lists the copies (`tool.hatch.build.targets.wheel.force-include`).
"""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def shipped(path: str, package: Path = PACKAGE) -> Path:
    """Return a file or folder by its path in the repository, such as `dashboards/json`; it may not exist."""
    copy = package / "shipped" / path
    return copy if copy.exists() else package.parent / path


def runbook_path(slug: str) -> str:
    """Return the path of a condition's runbook in the repository; it may not exist."""
    return f"docs/runbooks/{slug.replace('/', '-')}.md"
