"""Tests every baseline as a process of its own, on a real Kafka and a real ClickHouse."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams.bench.baselines import environment
from streams.bench.baselines.comparison import Comparison
from streams.bench.baselines.load import Load, fill
from streams.bench.baselines.registry import BASELINES, Baseline
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.wire import topics
from streams.wire.topics import Topic
from tests.fixtures.bench_reference_step import downs

LOAD = Load(300, time.time_ns())  # gnmic's table drops rows that are older than 30 days


class _Elsewhere(Baseline):
    """Sends its results to a topic that no other test reads, so that tests do not count each other's results."""

    @property
    def answers(self) -> Topic:
        """See Baseline."""
        return replace(super().answers, name="bench.reading_only")


READING_ONLY = _Elsewhere("reading only", "aiokafka_loop", "", table="samples")


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    """Yield a Kafka for this module, because baselines read the whole topic of samples."""
    folder = tmp_path_factory.mktemp("peers")
    with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as broker:
        kafka = KafkaSettings(bootstrap=broker.bootstrap)
        own = [one.answers for one in (*BASELINES, READING_ONLY) if one.answers not in topics.TOPICS]
        asyncio.run(ensure_topics(kafka, (*topics.TOPICS, *own)))
        filled = asyncio.run(fill(kafka, LOAD))
        yield Comparison(
            kafka, filled, folder, environment.installed_python() or environment.NotInstalled("not made yet")
        )


@pytest.mark.parametrize("contender", BASELINES, ids=lambda one: one.program)
def test_a_baseline_finds_the_same_as_a_plain_reader(contest: Comparison, contender: Baseline) -> None:
    """Each reads its whole input, sends each crossing once or stores each row once, and reports its usage."""
    if contender.is_isolated and not isinstance(contest.python, Path):
        pytest.skip("the baselines' environment is missing: `railsight bench baselines` installs it")
    assert contest.filled.crossed == downs(one.samples for one in LOAD.readings()) != set()
    run = contest.run(contender)
    assert (run.wrong, run.missing) == ("", "")
    assert run.messages == round(300 * contender.share)
    assert run.cpu_s > 0
    assert (run.disk_bytes > 0, run.server_cpu_s > 0) == (contender.stores, contender.stores)


def test_a_baseline_that_ends_early_is_wrong(contest: Comparison, tmp_path: Path) -> None:
    """A process that ends normally without a tally has a reason instead of a cost."""
    run = replace(contest, folder=tmp_path).run(Baseline("silent", "step", ""))
    assert run.wrong == "ended with 0: no output"


def test_a_baseline_that_fails_is_wrong(contest: Comparison, tmp_path: Path) -> None:
    """A storing baseline without a server fails, and its last line of output is reported."""
    run = replace(contest, folder=tmp_path).run(Baseline("storing nowhere", "row_per_value", ""))
    assert run.wrong.startswith("ended with 1: ")


def test_a_baseline_that_stores_nothing_is_wrong(contest: Comparison, tmp_path: Path) -> None:
    """A baseline that reads everything and stores nothing is detected by the rows of its table."""
    run = replace(contest, folder=tmp_path).run(READING_ONLY)
    assert run.wrong == f"0 rows stored of {contest.filled.port_samples:,}"


def test_a_missing_environment_is_reported(contest: Comparison) -> None:
    """Without their environment the isolated baselines are not run, and no error is reported."""
    alone = replace(contest, python=environment.NotInstalled("no index"))
    run = alone.run(next(one for one in BASELINES if one.is_isolated))
    assert (run.wrong, run.missing) == ("", "no index")
