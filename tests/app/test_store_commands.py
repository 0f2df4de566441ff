"""`dualgap convert` and `dualgap fit` on a store."""

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'lab'")
pytest.importorskip("skops", reason="model files need the extra 'lab'")

from dualgap.app.cli import main


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    labels = np.where(x @ [1.0, -1.0, 0.5] + 0.2 * rng.standard_normal(300) > 0, 1, -1)
    path = tmp_path / "data.svm"
    path.write_text("".join(f"{label:+d} 1:{a:.4f} 2:{b:.4f} 3:{c:.4f}\n" for label, (a, b, c) in zip(labels, x, strict=True)))
    return path


def test_convert_fit_predict(data, tmp_path, capsys):
    store, model = tmp_path / "store", tmp_path / "model.skops"
    assert main(["convert", str(data), str(store), "--dtype", "float32"]) == 0
    assert "Store(300 × 3 sparse float32, 2 classes, 1 part)" in capsys.readouterr().out
    assert main(["fit", str(store), "--model", str(model), "--l2", "0.01", "--tol", "1e-3"]) == 0
    assert "converged after" in capsys.readouterr().out
    assert main(["predict", str(model), str(data)]) == 0
    out, err = capsys.readouterr()
    assert "there is no column 'proven': a model that was trained on a store has no bounds" in err
    lines = out.splitlines()
    predicted = [line.split(",")[0] for line in lines if line[:1] in "1-"]
    truth = [str(int(float(line.split()[0]))) for line in data.read_text().splitlines()]
    assert np.mean([float(a) == float(b) for a, b in zip(predicted, truth, strict=True)]) > 0.9


def test_errors_are_one_line(data, tmp_path, capsys):
    store = tmp_path / "store"
    assert main(["convert", str(data)]) == 1
    assert "the folder that the store goes to" in capsys.readouterr().err
    assert main(["convert", str(data), str(store)]) == 0
    assert main(["fit", str(store), "--model", str(tmp_path / "m"), "--target", "label"]) == 1
    assert "--target with a store" in capsys.readouterr().err
    assert main(["fit", str(data), "--model", str(tmp_path / "m"), "--scheduler", "tcp://nowhere:1"]) == 1
    assert "`dualgap convert" in capsys.readouterr().err
    for options in (["--no-prepare"], ["--cv", "3"], ["--proof", "p"]):
        assert main(["fit", str(store), "--model", str(tmp_path / "m"), *options]) == 1
        assert options[0] in capsys.readouterr().err
    (store / "part-00000.data.npy").unlink()
    assert main(["fit", str(store), "--model", str(tmp_path / "m")]) == 1
    error = capsys.readouterr().err
    assert "part-00000.data.npy is missing" in error
    assert error.count("\n") == 1


def test_a_long_epoch_shows_that_it_goes_on(capsys, monkeypatch):
    """A line tells the bytes that were read though nothing was evaluated; with two gaps it tells when the tolerance is reached."""
    from types import SimpleNamespace

    from dualgap.app import fit_display

    clock = [0.0]
    monkeypatch.setattr(fit_display.time, "monotonic", lambda: clock[0])
    with fit_display.live_gap(1, store=SimpleNamespace(bytes_read=2_500_000_000)) as listen:
        clock[0] = fit_display.BEAT + 1.0
        listen.beat()
        assert "2.50 GB read" in capsys.readouterr().err
        for epoch, gap in ((1, 1e-1), (2, 1e-2)):
            clock[0] += 20.0
            listen(SimpleNamespace(epoch=epoch, tol=1e-4, certificate=SimpleNamespace(relative_gap=gap)))
    assert "asked for 1e-04, in about 40 s at this rate" in capsys.readouterr().err
