"""Preparation: what becomes of each kind of column, on the training table and on tables that differ from it."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dualgap.data import DataError, Notes, Preparation

ROWS = 80


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "id": np.arange(ROWS),
            "constant": ["same"] * ROWS,
            "empty": pl.Series([None] * ROWS, dtype=pl.Float64),
            "code": [f"u{rng.integers(10**9)}" for _ in range(ROWS)],
            "age": [None if i % 9 == 4 else float(20 + i % 40) for i in range(ROWS)],
            "pay": [f"${1000 + 37 * i:,}.50" for i in range(ROWS)],
            "share": [f"{i / 7:.2f}".replace(".", ",") for i in range(ROWS)],
            "city": ["?" if i % 11 == 0 else [" Paris", "Rome ", "Oslo"][i % 3] for i in range(ROWS)],
            "member": [i % 3 == 0 for i in range(ROWS)],
            "seen": [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2024" for i in range(ROWS)],
            "note": [f"the {['red', 'blue'][i % 2]} fox jumps over dog {i}" for i in range(ROWS)],
            "y": [i % 2 for i in range(ROWS)],
        }
    )


def test_kinds(frame):
    made = {name: (kind, says) for name, kind, _, says in Preparation.learn(frame, "y").table()}
    assert {name: kind for name, (kind, _) in made.items()} == {
        **dict.fromkeys(("id", "constant", "empty", "code"), "–"),
        **dict.fromkeys(("age", "pay", "share"), "number"),
        **dict.fromkeys(("city", "member"), "category"),
        "seen": "date",
        "note": "text",
    }
    assert "identifier" in made["id"][1]
    assert "identifier" in made["code"][1]
    assert made["empty"][1] == "left out: empty"
    assert "one value in every row" in made["constant"][1]
    assert "1,234.5" in made["pay"][1]
    assert "%d/%m/%Y" in made["seen"][1]  # 28/12 leaves no doubt


def test_values_are_those_of_scikit_learn(frame):
    """Numbers, categories and text as a pipeline by hand makes them."""
    ours = Preparation.learn(frame.select("age", "city", "note", "y"), "y")
    X = ours.apply(frame)
    clean = frame.with_columns(pl.col("city").str.strip_chars().replace({"?": "(missing)"})).to_pandas()
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    text = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    theirs = make_column_transformer((number, ["age"]), (OneHotEncoder(), ["city"]), (text, "note")).fit_transform(clean)
    theirs = theirs.toarray() if sparse.issparse(theirs) else theirs
    dense = X.toarray() if sparse.issparse(X) else X
    names = ours.feature_names
    assert np.allclose(dense[:, 0], theirs[:, 0])
    assert np.array_equal(dense[:, 1] == 1, frame["age"].is_null().to_numpy())
    place = [names.index(f"city = {city}") for city in ("Oslo", "Paris", "Rome")]
    assert np.array_equal(dense[:, [names.index("city is missing"), *place]], theirs[:, 1:5])
    words = [j for j, name in enumerate(names) if name.startswith("note: ")]
    assert np.allclose(dense[:, words], theirs[:, 5:])


def test_order_of_columns_and_extra_columns_do_not_matter(frame):
    made = Preparation.learn(frame, "y")
    one, other = made.apply(frame), made.apply(frame.select(frame.columns[::-1]).with_columns(more=1))
    assert abs(one - other).sum() == 0
    assert one.shape == (ROWS, len(made.feature_names)) == (ROWS, len(made.origins))


def test_plain_data_and_back(frame):
    made = Preparation.learn(frame, "y")
    back = Preparation.from_dict(json.loads(json.dumps(made.to_dict())))
    assert back == made
    for damage in ({}, {"rules": [{"kind": "spell"}], "target": "y", "named": True, "width": 1}, {**made.to_dict(), "rules": 3}):
        with pytest.raises(DataError, match="damaged"):
            Preparation.from_dict(damage)


def test_new_values_are_taken_and_told(frame):
    made, notes = Preparation.learn(frame.select("pay", "city", "y"), "y"), Notes()
    new = pl.DataFrame({"city": ["Lyon", "Oslo", None], "pay": ["", "1500", "$2,000.00"]})
    X = made.apply(new, notes)
    names = made.feature_names
    assert X[:, names.index("city = Oslo")].tolist() == [0, 1, 0]
    assert X[0, 1:].sum() == 0
    assert X[0, 0] == pytest.approx(
        (1000.5 + 37 * 39.5 - np.mean([1000.5 + 37 * i for i in range(ROWS)])) / (37 * np.arange(ROWS).std())
    )
    assert "column 'city': 1 row has a category that was not in the training data, such as 'Lyon'" in " ".join(notes.lines)
    assert any("column 'pay': 1 missing value, filled with the median" in line for line in notes.lines)


@pytest.mark.parametrize(
    ("new", "match"),
    [
        ({"age": [1.0]}, "there is no column 'city', which the model was trained on"),
        ({"age": ["old"], "city": ["Rome"]}, "column 'age', row 1: 'old' is not a finite number"),
        ({"age": [1.0, float("inf")], "city": ["Rome"] * 2}, "column 'age', row 2: inf is not a finite number"),
    ],
)
def test_tables_that_do_not_fit(frame, new, match):
    made = Preparation.learn(frame.select("age", "city", "y"), "y")
    with pytest.raises(DataError, match=match):
        made.apply(pl.DataFrame(new))


def test_dates_that_do_not_fit(frame):
    made = Preparation.learn(frame.select("seen", "age", "y"), "y")
    with pytest.raises(DataError, match="row 2: 'soon' is not a date like 31/12/2024"):
        made.apply(pl.DataFrame({"age": [1.0, 2.0], "seen": ["05/03/2024", "soon"]}))


@pytest.mark.parametrize(
    "words",
    [
        ["2024-03-01T10:20:30Z", "2024-12-31T23:59:59+02:00"],
        ["2024-03-01 10:20", "2024-12-31 23:59"],
        ["03/01/2024", "12/31/2024"],
        ["1.3.2024", "31.12.2024"],
        ["01-Mar-2024", "31-Dec-2024"],
        ["March 1, 2024", "December 31, 2024"],
    ],
)
def test_formats_of_dates(words):
    table = pl.DataFrame({"when": words * 10, "y": [0, 1] * 10})
    rule = Preparation.learn(table, "y").rules[0]
    assert rule.kind == "date"
    assert rule.parts["month"] == [3, 12]


def test_overrides(frame):
    made = Preparation.learn(frame, "y", drop=["note"], kinds={"age": "category", "id": "number", "city": "text"})
    kinds = {name: kind for name, kind, _, _ in made.table()}
    assert (kinds["age"], kinds["id"], kinds["city"], kinds["note"]) == ("category", "number", "text", "–")
    assert "age = 21" in made.feature_names
    with pytest.raises(DataError, match="there is no column 'nme'"):
        Preparation.learn(frame, "y", drop=["nme"])
    with pytest.raises(ValueError, match="kind of column 'age'"):
        Preparation.learn(frame, "y", kinds={"age": "star"})


def test_many_categories_are_pooled():
    rng = np.random.default_rng(0)
    city = [f"town {int(k)}" for k in rng.zipf(1.3, 3000) % 5000]
    made = Preparation.learn(pl.DataFrame({"city": city, "y": [0, 1] * 1500}), "y")
    assert len(made.feature_names) <= 1001
    assert made.feature_names[-1] == "city: other"
    X = made.apply(pl.DataFrame({"city": ["never seen", city[0]]}))
    assert sparse.issparse(X)
    assert X.toarray()[0, -1] == 1
    assert X.sum() == 2


def test_nothing_to_learn_from():
    with pytest.raises(DataError, match="no column besides the labels has anything to learn from: 'a' is left out: one value"):
        Preparation.learn(pl.DataFrame({"a": [1, 1], "y": [0, 1]}), "y")


def test_without_preparation(frame):
    made = Preparation.learn(frame.select("id", "y"), "y", prepare=False, standardise=False)
    assert made.apply(frame)[:, 0].tolist() == list(range(ROWS))
    with pytest.raises(DataError, match="column 'age' has 9 missing value"):
        Preparation.learn(frame.select("age", "y"), "y", prepare=False)
    with pytest.raises(DataError, match="'Paris' is not a finite number"):
        Preparation.learn(pl.DataFrame({"city": ["Paris"], "y": [1]}), "y", prepare=False)


def test_names_of_people_are_left_out():
    """A name tells rows apart and nothing else; a title of as many words may tell more."""
    names = [f"Ann{i} van der Berg{i}" for i in range(ROWS)]
    table = pl.DataFrame(
        {"full name": names, "title": names, "who": [f"Bo Lee{i}" for i in range(ROWS)], "y": [0, 1] * (ROWS // 2)}
    )
    kinds = {name: kind for name, kind, _, _ in Preparation.learn(table, "y").table()}
    assert kinds == {"full name": "–", "title": "text", "who": "–"}


def test_chance_flags_for_missing_values_are_rare():
    """Of many columns with gaps that go with nothing, hardly any has a flag; one whose gaps go with the labels has it."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    columns = {f"x{j}": [None if rng.random() < 0.3 else float(v) for v in rng.normal(size=400)] for j in range(40)}
    columns["told"] = [None if rng.random() < (0.5 if label else 0.2) else 1.0 * i for i, label in enumerate(y)]
    made = Preparation.learn(pl.DataFrame({**columns, "y": y}), "y", labels=y)
    flagged = [name for name in made.feature_names if name.endswith("is missing")]
    assert "told is missing" in flagged
    assert len(flagged) <= 3
