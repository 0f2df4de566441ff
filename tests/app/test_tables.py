"""fit, predict and certify on tables as people have them: options, outputs, interrupts, standard input."""

import csv
import io
import json
import sys

import numpy as np
import polars as pl
import pytest

import dualgap
from dualgap.app import fit_display
from dualgap.app.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with text, a date, gaps, an identifier, three classes."""
    made = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    n = 240
    kind = np.arange(n) % 3
    frame = pl.DataFrame(
        {
            "id": np.arange(1000, 1000 + n),
            "height": [None if rng.random() < 0.08 else round(float(k + 0.5 * rng.normal()), 3) for k in kind],
            "city": np.array(["Rome", "Oslo", "Kyiv"])[(kind + (rng.random(n) < 0.2)) % 3],
            "born": [f"2001-{1 + int(m):02d}-05" for m in rng.integers(12, size=n)],
            "price": rng.lognormal(3, 1, n).round(2),
            "species": np.array(["ash", "birch", "cedar"])[kind],
        }
    )
    frame.write_csv(made / "trees.csv")
    frame.select("price", "born", "id", "height", "city").write_csv(made / "new.csv")
    assert main(["fit", str(made / "trees.csv"), "--target", "species", "--model", str(made / "m.skops")]) == 0
    return made


def run(capsys, *words):
    capsys.readouterr()
    code = main([str(word) for word in words])
    return (code, *capsys.readouterr())


def labels(out):
    return [row[0] for row in csv.reader(out.splitlines())][1:]


def test_fit_says_how_good_the_model_is(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "fit", folder / "trees.csv", "--target", "species")
    assert code == 0, err
    assert "240 rows × 5 columns, 3 classes (ash 80, birch 80, cedar 80)" in out
    assert "left out: an identifier" in out
    assert "Accuracy in 5-fold cross-validation: 0." in out
    assert "Always saying 'ash' would have: 0.3333" in out
    assert "birch against the rest: primal" in out
    assert "city = Kyiv" in out
    assert out.splitlines()[-1] == "trees.skops"
    assert (tmp_path / "trees.skops").exists()


def test_json(folder, tmp_path, capsys):
    told = json.loads(run(capsys, "fit", folder / "trees.csv", "--target", "species", "--model", tmp_path / "m", "--json")[1])
    assert told["classes"] == ["ash", "birch", "cedar"]
    assert told["status"] == "converged"
    assert np.sum(told["cross_validation"]["confusion"]) == 240
    assert told["prepared"][0]["column"] == "id"
    assert {"feature", "weight", "class", "speaks"} == set(told["features"][0])
    said = json.loads(run(capsys, "predict", tmp_path / "m", folder / "trees.csv", "--json")[1])
    assert len(said["labels"]) == len(said["scores"]) == 240
    assert said["accuracy"] == told["training"]["accuracy"]
    proof = json.loads(run(capsys, "certify", tmp_path / "m", folder / "trees.csv", "--json")[1])
    assert proof["relative_gap"] == max(each["relative_gap"] for each in proof["certificates"]) < 1e-3


def test_predict_finds_columns_by_name(folder, capsys):
    code, out, err = run(capsys, "predict", folder / "m.skops", folder / "trees.csv")
    assert code == 0
    assert "accuracy 0." in err
    shuffled = run(capsys, "predict", folder / "m.skops", folder / "new.csv")
    assert (shuffled[0], shuffled[1]) == (0, out)


def test_predict_takes_new_categories_and_gaps(folder, tmp_path, capsys):
    (tmp_path / "odd.csv").write_text("city,height,born,price\nLima,0.1,2001-03-05,\nRome,,2001-04-05,20\n")
    code, out, err = run(capsys, "predict", folder / "m.skops", tmp_path / "odd.csv")
    assert code == 0
    assert len(labels(out)) == 2
    assert "a category that was not in the training data, such as 'Lima'" in err
    assert "column 'price': 1 missing value, filled with the median" in err
    (tmp_path / "odd.csv").write_text("city,height,born,price\nRome,tall,2001-03-05,20\n")
    code, _, err = run(capsys, "predict", folder / "m.skops", tmp_path / "odd.csv")
    assert code == 1
    assert "odd.csv: column 'height', row 1: 'tall' is not a finite number" in err


def test_models_open_in_python(folder):
    """Files, polars and pandas in; labels out."""
    from dualgap.app import load_model

    model = load_model(folder / "m.skops")
    frame = pl.read_csv(folder / "new.csv")
    said = model.predict(folder / "new.csv")
    assert said.shape == (240,)
    assert np.array_equal(model.predict(frame), said)
    assert np.array_equal(model.predict(frame.to_pandas()), said)
    assert model.decision_function(frame).shape == (240, 3)
    assert model.about["classes"] == ["ash", "birch", "cedar"]


def test_standard_input_and_several_files(folder, capsys, monkeypatch):
    whole = run(capsys, "predict", folder / "m.skops", folder / "new.csv")[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "new.csv").read_bytes())))
    assert run(capsys, "predict", folder / "m.skops", "-")[1] == whole
    twice = run(capsys, "predict", folder / "m.skops", folder / "new.csv", folder / "trees.csv")
    assert twice[0] == 1  # only one of them has the labels
    assert "do not have the same columns" in twice[2]
    assert len(labels(run(capsys, "predict", folder / "m.skops", folder / "new.csv", folder / "new.csv")[1])) == 480


def test_without_a_header(folder, tmp_path, capsys):
    pl.read_csv(folder / "trees.csv").drop("id").write_csv(tmp_path / "bare.csv", include_header=False)
    for target in ("-1", "4"):
        code, out, err = run(capsys, "fit", tmp_path / "bare.csv", "--target", target, "--model", tmp_path / "m", "--cv", 0)
        assert code == 0, err
        assert "240 rows × 4 columns" in out
        assert "no header" in out
    said = run(capsys, "predict", tmp_path / "m", tmp_path / "bare.csv")[1]
    pl.read_csv(folder / "trees.csv").drop("id", "species").write_csv(tmp_path / "short.csv", include_header=False)
    assert run(capsys, "predict", tmp_path / "m", tmp_path / "short.csv")[1] == said
    assert run(capsys, "certify", tmp_path / "m", tmp_path / "bare.csv")[0] == 0
    (tmp_path / "narrow.csv").write_text("1,2\n3,4\n")
    assert "it has 2 columns; the model was trained on 5" in run(capsys, "predict", tmp_path / "m", tmp_path / "narrow.csv")[2]
    assert "has no header" in run(capsys, "predict", folder / "m.skops", tmp_path / "bare.csv")[2]


def test_drop_and_as(folder, tmp_path, capsys):
    options = ["--drop", "city", "--as", "born=category", "--cv", 0]
    code, out, _ = run(capsys, "fit", folder / "trees.csv", "--target", "species", "--model", tmp_path / "m", *options)
    assert code == 0
    assert "left out: as asked" in out
    assert "12 categories (2001-01-05" in out
    for words, message in (
        (["--as", "born"], "give COLUMN=KIND"),
        (["--as", "born=star"], "kind of column 'born'"),
        (["--drop", "nme"], "there is no column 'nme'"),
        (["--no-prepare"], "leave --no-prepare out"),
        (["--loss", "hing"], "there is no such loss"),
        (["--loss", "epsilon_insensitive"], "a regression predicts numbers, and column 'species' holds words such as 'ash'"),
        (["--loss", "huber", "--task", "classification"], "--loss huber is a loss of regression, and --task says classification"),
        (["--task", "ranking"], "--task ranking: choose classification or regression"),
        (["--quantile", "0.5"], "--quantile 0.5 is for losses of regression"),
        (["--intercept", "yes"], "choose free, penalised or none"),
    ):
        code, _, err = run(capsys, "fit", folder / "trees.csv", "--target", "species", "--model", tmp_path / "m", *words)
        assert code == 1
        assert message in err


def test_a_measured_target(folder, tmp_path, capsys):
    words = ["fit", folder / "trees.csv", "--target", "price", "--task", "classification", "--model", tmp_path / "m"]
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "a measured quantity" in err
    code, _, _ = run(
        capsys, "fit", folder / "trees.csv", "--target", "price", "--above", "median", "--model", tmp_path / "m", "--cv", 0
    )
    assert code == 0
    assert run(capsys, "certify", tmp_path / "m", folder / "trees.csv")[0] == 0
    assert "accuracy" in run(capsys, "predict", tmp_path / "m", folder / "trees.csv")[2]


def test_rows_without_a_label(folder, tmp_path, capsys):
    frame = pl.read_csv(folder / "trees.csv")
    frame.with_columns(species=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise("species")).write_csv(tmp_path / "t.csv")
    code, out, _ = run(capsys, "fit", tmp_path / "t.csv", "--target", "species", "--model", tmp_path / "m", "--cv", 0)
    assert code == 0
    assert "5 rows without a label in 'species' are left out" in out


def test_ctrl_c_says_what_was_kept(folder, tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    words = ["fit", folder / "trees.csv", "--target", "species", "--model", tmp_path / "m", "--tol", "1e-12"]
    with monkeypatch.context() as patched:
        patched.setattr(fit_display.LiveGap, "__call__", stop)
        code, _, err = run(capsys, *words)
    assert code == 130
    assert f"the best model so far is in {tmp_path / 'm'}" in err
    assert run(capsys, "predict", tmp_path / "m", folder / "new.csv")[0] == 0
    (tmp_path / "m").unlink()
    monkeypatch.setattr("dualgap.app.training.save_model", stop)
    code, _, err = run(capsys, *words)
    assert code == 130
    assert "nothing was written" in err
    assert not (tmp_path / "m").exists()


def test_a_gap_that_is_not_reached_says_so(folder, tmp_path, capsys):
    words = ["fit", folder / "trees.csv", "--target", "species", "--model", tmp_path / "m", "--tol", "1e-13", "--cv", 0]
    code, out, err = run(capsys, *words, "--solver", "subgradient", "--max-seconds", 0.05)
    assert code == 1
    assert "did not converge" in out
    assert "the gap asked for was not reached" in err


def test_version_help_and_completion(capsys):
    assert run(capsys, "--version")[:2] == (0, f"dualgap {dualgap.__version__}\n")
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "fit" in out
    assert "--install-completion" in out


def test_output_that_cannot_be_written(folder, tmp_path, capsys):
    (tmp_path / "afile").write_text("")
    for place in (tmp_path, tmp_path / "afile" / "m"):
        code, _, err = run(capsys, "fit", folder / "trees.csv", "--target", "species", "--model", place, "--cv", 0)
        assert code == 1
        assert str(place) in err


@pytest.mark.data
def test_real_tables(shared_data, tmp_path, capsys):
    """Census income as it is distributed: no header, text, "?" for missing values, blanks after commas."""
    train, test = shared_data("tables/adult-train.csv.gz"), shared_data("tables/adult-test.csv.gz")
    assert run(capsys, "fit", train, "--target", "-1", "--model", tmp_path / "m", "--cv", 0)[0] == 0
    code, out, _ = run(capsys, "predict", tmp_path / "m", test)
    assert code == 0
    truth = pl.read_csv(test, has_header=False).to_series(14).drop_nulls().str.strip_chars().str.strip_chars_end(".").to_list()
    assert np.mean([one == other for one, other in zip(labels(out), truth, strict=True)]) > 0.845
    assert run(capsys, "certify", tmp_path / "m", train, "--tol", "1e-3")[0] == 0
