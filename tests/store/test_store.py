"""Training on stores: the same optimum as in memory, one reading a certificate, and stores that are not whole."""

import dataclasses
import json
import re

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.solvers import Blocks
from dualgap.store import Store, StoreError, part_files, write_store
from dualgap.store.manifest import Job
from dualgap.store.store import Runs


def sample(n=600, d=30, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.2, "csr", random_state=seed)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    X, y = sample()
    folder = tmp_path_factory.mktemp("stores") / "store"
    return X, y, write_store([(X[k::6], y[k::6]) for k in range(6)], folder, block_bytes=4000)


@pytest.fixture
def copied(stored, tmp_path):
    """A store of its own, to be damaged."""
    X, y, _ = stored
    return write_store([(X, y)], tmp_path / "copy", block_bytes=4000)


def in_memory(stored, **options):
    X, y, _ = stored
    return dualgap.Problem(X, y, **options)


CASES = [
    {"loss": "hinge", "l2": 1e-2},
    {"loss": "smooth_hinge", "l2": 1e-2, "intercept": "free"},
    {"loss": "logistic", "l2": 1e-2, "l1": 1e-3, "intercept": "penalised"},
]


@pytest.mark.parametrize("options", CASES, ids=lambda options: options["loss"])
def test_same_optimum_as_in_memory(stored, options):
    tol = 1e-5
    result = dualgap.solve(stored[2].problem(**options), "blocks", tol=tol, max_epochs=2000)
    best = dualgap.solve(in_memory(stored, **options), "sdca", tol=1e-8, max_epochs=20_000).certificate
    assert result.status == "converged"
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + tol)
    assert result.certificate.dual <= best.primal + 1e-12


def test_certificate_is_that_of_the_whole_problem(stored):
    """Bit for bit the objective and the bound that the rows in memory give for the same model and dual variables."""
    result = dualgap.solve(stored[2].problem(l2=1e-2), "blocks", tol=1e-3, max_epochs=500)
    order = np.argsort(stored[2].origin())
    X, y, _ = stored
    rows = np.concatenate([np.arange(k, 600, 6) for k in range(6)])  # as the pairs were handed over
    problem = dualgap.Problem(X[rows], y[rows], l2=1e-2)
    again = dualgap.certify(problem, result.coef, dual=result.dual[order])
    assert again.primal == pytest.approx(result.certificate.primal, rel=1e-13)
    assert again.dual == pytest.approx(result.certificate.dual, rel=1e-13)


def test_a_certificate_is_one_reading(stored, monkeypatch):
    store = stored[2]
    problem = store.problem("smooth_hinge", l2=1e-2, intercept="free")
    dualgap.solve(problem, "blocks", tol=0.0, max_epochs=1)  # compiles, and verifies every part
    reads = []
    for cls in (Store, Runs):
        monkeypatch.setattr(cls, "read", lambda self, some, read=cls.read: (reads.append(some), read(self, some))[1])
    dualgap.solve(problem, "blocks", tol=0.0, max_epochs=7, evaluate=lambda epoch: epoch in (3, 7))
    assert len(reads) == (7 + 2) * len(store.parts)


def test_weights_and_warm_start(stored):
    X, y, store = stored
    weights = np.random.default_rng(1).random(600) + 0.1
    problem = store.problem(l2=1e-2, sample_weight=weights)
    result = dualgap.solve(problem, "blocks", tol=1e-5, max_epochs=2000)
    rows = np.concatenate([np.arange(k, 600, 6) for k in range(6)])[store.origin()]
    best = dualgap.solve(dualgap.Problem(X[rows], y[rows], l2=1e-2, sample_weight=weights), "sdca", tol=1e-8, max_epochs=20_000)
    assert result.certificate.primal == pytest.approx(best.certificate.primal, rel=1e-5)
    again = dualgap.solve(problem, "blocks", tol=1e-4, warm_start=result)
    assert again.epochs == 1


def test_a_problem_says_what_it_is(stored):
    problem = stored[2].problem("logistic", l2=0.1, intercept="free")
    assert repr(problem) == "StoreProblem(600 × 30 sparse, logistic, l2=0.1, intercept='free')"


def test_auto_is_blocks_on_a_store(stored):
    assert dualgap.solve(stored[2].problem(l2=1e-2), tol=1e-2).solver == Blocks()


def test_linear_svc(stored):
    X, y, store = stored
    labels = store.labels()
    model = dualgap.LinearSVC(loss="hinge", C=0.1, fit_intercept=False, class_weight="balanced", tol=1e-4, random_state=0).fit(
        store
    )
    alone = dualgap.LinearSVC(loss="hinge", C=0.1, fit_intercept=False, class_weight="balanced", tol=1e-6, solver="sdca").fit(X, y)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-4)
    assert model.n_support_.tolist() == [int((labels[model.support_] == label).sum()) for label in ("no", "yes")]
    assert (model.predict(X) == alone.predict(X)).mean() > 0.98
    with pytest.raises(ValueError, match="leave y out"):
        dualgap.LinearSVC().fit(store, labels)
    with pytest.raises(ValueError, match="needs all rows in memory"):
        dualgap.LinearSVC(multi_class="crammer_singer").fit(store)


