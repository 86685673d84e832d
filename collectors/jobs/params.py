"""Settings of the jobs collector: the schedulers, and the mapping of jobs to teams and tenants."""

from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collectors.core.params import CollectorParams, from_json

Names = Annotated[dict[str, str], BeforeValidator(from_json)]


class SchedulerParams(BaseModel):
    """The settings that all schedulers share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=64)
    """The scheduler's name in published jobs. Collectors of one Kafka need different names: each ends its own jobs."""
    prefix: str = Field(default="", max_length=64)
    """Prefix of every job's id, for schedulers that would use the same ids."""
    nodes: Names = Field(default_factory=dict)
    """The scheduler's node name of each host whose name in the inventory differs by more than case and domain."""
    exclude: tuple[str, ...] = ()
    """Globs of the scheduler's nodes that are no hosts of this fabric; their jobs are not published."""
    teams: Names = Field(default_factory=dict)
    """The team of a value that `team_by` selects; a value without an entry is the team itself."""
    tenants: Names = Field(default_factory=dict)
    """The tenant of a team; a team without an entry has `tenant`."""
    tenant: str = ""
    """The tenant of all other jobs; if empty, the tenant of the hosts in the inventory."""

    @cached_property
    def _hosts(self) -> dict[str, str]:
        return {node: host for host, node in self.nodes.items()}

    def host(self, node: str) -> str:
        """Return the host of a node; stages fold the case and the domain of a name without an entry."""
        return self._hosts.get(node, node)

    def is_excluded(self, node: str) -> bool:
        """Return True for a node that is no host of this fabric."""
        return any(fnmatchcase(node, pattern) for pattern in self.exclude)

    def team(self, value: str) -> str:
        """Return the team of a value that the scheduler reports."""
        return self.teams.get(value, value)

    def tenant_of(self, team: str) -> str:
        """Return the tenant of a team."""
        return self.tenants.get(team, self.tenant)


class SlurmParams(SchedulerParams):
    """Settings of `[collect.jobs.slurm]`."""

    name: str = Field(default="slurm", min_length=1, max_length=64)
    team_by: Literal["account", "comment", "user"] = "account"
    """The team is the job's account, its comment, or its user's team in `teams`. Accounts need Slurm's accounting."""
    command: tuple[str, ...] = Field(default=("squeue", "--json", "--states=all"), min_length=1)
    """The command that prints the jobs. SLURM_CONF and the login come from the environment of the process."""
    slurmrestd: Path | None = None
    """The unix socket of a slurmrestd to read instead; it needs `rest_auth/local`."""
    api: str = Field(default="v0.0.38", pattern=r"^v0\.0\.\d+$")
    """The version of slurmrestd's API; v0.0.38 is the one of Slurm 22.05."""
    cadence_s: float = Field(default=2.0, ge=0.5, le=600)
    """The interval of readings. slurmctld copies all jobs per answer: with thousands, use 10 s or more (choice)."""
    deadline_s: ClassVar[float] = 8.0
    """The timeout of a reading; `squeue` waits for 9 s if slurmctld does not answer."""
    absent_s: ClassVar[float] = 60.0
    """A job missing from complete answers for this long has ended. Slurm shows a finished job for MinJobAge (300 s):
    slurmctld lost its state, or the job ended while this collector did not run."""


class KubernetesParams(SchedulerParams):
    """Settings of `[collect.jobs.kubernetes]`."""

    name: str = Field(default="kubernetes", min_length=1, max_length=64)
    kubeconfig: str = ""
    """The path of a kubeconfig; if empty, the service account of the pod is used."""
    context: str = ""
    """The context of the kubeconfig; if empty, its current context."""
    gpus: tuple[str, ...] = Field(
        default=("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "*/gpu.shared", "nvidia.com/mig-*"), min_length=1
    )
    """The resources that are GPUs. One that matches a glob is a part of a GPU, whose number is unknown. A pod that
    requests none and has no resource claim is no job."""
    labels: dict[Literal["job", "user", "team"], tuple[str, ...]] = Field(default_factory=dict)
    """Labels or annotations of a pod that name its `job`, before the known ones; its `user`; its `team`, in place of
    Kueue's queue. A pod without a team has its namespace."""
    relist_s: ClassVar[float] = 300.0
    """The interval at which all pods are listed; between lists, changes are watched."""
    watch_s: ClassVar[int] = 20
    """The length of a watch: its end shows that the API responds. Less than `stale_s`."""
    timeout_s: ClassVar[float] = 10.0
    """The timeout of a connection and of a list; a watch that is silent for this long after its end has failed."""
    settle_s: ClassVar[float] = 0.5
    """The time to collect pod changes before jobs are computed: a job's 1,000 pods change within a moment."""


class Params(CollectorParams):
    """Settings of `[collect.jobs]`."""

    supports_spool: ClassVar[bool] = False
    slurm: SlurmParams | None = None
    kubernetes: KubernetesParams | None = None
    stale_s: ClassVar[float] = 30.0
    """A running job is marked stale after this long without an answer of its scheduler."""
    retain_s: ClassVar[float] = 86_400.0
    """Ended jobs stay in the topic, and in the memory of every stage, for this long; ClickHouse retains them longer."""

    def schedulers(self) -> list[SchedulerParams]:
        """Return the settings of the configured schedulers."""
        return [params for params in (self.slurm, self.kubernetes) if params is not None]
