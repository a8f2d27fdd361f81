"""The results format: what the reader takes, and what it refuses with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.formats.points import make_point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import COLUMNS, ResultsError, Table, format_row, parse_row, read_table, rows_of, summarise

EARLIER = ",".join(COLUMNS)
HEADER = EARLIER + ",values"
GOOD = "quick,alloc_single,sharded_spans,cuda,1000,16,state=warm,malloc_us,us,2,2,0.5,1.1,2.9,1,3,10,ok,1 2 2 2 2 2 2 2 2 3"
COMMA = "a decimal comma, as in 12,5, splits a number into two fields: write numbers with a decimal point"
COMMAS = "save the table with commas between the fields, and numbers with a decimal point"
POINT = make_point({"threads": 1000, "bytes": 16, "state": "warm"})


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join([HEADER, *lines]) + end)
    return path


def test_the_columns_are_those_of_the_design() -> None:
    assert EARLIER == "suite,case,allocator,backend,threads,bytes,parameter,metric,unit,mean,median,stddev,p5,p95,min,max,runs,status"


def test_a_row_reads_back_as_it_was_written() -> None:
    assert format_row(parse_row(GOOD)) == GOOD + "\n"


def test_rows_of_a_point_read_back(tmp_path: Path) -> None:
    result = PointResult("ok", "", (Measurement("malloc_us", "us", (3.0, 1.0, 2.0)), Measurement("failed_requests", "count", (0.0, 0.0, 0.0))))
    table = Table(tmp_path / "quick.csv")
    table.append(rows_of("quick", "alloc_single", "sharded_spans", "cuda", POINT, "seed=7", result))
    malloc, failed_requests = read_table(table.path)
    assert (malloc.metric, malloc.statistics and malloc.statistics.median, malloc.runs) == ("malloc_us", 2.0, 3)
    assert failed_requests.parameter == "seed=7;state=warm"


def test_a_table_without_values_reads_and_is_written_with_them(tmp_path: Path) -> None:
    path = tmp_path / "quick.csv"
    path.write_text(f"{EARLIER}\n{GOOD.rpartition(',')[0]}\n")
    table = Table(path)
    assert table.rows[0].values == ()
    table.append(rows_of("quick", "alloc_single", "atomic_malloc", "cuda", POINT, "", PointResult("ok", "", (Measurement("malloc_us", "us", (3.0, 1.0)),))))
    assert path.read_text().splitlines()[:2] == [HEADER, GOOD.rpartition(",")[0] + ","]
    assert [row.values for row in read_table(path)] == [(), (3.0, 1.0)]


def test_runs_that_are_equal_stand_once(tmp_path: Path) -> None:
    table = Table(tmp_path / "quick.csv")
    table.append(rows_of("quick", "churn", "atomic_malloc", "cuda", POINT, "", PointResult("ok", "", (Measurement("failed_requests", "count", (0.0,) * 3),))))
    assert table.path.read_text().endswith(",3,ok,0\n")
    assert read_table(table.path)[0].values == (0.0, 0.0, 0.0)


def test_a_reason_with_separators_stays_one_value(tmp_path: Path) -> None:
    table = Table(tmp_path / "quick.csv")
    table.append(rows_of("quick", "churn", "atomic_malloc", "cuda", POINT, "", PointResult("unsupported", 'no; "never", x=1\nand more')))
    (row,) = read_table(table.path)
    assert row.reason == 'no, "never", x=1 and more'
    assert row.key[6] == "state=warm"
    assert (row.metric, row.statistics, row.runs) == ("", None, 0)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (GOOD.rsplit(",", 1)[0], "expected 19 fields, got 18"),
        (GOOD + ",", "expected 19 fields, got 20"),
        (GOOD.replace(",0.5,", ",0,5,"), f"expected 19 fields, got 20: {COMMA}"),
        (GOOD.replace("1 2 2", "1 2,5 2"), f"expected 19 fields, got 20: {COMMA}"),
        (GOOD.replace(",us,2,", ',us,"2,5",'), "mean is '2,5', expected a number with a decimal point"),
        (GOOD.replace("1 2 2 2 2 2 2 2 2 3", '"1 2,5 3"'), "values is '1 2,5 3', expected numbers separated by blanks with a decimal point"),
        (GOOD.replace("state=warm", "state=warm,cold"), "expected 19 fields, got 20: a field that contains a comma stands in double quotes"),
        (GOOD.replace(",", ";"), f"expected 19 fields, got 1: semicolons separate them: {COMMAS}"),
        (GOOD + " 2", "values has 11 numbers, and runs is 10"),
        (GOOD.replace("1 2 2", "0.5 2 2"), "values goes from 0.5 to 3, and min is 1, max 3"),
        (GOOD.replace("1 2 2", "1 two 2"), "values is '1 two 2 2 2 2 2 2 2 3', expected numbers separated by blanks"),
        (GOOD.replace("1 2 2", "1 nan 2"), "values has a number that is not finite"),
        (GOOD.replace("malloc_us", "malloc_minutes"), "unknown metric 'malloc_minutes'"),
        (GOOD.replace(",us,", ",ms,"), "unit of malloc_us is 'ms', expected 'us'"),
        (GOOD.replace(",ok", ",fine"), "status is 'fine'"),
        (GOOD.replace("cuda", "opencl"), "backend is 'opencl'"),
        (GOOD.replace("1000", "many"), "threads is 'many', expected a whole number"),
        (GOOD.replace("1000", "-1"), "threads is '-1', expected a whole number"),
        (GOOD.replace("1000", "9" * 5000), "threads is '99999999999999999999...', expected a number of 64 bits"),
        (GOOD.replace("1000", "18446744073709551616"), "threads is '18446744073709551616', expected a number of 64 bits"),
        (GOOD.replace(",10,ok", ",9000000000,ok"), "runs is 9000000000, expected at most 1000000"),
        (GOOD.replace("state=warm", "warm"), "parameter 'warm' is not key=value"),
        (GOOD.replace("state=warm", "a=1;a=2"), "has a key twice"),
        (GOOD.replace(",us,2,", ",us,,"), "mean is '', expected a number"),
        (GOOD.replace(",us,2,", ",us,nan,"), "mean is not finite"),
        (GOOD.replace(",1,3,10", ",1,2,10"), "expected min <= p5"),
        (GOOD.replace("0.5", "-0.5"), "stddev is negative"),
        (GOOD.replace(",10,ok", ",0,ok"), "runs is 0, which does not fit the numbers"),
        (GOOD.replace("sharded_spans", ""), "allocator is '', expected a name"),
        (GOOD.replace("sharded_spans", "<b>"), "allocator is '<b>', expected a name"),
        (GOOD.replace("malloc_us,us", ","), "unknown metric ''"),
        ("", "expected 19 fields, got 0"),
    ],
)
def test_a_bad_line_is_named_with_file_and_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "quick.csv", GOOD.replace("1000", "2000"), line)
    with pytest.raises(ResultsError) as error:
        read_table(path)
    assert str(error.value).startswith(f"{path}:3: ")
    assert complaint in str(error.value)


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolons"), ("\t", "tabs")])
@pytest.mark.parametrize("before", ["", "\ufeff"])
def test_another_separator_is_named(tmp_path: Path, separator: str, word: str, before: str) -> None:
    path = tmp_path / "quick.csv"
    path.write_text(before + HEADER.replace(",", separator) + GOOD.replace(",", separator) + "\n")
    with pytest.raises(ResultsError) as error:
        read_table(path)
    assert str(error.value) == f"{path}:1: {word} separate the fields, expected commas: {COMMAS}"


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "quick.csv"
    path.write_text(HEADER.replace("median", "middle") + "\n")
    with pytest.raises(ResultsError, match=r"quick\.csv:1: expected the columns"):
        read_table(path)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (HEADER.replace("median,", ""), "expected the columns suite,.*: no median$"),
        (HEADER.replace("median", "middle"), ": no median; unknown 'middle'$"),
        (HEADER.replace("suite,case", "case,suite"), ": they are in another order$"),
        ("\ufeff" + HEADER, ": a byte order mark stands before them: save the file in UTF-8 without one$"),
        (HEADER.replace("unit,", "unit,unit,"), ": 'unit' twice$"),
        ("", "found an empty line$"),
        ("<html>", ", found none of them: name a table that gpuheap bench has written$"),
    ],
)
def test_a_header_is_said_what_it_lacks(tmp_path: Path, header: str, complaint: str) -> None:
    path = tmp_path / "quick.csv"
    path.write_bytes(header.encode() + b"\n")
    with pytest.raises(ResultsError, match=r"quick\.csv:1: .*" + complaint):
        read_table(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", HEADER.encode() + b"\n" + GOOD.encode() + b"\x00\n", b"\x00" * 64])
def test_what_is_no_table_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "quick.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"quick\.csv"):
        Table(path)
    assert path.read_bytes() == content


def test_a_table_that_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none.csv cannot be read: no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(UserError, match="cannot be read: is a directory"):
        read_table(tmp_path)


def test_a_half_line_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "quick.csv", GOOD, GOOD[:40], end="")
    with pytest.raises(ResultsError, match=r"quick\.csv:3: the line ends in the middle"):
        read_table(path)


def test_a_measurement_stands_once(tmp_path: Path) -> None:
    path = write(tmp_path / "quick.csv", GOOD, GOOD.replace("malloc_us", "free_us"), GOOD)
    with pytest.raises(ResultsError, match=r"quick\.csv:4: the same measurement is in line 2"):
        read_table(path)


def test_a_point_has_one_status(tmp_path: Path) -> None:
    path = write(tmp_path / "quick.csv", GOOD, GOOD.replace("malloc_us", "free_us").replace(",ok", ",wrong"))
    with pytest.raises(ResultsError, match=r"quick\.csv:3: status is wrong, but ok"):
        read_table(path)


def test_a_point_is_appended_in_one_write_and_the_rest_untouched(tmp_path: Path) -> None:
    path = write(tmp_path / "quick.csv", GOOD)
    before = path.read_bytes()
    Table(path).append(rows_of("quick", "alloc_single", "atomic_malloc", "cuda", POINT, "", PointResult("timeout", "no result within 2 s")))
    assert path.read_bytes().startswith(before)
    assert len(read_table(path)) == 2


def test_statistics_of_a_single_run() -> None:
    found = summarise([7.0])
    assert (found.mean, found.median, found.stddev, found.p5, found.p95) == (7, 7, 0, 7, 7)


def test_percentiles_are_interpolated() -> None:
    found = summarise([float(n) for n in range(21)])
    assert (found.p5, found.median, found.p95) == (1.0, 10.0, 19.0)
    assert found.stddev == pytest.approx(6.2048368)
