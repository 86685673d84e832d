"""`railsight up` runs the parts of a configuration."""

from pathlib import Path

from streams.cli.options import collector_params
from streams.config.settings import load
from streams.runtime.local_pipeline import pipeline_directory, pipeline_parts


def commands(tmp_path: Path, text: str) -> dict[str, tuple[str, ...]]:
    """Return the command of each part by its name."""
    path = tmp_path / "railsight.toml"
    path.write_text(text)
    return {part.name: tuple(part.command) for part in pipeline_parts(load(path, collector_params(), environ={}), path)}


def test_a_collector_has_a_default_spool_unless_one_is_configured(tmp_path: Path) -> None:
    """It stores readings during an outage of Kafka; the bridge, which reads from Kafka, and the simulator need none."""
    text = '[collect.nic]\n[collect.host.publisher]\nspool = "/mine"\n[collect.sim]\n[collect.bridge]\ntopics = ["x"]\n'
    found = commands(tmp_path, text)
    spools = {
        name: [option for option in command if option.startswith("publisher.spool=")] for name, command in found.items()
    }
    (option,) = spools["collect-nic"]
    assert option.endswith("/railsight/spool")
    assert [name for name, options in spools.items() if options] == ["collect-nic"]


def test_two_pipelines_with_folders_of_their_own_share_nothing(tmp_path: Path) -> None:
    """Otherwise the second begins with the findings of the first."""
    text = '[collect.nic]\n[runtime]\ndata = "{}"\n'
    folders = [tmp_path / "a", tmp_path / "b"]
    spools = [commands(tmp_path, text.format(folder))["collect-nic"][-1] for folder in folders]
    assert spools == [f"publisher.spool={folder / 'spool'}" for folder in folders]
    path = tmp_path / "railsight.toml"
    path.write_text(text.format(folders[0]))
    assert pipeline_directory(load(path, collector_params(), environ={})) == folders[0]
