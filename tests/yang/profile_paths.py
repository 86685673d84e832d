"""Finds the address of each path of the gNMI profiles in published YANG: `python -m tests.yang.profile_paths`.

Reads `paths.tsv`, which has the addresses of the paths so far (one whose line is deleted is looked up again), folders
of YANG for new paths (`--yang NAME=FOLDER`, checkouts of openconfig/public or of a vendor's repository; needs
`pip install pyang`), and lists of flattened models if there are any (`--lists`: tab-separated path, type, unit, module,
file, access, revision).
`--write` writes `paths.tsv`: the paths that the profiles use, with list, file and revision. A path without a model has
to be in UNMODELLED, with the address of what it is from. docs/collectors/gnmi-paths.md is made of both.
"""

import argparse
import lzma
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from collectors.gnmi.profile import Profile, profiles
from tests.recordings import DATA

CACHE = Path(__file__).with_name("paths.tsv")
PAGE = Path(__file__).parents[2] / "docs/collectors/gnmi-paths.md"
Names = tuple[str, ...]
"""The names of a path's steps, without modules and keys."""

UNMODELLED: dict[str, tuple[tuple[str, str], ...]] = {
    "sonic": (("", "SONiC's databases, which have no YANG: sonic-gnmi virtual_db.go, sairedis, sonic-swss-common"),),
    "huawei": (("", "Huawei's NETCONF YANG of VRP, huawei-ifm.yang; seen in the recording telegraf/issue_17412"),),
    "nvidia": (("", "docs.nvidia.com, Cumulus Linux, gNMI Streaming: nvidia-if-ethernet-counters-ext.yang"),),
    "juniper": (
        ("interfaces/interface/optics", "Junos's sensor of optics, seen in the recording telegraf/issue_17154"),
        ("junos/system/linecard/optics", "Juniper's list of gNMI sensors; seen in the recording telegraf/issue_17154"),
    ),
    "sonic-mgmt": (("qos/", "Broadcom's Enterprise SONiC, openconfig-qos-ext.yang: not in sonic-mgmt-common"),),
    "openconfig": (
        ("interfaces/interface/state/counters/name", "no model: sent by a device, telegraf/issue_14063"),
        ("interfaces/interface/state/counters/in-crc-error-pkts", "no model: sent by a device, telegraf/issue_14063"),
    ),
}
"""By profile: the beginnings of paths that no published model here has, and where they are from."""


@dataclass(frozen=True, slots=True)
class Address:
    """The model of a path: the list or repository, the YANG file and its revision."""

    source: str
    file: str
    revision: str


def names_of(path: str) -> Names:
    """Return the names of a path's steps."""
    bare = re.sub(r"\[[^\]]*\]", "", path).strip("/")
    return tuple(step.rpartition(":")[2] for step in bare.split("/"))


def paths_of(profile: Profile) -> Iterator[Names]:
    """Yield the paths that a profile subscribes to and maps."""
    for wanted in (*profile.subscribe, *profile.facts):
        yield from map(names_of, (wanted.path, *wanted.fallback))
    for section in profile.section:
        for below in section.below:
            for leaf in section.leaves:
                yield names_of(f"{below}/{leaf}")


def used() -> dict[Names, list[str]]:
    """Return the paths of all profiles, each with the names of the profiles."""
    found: dict[Names, list[str]] = {}
    for name, profile in profiles().items():
        for path in dict.fromkeys(paths_of(profile)):
            found.setdefault(path, []).append(name)
    return found


def unmodelled(profile: str, path: Names) -> str:
    """Return where a path without a model is from; empty if it must have one."""
    text = "/".join(path)
    return next((why for start, why in UNMODELLED.get(profile, ()) if text.startswith(start)), "")


