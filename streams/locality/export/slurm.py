"""Writes Slurm's topology: `topology.conf` of the plugins tree and block, and `topology.yaml` of Slurm 25.05 and later.

A unit is written as a leaf switch or as a block. The block sizes are the smallest unit, and each level whose groups all
have the same number of units, a power of two, because Slurm joins adjacent blocks by powers of two.
With NVLink domains a domain is a block, in the order of the inventory: the order is the only sign of which blocks are
adjacent. A domain without hosts stays as an empty block, so that the others keep their place.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from streams.locality.export.tree import Tree, Vertex
from streams.locality.groups import natural_key
from streams.wire.errors import Misconfigured

Plugin = Literal["tree", "block"]


def topology_conf(tree: Tree, plugin: Plugin) -> str:
    """Return topology.conf; raises Misconfigured if Slurm would read a list of hosts differently."""
    lines = _switch_lines(tree) if plugin == "tree" else _block_lines(tree)
    return "".join(f"{line}\n" for line in ("# Written by railsight topology export.", *lines))


def _switch_lines(tree: Tree) -> Iterator[str]:
    for vertex in _from_the_leaves(tree):
        if vertex.level:
            yield f"SwitchName={vertex.name} Switches={_list(child.name for child in vertex.children)}"
        else:
            yield f"SwitchName={vertex.name} Nodes={_list(vertex.hosts)}"


def _block_lines(tree: Tree) -> Iterator[str]:
    for name, hosts in _blocks(tree):
        yield f"BlockName={name} Nodes={_list(hosts)}" if hosts else f"BlockName={name}"
    yield f"BlockSizes={','.join(map(str, block_sizes(tree)))}"


def _blocks(tree: Tree) -> list[tuple[str, tuple[str, ...]]]:
    if tree.domains:
        return [(domain.name, domain.hosts) for domain in tree.domains]
    return [(unit.name, unit.hosts) for unit in tree.units()]


def _from_the_leaves(tree: Tree) -> list[Vertex]:
    return sorted(tree.vertices(), key=lambda vertex: vertex.level)


def _list(names: Any) -> str:
    given = list(names)
    hostlist = compressed(given)
    if sorted(expanded(hostlist)) != sorted(given):
        raise Misconfigured(f"these names do not form a hostlist of Slurm: {', '.join(given[:8])}")
    return hostlist


def block_sizes(tree: Tree) -> list[int]:
    """Return the sizes of blocks in hosts, each a power of two times the first.

    The first is the size that most domains have as planned, of two the larger one: a domain that lacks a host does not
    make all others smaller.
    """
    if tree.domains:
        sizes_of = Counter(domain.planned for domain in tree.domains)
        base = max(sizes_of, key=lambda size: (sizes_of[size], size))
        return [base << power for power in range(len(tree.domains).bit_length())]
    base = min((len(unit.hosts) for unit in tree.units()), default=1)
    sizes = [base]
    for level in range(1, len(tree.tiers)):
        counts = {sum(1 for _ in vertex.units()) for vertex in tree.vertices() if vertex.level == level}
        count = counts.pop() if len(counts) == 1 else 0
        if count and count & (count - 1) == 0 and base * count > sizes[-1]:
            sizes.append(base * count)
    return sizes


def topology_yaml(tree: Tree, plugin: Plugin) -> str:
    """Return topology.yaml with both topologies; the one of `plugin` is the default of the cluster."""
    import yaml

    switches: list[dict[str, str]] = [
        {"switch": vertex.name, "children": _list(child.name for child in vertex.children)}
        if vertex.level
        else {"switch": vertex.name, "nodes": _list(vertex.hosts)}
        for vertex in _from_the_leaves(tree)
    ]
    blocks = [{"block": name, "nodes": _list(hosts)} if hosts else {"block": name} for name, hosts in _blocks(tree)]
    document = [
        {"topology": "railsight-tree", "cluster_default": plugin == "tree", "tree": {"switches": switches}},
        {
            "topology": "railsight-block",
            "cluster_default": plugin == "block",
            "block": {"block_sizes": block_sizes(tree), "blocks": blocks},
        },
    ]
    return f"# Written by railsight topology export.\n{yaml.safe_dump(document, sort_keys=False, width=1 << 20)}"


_LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)\Z", re.DOTALL)
_ITEM = re.compile(r"([^\[\],]*)\[([\d,-]+)\]([^\[\],]*)|([^\[\],]+)")
_MAX_DIGITS = 9
"""Longer numbers are part of the name, because Slurm reads up to 10 digits."""


def compressed(names: Iterable[str]) -> str:
    """Return the hostlist of names, in natural order."""
    numbers: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    plain: list[str] = []
    for name in names:
        found = _LAST_NUMBER.match(name)
        if found is None or len(found[2]) > _MAX_DIGITS:
            plain.append(name)
        else:
            prefix, digits, suffix = found.groups()
            # Numbers with leading zeros form ranges of one width; other numbers may differ in length.
            width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
            numbers[prefix, suffix, width].append(int(digits))
    lists = _with_padding(numbers)
    return ",".join(sorted([*plain, *lists], key=natural_key))


def _with_padding(numbers: dict[tuple[str, str, int], list[int]]) -> Iterator[str]:
    """Yield the ranges; numbers as long as padded numbers join their range, such as h10 that of h09."""
    for (prefix, suffix, width), found in numbers.items():
        if width == 0:
            padded = {w: v for (p, s, w), v in numbers.items() if (p, s) == (prefix, suffix) and w}
            rest = [number for number in found if len(str(number)) not in padded]
            if rest:
                yield _item(prefix, rest, suffix, 0)
        else:
            same = [n for n in numbers.get((prefix, suffix, 0), ()) if len(str(n)) == width]
            yield _item(prefix, [*found, *same], suffix, width)


def _item(prefix: str, numbers: Iterable[int], suffix: str, width: int) -> str:
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return f"{prefix}{ranges[0][0]:0{width}d}{suffix}"
    texts = (f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in ranges)
    return f"{prefix}[{','.join(texts)}]{suffix}"


def expanded(hostlist: str) -> list[str]:
    """Return the names of a hostlist; raises ValueError for another form."""
    found: list[str] = []
    at = 0
    while at < len(hostlist):
        item = _ITEM.match(hostlist, at)
        if item is None or (item.end() < len(hostlist) and hostlist[item.end()] != ","):
            raise ValueError(f"no hostlist: {hostlist[:80]}")
        found += [item[4]] if item[4] else _names(item[1], item[2], item[3])
        at = item.end() + 1
    return found


def _names(prefix: str, ranges: str, suffix: str) -> Iterator[str]:
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        for number in range(int(low), int(high or low) + 1):
            yield f"{prefix}{number:0{len(low)}d}{suffix}"