def test_same_seed_same_model(stored):
    runs = [dualgap.solve(stored[2].problem(l2=1e-2), "blocks", tol=1e-4, max_epochs=500, seed=3).coef for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_every_row_once_in_every_epoch(stored):
    store = stored[2]
    rng = np.random.default_rng(0)
    seen = [block.index for block in store.mixed(rng)]
    assert len(seen) == len(store.parts) > 3
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(600))
    whole = sparse.vstack([store.matrix(k) for k in range(len(store.parts))], format="csr")
    for block in store.mixed(rng):
        rows = sparse.csr_matrix(
            (block.rows.data, block.rows.indices.view(np.int32), block.rows.indptr), shape=(len(block.index), 30)
        )
        assert (rows != whole[block.index]).nnz == 0


def test_new_blocks_every_epoch_converge_like_a_random_order():
    """Fixed blocks took 119 epochs here where a fresh order took 17; a regression to them would show."""
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 40)) < 0.2).astype(float)
    y = X @ rng.standard_normal(40) + rng.standard_normal(4000) > 0
    problem = dualgap.Problem(X, y, "smooth_hinge", l2=1e-4)
    whole = dualgap.solve(problem, "sdca", tol=1e-3, evaluate="epoch", max_epochs=2000)
    blocks = dualgap.solve(problem, Blocks(inner=1, block_rows=500), tol=1e-3, evaluate="epoch", max_epochs=2000)
    assert blocks.epochs <= 1.5 * whole.epochs + 2


def test_dense_store(tmp_path):
    X, y = sample()
    X = X.toarray()
    store = write_store([(X, y)], tmp_path / "store", block_bytes=40_000)
    assert len(store.parts) == 1  # one pair is one piece
    result = dualgap.solve(store.problem(l2=1e-2), "blocks", tol=1e-4, max_epochs=1000)
    assert result.certificate.primal == pytest.approx(dualgap.Problem(X, y, l2=1e-2).objective(result.coef), rel=1e-12)
    assert result.predict(X).tolist() == np.where(X @ result.coef > 0, "yes", "no").tolist()


def test_solvers_that_need_all_rows_are_refused(stored):
    with pytest.raises(dualgap.NotSupported, match=r"read block by block.*these can: blocks"):
        dualgap.solve(stored[2].problem(l2=1e-2), "sdca")


def test_certify_from_margins(stored):
    problem = stored[2].problem("smooth_hinge", l2=1e-2)
    result = dualgap.solve(problem, "blocks", tol=1e-4, max_epochs=1000)
    certificate = dualgap.certify(problem, result.coef)
    assert certificate.source == "margins"
    assert certificate.primal == pytest.approx(result.certificate.primal, rel=1e-12)
    assert certificate.dual <= result.certificate.primal


# ------------------------------------------------------------------------------------------------------------------ not whole


def part_file(store, array):
    return store.folder / f"{store.parts[-1].name}.{array}.npy"


def test_truncated(copied):
    path = part_file(copied, "data")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StoreError, match=r"data.npy is truncated: .* convert .* again"):
        Store(copied.folder)


def test_missing(copied):
    part_file(copied, "indices").unlink()
    with pytest.raises(StoreError, match=r"indices.npy is missing: copy the file from a backup"):
        Store(copied.folder)


@pytest.mark.parametrize("array", ["indices", "data", "indptr", "labels", "sqnorms"])
def test_corrupted(copied, array):
    path = part_file(copied, array)
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x40
    path.write_bytes(bytes(content))
    store = Store(copied.folder)  # the sizes are right: only a reading can tell
    with pytest.raises(StoreError, match=rf"{array}.npy is corrupted \(its checksum is not the manifest's\): copy"):
        dualgap.solve(store.problem(l2=1e-2), "blocks", tol=1e-3)
    with pytest.raises(StoreError, match="corrupted"):
        Store(copied.folder).verify()


def test_half_converted(copied):
    manifest = copied.folder / "manifest.json"
    manifest.unlink()
    with pytest.raises(StoreError, match=r"no manifest.json.*make one with `dualgap convert"):
        Store(copied.folder)


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_damaged_manifest(copied, keep):
    path = copied.folder / "manifest.json"
    text = path.read_text()
    path.write_text(text[: int(keep * len(text))])
    with pytest.raises(StoreError, match=r"manifest.json is damaged"):
        Store(copied.folder)


def test_manifest_that_contradicts_itself(copied):
    path = copied.folder / "manifest.json"
    content = json.loads(path.read_text())
    content["rows"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="contradicts itself"):
        Store(copied.folder)
    content["version"] = 99
    content["rows"] -= 1
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="version 99"):
        Store(copied.folder)


def test_no_folder(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "nothing")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StoreError, match="is a file"):
        Store(file)


# ------------------------------------------------------------------------------------------------------------- forged stores


def forge(store, array, change):
    """Change the values of one array of the last part, with a checksum and a size that are right."""
    path = part_file(store, array)
    values = np.load(path)
    change(values)
    record_anew(store, array, values)
    return Store(store.folder)