@cache
def cached() -> dict[Names, Address]:
    """Return the addresses in the cache."""
    rows = [line.split("\t") for line in CACHE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {names_of(path): Address(*rest) for path, *rest in rows}


def from_lists(folder: Path) -> Iterator[tuple[Names, Address]]:
    """Yield the paths of lists `NAME.tsv.xz`."""
    for file in sorted(folder.glob("*.tsv.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                path, _, _, _, model, _, revision, *_ = line.rstrip("\n").split("\t")
                yield names_of(path), Address(file.name.partition(".")[0], model, revision)


def from_yang(name: str, folder: Path) -> Iterator[tuple[Names, Address]]:
    """Yield the paths of all modules in a folder, by pyang."""
    try:
        from pyang import context, repository  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit("--yang needs pyang: pip install pyang") from error
    files = sorted(folder.rglob("*.yang"))
    roots = ":".join(sorted({str(file.parent) for file in files}))
    ctx = context.Context(repository.FileRepository(roots, use_env=False))
    for file in files:
        ctx.add_module(str(file), file.read_text("utf-8"))
    ctx.validate()
    for module in ctx.modules.values():
        if module.keyword == "module":
            yield from _nodes(name, module, ())


def _nodes(source: str, node: Any, above: Names) -> Iterator[tuple[Names, Address]]:
    for child in getattr(node, "i_children", ()):
        if child.keyword in ("choice", "case"):
            yield from _nodes(source, child, above)
        elif child.keyword in ("leaf", "leaf-list"):
            revision = child.i_orig_module.search_one("revision")
            yield (*above, child.arg), Address(source, Path(child.pos.ref).name, revision.arg if revision else "")
        elif child.keyword in ("container", "list"):
            yield from _nodes(source, child, (*above, child.arg))


def addresses(known: Iterable[tuple[Names, Address]]) -> dict[Names, Address]:
    """Return the address of each used path that is a leaf of a model, or contains one."""
    patterns = {
        path: re.compile("/".join(re.sub(r"\\\{\w+\\\}|\\\*", "[^/]+", re.escape(step)) for step in path) + "(/.*)?")
        for path in used()
    }
    by_start: dict[str, list[Names]] = {}
    for path in patterns:
        by_start.setdefault(path[0], []).append(path)
    found: dict[Names, Address] = {}
    for leaf, address in known:
        text = "/".join(leaf)
        for path in by_start.get(leaf[0], ()):
            if path not in found and patterns[path].fullmatch(text):
                found[path] = address
    return found


def missing(known: dict[Names, Address]) -> list[str]:
    """Return the paths that no model has, with their profiles."""
    return [
        f"{name}: /{'/'.join(path)}"
        for path, names in used().items()
        for name in names
        if path not in known and not unmodelled(name, path)
    ]


def page(known: dict[Names, Address]) -> str:
    """Return the page of all paths with their addresses."""
    lines = [
        "# Models of the gNMI profiles' paths",
        "",
        "Made by `python -m tests.yang.profile_paths --write`, which looks each path up in published YANG.",
        "`make check` refuses a profile with a path that is not here.",
        "That a model has a path does not mean that a release fills it.",
    ]
    for name, profile in profiles().items():
        lines += ["", f"## {name}", "", "| path | YANG file, revision | list or repository |", "|---|---|---|"]
        for path in dict.fromkeys(paths_of(profile)):
            address = known.get(path)
            where = (
                f"{address.file}, {address.revision} | {address.source}" if address else unmodelled(name, path) + " | –"
            )
            lines.append(f"| `/{'/'.join(path)}` | {where} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Look up all paths, print those that are missing, and write the cache and the page if none is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=Path, default=DATA / "yang", help="folder of NAME.tsv.xz, if there is one")
    parser.add_argument("--yang", action="append", default=[], metavar="NAME=FOLDER", help="a checkout of YANG files")
    parser.add_argument("--write", action="store_true", help="write paths.tsv and the page")
    wanted = parser.parse_args()
    found = addresses(from_lists(wanted.lists))
    for one in wanted.yang:
        name, _, folder = one.partition("=")
        found |= addresses(from_yang(name, Path(folder)))
    found |= {path: address for path, address in cached().items() if path in used()}
    if lacking := missing(found):
        next_step = "look them up in YANG files (--yang NAME=FOLDER), or add their origin to UNMODELLED in this module"
        raise SystemExit("\n".join(["no model has:", *lacking, next_step]))
    if wanted.write:
        rows = sorted(f"/{'/'.join(path)}\t{a.source}\t{a.file}\t{a.revision}" for path, a in found.items())
        CACHE.write_text("# path, list or repository, YANG file, revision\n" + "\n".join(rows) + "\n", "utf-8")
        PAGE.write_text(page(found), "utf-8")
    sys.stdout.write(f"{len(found)} paths have a model{f'; {CACHE} and {PAGE} are written' if wanted.write else ''}\n")


if __name__ == "__main__":
    main()
