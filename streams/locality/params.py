"""Settings of the exports and of the locality service."""

from pydantic import BaseModel, ConfigDict, Field


class LabelKeys(BaseModel):
    """The keys of the labels of Kubernetes' nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = "fabric.topograph.run/tier-"
    """The prefix before the number of the level, 0 for the unit: the key of topograph 1.0 and later."""
    fixed: tuple[str, ...] = ()
    """Keys from the unit up in place of numbered ones, for example `network.topology.nvidia.com/leaf`, `…/spine` and
    `…/core` of topograph up to 0.5."""

    def of_levels(self, count: int) -> tuple[str, ...]:
        """Return the keys of this number of levels, from the units up; fewer where the fixed ones do not suffice."""
        return self.fixed[:count] if self.fixed else tuple(f"{self.prefix}{level}" for level in range(count))


class LocalityParams(BaseModel):
    """Settings of `railsight topology export` and of the locality service."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    labels: LabelKeys = LabelKeys()
    kueue_topology: str = Field(default="railsight", pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    """The name of Kueue's Topology."""
