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
    made = {name: (kind, says) for name, kind, _, says in Preparation("y").fit(frame).table()}
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
    ours = Preparation("y").fit(frame.select("age", "city", "note", "y"))
    X = ours.transform(frame)
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
    made = Preparation("y").fit(frame)
    one, other = made.transform(frame), made.transform(frame.select(frame.columns[::-1]).with_columns(more=1))
    assert abs(one - other).sum() == 0
    assert one.shape == (ROWS, len(made.feature_names))


def test_plain_data_and_back(frame):
    made = Preparation("y").fit(frame)
    back = Preparation.from_dict(json.loads(json.dumps(made.to_dict())))
    assert back.to_dict() == made.to_dict()
    for damage in ({}, {"rules": [{"kind": "spell"}], "target": "y", "named": True, "width": 1}, {**made.to_dict(), "rules": 3}):
        with pytest.raises(DataError, match="damaged"):
            Preparation.from_dict(damage)


def test_new_values_are_taken_and_told(frame):
    made, notes = Preparation("y").fit(frame.select("pay", "city", "y")), Notes()
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
    made = Preparation("y").fit(frame.select("age", "city", "y"))
    with pytest.raises(DataError, match=match):
        made.transform(pl.DataFrame(new))


def test_dates_that_do_not_fit(frame):
    made = Preparation("y").fit(frame.select("seen", "age", "y"))
    with pytest.raises(DataError, match="row 2: 'soon' is not a date like 31/12/2024"):
        made.transform(pl.DataFrame({"age": [1.0, 2.0], "seen": ["05/03/2024", "soon"]}))


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
    rule = Preparation("y").fit(table).rules_[0]
    assert rule.kind == "date"
    assert rule.parts["month"] == [3, 12]


def test_overrides(frame):
    made = Preparation("y", drop=["note"], kinds={"age": "category", "id": "number", "city": "text"}).fit(frame)
    kinds = {name: kind for name, kind, _, _ in made.table()}
    assert (kinds["age"], kinds["id"], kinds["city"], kinds["note"]) == ("category", "number", "text", "–")
    assert "age = 21" in made.feature_names
    with pytest.raises(DataError, match="there is no column 'nme'"):
        Preparation("y", drop=["nme"]).fit(frame)
    with pytest.raises(ValueError, match="kind of column 'age'"):
        Preparation("y", kinds={"age": "star"}).fit(frame)


def test_many_categories_are_pooled():
    rng = np.random.default_rng(0)
    city = [f"town {int(k)}" for k in rng.zipf(1.3, 3000) % 5000]
    made = Preparation("y").fit(pl.DataFrame({"city": city, "y": [0, 1] * 1500}))
    assert len(made.feature_names) <= 1001
    assert made.feature_names[-1] == "city: other"
    X = made.transform(pl.DataFrame({"city": ["never seen", city[0]]}))
    assert sparse.issparse(X)
    assert X.toarray()[0, -1] == 1
    assert X.sum() == 2


def test_nothing_to_learn_from():
    with pytest.raises(DataError, match="no column besides the labels has anything to learn from: 'a' is left out: one value"):
        Preparation("y").fit(pl.DataFrame({"a": [1, 1], "y": [0, 1]}))


def test_without_preparation(frame):
    made = Preparation("y", prepare=False, standardise=False).fit(frame.select("id", "y"))
    assert made.transform(frame)[:, 0].tolist() == list(range(ROWS))
    with pytest.raises(DataError, match="column 'age' has 9 missing value"):
        Preparation("y", prepare=False).fit(frame.select("age", "y"))
    with pytest.raises(DataError, match="'Paris' is not a finite number"):
        Preparation("y", prepare=False).fit(pl.DataFrame({"city": ["Paris"], "y": [1]}))


