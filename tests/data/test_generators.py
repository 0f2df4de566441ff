"""The generators: the error levels that the studies rely on, shapes, seeds, and errors."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC

from dualgap.data import generators, load, names, text_like

SEEDED = ["separable", "overlapping", "parabolic", "binary", "correlated", "classification", "blobs"]


def training_error(model, data):
    return 1 - model.fit(data.X, data.y).score(data.X, data.y)


def linear(**options):
    return LinearSVC(C=1.0, loss="hinge", max_iter=200_000, **options)


@pytest.mark.parametrize(("make", "low", "high"), [(generators.separable, 0.005, 0.03), (generators.overlapping, 0.05, 0.09)])
def test_clouds_have_the_errors_of_the_study(make, low, high):
    errors = [training_error(linear(fit_intercept=False), make(seed=seed)) for seed in range(3)]
    assert low <= np.mean(errors) <= high


def test_parabola_defeats_lines_and_not_rbf():
    for seed in range(2):
        data = generators.parabolic(seed=seed)
        assert 0.23 <= training_error(linear(fit_intercept=False), data) <= 0.32
        assert training_error(SVC(C=10.0), data) <= 0.06


def test_binary_is_no_better_than_always_true():
    accuracies = []
    for seed in range(4):
        data = generators.binary(seed=seed)
        assert data.shape == (1000, 100)
        assert np.mean(data.y == 1) == 0.945
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.33, random_state=seed, stratify=data.y)
        accuracies.append(LinearSVC(C=10.0, fit_intercept=False).fit(X, y).score(X_test, y_test))
    assert 0.88 <= np.mean(accuracies) <= 0.935


@pytest.mark.parametrize("rho", [0.2, 0.8])
def test_correlated_columns_have_the_correlation_asked_for(rho):
    data = generators.correlated(n=4000, d=30, rho=rho, informative=5)
    correlation = np.corrcoef(data.X.T)
    assert np.mean(correlation[~np.eye(30, dtype=bool)]) == pytest.approx(rho, abs=0.04)
    assert data.X.std(axis=0) == pytest.approx(np.ones(30), abs=0.1)


def test_correlated_labels_come_from_few_columns():
    data = generators.correlated(n=2000, d=40, informative=3, n_test=1000)
    few, none = data.X[:, :3], data.X[:, 3:]
    assert LinearSVC().fit(few, data.y).score(data.X_test[:, :3], data.y_test) > 0.85
    assert LinearSVC().fit(none, data.y).score(data.X_test[:, 3:], data.y_test) < 0.7


@pytest.mark.parametrize("name", SEEDED)
def test_same_seed_same_data(name):
    options = {"n": 40, "d": 50} if name == "correlated" else {"n": 40}
    one, same, other = (load(name, seed=seed, **options) for seed in (3, 3, 4))
    assert one.generated
    assert one.name == name
    assert np.array_equal(one.X, same.X)
    assert np.array_equal(one.y, same.y)
    assert not np.array_equal(one.X, other.X)


def test_options_and_equal_classes():
    assert generators.overlapping(n=200).counts == {-1: 100, 1: 100}
    assert generators.blobs(n=60, cluster_std=2.0).counts == {-1: 30, 1: 30}
    assert generators.classification(n=100, d=5, n_informative=3).shape == (100, 5)


def test_every_generated_set_says_so():
    generated = [name for name in names() if name.endswith("-generated") or name in (*SEEDED, "text-like")]
    assert {*SEEDED, "text-like", "fraud-generated"} <= {*generated}  # a study may add its own
    sizes = {"fraud-generated": {"n": 500, "positives": 5}, "text-like": {"n": 10}, "correlated": {"n": 10, "d": 30}}
    for name in generated:
        data = load(name, **(sizes.get(name) or {"n": 10} | ({"n_test": 4} if name.startswith("blood") else {})))
        assert data.generated
        assert "(generated)" in data.label


def test_fraud_stand_in_has_the_real_shape():
    data = generators.fraud(seed=1)
    assert data.shape == (284_807, 30)
    assert data.counts == {0: 284_315, 1: 492}
    assert data.feature_names[0] == "Time"
    assert data.feature_names[-1] == "Amount"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: generators.separable(n=1), "n=1 must be"),
        (lambda: generators.correlated(rho=1.5), "rho=1.5 must be"),
        (lambda: generators.binary(d=5, informative=6), "informative is 6"),
        (lambda: generators.fraud(n=10, positives=10), "positives is 10"),
        (lambda: text_like(n=10, d=100, nonzeros=50), "nonzeros is 50"),
        (lambda: text_like(n=10, flip=0.7), "flip=0.7 must be"),
        (lambda: text_like(n=0), "n=0 must be"),
    ],
)
def test_bad_sizes_are_named(make, match):
    with pytest.raises(ValueError, match=match):
        make()


# --------------------------------------------------------------------------------------------------------------------- text-like


@pytest.fixture(scope="module")
def text():
    return text_like(n=3000, d=4000, nonzeros=40, seed=5)


def test_text_rows_are_canonical_and_of_length_one(text):
    X = text.X
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)  # forgets what it was told about itself
    assert fresh.has_canonical_format
    assert np.sqrt(X.multiply(X).sum(axis=1)) == pytest.approx(np.ones((3000, 1)))
    lengths = np.diff(X.indptr)
    assert lengths.mean() == pytest.approx(40, rel=0.03)
    assert lengths.min() >= 20
    assert lengths.max() <= 60


def test_text_columns_follow_zipf(text):
    frequencies = np.sort(np.bincount(text.X.indices, minlength=4000))[::-1].astype(float)
    ranks = np.arange(100, 1000)  # past the shift of the first ranks, before the counts get small
    slope = np.polyfit(np.log(ranks + 10), np.log(frequencies[ranks]), 1)[0]
    assert -1.15 <= slope <= -0.85


def test_text_frequent_columns_are_not_the_first(text):
    frequent = np.argsort(np.bincount(text.X.indices, minlength=4000))[-100:]
    assert 1000 < frequent.mean() < 3000


def test_text_rare_words_weigh_more(text):
    counts = np.bincount(text.X.indices, minlength=4000)
    values = np.bincount(text.X.indices, weights=text.X.data, minlength=4000) / np.maximum(counts, 1)
    assert values[(counts > 0) & (counts < 20)].mean() > 1.5 * values[counts > 600].mean()


def test_text_labels_can_be_learned(text):
    model = LinearSVC(C=1.0).fit(text.X[:2000], text.y[:2000])
    assert model.score(text.X[2000:], text.y[2000:]) > 0.72


def test_text_by_seed_and_dtype():
    one, same, other = (text_like(n=50, d=500, nonzeros=10, seed=s, dtype="float32") for s in (1, 1, 2))
    assert one.X.dtype == np.float32
    assert (one.X != same.X).nnz == 0
    assert (one.X != other.X).nnz > 0


def test_text_other_exponent_and_tiny_sizes():
    flat = np.bincount(text_like(n=500, d=2000, nonzeros=20, exponent=0.5).X.indices, minlength=2000)
    steep = np.bincount(text_like(n=500, d=2000, nonzeros=20, exponent=1.5).X.indices, minlength=2000)
    assert steep.max() > 2 * flat.max()
    assert text_like(n=1, d=8, nonzeros=1).shape == (1, 8)
