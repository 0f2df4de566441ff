"""Figures as data, and both ways of drawing them."""

import base64
import gzip
import json
import string

import numpy as np
import pytest

from dualgap.lab import StudyError, parse_study, run_study
from dualgap.lab.columns import plain
from dualgap.lab.curves import numbers, packed_json
from dualgap.lab.draw import draw, save, svg_panels
from dualgap.lab.figures import KINDS, FigureData, Line, Panel, make_figure
from dualgap.lab.palette import COLOURS, ON_DARK, properties, styles_for
from dualgap.lab.study import FigureSpec


def figure(results, kind, **options):
    return make_figure(results, FigureSpec("f", kind, "Title", "Caption", options))


@pytest.fixture
def results(tiny, made_up):
    return made_up(
        tiny(), lambda cell: {"primal": (1.0, 0.5 + 0.1 * cell.run), "dual": (0.1, 0.4), "seconds": 0.1 * (1 + cell.run)}
    )


def test_mean_and_band_over_runs(results):
    made = figure(results, "convergence", race="main", y="primal")
    assert [panel.title for panel in made.panels] == ["plane", "cloud"]
    line = made.panels[0].lines[0]
    assert line.label == "SDCA"
    np.testing.assert_allclose(line.y, [1.0, 0.55])
    np.testing.assert_allclose([line.low[1], line.high[1]], [0.5, 0.6])


def test_against_time_the_runs_are_lined_up_by_epoch(results):
    line = figure(results, "convergence", race="main", x="cpu_seconds", y="primal").panels[0].lines[0]
    np.testing.assert_allclose(line.x, [0.15, 0.30])


def test_a_curve_goes_as_far_as_all_runs_go(tiny, made_up):
    def outcome(cell):
        return {"primal": (1.0, 0.5 + 0.1 * cell.run, 0.4)[: 3 - cell.run], "dual": (0.1, 0.3, 0.4)[: 3 - cell.run]}

    results = made_up(tiny(), outcome)
    np.testing.assert_allclose(figure(results, "convergence", race="main", y="primal").panels[0].lines[0].y, [1.0, 0.55])


def test_median_and_quartiles(tiny, made_up):
    results = made_up(tiny(runs=5), lambda cell: {"primal": (1.0, [0.5, 0.6, 0.7, 0.8, 9.0][cell.run]), "dual": (0.1, 0.4)})
    curve = results.groups[0].curve("epoch", "primal", quantiles=True)
    np.testing.assert_allclose([curve.low[1], curve.middle[1], curve.high[1]], [0.6, 0.7, 0.8])


def test_every_epoch_is_drawn(tiny, made_up):
    trace = 1.0 + 0.1 * (-1.0) ** np.arange(100)
    made = figure(made_up(tiny(), lambda cell: {"primal": trace, "dual": 0.1 + 0 * trace}), "convergence", race="main", y="primal")
    np.testing.assert_array_equal(made.panels[0].lines[0].x, np.arange(1, 101))


def test_of_a_long_curve_no_oscillation_is_lost(tiny, made_up):
    """The lowest and the highest value of each stretch are drawn, and the axis starts and ends with the curve."""
    rng = np.random.default_rng(0)
    trace = 1.0 + 0.1 * rng.random(5000)
    trace[[3210, 4321]] = 3.0, 0.5
    made = figure(made_up(tiny(), lambda cell: {"primal": trace, "dual": 0.1 + 0 * trace}), "convergence", race="main", y="primal")
    line = made.panels[0].lines[0]
    assert len(line.x) < 500
    assert (line.x[0], line.x[-1], line.y.max(), line.y.min()) == (1.0, 5000.0, 3.0, 0.5)
    late = line.y[line.x > 4500]
    assert late.max() > 1.09
    assert late.min() < 1.01


def test_axes_that_a_figure_compares_along_are_shared(tiny, made_up):
    race = {**tiny()["races"][0], "grid": {"l2": [0.1, 0.01]}, "problem": {}}
    results = made_up(tiny(races=[race]), lambda cell: {"train_trace": np.array([0.3, 0.2, 0.1]) + cell.problem["l2"]})
    panels = figure(results, "convergence", race="main", y="train_error", split=["data", "l2"]).panels
    assert [panel.title for panel in panels] == ["plane · l2 = 0.1", "plane · l2 = 0.01", "cloud · l2 = 0.1", "cloud · l2 = 0.01"]
    assert panels[0].y_limits == panels[1].y_limits
    assert panels[0].y_limits[0] < 0.11 < 0.4 < panels[0].y_limits[1]
    apart = figure(results, "convergence", race="main", y="train_error", split=["l2"]).panels
    assert apart[0].y_limits != apart[1].y_limits


