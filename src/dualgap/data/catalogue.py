"""Data sets by name: what each is, where it comes from and under which licence, its files, and how they become samples and labels.

A file is looked for in the user's folder, in the cache, then at its source (`known_files`). For a missing file the error says what to
fetch; a stand-in has a name of its own and is never loaded instead.
"""

from __future__ import annotations

import difflib
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dualgap.data import generators
from dualgap.data.dataset import DataError, DataSet, integer_labels, split_indices
from dualgap.data.known_files import File, find, locate, spam_digest, spam_rows
from dualgap.data.libsvm import read_libsvm
from dualgap.data.readers import read
from dualgap.data.text import text_like

__all__ = ["CATALOGUE", "Entry", "describe", "entry", "load", "names"]


@dataclass(frozen=True)
class Entry:
    """A named data set. `make` takes the options of `load`; a set made from files gets their paths as its first argument."""

    name: str
    description: str
    source: str
    licence: str
    shape: tuple[int, int]
    make: Callable[..., DataSet] = field(repr=False)
    files: tuple[File, ...] = ()
    test_rows: int = 0
    classes: int = 2
    notes: str = ""
    generated: bool = False


def shipped(function: str) -> DataSet:
    """Return what a function of sklearn.datasets loads."""
    from sklearn import datasets

    bunch = getattr(datasets, function)()
    return DataSet(function, bunch.data, bunch.target.astype(np.int64), feature_names=tuple(bunch.feature_names))


def creditcard(paths: list[Path], drop_duplicates: bool = False, components_only: bool = False) -> DataSet:
    """`drop_duplicates` keeps the first of rows that agree in every column, the class too: 1,081 rows fewer.

    `components_only` keeps V1 to V28 and leaves out Time and Amount, the first column and the last.
    """
    data = read(paths[0], target="Class", prepare=False)
    if components_only:
        data = data.with_(X=np.ascontiguousarray(data.X[:, 1:-1]), feature_names=(data.feature_names or ())[1:-1])
    if not drop_duplicates:
        return data
    # np.unique returns the first place of each distinct row; sorting the places keeps the order of time.
    _, first = np.unique(np.column_stack([data.X, data.y]), axis=0, return_index=True)
    first.sort()
    return data.with_(X=np.ascontiguousarray(data.X[first]), y=data.y[first])


def spambase(paths: list[Path]) -> DataSet:
    """4,000 training and 601 test rows: the split in spamData.mat, or for UCI's file, which has none, a stratified one by seed 0."""
    X, is_spam = spam_rows(paths[0])
    y = np.where(is_spam, 1, -1)
    if paths[0].suffix == ".mat":
        train, test = np.arange(4000), np.arange(4000, 4601)
    else:
        train, test = split_indices(y, test=601 / 4601, seed=0)
    return DataSet("spambase", X[train], y[train], X[test], y[test], feature_names=SPAM_FEATURES)


SPAM_WORDS = """
make address all 3d our over remove internet order mail receive will people report addresses free business email you credit your font
000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts pm direct cs meeting original project re edu table
conference
"""
SPAM_FEATURES = (
    *(f"word_freq_{word}" for word in SPAM_WORDS.split()),
    *(f"char_freq_{char}" for char in ";([!$#"),
    *(f"capital_run_length_{what}" for what in ("average", "longest", "total")),
)


def libsvm_files(paths: list[Path], n_features: int, dtype: str = "float64") -> DataSet:
    """One LIBSVM file, or a training and a test file."""
    train, *tests = (read_libsvm(path, n_features=n_features, dtype=np.dtype(dtype)) for path in paths)
    parts = [train[0], integer_labels(train[1])]
    for X, y in tests:
        parts += [X, integer_labels(y)]
    return DataSet(paths[0].name, *parts)


def news20_binary(paths: list[Path], n_features: int, dtype: str = "float64") -> DataSet:
    """Classes 1…10 against 11…20, rows scaled to length one."""
    from sklearn.preprocessing import normalize

    data = libsvm_files(paths, n_features, dtype)
    return data.with_(X=normalize(data.X), y=np.where(data.y <= 10, -1, 1))


