"""Tests the parser of the outputs of nccl-tests: table and JSON of all versions, and what is none."""

import json

import pytest

from collectors.nccl_tests.parse import Measurement, operation_of, parse
from streams.wire.errors import Reject
from tests.fixtures.nccl_tests_output import SIZES, as_json, bus_gbps, line, ranks, table

HOSTS = ("gpu-a", "gpu-b")


def test_a_table_has_ranks_results_and_the_average() -> None:
    """Sixteen ranks on two hosts, each size out of place and in place, in bytes a second."""
    (found,) = parse(table(HOSTS).encode())
    assert (found.operation, found.hosts, len(found.ranks), found.group_size) == ("all_reduce", HOSTS, 16, 16)
    assert (found.ranks[9].rank, found.ranks[9].host, found.ranks[9].gpu) == (9, "gpu-b", "0000:11:00.0")
    assert found.average_bus_bytes_per_s == 370e9
    assert [result.size_bytes for result in found.results] == list(SIZES)
    largest = found.results[-1]
    assert (largest.elements, largest.type, largest.redop, largest.root) == (1 << 31, "float", "sum", -1)
    assert found.row(largest) == "all_reduce/float/sum/-1/8589934592"
    for measured in largest.placements:
        assert measured is not None and measured.wrong == 0
        assert measured.bus_bytes_per_s == pytest.approx(bus_gbps(1 << 33, 370) * 1e9, rel=1e-4)
        assert measured.time_us == pytest.approx(8589934592 / 1e3 / (bus_gbps(1 << 33, 370) / 1.9), rel=1e-4)


def test_a_json_has_the_same_and_the_gpus_that_it_does_not_list() -> None:
    """The JSON has one GPU of each process; the number of ranks follows from its settings."""
    (found,) = parse(as_json(HOSTS))
    assert (found.operation, found.hosts, found.group_size) == ("all_reduce", HOSTS, 16)
    assert [rank.rank for rank in found.ranks] == list(range(16))
    assert [rank.gpu for rank in found.ranks[:2]] == ["0000:10:00.0", ""]
    one, in_place = found.results[0].placements
    assert one is not None and in_place is not None and (one.wrong, in_place.wrong) == (0, None)
    every = json.loads(as_json(HOSTS, gpus=1))
    every["config"]["ngpus"] = 2
    every["config"]["devices"] = [{**every["config"]["devices"][0], "rank": rank} for rank in range(4)]
    (found,) = parse(json.dumps(every).encode())
    assert len(found.ranks) == 4, "a version that lists all ranks"


@pytest.mark.parametrize("mark", ["[1,0]<stdout>:", "0: ", ""])
def test_marks_of_launchers_and_other_programs_around_it_are_no_part(mark: str) -> None:
    """`mpirun --tag-output` and `srun --label`; lines of NCCL and of the shell stand in between."""
    text = (
        "loading modules\n"
        + table(HOSTS)
        + "h0:1:2 [0] NCCL INFO comm destroyed\n"
        + table(HOSTS, program="all_gather_perf_mpi")
    )
    found = parse("\n".join(mark + each for each in text.splitlines()).encode())
    assert [(one.operation, len(one.ranks), len(one.results)) for one in found] == [
        ("all_reduce", 16, 3), ("all_gather", 16, 3),
    ]  # fmt: skip


def test_columns_are_those_of_the_header() -> None:
    """Per-iteration columns (`-I`), time stamps (`-S`), CPU time (`-C`), and the largest error of older versions."""
    size = SIZES[0]
    four = "  1.0  2.0  3.0  4.0"
    half = line(size, 370).split()[5:9]
    wide = f"{size} {size // 4} float sum -1 {' '.join(half)}{four} {' '.join(half)}{four} 2026-03-01 10:00:00"
    extra = "i_min i_max i_p99 i_cv%"
    header = f"size count type redop root time algbw busbw #wrong {extra} time algbw busbw #wrong {extra} timestamp"
    (found,) = parse(table(HOSTS, header=header, lines=[wide]).encode())
    (plain,) = parse(table(HOSTS, sizes=[size]).encode())
    assert found.results == plain.results
    (found,) = parse(table(HOSTS, header=header.replace("time algbw", "cputime algbw"), lines=[wide]).encode())
    first = found.results[0].placements[0]
    assert first is not None and first.time_us is None and first.bus_bytes_per_s, "CPU time is no time of the operation"
    old = "size count type redop root time algbw busbw error time algbw busbw error"
    (found,) = parse(table(HOSTS, header=old, lines=[line(size, 370, wrong="4e-07")]).encode())
    first = found.results[0].placements[0]
    assert first is not None and first.wrong is None


def test_what_was_not_measured_is_absent() -> None:
    """`N/A`, `nan`, a line without the columns out of place, and an output that ends early."""
    size = SIZES[0]
    cells = line(size, 370).split()
    lines = [
        line(size, 370, wrong="N/A"),
        " ".join([*cells[:5], *cells[9:]]),
        " ".join([*cells[:5], "nan", "inf", "-1", "3", *cells[9:]]),
    ]
    (found,) = parse(table(HOSTS, lines=lines, ends=False).encode())
    assert found.average_bus_bytes_per_s is None
    first, second, third = (result.placements for result in found.results)
    assert first[0] is not None and first[0].wrong is None
    assert second[0] is None and second[1] is not None and second[1].bus_bytes_per_s
    assert third[0] == Measurement(None, None, None, 3.0)


def test_groups_and_older_lines_of_ranks() -> None:
    """NCCL_TESTS_SPLIT: results are those of a group; before 2.14 a rank has the bus of its GPU only, and no group."""
    (found,) = parse(table(HOSTS, rank_lines=ranks(HOSTS, groups=8)).encode())
    assert (len(found.ranks), found.group_size) == (16, 2)
    (found,) = parse(table(HOSTS, program="", rank_lines=ranks(HOSTS, form="[0x{bus:02x}]")).encode(), "reduce_scatter")
    assert (found.operation, found.ranks[1].gpu, found.ranks[1].group) == ("reduce_scatter", "0000:11:00.0", 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no output of nccl-tests"),
        (b"a shell script\n# size count\n", "no output of nccl-tests"),
        (table(HOSTS, program="").encode(), "set operation"),
        (table(HOSTS, rank_lines="#").encode(), "Rank"),
        (table(HOSTS, lines=["# nothing"]).encode(), "no result"),
        (table(HOSTS, header="size count type redop root").encode(), "header with two times"),
        (as_json(HOSTS)[:-40], "incomplete"),
        (b"{}", "incomplete"),
        (as_json(HOSTS).replace(b"all_reduce_perf", b"python"), "set operation"),
        (as_json(HOSTS, gpus=1 << 20), "incomplete"),
    ],
)  # fmt: skip
def test_other_input_is_refused_in_one_line(data: bytes, message: str) -> None:
    """The message has the reason."""
    with pytest.raises(Reject, match=message) as raised:
        parse(data)
    assert "\n" not in str(raised.value)


def test_the_operation_is_the_name_of_the_program() -> None:
    """With a suffix of the build, and with a path."""
    assert operation_of("/opt/bin/all_reduce_perf_mpi") == "all_reduce"
    assert operation_of("alltoallv_perf") == "alltoallv"
    assert operation_of("python3") == ""
