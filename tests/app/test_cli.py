"""The command line as a user meets it: exit codes, one-line errors, files that appear."""

import csv
import json
import subprocess
import sys

import numpy as np
import polars
import pytest
import skops.io

from dualgap.app.cli import main
from dualgap.app.model_file import load_model
from dualgap.lab import study_names


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A small CSV with a label column of words."""
    path = tmp_path_factory.mktemp("data") / "pets.csv"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 90)
    X = rng.standard_normal((90, 3)) + 1.5 * y[:, None]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["weight", "height", "age", "animal"])
        writer.writerows([[*row, "dog" if label else "cat"] for row, label in zip(X.round(4).tolist(), y, strict=True)])
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


QUICK = ["--loss", "hinge", "--runs", "1", "--epochs", "30", "--jobs", "1", "--intercept", "none"]


def test_compare_a_table(capsys, table, tmp_path):
    code, out, err = run(capsys, "compare", table, "--target", "animal", "--solvers", "sdca,pegasos", *QUICK, "--out", tmp_path)
    assert code == 0, err
    assert "standardised" in err  # and says so
    assert "held out for testing" in err
    assert "hinge · SDCA · run 1: " in err  # a line a run
    lines = out.splitlines()
    assert lines[-1] == str(tmp_path / "report.html")
    assert "test error" in lines[1]
    assert {line.split()[0] for line in lines[2:4]} == {"SDCA", "Pegasos"}
    for name in ("report.html", "report.md", "figures/gap-hinge.png", "tables/runs.csv", "results/results.parquet"):
        assert (tmp_path / name).stat().st_size > 0
    again = run(capsys, "compare", table, "--target", "animal", "--solvers", "sdca,pegasos", *QUICK, "--out", tmp_path)
    assert "2 of 2 runs were done before" in again[2]
    code, out, _ = run(capsys, "report", tmp_path)
    assert (code, out.splitlines()[-1]) == (0, str(tmp_path / "report.html"))
    told = json.loads(run(capsys, "report", tmp_path, "--json")[1])
    assert {each["label"] for each in told["problems"][0]["solvers"]} == {"SDCA", "Pegasos"}
    assert (told["report"], told["statements"]) == (str(tmp_path / "report.html"), [])


ERRORS = [
    (["compare", "nowhere.csv", "--target", "y"], 1, "nowhere.csv: there is no such file"),
    (["compare", "breast-cancre"], 1, "there is no data set 'breast-cancre'; did you mean 'breast-cancer'?"),
    (["compare", "--solvers", "sdac"], 1, "there is no solver 'sdac'; did you mean 'sdca'?"),
    (["compare", "--loss", "huber"], 1, "--loss huber is a loss of regression, and this command races classifiers"),
    (["compare", "--loss", "hing"], 1, "--loss hing: there is no such loss; choose hinge"),
    (
        ["compare", "--solvers", "pegasos", "--loss", "logistic"],
        1,
        "pegasos cannot be raced on this problem: Pegasos is made for the hinge",
    ),
    (["compare", "--l2", "small"], 1, "--l2: 'small' is not a number"),
    (["compare", "--test-size", "2"], 1, "test_size: 2.0 is not a share"),
    (["compare", "--runs", "0"], 2, "Invalid value for '--runs'"),
    (["compare", "--runs", "many"], 2, "Invalid value for '--runs'"),
    (["compare", "--frobnicate"], 2, "No such option"),
    (["frobnicate"], 2, "No such command"),
    (["reproduce", "blood-cell"], 1, "there is no study 'blood-cell'; did you mean 'blood-cells'?"),
    (["report", "nowhere"], 1, "nowhere holds no results"),
    (["predict", "nowhere.skops", "x.csv"], 1, "nowhere.skops: there is no such file"),
    (
        ["fit", "x.csv", "--C", "7", "--l2", "0.1"],
        1,
        "--C 7.0 and --l2 0.1 exclude each other: each sets the strength of the penalty",
    ),
    (["fit", "x.csv", "--as", "a=text", "--no-prepare"], 1, "--as a=text and --no-prepare exclude each other"),
    (["convert", "x.csv", "store", "--as", "a=text", "--drop", "a"], 1, "--as a=text and --drop a exclude each other"),
    (["compare", "--loss", "hinge", "--delta", "0.1"], 1, "--delta 0.1 is the width of smooth_hinge, and --loss is hinge"),
    (["compare", "--gamma", "0.1"], 1, "--gamma 0.1 belongs to --kernel rbf, poly or sigmoid, and --kernel is not given"),
    (["fit", "breast-cancer", "--checkpoint", "x"], 1, "--checkpoint goes with --scheduler"),
    (["fit", "breast-cancer", "--patience", "0"], 1, "--patience goes with --scheduler"),
    (
        ["fit", "breast-cancer", "--model", "m", "--proof", "m"],
        1,
        "--model m is a file that this command reads or writes otherwise",
    ),
    (["fit", "breast-cancer", "--solver", "sdac"], 1, "--solver sdac: there is no such solver; did you mean 'sdca'?"),
    (["fit", "breast-cancer", "--cv", "1"], 1, "--cv 1: with one fold no rows are left to train on; give at least 2, or 0"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), ERRORS, ids=[" ".join(arguments) for arguments, _, _ in ERRORS])
def test_errors_are_one_line(capsys, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, out, err = run(capsys, *arguments)
    assert found == code
    assert message in err
    assert err.startswith("dualgap: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert not out


def test_debug_shows_the_traceback(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "compare", "nowhere.csv", "--debug")
    assert code == 1
    assert "Traceback" in err


def test_interrupted(capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dualgap.lab.Comparison", stop)
    code, _, err = run(capsys, "compare")
    assert code == 130
    assert "the same command goes on from there" in err


@pytest.mark.parametrize("command", ["compare", "reproduce", "report", "fit", "predict", "certify", "solvers", "datasets"])
def test_help_shows_examples(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"dualgap {command}" in out
    assert "Example" in out


def test_lists(capsys):
    code, out, _ = run(capsys, "solvers")
    assert code == 0
    assert "pegasos" in out
    code, out, _ = run(capsys, "datasets")
    assert code == 0
    assert "breast-cancer" in out
    assert "fetch by hand" in out or "at hand" in out


def test_lists_as_json(capsys):
    solvers = json.loads(run(capsys, "solvers", "--json")[1])["solvers"]
    assert "pegasos" in [each["name"] for each in solvers]
    assert all(each["losses"] for each in solvers)
    found = json.loads(run(capsys, "datasets", "--json")[1])["datasets"]
    assert {"name", "rows", "columns", "found", "licence"} <= set(found[0])


def test_several_classes(capsys, tmp_path):
    arguments = ["compare", "digits", "--solvers", "sdca", *QUICK, "--out", tmp_path]
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "10 classes (0, 1, 2, 3, 4, 5, 6, 7, …), and a race has two; say which of them are positive, such as --positive 0" in err
    code, _, err = run(capsys, *arguments, "--positive", "8")
    assert code == 0, err
    assert "positive: 8; negative: every other class" in err


def test_missing_data_say_what_to_fetch(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    code, out, err = run(capsys, "reproduce", "blood-cells", "--runs", "1", "--out", tmp_path / "out")
    assert code == 3
    assert "https://www.kaggle.com/datasets/paultimothymooney/blood-cells" in err
    page = (tmp_path / "out" / "blood-cells" / "report.html").read_text(encoding="utf-8")
    assert "Data that were not found" in page
    assert "https://www.kaggle.com/datasets/paultimothymooney/blood-cells" in page
    assert out.splitlines()[-1] == str(tmp_path / "out" / "blood-cells" / "report.html")
    assert "cannot be told" in out


def test_explain_without_its_data_says_what_to_fetch(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    code, out, err = run(capsys, "explain", "blood-cells", "best-error", "--out", tmp_path / "out")
    assert (code, out) == (1, "")
    assert "https://www.kaggle.com/datasets/paultimothymooney/blood-cells" in err
    code, out, _ = run(capsys, "explain", "blood-cells", "list", "--json")
    assert (code, json.loads(out)["statements"]) == (0, ["best-error"])


def test_explain_ends_with_a_code_where_a_run_failed(capsys, tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        """
        name = "mine"
        title = "Mine"
        data = [{ id = "plane", name = "separable", options = { n = 60 } }]
        solvers = [{ id = "sdca", solver = "sdca" }]
        races = [{ id = "main", data = ["plane"], solvers = ["sdca"], problem = { l2 = 0.01 }, budget = { epochs = 2 } }]
        [[explain]]
        id = "c"
        numbers = { sdca = 0.0 }
        column = "train_error"
        data = "plane"
        within = 0.5
        knobs = { l2 = [0.1, -1.0], epochs = [2] }
        """
    )
    code, out, err = run(capsys, "explain", study, "c", "--jobs", "1", "--out", tmp_path / "out")
    assert code == 3
    assert "1 of 1 settings" in out
    assert "2 run(s) failed, the first with ValueError: l2=-1.0" in " ".join(err.split())
    code, out, _ = run(capsys, "explain", study, "c", "--jobs", "1", "--out", tmp_path / "out", "--json")
    assert (code, len(json.loads(out)["failed"])) == (3, 2)


def test_a_study_of_ones_own(capsys, tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        """
        name = "mine"
        title = "Mine"
        runs = 8
        data = [{ id = "plane", name = "separable", options = { n = 200 }, redraw = "data" }]
        solvers = [{ id = "sdca", solver = "sdca" }]
        [[races]]
        id = "main"
        data = ["plane"]
        solvers = ["sdca"]
        problem = { l2 = 0.01 }
        budget = { epochs = 5 }
        reference = false
        [[claims]]
        id = "c"
        says = "It is right nine times out of ten."
        check = "near"
        options = { race = "main", data = ["plane"], solvers = ["sdca"], column = "accuracy", value = 0.95, within = 0.1 }
        """
    )
    code, out, err = run(capsys, "reproduce", study, "--out", tmp_path / "out", "--jobs", "1")
    assert code == 0, err
    assert "✓ holds: It is right nine times out of ten." in out
    assert json.loads((tmp_path / "out" / "mine" / "study.json").read_text())["runs"] == 8
    assert "mine" not in study_names()


# ---------------------------------------------------------------------------------------------------------------------- models


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "pets.skops"
    assert main(["fit", str(table), "--target", "animal", "--model", str(path), "--tol", "1e-5"]) == 0
    return path


def test_fit_predict_certify(capsys, table, model, tmp_path):
    code, out, _ = run(capsys, "predict", model, table)
    assert code == 0
    rows = list(csv.reader(out.splitlines()))
    assert rows[0] == ["label", "score", "proven"]
    assert len(rows) == 91
    assert all((label == "dog") == (float(score) > 0) for label, score, _ in rows[1:])
    unlabelled = tmp_path / "new.csv"  # other order of columns, no labels
    unlabelled.write_text("age,weight,height\n2,3,3\n-2,-2,-2\n")
    code, out, _ = run(capsys, "predict", model, unlabelled, "--out", tmp_path / "said.csv")
    assert (code, out.strip()) == (0, str(tmp_path / "said.csv"))
    assert [line.split(",")[0] for line in (tmp_path / "said.csv").read_text().splitlines()] == ["label", "dog", "cat"]
    code, out, _ = run(capsys, "certify", model, table, "--target", "animal", "--tol", "1e-2")
    assert code == 0
    assert "at most" in out
    assert float(out.splitlines()[-1].split()[-1]) <= 1e-2


def test_positive_coefficients(capsys, table, tmp_path):
    path = tmp_path / "positive.skops"
    code, _, _ = run(
        capsys, "fit", table, "--target", "animal", "--positive", "--model", path, "--proof", tmp_path / "p", "--cv", "0"
    )
    assert code == 0
    svc = load_model(path).estimator
    assert svc.positive
    assert (svc.coef_ >= 0.0).all()
    code, out, _ = run(capsys, "certify", path, table, "--target", "animal", "--tol", "1e-2")
    assert code == 0
    assert "at most" in out


@pytest.mark.parametrize(("label", "written"), [("=1+1", "'=1+1"), ("-1", "-1")])
def test_labels_that_look_like_formulas(capsys, tmp_path, label, written):
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n" + f"1,2,{label}\n0,1,{label}\n5,5,other\n6,4,other\n" * 5)
    if label == "-1":
        path.write_text(path.read_text().replace("other", "1"))
    assert main(["fit", str(path), "--target", "y", "--model", str(tmp_path / "m.skops")]) == 0
    capsys.readouterr()
    code, out, _ = run(capsys, "predict", tmp_path / "m.skops", path)
    assert code == 0
    assert {row[0] for row in csv.reader(out.splitlines()[1:])} == {written, "1" if label == "-1" else "other"}


def test_a_file_name_is_not_a_pattern(capsys, model, tmp_path):
    """data[1].csv is that file, not data1.csv."""
    head = "age,weight,height\n"
    (tmp_path / "data[1].csv").write_text(head + "2,3,3\n-2,-2,-2\n")
    (tmp_path / "data1.csv").write_text(head + "2,3,3\n" * 5)
    code, out, _ = run(capsys, "predict", model, tmp_path / "data[1].csv")
    assert code == 0
    assert len(out.splitlines()) == 1 + 2
    polars.read_csv(tmp_path / "data1.csv").write_parquet(tmp_path / "data1.parquet")
    polars.DataFrame({"age": [2.0], "weight": [3.0], "height": [3.0]}).write_parquet(tmp_path / "data[1].parquet")
    code, out, _ = run(capsys, "predict", model, tmp_path / "data[1].parquet")
    assert (code, len(out.splitlines())) == (0, 1 + 1)


@pytest.mark.parametrize(
    "content",
    [
        {"format": "dualgap-model-1"},
        {"format": "dualgap-model-1", "estimator": {"a": 1}},
        {"format": "dualgap-model-1", "estimator": {"type": "Pipeline"}, "preparation": None, "scaler": None},
    ],
    ids=["nothing", "no estimator", "another estimator"],
)
def test_model_files_that_hold_something_else(capsys, table, tmp_path, content):
    (tmp_path / "odd.skops").write_bytes(skops.io.dumps(content))
    code, _, err = run(capsys, "predict", tmp_path / "odd.skops", table)
    assert code == 1
    assert "odd.skops" in err
    assert "unexpected" not in err


def test_certify_misses_its_tolerance(capsys, table, model):
    code, _, err = run(capsys, "certify", model, table, "--target", "animal", "--tol", "0")
    assert code == 1
    assert "is above --tol 0" in err


def test_a_missing_column_is_named(capsys, model, tmp_path):
    (tmp_path / "short.csv").write_text("weight,height\n1,2\n")
    code, _, err = run(capsys, "predict", model, tmp_path / "short.csv")
    assert code == 1
    assert "there is no column 'age', which the model was trained on" in err


class Stranger:
    """A type that no model of dualgap's has."""

    def __init__(self):
        self.secret = 1