def pros_cons(paths: list[Path], test: float = 0.25, min_df: int = 2, seed: int = 0) -> DataSet:
    """tf-idf of words and pairs of words; the vocabulary and the idf come from the training part alone."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    sentences: list[str] = []
    labels: list[np.ndarray] = []
    for member, label in (("IntegratedPros.txt", 1), ("IntegratedCons.txt", -1)):
        lines = _member_lines(paths[0], member)
        sentences += lines
        labels.append(np.full(len(lines), label))
    y = np.concatenate(labels)
    train_rows, test_rows = split_indices(y, test=test, seed=seed)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=min_df, sublinear_tf=True)
    X = vectorizer.fit_transform([sentences[i] for i in train_rows])
    X_test = vectorizer.transform([sentences[i] for i in test_rows])
    names = tuple(vectorizer.get_feature_names_out())
    return DataSet("pros-cons", X.tocsr(), y[train_rows], X_test.tocsr(), y[test_rows], feature_names=names)


def _member_lines(path: Path, member: str) -> list[str]:
    """Return the sentences in a file of the zip, a line each, out of the tags that the source wraps them in."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == member]
            if len(found) != 1:
                raise DataError(f"{path} does not hold the file {member}")
            text = archive.read(found[0]).decode("utf-8", "replace")
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} is a damaged zip file: {error}") from None
    lines = (line.strip() for line in text.splitlines())
    return [line.split(">", 1)[-1].rsplit("</", 1)[0].strip() if line.startswith("<") else line for line in lines if line]


# ----------------------------------------------------------------------------------------------------------------- the data sets


LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
CC_BY = "CC BY 4.0"
NOT_STATED = "not stated; for research"


def _libsvm_file(kind: str, name: str, sha256: str) -> File:
    return File((name,), f"sha256:{sha256}", f"{LIBSVM}/{kind}.html", f"{LIBSVM}/{kind}/{name}")


A9A = _libsvm_file("binary", "a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906")
A9A_TEST = _libsvm_file("binary", "a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9")
W8A = _libsvm_file("binary", "w8a", "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2")
NEWS20 = _libsvm_file("multiclass", "news20.bz2", "8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9")
HEART = _libsvm_file("binary", "heart_scale", "5defa0a4c4c5bdaf3f55ae3828310252e8565c13ee37ce279e0b86d82e7f4ce9")
GERMAN = _libsvm_file("binary", "german.numer", "69ffe0c4ba0bd91f936986d7c070dfca7e22064bbd5ab8e1fb925d6c86024ec8")
RCV1_SMALL = File(
    ("rcv1_small_train.dat",),
    "sha256:e49c95459a812ad6f76bfe1abc8ef274b050911420c78cb96010e4c783e54af1",
    "whoever shared this sample of RCV1 with you",
    by_hand=f"it has no public address of its own; all of RCV1 is rcv1_train.binary.bz2 at {LIBSVM}/binary.html, for dualgap.data.read",
)
CREDITCARD = File(
    ("creditcard.csv.zip", "creditcard.csv", "creditcardfraud.zip"),
    "csv-md5:e90efcb83d69faf99fcab8b0255024de",
    "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
)
SPAM = File(
    ("spamData.mat", "spambase.data"),
    "spam-sha256:4447f892e93d2cd120d5c474bdc31a1d4402f905c610e080281e013a5877baf4",
    "https://archive.ics.uci.edu/dataset/94/spambase",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/spambase/spambase.data",
    digest=spam_digest,
)
PROS_CONS = File(
    ("pros_cons.zip",),
    "sha256:b5bca541ba5b2e614cde2213ddcca027416f6997067c90e45c173bf55c6fade8",
    "https://www.cs.uic.edu/~liub/FBS/sentiment-analysis.html",
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/pros_cons.zip",
)