def test_what_is_cut_off_is_said(tiny, made_up):
    trace = np.concatenate([[50.0, 9.0], 1.0 + 0.1 * (-1.0) ** np.arange(30)])
    results = made_up(tiny(), lambda cell: {"primal": trace, "dual": 0.1 + 0 * trace})
    panel = figure(results, "convergence", race="main", y="primal").panels[0]
    assert panel.y_limits[1] < 2.0
    assert panel.note == "cut off at the top: SDCA goes up to 50"
    for whole in ({"y_log": True}, {"x_log": True}):
        panel = figure(results, "convergence", race="main", y="primal", **whole).panels[0]
        assert panel.y_limits[1] > 50.0
        assert not panel.note


def test_a_curve_of_another_objective_is_named(tiny, made_up):
    own = {"id": "own", "solver": "sdca", "label": "Own", "problem": {"l2": 0.5}}
    race = {**tiny()["races"][0], "solvers": ["sdca", "pegasos", "own"]}
    results = made_up(tiny(solvers=[*tiny()["solvers"], own], races=[race]), lambda cell: {})
    assert figure(results, "convergence", race="main", y=["primal", "test_error"]).caption == (
        "Caption Of another objective, and not to be compared with the rest: “Own”."
    )
    assert figure(results, "convergence", race="main", y="test_error").caption == "Caption"
    assert figure(results, "convergence", race="main", y="primal", solvers=["sdca"]).caption == "Caption"


@pytest.mark.parametrize("ends", [(0.02, 0.9), (0.031, 0.038), (1.0, 9.0), (3e-7, 20.0), (0.4, 1.7), (1e-4, 1.1e-2)])
def test_an_axis_has_more_than_one_label(ends):
    line = Line("a", np.array(ends), np.array(ends))
    canvas = draw(FigureData("f", "", "", (Panel(x_log=True, y_log=True, lines=(line,)),)))
    canvas.canvas.draw()
    for axis in (canvas.axes[0].xaxis, canvas.axes[0].yaxis):
        low, high = axis.get_view_interval()
        labels = [
            label.get_text() for label, at in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True) if low <= at <= high
        ]
        assert 2 <= len([text for text in labels if text]) <= 8
        assert len(set(labels)) == len(labels)


def test_a_panel_a_family_and_one_overall(results):
    made = figure(
        results, "convergence", race="main", data="plane", y="primal", split=["family"], families=["primal", "dual", "all"]
    )
    assert [(panel.title, len(panel.lines)) for panel in made.panels] == [("primal", 1), ("dual", 1), ("all families", 2)]


def test_one_colour_a_solver_throughout(results):
    made = figure(results, "convergence", race="main", y=["primal", "relative_gap"])
    colours = {line.label: {(line.style.colour, line.style.dash)} for panel in made.panels for line in panel.lines}
    for panel in made.panels:
        for line in panel.lines:
            colours[line.label].add((line.style.colour, line.style.dash))
    assert all(len(seen) == 1 for seen in colours.values())
    assert colours["SDCA"] != colours["Pegasos"]


