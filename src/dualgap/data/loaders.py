"""From the files of a known data set to samples and labels, one function a set. Which files, and where from, is in `catalogue.py`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from dualgap.data.dataset import DataError, DataSet, integer_labels
from dualgap.data.known_files import spam_rows
from dualgap.data.libsvm import read_libsvm
from dualgap.data.preprocess import split_indices
from dualgap.data.readers import read

__all__: list[str] = []  # used by the catalogue alone


def shipped(function: str) -> DataSet:
    """Return what a function of sklearn.datasets loads."""
    from sklearn import datasets

    bunch = getattr(datasets, function)()
    return DataSet(function, bunch.data, bunch.target.astype(np.int64), feature_names=tuple(bunch.feature_names))


def creditcard(paths: list[Path], drop_duplicates: bool = False) -> DataSet:
    """`drop_duplicates` keeps the first of rows that agree in every column, the class too: 1,081 rows fewer."""
    data = read(paths[0], target="Class", prepare=False)
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


def libsvm(paths: list[Path], n_features: int, dtype: str = "float64") -> DataSet:
    """One LIBSVM file, or a training and a test file."""
    train, *tests = (read_libsvm(path, n_features=n_features, dtype=np.dtype(dtype)) for path in paths)
    parts = [train[0], integer_labels(train[1])]
    for X, y in tests:
        parts += [X, integer_labels(y)]
    return DataSet(paths[0].name, *parts)


def news20_binary(paths: list[Path], n_features: int, dtype: str = "float64") -> DataSet:
    """Classes 1…10 against 11…20, rows scaled to length one."""
    from sklearn.preprocessing import normalize

    data = libsvm(paths, n_features, dtype)
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
