"""What `railsight up` runs for a configuration."""

from pathlib import Path

from streams.cli.collector_registry import collector_params
from streams.config.settings import load
from streams.runtime.local_pipeline import pipeline_parts


def commands(tmp_path: Path, text: str) -> dict[str, tuple[str, ...]]:
    """The command of each part, by its name."""
    path = tmp_path / "railsight.toml"
    path.write_text(text)
    return {part.name: tuple(part.command) for part in pipeline_parts(load(path, collector_params(), environ={}), path)}


def test_a_collector_has_a_spool_unless_the_configuration_says_where(tmp_path: Path) -> None:
    """What was read while Kafka is away is kept; the bridge, which reads from Kafka, and the simulator need none."""
    text = '[collect.nic]\n[collect.host.publisher]\nspool = "/mine"\n[collect.sim]\n[collect.bridge]\ntopics = ["x"]\n'
    found = commands(tmp_path, text)
    spools = {name: [word for word in words if word.startswith("publisher.spool=")] for name, words in found.items()}
    (said,) = spools["collect-nic"]
    assert said.endswith("/railsight/spool")
    assert [name for name, words in spools.items() if words] == ["collect-nic"]