# Colours as they reach the eye, in linear RGB (Machado, Oliveira and Fernandes 2009, complete deficiency).
SIGHT = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue cones": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def perceived(colour, sight):
    """CIELAB of a colour for a kind of sight."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("dark", [False, True])
def test_colours_stay_apart(sight, dark):
    shown = [ON_DARK.get(colour, colour) if dark else colour for colour in COLOURS]
    pairs = [(a, b) for i, a in enumerate(shown) for b in shown[:i]]
    assert min(float(np.linalg.norm(perceived(a, sight) - perceived(b, sight))) for a, b in pairs) > 15


def test_the_same_names_get_the_same_styles():
    assert styles_for(["sdca", "pegasos"])["pegasos"] == styles_for(["sdca", "pegasos", "sgd"])["pegasos"]
    assert styles_for(["sdca", "pegasos"])["pegasos"].colour == COLOURS[1]


def test_a_dash_once_the_colours_are_used_up():
    assert len(set(styles_for(map(str, range(36))).values())) == 36


def test_sweep(tiny, made_up):
    race = {**tiny()["races"][0], "grid": {"l2": [0.1, 0.01]}, "problem": {}}
    results = made_up(tiny(races=[race]), lambda cell: {"accuracy": 0.5 + cell.problem["l2"]})
    line = figure(results, "sweep", race="main", x="l2", y="accuracy").panels[0].lines[0]
    np.testing.assert_allclose((line.x, line.y), [(0.01, 0.1), (0.51, 0.6)])
    never = figure(results, "sweep", race="main", x="l2", y="near:1e-9").panels[0]
    np.testing.assert_allclose(never.lines[0].y, 0.3)  # what was spent
    assert never.note == "not so near in every run, drawn at what was spent: 0.01, 0.1"


def test_kinds():
    assert sorted(KINDS) == ["as_taken", "boundary", "convergence", "pictures", "pipeline", "singular_values", "sweep"]


def test_settings_in_words():
    assert [plain(value) for value in (1e-3, 0.5, 50, 2.5e-5)] == ["1e-3", "0.5", "50", "2.5e-5"]


def test_errors(results):
    with pytest.raises(StudyError, match=r"there is no kind 'convergance'; did you mean 'convergence'\?"):
        figure(results, "convergance")
    with pytest.raises(StudyError, match=r"has no option 'rase'; did you mean 'race'\?"):
        figure(results, "convergence", rase="main", y="primal")


def test_drawn_to_files(results, tmp_path):
    made = figure(results, "convergence", race="main", y=["relative_gap", "test_error"], x_log=True)
    png, pdf = save(made, tmp_path)
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert pdf.read_bytes()[:4] == b"%PDF"


def test_names_with_markup_are_drawn_as_they_are():
    line = Line("$x_1$ <b>", np.array([1.0, 2.0]), np.array([0.1, 0.01]))
    other = Line("other", np.array([1.0, 2.0]), np.array([0.1, 0.01]))
    made = FigureData("f", "$\\frac$ <script>", "", (Panel("$", "x", "y", y_log=True, lines=(line, other)),))
    canvas = draw(made)
    canvas.canvas.draw()
    assert (canvas.axes[0].get_title(), canvas.axes[0].get_xlabel()) == ("$", "x")
    packed = packed_json([1.0, "</script><img src=x>"])
    assert set(packed) <= set(string.ascii_letters + string.digits + "+/=")
    assert json.loads(gzip.decompress(base64.b64decode(packed)))[1] == "</script><img src=x>"


def test_what_cannot_be_drawn_is_null():
    assert numbers(np.array([0.123456, np.inf, np.nan])) == [0.1235, None, None]


def test_a_drawing_for_a_page_takes_its_colours_from_there():
    names = [f"<b>{i}" for i in range(9)]
    lines = [Line(n, np.array([1.0, 2.0]), np.array([0.1, np.inf]), style=s) for n, s in styles_for(names).items()]
    evil = '<img src="x"> $y$'
    [one, other] = svg_panels(FigureData("f", "", "", (Panel(evil, evil, "y", lines=tuple(lines), note=evil), Panel("t"))))
    assert "<img" not in one
    assert "&lt;img" in one
    assert "<style" not in one  # its rules would hold for the whole page
    for colour in ON_DARK:
        assert colour.lower() not in one.lower().replace(f"--{colour[1:].lower()}", "")
    assert "var(--0072B2)" in one
    assert one.count("<svg") == other.count("<svg") == 1
    for dark in (False, True):
        assert all(f"--{colour[1:]}:" in properties(dark) for colour in ON_DARK)


def test_boundary_of_a_real_run(tiny, tmp_path):
    results = run_study(parse_study(tiny(runs=1)), tmp_path, jobs=1).results
    made = figure(results, "boundary", race="main", data="cloud", solvers=["sdca"], grid=21)
    panel = made.panels[0]
    assert panel.surface[2].shape == (21, 21)
    assert sum(len(points.x) for points in panel.lines) == 40
    wrong = sum(len(points.x) for points in panel.lines if "misclassified" in points.label)
    assert panel.note == f"{100 * wrong / 40:.2g} % misclassified"
    assert len({points.style.colour for points in panel.lines}) == 4
    draw(made).canvas.draw()
