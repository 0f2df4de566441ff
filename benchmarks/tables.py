"""Accuracy of `dualgap fit` on tables, against a scikit-learn pipeline written by hand.

    python -m benchmarks.tables --splits 10

Files: those in the folder tables of DUALGAP_DATA, scikit-learn's bundled sets as CSV, and ten made-up ones with what tables of people have:
names, cities, dates, money, gaps, free text, no header. Each is split at random, stratified by class; both learn from the same rows and
predict the same rows. The last column is the mean difference in points, with its standard error.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import dualgap
from benchmarks import DATA
from dualgap.data import TableOptions, open_samples

MOST_TRAIN, MOST_TEST = 12_000, 6_000  # rows of a split
DATES = {"joined": "%Y-%m-%d", "placed": "%m/%d/%Y %H:%M", "datum": "%d.%m.%Y"}  # what the author of the pipeline knows
IDENTIFIERS = ("id", "order", "name", "No")
TEXT = ("review",)
SHARED = (  # file, label column, what parts a measured one
    ("abalone.csv", "0", None),
    ("abalone.csv", "-1", None),
    ("adult-train.csv.gz", "-1", None),
    ("auto-imports.csv", "0", None),
    ("auto-imports.csv", "-1", "median"),
    ("california-housing.csv.gz", "median_house_value", "median"),
    ("california-housing.csv.gz", "ocean_proximity", None),
    ("horse-colic.csv", "22", None),
    ("horse-colic.csv", "23", None),
    ("pollution.csv.gz", "pm2.5", "median"),
    ("pollution.csv.gz", "cbwd", None),
)


# ------------------------------------------------------------------------------------------------------------------- made-up files


def labels(rng, score, names, noise):
    """Labels of equal shares by a noisy score."""
    score = score + noise * rng.normal(size=len(score))
    limits = np.quantile(score, np.linspace(0, 1, len(names) + 1)[1:-1])
    return np.array(names)[np.searchsorted(limits, score)]


def gaps(rng, column, share):
    """The column with missing values."""
    return [None if rng.random() < share else value for value in np.asarray(column).tolist()]


def people(rng, n=1200):
    age, city, day = rng.integers(18, 90, n), rng.choice(["Paris", "Rome", "Oslo", "Lima", "Kyiv"], n), rng.integers(0, 3000, n)
    score = (age - 50) / 20 + 1.2 * np.isin(city, ["Rome", "Lima"]) - day / 1500
    names = [f"{first} Smith{k}" for first, k in zip(rng.choice(["Ann", "Bo", "Cy"], n), rng.integers(800, size=n), strict=True)]
    joined = [str(np.datetime64("2015-01-01") + int(d)) for d in day]
    table = {"id": [f"X{i:05d}" for i in range(n)], "name": names, "age": gaps(rng, age, 0.1), "city": gaps(rng, city, 0.05)}
    return {**table, "joined": joined, "tier": labels(rng, score, ["bronze", "gold", "silver"], 0.7)}


def orders(rng, n=1200):
    price, off, gift, hour = rng.lognormal(3, 1, n), rng.choice([0, 5, 10, 25], n), rng.random(n) < 0.3, rng.integers(24, size=n)
    placed = [f"{rng.integers(1, 13):02d}/{rng.integers(1, 29):02d}/2023 {h:02d}:{rng.integers(60):02d}" for h in hour]
    returned = labels(rng, np.log(price) - 3 + off / 15 - gift + 0.8 * (hour > 18), ["no", "yes"], 0.7)
    words = {"price": [f"${p:,.2f}" for p in price], "discount": [f"{d}%" for d in off], "gift": [str(g).upper() for g in gift]}
    return {"order": range(5000, 5000 + n), **words, "placed": placed, "returned": returned}


def reviews(rng, n=800):
    """Words in random order: in language pairs of words tell something, here they do not."""
    kinds = [["great", "lovely", "excellent", "superb", "fine"], ["awful", "broken", "poor", "slow", "rude"]]
    plain = np.array(["the", "product", "came", "in", "a", "box", "with", "paper", "and", "a", "note", "from", "the", "seller"])
    stars, texts = rng.integers(2, size=n), []
    for star in stars:
        words = list(rng.choice(plain, 8))
        for _ in range(2):
            words.insert(rng.integers(8), rng.choice(kinds[star ^ (rng.random() < 0.2)]))
        texts.append(" ".join(words))
    return {"review": texts, "stars": np.array(["up", "down"])[stars]}


def sensors(rng, n=1500):
    X = rng.normal(size=(n, 8))
    X[rng.random((n, 8)) < 0.01] *= 50
    state = labels(rng, np.clip(X, -3, 3) @ rng.normal(size=8), ["fail", "ok"], 1.0)
    table = {f"s{j}": gaps(rng, X[:, j], 0.03) for j in range(1, 8)}
    broken = [None if rng.random() < (0.25 if s == "fail" else 0.03) else x for x, s in zip(X[:, 0], state, strict=True)]
    return {"s0": broken, **table, "state": state}


def towns(rng, n=3000):
    place = np.minimum(rng.zipf(1.4, n), 400)
    income = rng.lognormal(10, 0.5, n).round()
    return {
        "zip": [f"Z{k:03d}" for k in place],
        "income": income,
        "buys": labels(rng, rng.normal(size=401)[place], ["n", "y"], 1.0),
    }


def fraud(rng, n=4000):
    X = rng.normal(size=(n, 5))
    score = X @ [1, 0.5, 0, 0, -0.5] + rng.normal(size=n)
    table = {f"v{j}": X[:, j] for j in range(5)}
    return {**table, "country": rng.choice(["DE", "FR", "IT"], n), "fraud": (score > np.quantile(score, 0.95)).astype(int)}


def wide(rng, n=120):
    X = rng.normal(size=(n, 60))
    return {**{f"g{j}": X[:, j] for j in range(60)}, "group": labels(rng, X[:, :5].sum(axis=1), ["a", "b"], 1.0)}


def german(rng, n=900):
    X, month = rng.normal(size=(n, 3)), rng.integers(1, 13, n)
    words = [[f"{x:.3f}".replace(".", ",") for x in column] for column in X.T]
    grade = labels(rng, X @ [1, -1, 0.3] + 1.5 * np.isin(month, [6, 7, 8]), ["gut", "mittel", "schlecht"], 0.7)
    datum = [f"{rng.integers(1, 29)}.{m}.2021" for m in month]
    return {**dict(zip(("maß", "höhe", "tiefe"), words, strict=True)), "datum": datum, "güte": grade}


def survey(rng, n=2000):
    Z = rng.integers(5, size=(n, 6))
    often = np.array(["never", "rarely", "sometimes", "often", "always"])
    grade = labels(rng, Z @ [1, -1, 0.5, 0, 0, 0.3], ["A", "B", "C", "D"], 0.8)
    return {**{f"q{j}": often[Z[:, j]] for j in range(6)}, "smoker": rng.random(n) < 0.3, "class": grade}


def bare(rng, n=700):
    X = rng.normal(size=(n, 4))
    table = {f"x{j}": ["?" if rng.random() < 0.05 else f" {x:.3f}" for x in X[:, j]] for j in range(4)}
    return {**table, "colour": rng.choice(["red", "blue", "?"], n), "side": labels(rng, X.sum(axis=1), ["left", "right"], 0.7)}


MADE = (people, orders, reviews, sensors, towns, fraud, wide, german, survey, bare)


def made_up(folder):
    for make in MADE:
        path = folder / f"{make.__name__}.csv"
        table = pd.DataFrame(make(np.random.default_rng(7)))
        table.to_csv(path, index=False, sep=";" if make is german else ",", header=make is not bare)
        yield path, "-1", None


def bundled(folder):
    for name in ("iris", "wine", "breast_cancer", "digits"):
        data = getattr(datasets, f"load_{name}")(as_frame=True)
        data.frame.assign(target=[str(data.target_names[k]) for k in data.target]).to_csv(folder / f"{name}.csv", index=False)
        yield folder / f"{name}.csv", "target", None
    datasets.load_diabetes(as_frame=True, scaled=False).frame.to_csv(folder / "diabetes.csv", index=False)
    yield folder / "diabetes.csv", "target", "median"


# --------------------------------------------------------------------------------------------------------------- the other pipeline


def as_numbers(column):
    """A column of words as numbers if all are: plain, with signs of money and per cent, or with decimal commas."""
    known = column[column.notna()]
    for strip in (lambda s: s, lambda s: s.str.replace(r"[$,%]", "", regex=True), lambda s: s.str.replace(",", ".")):
        found = pd.to_numeric(strip(known), errors="coerce")
        if found.notna().all():
            return found.reindex(column.index)
    return column


def by_hand(samples):
    """The table as an author who looked at it would clean it, and the kinds of its columns."""
    table = samples.frame.drop(samples.target).to_pandas().drop(columns=list(IDENTIFIERS), errors="ignore")
    for name in list(table.columns):
        column = table[name]
        if name in DATES:
            moment = pd.to_datetime(table.pop(name), format=DATES[name])
            table[f"{name} day"] = moment.astype("int64") / 8.64e13
            for part in ("month", "weekday", *(["hour"] if "%H" in DATES[name] else [])):
                table[f"{name} {part}"] = getattr(moment.dt, part).astype(str)
        elif not pd.api.types.is_numeric_dtype(column):
            words = column.map(lambda word: None if word is None or word != word else str(word).strip())
            table[name] = as_numbers(words.where(~words.isin(["?", "NA", ""]), None))
    number = [name for name in table if pd.api.types.is_numeric_dtype(table[name])]
    text = [name for name in table if name in TEXT]
    category = [name for name in table if name not in number + text]
    table[category] = table[category].astype(object).where(table[category].notna(), "missing").astype(str)
    return table, number, category, text


def pipeline(number, category, text):
    steps = [
        ("number", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), number),
        ("category", OneHotEncoder(handle_unknown="ignore"), category),
        *((name, TfidfVectorizer(), name) for name in text),
    ]
    return make_pipeline(ColumnTransformer(steps), LinearSVC(dual="auto"))


# ---------------------------------------------------------------------------------------------------------------------- the study


def accuracies(path, target, above, splits):
    """Accuracies on the test rows, ours and of the pipeline, split by split."""
    samples = open_samples([str(path)], TableOptions(target, above=above))
    table, *kinds = by_hand(samples)
    y, n = samples.y, len(samples.y)
    draw = StratifiedShuffleSplit if np.unique(y, return_counts=True)[1].min() > 1 else ShuffleSplit
    shares = {"train_size": min(0.7, MOST_TRAIN / n), "test_size": min(0.3, MOST_TEST / n)}
    found = []
    for train, test in draw(splits, random_state=0, **shares).split(np.zeros(n), y):
        encoder = samples.learn(train)
        model = dualgap.LinearSVC(random_state=0).fit(samples.features(encoder, train), y[train])
        ours = np.mean(model.predict(samples.features(encoder, test)) == y[test])
        other = pipeline(*kinds).fit(table.iloc[train], y[train])
        found.append((100 * ours, 100 * np.mean(other.predict(table.iloc[test]) == y[test])))
    return np.array(found), n, len(np.unique(y))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", default="", help="part of a file's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = DATA / "tables"
    print("| table, label column | rows | classes | dualgap fit | by hand | difference |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as made:
        shared = [(folder / name, target, above) for name, target, above in SHARED if (folder / name).exists()]
        for path, target, above in [*shared, *made_up(Path(made)), *bundled(Path(made))]:
            if options.only in path.name:
                found, rows, classes = accuracies(path, target, above, options.splits)
                apart = found[:, 0] - found[:, 1]
                error = apart.std() / np.sqrt(len(apart))
                name = f"{path.name.split('.')[0]}, {target}" + (" above its median" if above else "")
                cells = [
                    name,
                    f"{rows:,}",
                    classes,
                    *(f"{mean:.2f}" for mean in found.mean(axis=0)),
                    f"{apart.mean():+.2f} ± {error:.2f}",
                ]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