def record_anew(store, array, values):
    record = part_files._write(part_file(store, array), values)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    manifest["parts"][-1]["files"][array] = dataclasses.asdict(record)
    (store.folder / "manifest.json").write_text(json.dumps(manifest))


def far_offset(indptr):
    indptr[1:-1] = 10**9


def falling_offset(indptr):
    indptr[1], indptr[2] = indptr[2] + 1, indptr[1]


def first_offset(indptr):
    indptr[0] = 1


def last_offset(indptr):
    indptr[-1] -= 1


@pytest.mark.parametrize("change", [far_offset, falling_offset, first_offset, last_offset])
@pytest.mark.parametrize("mixed", [False, True])
def test_forged_offsets_are_refused(copied, change, mixed):
    """Compiled code follows the offsets without bounds checks: 10⁹ ended in a segmentation fault."""
    store = forge(copied, "indptr", change)
    rng = np.random.default_rng(0)
    with pytest.raises(StoreError, match=r"row offsets do not rise from 0 to \d+"):
        list(store.mixed(rng) if mixed else store.stream())


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("indices", 30, "a column lies outside 0…29"),
        ("indices", -1, "a column lies outside 0…29"),
        ("labels", 2, "a label is not in the manifest's list"),
        ("sqnorms", -1.0, "squared length of a row is negative"),
        ("sqnorms", np.nan, "squared length of a row is negative or not finite"),
        ("data", np.inf, "infinity"),
    ],
)
def test_forged_values_are_refused(copied, array, value, message):
    def change(values):
        values[0] = value

    store = forge(copied, array, change)
    with pytest.raises(ValueError, match=message):
        dualgap.solve(store.problem(l2=1e-2), "blocks", tol=1e-3)


@pytest.mark.parametrize("array", ["indptr", "indices", "data", "sqnorms", "labels"])
def test_forged_types_are_refused(copied, array):
    """An array of as many bytes, of another type and shape."""
    values = np.load(part_file(copied, array))
    record_anew(copied, array, values.view(np.uint8))
    with pytest.raises(
        StoreError, match=rf"{array}.npy is corrupted \(it is no array of shape \({len(values)},\) and type {values.dtype}\)"
    ):
        dualgap.solve(Store(copied.folder).problem(l2=1e-2), "blocks", tol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"storage": "coo"}, "storage is 'coo'; it must be 'csr' or 'dense'"),
        ({"dtype": "object"}, "dtype is 'object'; it must be 'float32' or 'float64'"),
        ({"features": "30"}, "features is '30'; it must be a whole number from 1 to 2147483647"),
        ({"features": 10**15}, "features is 1000000000000000; it must be"),
        ({"rows": "many"}, "rows is 'many'"),
        ({"counts": ["a", "b"]}, "a count is 'a'"),
        ({"classes": [["yes"], "no"]}, "classes must all be text, or all be numbers"),
        ({"parts": {"name": "../elsewhere/part-00000"}}, "a part is called '../elsewhere/part-00000'"),
        ({"parts": {"name": "/etc/part-00000"}}, "a part is called '/etc/part-00000'"),
        ({"parts": {"rows": 10**12}}, "does not take"),
        ({"parts": {"stored": -1}}, "stored is -1"),
        ({"parts": {"files": {"../labels": {"bytes": 1, "crc32": 1}}}}, "a part has those of sparse or of dense rows"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_forged_manifests_are_refused(copied, change, message):
    path = copied.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parts"][-1].update(change.pop("parts", {}))
    path.write_text(json.dumps({**manifest, **change}))
    with pytest.raises(StoreError, match=re.escape(message)):
        Store(copied.folder)


def test_a_part_of_another_folder_is_not_followed(copied, stored):
    """The file is there and whole: its name alone is refused, in a manifest and in the notes of a conversion that goes on."""
    other = stored[2]
    path = copied.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    entry = json.loads((other.folder / "manifest.json").read_text())["parts"][0]
    entry["name"] = str(other.folder / entry["name"])
    manifest["parts"] = [entry]
    manifest["rows"], manifest["counts"] = entry["rows"], [entry["rows"], 0]
    path.write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="a part is called"):
        Store(copied.folder)
    progress = {"settings": {}, "raw": [entry], "parts": []}
    (copied.folder / "progress.jsonl").write_text(json.dumps(progress) + "\n")
    with pytest.raises(StoreError, match="a part is called"):
        Job.resume(copied.folder, {})


def test_a_header_that_promises_more_than_the_file_has(copied):
    """The memory is asked for by the size of the file, never by what its header says."""
    path = part_file(copied, "sqnorms")
    content = path.read_bytes()
    rows = f"({copied.parts[-1].rows},)".encode()
    grown = content.replace(rows + b"}" + b" " * 12, b"(999999999999,)}".ljust(len(rows) + 13))
    assert len(grown) == len(content)
    assert grown != content
    path.write_bytes(grown)
    with pytest.raises(StoreError, match="it is no array of shape"):
        Store(copied.folder).sqnorms()
