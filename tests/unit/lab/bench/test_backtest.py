"""The benchmark of backtests: what it records is a recording, and its faults are found in it."""

from pathlib import Path

from lab.bench.backtest import TARGET, BacktestSpeeds, measure_backtest, speed_lines
from lab.bench.recording import write_recording
from streams.fabric.clos import GenerateParams, generate
from streams.replay.recording import RejectedRows, read_events, stream_samples


def test_what_is_recorded_is_read_back(tmp_path: Path) -> None:
    """Every reading with all its ports and values, nothing refused, in the order of time."""
    made = write_recording(generate(GenerateParams(gpus=64)), tmp_path, 60, 10, 1)
    refused = RejectedRows()
    messages = list(stream_samples([made.samples], refused))
    assert (len(messages), sum(len(m.row) for m in messages)) == (made.messages, made.port_samples)
    assert sum(m.counters.values.size + m.gauges.values.size for m in messages) == made.values
    assert [m.sampled_at_ns for m in messages] == sorted(m.sampled_at_ns for m in messages)
    read_events([made.events], refused)
    assert refused.lines() == []


def test_its_faults_are_found_and_its_speeds_are_of_one_run(tmp_path: Path) -> None:
    """Nothing is missed or invented; the table has the three speeds, each beside its cost."""
    found = measure_backtest(tmp_path, 64, 150, 10, 1)
    assert (found.missed, found.invented) == ((), ())
    assert found.found == found.injected > 0
    assert min(found.whole, found.reading, found.stages) > 0
    assert isinstance(found, BacktestSpeeds)
    text = "\n".join(speed_lines(found))
    assert f"target {TARGET:,}" in text
    assert f"{1e6 / found.stages:.2f}" in text
