"""The baselines in the order of the table: the first of each kind is railsight, to which the others are compared."""

from dataclasses import dataclass

from streams.wire.topics import SYMPTOMS, PartitionScheme, Topic

_PACKAGE = "streams.bench.baselines"
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Baseline:
    """One program.

    `state_location` describes where its state, or its rows, are. One that stores has a `table`, with `rows_per_sample`
    rows per port-sample. One that is `is_isolated` runs in a separate environment; `share` is the part of the messages
    that it gets if all would take too long.
    """

    name: str
    program: str
    state_location: str
    table: str = ""
    rows_per_sample: int = 1
    is_isolated: bool = False
    share: float = 1.0

    @property
    def stores(self) -> bool:
        """True if it stores readings instead of searching for crossings."""
        return bool(self.table)

    @property
    def module(self) -> str:
        """The module that runs it with `python -m`."""
        return f"{_PACKAGE}.{self.program}"

    @property
    def answers(self) -> Topic:
        """The topic of its answers: for railsight its own topic."""
        if self.program == "railsight_measure":
            return SYMPTOMS
        return Topic(f"bench.{self.program}", None, PartitionScheme.POD, _HOUR_S)


BASELINES: tuple[Baseline, ...] = (
    Baseline("railsight measure", "railsight_measure", "arrays; snapshots in Kafka"),
    Baseline("Faust agent", "faust_agent", "arrays; lost with the process"),
    Baseline("aiokafka, object per port", "aiokafka_loop", "objects; lost with the process"),
    Baseline("Quix Streams", "quix_dataframe", "arrays in RocksDB, no changelog", is_isolated=True),
    Baseline("Bytewax", "bytewax_flow", "arrays; lost with the process", is_isolated=True),
    Baseline("railsight sink", "railsight_sink", "a row per port, exactly once", table="samples"),
    Baseline(
        "gnmic's row per value",
        "row_per_value",
        "a row per value",
        table="gnmic_telemetry",
        rows_per_sample=24,
        share=0.1,
    ),
)