def test_strange_models_are_refused(capsys, table, tmp_path):
    path = tmp_path / "strange.skops"
    skops.io.dump({"format": "dualgap-model-1", "estimator": Stranger()}, path)
    code, _, err = run(capsys, "predict", path, table)
    assert code == 1
    assert "holds types that a model of dualgap does not have, so it is not opened" in err
    assert "Stranger" in err
    skops.io.dump({"something": "else"}, path)
    assert "is not a model that dualgap fit wrote" in run(capsys, "certify", path, table)[2]
    path.write_text("no zip file at all")
    assert "is not a model that dualgap fit wrote" in run(capsys, "predict", path, table)[2]


def test_without_the_extra_a_sentence_says_what_to_install():
    """Without the extra the command is on the path all the same; it starts, and says what it needs by names that pip finds."""
    code = "import sys; sys.modules['typer'] = None; from dualgap.__main__ import main; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "dualgap: the command line needs typer: pip install typer\n"


def test_ctrl_c_while_modules_are_loaded():
    code = (
        "import sys, importlib.abc\n"
        "class Stop(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from dualgap.__main__ import main; sys.exit(main())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "dualgap: stopped by Ctrl-C; nothing was written\n")


# ------------------------------------------------------------------------------------------------------------ words and files


def test_numbers_that_are_not_finite_are_refused_when_a_model_is_opened(capsys, model, table, tmp_path):
    content = skops.io.load(model)
    content["estimator"]["fitted"]["coef_"][0, 1] = np.nan
    (tmp_path / "nan.skops").write_bytes(skops.io.dumps(content))
    for command in ("predict", "certify"):
        code, out, err = run(capsys, command, tmp_path / "nan.skops", table)
        assert (code, out) == (1, "")
        assert "nan.skops is a damaged model file (ValueError: coef[1] is nan); train it again" in err
    content = skops.io.load(model)
    content["preparation"]["rules"][0]["fill"] = float("inf")
    (tmp_path / "inf.skops").write_bytes(skops.io.dumps(content))
    code, _, err = run(capsys, "predict", tmp_path / "inf.skops", table)
    assert code == 1
    assert "preparation[rules][0][fill] is inf" in err


OBEYED = "\x1b[2J\x07\u202e\x9b\u2066"


def test_a_terminal_is_given_nothing_to_obey(capsys, tmp_path):
    """Names of columns, labels, files and categories are the data's, and may hold what a terminal obeys."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal(60), ("a" + OBEYED, "b" + OBEYED)
    rows = "".join(f"{v:.4f},{v + 1:.4f},{'up' if v > 0.5 else OBEYED},{labels[int(v > 0)]}\n" for v in x)
    path = tmp_path / f"data{OBEYED}.csv"
    path.write_text(f"x{OBEYED},z,w,y\n{rows}")
    quick = ["--loss", "hinge", "--solvers", "sdca", "--runs", "1", "--epochs", "3", "--jobs", "1", "--out", tmp_path / "race"]
    commands = [
        ["fit", path, "--target", "y", "--model", tmp_path / "m.skops"],
        ["fit", path, "--target", "y", "--model", tmp_path / "m.skops", "--json"],
        ["certify", tmp_path / "m.skops", path],
        ["predict", tmp_path / "m.skops", path, "--json"],
        ["fit", path, "--target", "none" + OBEYED],
        ["compare", path, "--target", "y", *quick],
    ]
    for command in commands:
        _, out, err = run(capsys, *command)
        assert out or err
        assert not set(OBEYED) - set("[2J") & set(out + err), command
    code, out, _ = run(capsys, "predict", tmp_path / "m.skops", path)
    assert code == 0
    assert {row[0] for row in csv.reader(out.splitlines()[1:])} <= set(labels)  # data that go to a file stay as they are


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_full_disk_is_named(table, tmp_path):
    """Files of at most 200 bytes stand for a full disk."""
    code = (
        "import resource, sys; from dualgap.app.cli import main\n"
        "limit = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "sys.exit(main(sys.argv[2:]))"
    )
    model = tmp_path / "whole.skops"
    assert main(["fit", str(table), "--target", "animal", "--model", str(model), "--cv", "0"]) == 0
    quick = ["--loss", "hinge", "--solvers", "sdca", "--runs", "1", "--epochs", "3", "--jobs", "1"]
    cases = [
        (tmp_path / "m.skops", 200, ["fit", table, "--target", "animal", "--cv", "0", "--model", tmp_path / "m.skops"]),
        (tmp_path / "said.csv", 200, ["predict", model, table, "--out", tmp_path / "said.csv"]),
        (tmp_path / "race", 200, ["compare", table, "--target", "animal", "--out", tmp_path / "race", *quick]),
    ]
    for path, limit, command in cases:
        arguments = [sys.executable, "-c", code, str(limit), *map(str, command)]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert ran.returncode == 1, (command, ran.stderr)
        assert f"dualgap: {path}" in ran.stderr
        assert "cannot be written: File too large; free some space there, or give a path on another disk" in ran.stderr


def test_a_proof_that_cannot_be_written_is_named(capsys, table, tmp_path):
    code, _, err = run(capsys, "fit", table, "--target", "animal", "--cv", "0", "--model", tmp_path / "m", "--proof", table / "p")
    assert code == 1
    assert f"{table / 'p'} cannot be written: " in err


def test_what_is_no_data_is_said(capsys, model, tmp_path):
    code, _, err = run(capsys, "fit", model)
    assert code == 1
    assert "it is a model: `dualgap predict` takes it" in err
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "odd.csv").write_bytes(bytes(range(256)))
    code, _, err = run(capsys, "fit", tmp_path / "folder")
    assert code == 1
    assert f"it is one of the files in the folder {tmp_path / 'folder'}" in err


def test_row_numbers_are_left_out_of_races_too(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(90)
    path = tmp_path / "numbered.csv"
    path.write_text(
        "rownames,x,z,y\n" + "".join(f"{i + 1},{v:.3f},{-v * v:.3f},{'b' if v > 0 else 'a'}\n" for i, v in enumerate(x))
    )
    code, out, _ = run(capsys, "fit", path, "--target", "y", "--model", tmp_path / "m.skops")
    assert code == 0
    assert "left out: an identifier" in out
    arguments = ["--solvers", "sdca", *QUICK, "--out", tmp_path / "race"]
    code, _, err = run(capsys, "compare", path, "--target", "y", *arguments)
    assert code == 0
    assert "column 'rownames': left out: an identifier" in err


def test_predict_needs_nothing_of_the_lab(model, table, tmp_path):
    code = (
        "import sys; from dualgap.app.cli import main; code = main(sys.argv[1:])\n"
        "print(code, *[name for name in sys.modules if name.startswith(('dualgap.lab', 'matplotlib'))])"
    )
    arguments = [sys.executable, "-c", code, "predict", str(model), str(table), "--out", str(tmp_path / "said.csv")]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1] == "0", ran.stdout + ran.stderr


def test_a_data_set_that_only_a_study_has(capsys, monkeypatch, tmp_path):
    """It has a name on the command line as every other has; the lab is asked only for a word that nothing else knows."""
    code, out, _ = run(capsys, "reproduce", "list")
    assert (code, out.split()) == (0, study_names())
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path))
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path / "cache"))
    code, _, err = run(capsys, "fit", "blood-cells")
    assert code == 1
    assert "data set 'blood-cells' needs the file blood-cells.zip" in err