def test_names_of_people_are_left_out():
    """A name tells rows apart and nothing else; a title of as many words may tell more."""
    names = [f"Ann{i} van der Berg{i}" for i in range(ROWS)]
    table = pl.DataFrame(
        {"full name": names, "title": names, "who": [f"Bo Lee{i}" for i in range(ROWS)], "y": [0, 1] * (ROWS // 2)}
    )
    kinds = {name: kind for name, kind, _, _ in Preparation("y").fit(table).table()}
    assert kinds == {"full name": "–", "title": "text", "who": "–"}


def test_chance_flags_for_missing_values_are_rare():
    """Of many columns with gaps that go with nothing, hardly any has a flag; one whose gaps go with the labels has it."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    columns = {f"x{j}": [None if rng.random() < 0.3 else float(v) for v in rng.normal(size=400)] for j in range(40)}
    columns["told"] = [None if rng.random() < (0.5 if label else 0.2) else 1.0 * i for i, label in enumerate(y)]
    made = Preparation("y").fit(pl.DataFrame({**columns, "y": y}), y)
    flagged = [name for name in made.feature_names if name.endswith("is missing")]
    assert "told is missing" in flagged
    assert len(flagged) <= 3


def kinds_of(frame, **options):
    return {name: says for name, _, _, says in Preparation("y", **options).fit(frame).table()}


@pytest.mark.parametrize("cell", ["0x10", "1_0", "1e", "٣", "TRUE"])
def test_a_slip_in_a_column_of_numbers_is_refused(cell):
    """One cell of many that is no number is refused where the column is learned, as it is where the column is known."""
    words = [f"{v:.3f}" for v in np.random.default_rng(0).normal(size=60)]
    odd = pl.DataFrame({"a": [*words[:2], cell, *words[3:]], "y": [0, 1] * 30})
    match = f"column 'a', row 3: '{cell}' is not a finite number"
    with pytest.raises(DataError, match=match):
        Preparation("y").fit(odd)
    with pytest.raises(DataError, match=match):
        Preparation("y").fit(odd.with_columns(a=pl.Series(words))).transform(odd)
    assert "missing filled" in kinds_of(odd, missing=[cell.lower()])["a"]
    assert "categories" in kinds_of(odd, kinds={"a": "category"})["a"]
    codes = pl.DataFrame({"a": ["1", "2", "x", *["1", "2", "3"] * 19], "y": [0, 1] * 30})
    assert "4 categories" in kinds_of(codes)["a"]  # few different numbers are codes, and a letter is one more


def test_numbers_that_tell_rows_apart_are_left_out():
    rng, n = np.random.default_rng(0), 2000
    seldom = np.sort(rng.choice(3 * n, n, replace=False)) ** 2  # unevenly spread, with many neighbours among the small ones
    made = kinds_of(
        pl.DataFrame(
            {
                "shuffled": rng.permutation(n),
                "customer": rng.choice(10**6, n, replace=False),
                "phone": rng.choice(10**10, n, replace=False),
                "step": np.arange(n) * 7,
                "survey": np.concatenate(
                    [np.sort(rng.choice(n, n // 4, replace=False)), n * 4 + rng.permutation(2 * n)[: 3 * n // 4]]
                ),
                "income": np.exp(rng.normal(16, 2, n)).astype(int),
                "area": seldom,
                "weight": np.round(rng.normal(size=n), 3),
                "whole": rng.choice(10**6, n, replace=False) * 1.0,
                "year": rng.integers(1900, 2020, n),
                "y": rng.integers(2, size=n),
            }
        )
    )
    left = {name for name, says in made.items() if "an identifier" in says}
    assert left == {"shuffled", "customer", "phone", "step", "survey"}
    few = rng.choice(10**5, 40, replace=False)  # populations of forty towns
    assert "standardised" in kinds_of(pl.DataFrame({"people": few, "y": [0, 1] * 20}))["people"]


def test_a_word_such_as_none_can_be_a_value():
    words = ["none", "wood", "brick", "wood"] * 20
    table = pl.DataFrame({"deck": words, "size": ["NA", "1.5", "2.5", "3.5"] * 20, "y": [0, 1] * 40})
    made = Preparation("y").fit(table)
    assert made.feature_names[:3] == ["deck = brick", "deck = none", "deck = wood"]
    assert made.transform(table)[:4, :3].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1]]
    assert made.doubts() == [
        "'none' is taken as a category of 'deck', as it stands in many rows; if it stands for nothing, say --missing none"
    ]
    assert Preparation.from_dict(json.loads(json.dumps(made.to_dict()))).to_dict() == made.to_dict()
    assert "missing filled" in made.table()[1][3]  # among numbers it is none
    told = Preparation("y", missing=["none"]).fit(table)
    assert (told.feature_names[:3], told.doubts()) == (["deck = brick", "deck = wood", "deck is missing"], [])
    shouted = Preparation("y").fit(table.with_columns(deck=pl.col("deck").replace("none", "NA")))
    assert shouted.doubts()[0].startswith("'NA' is taken as a category of 'deck'")
    rare = pl.DataFrame({"deck": ["none", *["wood", "brick"] * 30, "wood"], "y": [0, 1] * 31})
    assert "deck is missing" in Preparation("y").fit(rare).feature_names


def test_frames_of_other_packages(frame):
    """pandas and pyarrow in, the same features out."""
    made = Preparation("y").fit(frame)
    for other in (frame.to_pandas(), frame.to_pandas().astype({"city": "category"}), frame.to_arrow()):
        assert Preparation("y").fit(other).feature_names == made.feature_names
        assert abs(made.transform(other) - made.transform(frame)).sum() == 0
    mixed = frame.select("age", "y").to_pandas().assign(code=[i if i % 2 else f"c{i % 5}" for i in range(ROWS)])
    assert any(name.startswith("code = ") for name in Preparation("y").fit(mixed).feature_names)
    with pytest.raises(DataError, match="this is a dict"):
        Preparation("y").fit({"a": [1]})
