"""Table files: formats, headers that are there or not, names that look like patterns, labels."""

import gzip
import io
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from dualgap.data import DataError, kind_of, learn_target, read, read_table, spooled_input
from dualgap.data.csv_files import find_header

BODY = "5.1,red,yes\n4.9,blue,no\n7.0,red,yes\n6.1,green,no\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("size,colour,buy\n" + BODY, True),
        (BODY, False),
        ("1,2,3\n4,5,6\n", False),
        ("a,b\n1,2\n", True),
        ("city,2019,2020\nRome,1.5,2\nOslo,1,2\n", True),  # years name columns
        ("39, State-gov, 77516, ?\n50, Private, 83311, x\n", False),
        ("name,town\nAnn,Rome\nBob,Oslo\n", True),  # nothing speaks against it
        ("red,yes\nblue,no\nred,no\n", False),  # red stands further down
        ("?,1,a\n2,3,b\n", False),
        ("id,\n1,2\n", True),
    ],
)
def test_header(text, named):
    assert find_header(text.encode(), ",") is named


def test_a_file_without_header_keeps_its_first_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(BODY)
    table = read_table(path)
    assert (table.named, table.columns, table.frame.height) == (False, ["0", "1", "2"], 4)
    assert read(path, target=2).y.tolist() == ["yes", "no", "yes", "no"]
    assert read_table(path, header=True).frame.height == 3
    assert read_table(path, expected=["5.1"]).named


def test_formats(tmp_path):
    frame = pl.DataFrame({"a": [1.5, 2.5, None], "b": ["x", "y", "z"]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    frame.write_ipc_stream(tmp_path / "t.arrows")
    frame.write_csv(tmp_path / "t.tsv", separator="\t")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    (tmp_path / "t.data").write_text("\ufeff" + frame.write_csv(separator=";").replace("\n", "\r\n") + "\r\n\r\n")
    (tmp_path / "old.csv").write_text(frame.write_csv().replace("\n", "\r"))
    for name in ("t.parquet", "t.arrow", "t.arrows", "t.tsv", "t.csv.gz", "t.data", "old.csv"):
        assert read_table(tmp_path / name).frame.equals(frame), name
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "t.arrow").read_bytes()[:100])
    with pytest.raises(DataError, match="not a whole Arrow file"):
        read_table(tmp_path / "cut.arrow")


def test_kinds_by_content(tmp_path):
    for name, text, kind in (
        ("a", "+1 1:2 3:4\n", "libsvm"),
        ("b.txt", "1,2,3\n", "csv"),
        ("c.txt", "-1 qid:3 2:0.5 # x\n", "libsvm"),
    ):
        (tmp_path / name).write_text(text)
        assert kind_of(tmp_path / name) == kind


def test_several_files_and_folders(tmp_path):
    one, two = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pl.DataFrame({"b": ["z"], "a": [0.5]})
    folder = tmp_path / "parts"
    folder.mkdir()
    one.write_parquet(folder / "1.parquet")
    two.write_parquet(folder / "2.parquet")
    (folder / "_SUCCESS").write_text("")
    for data in (folder, [folder / "1.parquet", folder / "2.parquet"]):
        frame = read_table(data).frame
        assert frame["a"].to_list() == [1, 2, 0.5]
        assert frame["b"].to_list() == ["x", "y", "z"]
    two.drop("a").write_parquet(folder / "2.parquet")
    with pytest.raises(DataError, match=r"1\.parquet has a column 'a'"):
        read_table(folder)
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="a folder with neither a store nor a table"):
        read_table(tmp_path / "bare")


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_name_is_not_a_pattern(tmp_path, ending):
    write = {"csv": pl.DataFrame.write_csv, "parquet": pl.DataFrame.write_parquet, "arrow": pl.DataFrame.write_ipc}[ending]
    for name, rows in (("data[1]", 2), ("data1", 5), ("q?", 3), ("qx", 7), ("*", 4)):
        with open(tmp_path / f"{name}.{ending}", "wb") as stream:
            write(pl.DataFrame({"a": np.arange(rows)}), stream)
    for name, rows in (("data[1]", 2), ("q?", 3), ("*", 4)):
        assert read_table(tmp_path / f"{name}.{ending}").frame.height == rows


def test_standard_input(monkeypatch):
    for content in (BODY.encode(), gzip.compress(BODY.encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with spooled_input() as path:
            assert read_table(path).frame.height == 4
        assert not path.exists()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(DataError, match="standard input is empty"), spooled_input():
        pass


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"a,b,y\n1,2,0\n1,2,3,4,1\n", "line 3 has 5 fields, the first line has 3"),
        ("a,ville\n1,Rome\n2,Orl\xe9ans\n".encode("latin-1"), "line 3 is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, match):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=match):
        read_table(tmp_path / "t.csv")


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "t.csv").write_text("a,b, a\n1,2,3\n")
    with pytest.raises(DataError, match="two columns called 'a'"):
        read_table(tmp_path / "t.csv")


# ---------------------------------------------------------------------------------------------------------------------- labels


def labels_of(series, name, above=None, task="classification", missing=()):
    rule = learn_target(series, name, above, task, missing)
    y, rows = rule.apply(series)
    return SimpleNamespace(y=y, rows=rows, task=rule.task, limit=rule.limit)


def test_labels():
    assert labels_of(pl.Series([1.0, 2.0, 1.0]), "y").y.tolist() == [1, 2, 1]
    assert labels_of(pl.Series([True, False]), "y").y.tolist() == ["true", "false"]
    given = pl.Series([" a", "None", "b ", None, " "])
    found = labels_of(given, "y")
    assert (found.y.tolist(), found.rows.tolist()) == (["a", "None", "b"], [0, 1, 2])  # a class may be called none
    assert labels_of(given, "y", missing=["none"]).rows.tolist() == [0, 2]
    assert labels_of(pl.Series(["1", "NA", "0"]), "y").y.tolist() == [1, 0]  # among numbers it is no class
    with pytest.raises(DataError, match="is empty"):
        labels_of(pl.Series(["", " "]), "y")


def test_a_measured_quantity_is_recognised():
    rng = np.random.default_rng(0)
    values = pl.Series(rng.normal(size=500))
    with pytest.raises(DataError, match=r"different numbers in 500 rows: that is a measured quantity.* Give --above -?0\.\d+"):
        labels_of(values, "price")
    for whole in (rng.integers(10_000, size=500), rng.permutation(200)):
        with pytest.raises(DataError, match="measured quantity"):
            labels_of(pl.Series(whole), "price")
    halves = labels_of(values, "price", above="median")
    assert sorted(np.unique(halves.y, return_counts=True)[1].tolist()) == [250, 250]
    assert halves.y[0] == f"{'above' if values[0] > halves.limit else 'up to'} {halves.limit:g}"
    assert labels_of(pl.Series(rng.integers(40, size=500)), "k").y.dtype == np.int64  # forty classes are classes
    with pytest.raises(DataError, match="every value of 'price' is on one side"):
        labels_of(values, "price", above="1e9")
    with pytest.raises(DataError, match="it must be a number or median"):
        labels_of(values, "price", above="half")
    with pytest.raises(DataError, match="parts numbers"):
        labels_of(pl.Series(["a", "b"]), "y", above="1")
    with pytest.raises(DataError, match="these are no classes"):
        labels_of(pl.Series([f"name {i}" for i in range(200)]), "who")
