"""A Maven repository in memory, in the form of the `fetch` parameter of `streams.embedded.jars.provide`."""

from pathlib import Path

from streams.embedded.jars import Jar


class Repository:
    """Serves its files, records the requests, and can be unavailable or on a full disk."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []
        self.refuses: OSError | None = None

    def fetch(self, jar: Jar, scratch: Path) -> Path:
        self.asked.append(jar.name)
        if self.refuses is not None:
            raise self.refuses
        if jar.name not in self.files:
            raise RuntimeError(f"{jar.name} not found in remote repositories")
        path = scratch / jar.name
        path.write_bytes(self.files[jar.name])
        return path
