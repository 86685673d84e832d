"""The table of a collector's benchmark, for people and for programs."""

from lab.bench.collector_costs import Cost, as_dict, lines, per, ratios

COSTS = [
    Cost("v2c", "ours", 2_000, 0.02),
    Cost("v2c", "theirs", 500, 0.05),
    Cost("v2c", "absent", skipped="absent is not installed"),
    Cost("v3", "ours", 1_000, 0.04),
]


def test_a_ratio_is_relative_to_the_first_client_of_the_same_load() -> None:
    """Railsight's is first; a client that was not measured has no ratio."""
    assert [round(ratio, 6) for ratio in ratios(COSTS)] == [1, 10, 0, 1]
    assert per(COSTS[0], 100_000) == 1.0


def test_a_client_that_was_not_measured_has_a_reason_and_no_figures() -> None:
    """Neither for people nor for programs: absent is not zero."""
    table = lines(COSTS, 100_000, "values")
    assert "CPU s / 100,000 values" in table[0]
    assert table[3].split() == ["v2c", "absent", "skipped:", "absent", "is", "not", "installed"]
    row = as_dict(COSTS, 100_000, "values")["clients"][2]
    assert row.pop("skipped") == "absent is not installed"
    assert {row[name] for name in ("count", "cpu_s", "ratio")} == {None}


def test_figures_are_the_same_for_people_and_for_programs() -> None:
    """Per the given number of values, and relative to railsight's."""
    table = as_dict(COSTS, 100_000, "values")
    assert (table["per"], table["what"]) == (100_000, "values")
    for line, row in zip(lines(COSTS, 100_000, "values")[1:3], table["clients"], strict=False):
        assert line.split()[-3:] == [f"{row['count']:,}", f"{row['cpu_s']:.2f}", f"{row['ratio']:.2f}"]