def _generated(name: str, description: str, shape: tuple[int, int], make: Callable[..., DataSet], notes: str = "") -> Entry:
    return Entry(name, description, "generated by dualgap", "public domain", shape, make, notes=notes, generated=True)


_ENTRIES = (
    Entry(
        "breast-cancer",
        "cell nuclei of breast tumours, malignant (0) or benign (1)",
        "scikit-learn; UCI, Breast Cancer Wisconsin (Diagnostic)",
        CC_BY,
        (569, 30),
        partial(shipped, "load_breast_cancer"),
        notes="comes with scikit-learn",
    ),
    Entry(
        "digits",
        "handwritten digits, 8 × 8 pixels",
        "scikit-learn; UCI, Optical Recognition of Handwritten Digits",
        CC_BY,
        (1797, 64),
        partial(shipped, "load_digits"),
        classes=10,
        notes="comes with scikit-learn",
    ),
    Entry(
        "creditcard",
        "card payments in September 2013, fraud (1) or not (0)",
        CREDITCARD.page,
        "DbCL 1.0",
        (284_807, 30),
        creditcard,
        (CREDITCARD,),
        notes="0.173 % positive; 1,081 rows are duplicates (drop_duplicates=True leaves them out)",
    ),
    Entry(
        "spambase",
        "e-mails by word and character frequencies, spam (1) or not (-1)",
        SPAM.page,
        CC_BY,
        (4000, 57),
        spambase,
        (SPAM,),
        test_rows=601,
        notes="the split of spamData.mat, or of UCI's spambase.data by seed",
    ),
    Entry(
        "a9a",
        "census records in 0/1 columns, income above 50,000 (1) or not (-1)",
        f"{LIBSVM}/binary.html#a9a",
        CC_BY,
        (32_561, 123),
        partial(libsvm_files, n_features=123),
        (A9A, A9A_TEST),
        test_rows=16_281,
        notes="UCI Adult, encoded by J. Platt",
    ),
    Entry(
        "w8a",
        "web pages by key words, in one category (1) or not (-1)",
        f"{LIBSVM}/binary.html#w8a",
        NOT_STATED,
        (49_749, 300),
        partial(libsvm_files, n_features=300),
        (W8A,),
        notes="3 % positive; 4,203 rows have no feature at all",
    ),
    Entry(
        "news20",
        "newsgroup messages, 20 groups",
        f"{LIBSVM}/multiclass.html#news20",
        NOT_STATED,
        (15_935, 62_061),
        partial(libsvm_files, n_features=62_061),
        (NEWS20,),
        classes=20,
    ),
    Entry(
        "news20-binary",
        "newsgroup messages, groups 1–10 (-1) against 11–20 (1), rows scaled to length one",
        f"{LIBSVM}/multiclass.html#news20",
        NOT_STATED,
        (15_935, 62_061),
        partial(news20_binary, n_features=62_061),
        (NEWS20,),
        notes="made from news20; not the news20.binary of the LIBSVM page",
    ),
    Entry(
        "rcv1-small",
        "2,000 Reuters news stories, corporate or industrial (1) or not (-1)",
        f"{LIBSVM}/binary.html#rcv1.binary",
        "Reuters; for research",
        (2000, 9947),
        partial(libsvm_files, n_features=9947),
        (RCV1_SMALL,),
    ),
    Entry(
        "heart",
        "patients with (1) or without (-1) heart disease, columns scaled to [-1, 1]",
        f"{LIBSVM}/binary.html#heart",
        CC_BY,
        (270, 13),
        partial(libsvm_files, n_features=13),
        (HEART,),
    ),
    Entry(
        "german",
        "loan applicants, bad credit (1) or good (-1)",
        f"{LIBSVM}/binary.html#german.numer",
        CC_BY,
        (1000, 24),
        partial(libsvm_files, n_features=24),
        (GERMAN,),
    ),
    Entry(
        "pros-cons",
        "sentences from product reviews, pro (1) or con (-1), as tf-idf of words and pairs of words",
        PROS_CONS.page,
        CC_BY,
        (34_406, 26_454),
        pros_cons,
        (PROS_CONS,),
        test_rows=11_469,
        notes="split and vocabulary by seed; the vocabulary comes from the training part",
    ),
    _generated("separable", "two Gaussian clouds in the plane, parted by a line", (1000, 2), generators.separable),
    _generated("overlapping", "two Gaussian clouds in the plane that overlap", (1000, 2), generators.overlapping),
    _generated("parabolic", "a Gaussian cloud in the plane, parted by a parabola", (1000, 2), generators.parabolic),
    _generated("binary", "weak linear signal under a rare negative class", (1000, 100), generators.binary),
    _generated("correlated", "correlated Gaussians with a sparse true w", (500, 2000), generators.correlated, "option rho"),
    _generated("text-like", "sparse rows like documents", (20_000, 50_000), text_like, "options n, d, nonzeros"),
    _generated("classification", "scikit-learn's make_classification", (1000, 20), generators.classification),
    _generated("blobs", "scikit-learn's make_blobs", (1000, 2), generators.blobs),
    _generated(
        "fraud-generated",
        "stand-in for creditcard: its columns, shape and imbalance",
        (284_807, 30),
        generators.fraud,
        "not real data",
    ),
)
CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


