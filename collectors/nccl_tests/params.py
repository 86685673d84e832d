"""Settings of the collector of nccl-tests."""

from functools import cached_property
from typing import ClassVar

from pydantic import Field

from collectors.core.params import CollectorParams


class Params(CollectorParams):
    """Settings of `[collect.nccl_tests]`."""

    supports_spool: ClassVar[bool] = False
    outputs: tuple[str, ...] = ()
    """Globs of outputs to follow (tables or JSON); without globs, one output is read from standard input."""
    operation: str = Field(default="", pattern=r"^[a-z_]{0,64}$")
    """The operation of a table that does not name its program (nccl-tests before 2.14), for example `all_reduce`."""
    nodes: dict[str, str] = Field(default_factory=dict)
    """The host name in the output for each host whose name in the inventory differs."""
    find_every_s: ClassVar[float] = 10.0
    """A file is read when it has not changed between two checks at this interval: its program has ended."""
    max_age_s: ClassVar[float] = 86_400.0
    """Files last written longer ago are not published."""

    @cached_property
    def _hosts(self) -> dict[str, str]:
        return {node: host for host, node in self.nodes.items()}

    def host(self, name: str) -> str:
        """Return the name of a host in the inventory."""
        return self._hosts.get(name, name)
