"""Files that are not as they should be: each is read rightly, or refused with a sentence that says what is wrong."""

import gzip

import pytest

from dualgap.app.cli import main

ROWS = [f"{i % 7},{i * i % 11},{'pq'[i % 2]}" for i in range(60)]
TABLE = "a,b,y\n" + "\n".join(ROWS) + "\n"


def lines(make):
    return "a,b,y\n" + "".join(f"{make(i)},{i % 5},{'pq'[i % 2]}\n" for i in range(60))


READ = {
    "plain.csv": TABLE,
    "byte order mark.csv": b"\xef\xbb\xbf" + TABLE.encode(),
    "sixteen.csv": TABLE.encode("utf-16"),
    "data[1].csv": TABLE,
    "with space.csv": TABLE,
    "üñí€.csv": TABLE,
    "old mac.csv": TABLE.replace("\n", "\r"),
    "windows.csv": TABLE.replace("\n", "\r\n"),
    "pipes.csv": TABLE.replace(",", "|"),
    "semicolons.csv": TABLE.replace(",", ";"),
    "not packed.csv.gz": TABLE,
    "packed without ending": gzip.compress(TABLE.encode()),
    "quoted names.csv": '"a ","b","y"\n' + "\n".join(ROWS),
    "trailing commas.csv": TABLE.replace("\n", ",\n"),
    "gaps.csv": lines(lambda i: ""),
    "lines in quotes.csv": lines(lambda i: f'"one\nline, ""{i % 3}"""'),
    "huge numbers.csv": lines(lambda i: 10**20 * (i % 7)),
    "mixed types.csv": lines(lambda i: "x" if i % 10 == 3 else i % 4),
    "odd dates.csv": lines(lambda i: f"{1 + i % 28}. März {2000 + i % 20}"),
    "target with gaps.csv": "a,b,y\n" + "".join(f"{i % 7},{i % 5},{'' if i % 6 == 0 else 'pq'[i % 2]}\n" for i in range(60)),
    "one row a class.csv": "a,b,y\n1,2,p\n3,4,q\n",
    "true and FALSE.csv": "a,b,y\n" + "".join(f"{i % 7},{i % 5},{['True', 'FALSE'][i % 2]}\n" for i in range(60)),
}
REFUSED = {
    "empty.csv": ("", "empty.csv is empty"),
    "blank.csv": ("\n\n\n", "blank.csv is empty"),
    "header.csv": ("a,b,y\n", "has a header but no rows"),
    "one column.csv": ("y\n" + "p\nq\n" * 20, "has no column besides the labels in 'y'"),
    "names twice.csv": ("a,a,y\n1,2,p\n3,4,q\n", "has two columns called 'a'; rename one of them"),
    "latin.csv": ("a,b,y\ncaf\xe9,1,p\nth\xe9,2,q\n".encode("latin-1"), "line 2 is not UTF-8 text; save it as UTF-8"),
    "latin names.csv": ("caf\xe9,b,y\n1,1,p\n2,2,q\n".encode("latin-1"), "is not UTF-8 text; save it as UTF-8"),
    "infinite.csv": (lines(lambda i: "inf" if i == 5 else i % 7), "column 'a', row 6: inf is not a finite number"),
    "no labels.csv": ("a,b,y\n1,2,\n3,4,\n", "the label column 'y' is empty"),
    "one class.csv": ("a,b,y\n1,2,p\n3,5,p\n", "one class only, 'p'"),
    "ragged.csv": (TABLE + "1,2\n3,4,p,9\n", "line 62 has 2 fields, the first line has 3"),
    "titled.csv": ("My report\n\n" + TABLE, "line 2 has 3 fields, the first line has 1"),
    "zeros.csv": (b"a,b,y\n\0\0,1,p\n", "is not text: it holds zero bytes"),
    "cut.csv.gz": (gzip.compress(TABLE.encode())[:60], "is cut short"),
    "cut.parquet": (b"PAR1 nothing", "is not a whole Parquet file"),
    "either.csv": ("a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 60 * 3}\n" for i in range(3000)), "classes or a measured quantity"),
    "names as labels.csv": ("a,y\n" + "".join(f"{i % 7},n{i}\n" for i in range(200)), "these are no classes"),
}


def run(tmp_path, name, content):
    (tmp_path / "data1.csv").write_text("another file")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return main(["fit", str(tmp_path / name), "--target", "y", "--model", str(tmp_path / "m"), "--cv", "0", "--tol", "1e-2"])


@pytest.mark.parametrize("name", READ)
def test_read(name, tmp_path, capsys):
    code = run(tmp_path, name, READ[name])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert f"{'50' if 'gaps' in name and 'target' in name else '2' if 'one row' in name else '60'} rows" in out
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / name), "--out", str(tmp_path / "said.csv")]) == 0
    assert main(["certify", str(tmp_path / "m"), str(tmp_path / name), "--tol", "0.1"]) == 0


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path, capsys):
    content, why = REFUSED[name]
    assert run(tmp_path, name, content) == 1
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1  # one line
    assert "unexpected" not in err
    assert not (tmp_path / "m").exists()


def test_a_class_called_none(tmp_path, capsys):
    """600 rows with the classes gold, silver and none have three classes, in every command."""
    rows = "".join(f"{i % 7},{i % 5},{['gold', 'silver', 'none'][i % 3]}\n" for i in range(600))
    assert run(tmp_path, "t.csv", "a,b,y\n" + rows) == 0
    out = capsys.readouterr().out
    assert "600 rows × 2 columns, 3 classes (gold 200, none 200, silver 200)\n'none' is taken as a class; if it says" in out
    words = [str(tmp_path / "m"), str(tmp_path / "t.csv")]
    assert main(["certify", *words, "--tol", "0.1"]) == main(["predict", *words]) == 0
    assert "on 600 rows with a label" in capsys.readouterr().err
    convert = ["convert", words[1], "--target", "y"]
    assert main([*convert[:2], str(tmp_path / "all"), *convert[2:]]) == 0
    assert "Store(600 × 2 dense float64, 3 classes" in capsys.readouterr().out
    assert main([*convert[:2], str(tmp_path / "two"), *convert[2:], "--missing", "none"]) == 0
    assert "Store(400 × 2 dense float64, 2 classes" in capsys.readouterr().out


@pytest.mark.parametrize("cell", ["0x10", "1_0", "٣"])
def test_an_odd_cell_is_refused_by_every_command(cell, tmp_path, capsys):
    good = "a,b,y\n" + "".join(f"{i * 0.37:.2f},{i % 5},{'pq'[i % 2]}\n" for i in range(40))
    assert run(tmp_path, "good.csv", good) == 0
    (tmp_path / "bad.csv").write_text(good.replace("0.74", cell))
    data, model = str(tmp_path / "bad.csv"), str(tmp_path / "m")
    for words in (
        ["fit", data, "--model", model],
        ["convert", data, str(tmp_path / "s")],
        ["predict", model, data],
        ["certify", model, data],
    ):
        capsys.readouterr()
        assert main([*words, *([] if words[0] == "predict" else ["--target", "y"])]) == 1
        assert f"column 'a', row 3: '{cell}' is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sixteen.csv", "pipes.csv", "lines in quotes.csv", "old mac.csv", "target with gaps.csv"])
def test_convert_reads_the_same(name, tmp_path, capsys):
    content = READ[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["convert", str(tmp_path / name), str(tmp_path / "store"), "--target", "y"]) == 0, capsys.readouterr().err