# ----------------------------------------------------------------------------------------------------------------------- by name


def names() -> list[str]:
    """Return the names that `load` knows, real data first.

    Examples
    --------
    >>> import dualgap.data
    >>> dualgap.data.names()[:3]
    ['breast-cancer', 'digits', 'creditcard']
    """
    return list(CATALOGUE)


def entry(name: str, catalogue: Mapping[str, Entry] = CATALOGUE) -> Entry:
    """Return what is known of a data set without loading it."""
    if name not in catalogue:
        near = difflib.get_close_matches(str(name), catalogue, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise DataError(f"there is no data set {name!r}; {hint}dualgap.data.names() lists them all")
    return catalogue[name]


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    catalogue: Mapping[str, Entry] = CATALOGUE,
    **options: Any,
) -> DataSet:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        Where to look for its files first; by default the folder that the environment variable DUALGAP_DATA names.
    download : bool
        Whether a file that is neither there nor in the cache may be fetched from its public source.
    catalogue : names to entries
        The data sets that there are.
    **options
        What the data set takes: `seed` and sizes for a generator, `drop_duplicates` for creditcard, …

    Examples
    --------
    >>> from dualgap.data import load
    >>> load("breast-cancer")
    DataSet('breast-cancer', 569 × 30, 2 classes)
    >>> load("parabolic", n=300, seed=7)
    DataSet('parabolic', 300 × 2, 2 classes, generated)
    """
    known = entry(name, catalogue)
    paths = [find(name, file, folder, download) for file in known.files]
    try:
        data = known.make(paths, **options) if paths else known.make(**options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        unknown = str(error).split("'")[1]
        raise DataError(f"data set {name!r} has no option {unknown!r}") from None
    if known.generated:
        return data.with_(name=name)
    return data.with_(name=name, description=known.description, source=known.source, licence=known.licence)


def describe(folder: str | os.PathLike[str] | None = None, catalogue: Mapping[str, Entry] = CATALOGUE) -> list[dict[str, Any]]:
    """Return a table of all data sets, one dict a row; `found` says whether it can be loaded at once, and from where."""
    return [
        {
            "name": known.name,
            "rows": known.shape[0],
            "columns": known.shape[1],
            "test_rows": known.test_rows,
            "classes": known.classes,
            "generated": known.generated,
            "found": _found(known, folder),
            "description": known.description,
            "licence": known.licence,
            "source": known.source,
            "notes": known.notes,
            "checksums": {file.name: file.checksum for file in known.files},
        }
        for known in catalogue.values()
    ]


def _found(known: Entry, folder: str | os.PathLike[str] | None) -> str:
    missing = [file for file in known.files if locate(file, folder) is None]
    if not missing:
        return "yes"
    return "download" if all(file.url for file in missing) else "by hand"
