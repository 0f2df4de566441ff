"""`convert`: text and table files into a store, streaming, resumable, shuffled.

Reading fills one block after another; each is shuffled and written as a raw part. Mixing then makes every final part out of a slice of
each raw one: raw parts are shuffled already, so that slices are contiguous reads, and yet rows end up anywhere. Data sorted by class,
as files often are, thus become blocks that each look like the whole. No more than two blocks are in memory, and after a stop the same
command goes on at the last part written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import one_of, whole_number
from dualgap.core import rows as storage
from dualgap.data import TABLE_KINDS, TASKS, DataError, TableOptions, kind_of
from dualgap.store.array_pieces import ARRAY_KINDS, ArraySource, learn_arrays
from dualgap.store.encoding import write_encoder
from dualgap.store.file_pieces import Given, Piece, Source, open_source
from dualgap.store.job import Job
from dualgap.store.manifest import ARRAYS, MANIFEST, PROGRESS, Part, StoreError, array_path
from dualgap.store.store import Store
from dualgap.store.table_pieces import TableSource, learn_tables

__all__ = ["convert", "write_store"]

BLOCK_BYTES = 1 << 26
FileSource = Source | TableSource | ArraySource
AnySource = FileSource | Given
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def convert(
    data: Paths,
    folder: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    dtype: str = "float64",
    block_bytes: int = BLOCK_BYTES,
    n_features: int | None = None,
    zero_based: Any = "auto",
    shuffle: bool = True,
    seed: int = 0,
    progress: Callable[[str, int], Any] | None = None,
    tables: TableOptions | None = None,
    task: str = "classification",
) -> Store:
    """Convert files to a store that `fit` and `solve` train on without reading it into memory.

    Parameters
    ----------
    data : path, or several
        LIBSVM text, CSV (also zipped), Parquet, Arrow, NPZ or MAT, also compressed. Several files are one data set, in that order.
        NPZ, MAT and Arrow files are read whole, one at a time.
    folder : path
        Where the store goes; made if need be. After a stop, the same call goes on where it was.
    target : str or int, optional
        The column of the labels in a table; see `dualgap.data.read`.
    dtype : {"float64", "float32"}
    block_bytes : int
        Size of a part. Training holds two parts at a time.
    n_features : int, optional
        The number of columns; by default the largest that occurs. A column beyond it is an error.
    zero_based : {"auto", True, False}
        Whether the first column of LIBSVM text is 0; "auto" decides by the first rows of the first file.
    shuffle : bool
        Whether rows are put in random order, which needs room for a second copy while it lasts. Without it rows keep their order:
        do that only for data that are in random order already.
    seed : int
    progress : function of a stage ("read" or "mix") and a number of rows, optional
    tables : TableOptions, optional
        Prepare the columns of tables, as the command line does: text, categories, dates and missing values become numbers, and numbers
        are standardised; dense arrays are standardised too. The store keeps the names and what was learned (`store.encoder`). Without
        it, tables hold numbers alone, and numbers are taken as they are.
    task : {"classification", "regression"}
        What the labels are: classes, or the targets of a regression, which are numbers. Where `tables` is given, its task counts; with
        task="" there, the column decides.

    Examples
    --------
    >>> import os, tempfile
    >>> from dualgap.store.conversion import convert
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "pets.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("weight,animal\\n" + "4.1,cat\\n30.5,dog\\n" * 40)
    >>> store = convert(path, os.path.join(folder, "store"), target="animal")
    >>> store.shape, store.classes.tolist(), store.manifest.counts
    ((80, 1), ['cat', 'dog'], [40, 40])
    """
    folder = Path(folder)
    asked = one_of("task", task, TASKS) if tables is None else tables.task
    sources = _open_sources(data, target, dtype, zero_based, n_features, tables, seed, asked)
    settings = _settings(sources, block_bytes, shuffle, seed)
    if (sources[0].labels.task if isinstance(sources[0], TableSource) else asked) == "regression":
        settings["task"] = "regression"
    done = _finished(folder, settings)
    if done is not None:
        return done
    job = Job.resume(folder, settings) or Job.begin(folder, settings)
    write_encoder(folder, sources[0])
    return _make(job, sources, n_features, progress or _silent)


def write_store(
    blocks: Iterable[tuple[Any, Any]],
    folder: str | os.PathLike[str],
    *,
    dtype: str = "float64",
    block_bytes: int = BLOCK_BYTES,
    n_features: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    task: str = "classification",
) -> Store:
    """Make a store out of samples that a program has: pairs (X, y) of some rows each, arrays or sparse matrices.

    With task="regression", y are numbers, the targets.

    Only the pair at hand and a block are in memory. A stop in the middle is not gone on from: delete the folder and start again.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from dualgap.store.conversion import write_store
    >>> rng = np.random.default_rng(0)
    >>> pairs = ((rng.standard_normal((100, 3)), rng.integers(2, size=100)) for _ in range(5))
    >>> write_store(pairs, os.path.join(tempfile.mkdtemp(), "store"))
    Store(500 × 3 dense float64, 2 classes, 1 part)
    """
    folder = Path(folder)
    if (folder / MANIFEST).exists() or (folder / PROGRESS).exists():
        raise StoreError(f"{folder} holds a store already, or the beginning of one; delete it, or give another folder")
    waiting = iter(blocks)
    first = next(waiting, None)
    if first is None:
        raise ValueError("blocks is empty; give at least one pair (X, y)")
    given = Given("csr" if sparse.issparse(first[0]) else "dense", dtype, chain([first], waiting))
    settings = {"sources": [], "storage": given.storage, "dtype": dtype, "task": one_of("task", task, TASKS)}
    job = Job.begin(folder, {**settings, "block_bytes": block_bytes, "shuffle": shuffle, "seed": seed})
    return _make(job, [given], n_features, _silent)


def _silent(stage: str, rows: int) -> None:
    pass


def _make(job: Job, sources: Sequence[AnySource], n_features: int | None, say: Callable[[str, int], Any]) -> Store:
    """Do what is left of a conversion."""
    if job.stage == "read":
        _read(job, sources, say)
    if job.stage == "mix":
        _mix(job, say)
    elif job.stage == "adopt":
        _adopt_raw(job)
    job.finish(n_features)
    return Store(job.folder)


def _open_sources(
    data: Paths, target: Any, dtype: str, zero_based: Any, n_features: int | None, tables: TableOptions | None, seed: int, task: str
) -> Sequence[FileSource]:
    paths = [Path(data)] if isinstance(data, (str, os.PathLike)) else [Path(path) for path in data]
    if target is None and tables is not None and tables.target != "":
        target = tables.target
    if not paths:
        raise ValueError("data is empty; give at least one file")
    one_of("dtype", dtype, ("float64", "float32"))
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based={zero_based!r} is unknown; choose True, False or 'auto'")
    kinds = [_kind(path) for path in paths]
    if any(kind in ARRAY_KINDS for kind in kinds):
        _require_alike(paths, kinds, ARRAY_KINDS)
        return learn_arrays(paths, target, dtype, n_features, tables)
    if "arrow" in kinds or (tables is not None and any(kind in TABLE_KINDS for kind in kinds)):
        _require_alike(paths, kinds, TABLE_KINDS)
        return learn_tables(paths, target, dtype, tables or TableOptions(prepare=False, standardise=False, task=task), seed)
    if tables is not None:
        tables.refuse(str(paths[0]))
    sources: list[Source] = []
    for path in paths:
        source = open_source(path, target, dtype, zero_based, n_features)
        if sources and source.storage != sources[0].storage:
            raise DataError(f"{path} and {sources[0].path} cannot share a store: LIBSVM text is sparse, tables are dense")
        if source.kind == "libsvm":
            zero_based = source.zero_based  # every file counts its columns as the first one does
        sources.append(source)
    return sources


def _kind(path: Path) -> str:
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file")
    if not path.exists():
        raise DataError(f"{path} does not exist")
    return kind_of(path)


def _require_alike(paths: Sequence[Path], kinds: Sequence[str], family: Sequence[str]) -> None:
    """Raise unless all files are of one family of formats."""
    inside = [kind in family for kind in kinds]
    if not all(inside):
        one, other = paths[inside.index(True)], paths[inside.index(False)]
        raise DataError(f"{one} and {other} cannot share a store: their formats hold different things")


def _settings(sources: Sequence[FileSource], block_bytes: int, shuffle: bool, seed: int) -> dict[str, Any]:
    whole_number("block_bytes", block_bytes)
    described = []
    for source in sources:
        stat = source.path.stat()
        options = {"target": source.target, "zero_based": source.zero_based, "n_features": source.n_features}
        described.append({"path": str(source.path), "bytes": stat.st_size, "modified": stat.st_mtime_ns, **options})
    first = sources[0]
    return {
        "sources": described,
        "storage": first.storage,
        "dtype": first.dtype,
        "block_bytes": int(block_bytes),
        "shuffle": bool(shuffle),
        "seed": int(seed),
    }


def _finished(folder: Path, settings: dict[str, Any]) -> Store | None:
    if not (folder / MANIFEST).exists():
        return None
    store = Store(folder)
    same = store.manifest.sources == settings["sources"] and store.manifest.dtype == settings["dtype"]
    same = same and store.task == settings.get("task", "classification")
    if not same:
        raise StoreError(f"{folder} holds a store of other data, or with other options; delete it, or give another folder")
    return store


# ----------------------------------------------------------------------------------------------------------------------- reading


def _read(job: Job, sources: Sequence[AnySource], say: Callable[[str, int], Any]) -> None:
    held: list[Piece] = []
    size = 0
    for s, k, piece in _remaining(job, sources):
        if job.settings["storage"] == "dense":
            width = piece.arrays[0].shape[1]
            if job.features and width != job.features:
                raise DataError(f"{sources[s].path} has {width} columns besides the labels, the files before have {job.features}")
        held.append(piece)
        size += sum(array.nbytes for array in piece.arrays)
        if size >= job.settings["block_bytes"]:
            _write_block(job, held, (s, k + 1))
            held, size = [], 0
            say("read", job.rows)
    if held:
        _write_block(job, held, (len(sources), 0))
        say("read", job.rows)
    job.stage = "mix" if job.settings["shuffle"] and len(job.raw) > 1 else "adopt"
    job.save()


def _remaining(job: Job, sources: Sequence[AnySource]) -> Iterator[tuple[int, int, Piece]]:
    """Yield the pieces that are not yet written. The earlier ones are parsed again: a compressed stream has no way to skip them."""
    for s in range(job.source, len(sources)):
        skip = job.pieces if s == job.source else 0
        for k, piece in enumerate(sources[s].pieces()):
            if k >= skip:
                yield s, k, piece


def _write_block(job: Job, held: list[Piece], place: tuple[int, int]) -> None:
    labels = np.concatenate([piece.labels for piece in held])
    arrays = _joined([piece.arrays for piece in held])
    held.clear()
    origin = np.arange(job.rows, job.rows + len(labels), dtype=np.int64)
    block = {"labels": job.codes(labels), "origin": origin, "sqnorms": _squares(arrays), **arrays}
    if not np.isfinite(block["sqnorms"]).all():
        row = job.rows + int(np.flatnonzero(~np.isfinite(block["sqnorms"]))[0]) + 1
        raise DataError(f"row {row}: a value is too large for {job.settings['dtype']}; scale the data, or give dtype='float64'")
    if job.settings["shuffle"]:
        block = _permuted(block, np.random.default_rng([job.settings["seed"], 0, len(job.raw)]))
    features = block["x"].shape[1] if "x" in block else int(block["indices"].max(initial=-1)) + 1
    job.raw.append(job.write(f"raw-{len(job.raw):05d}", block))
    job.rows += len(labels)
    job.features = max(job.features, features)
    job.source, job.pieces = place
    job.save()


def _joined(pieces: list[tuple[np.ndarray, ...]]) -> dict[str, np.ndarray]:
    if len(pieces[0]) == 1:
        return {"x": np.concatenate([piece[0] for piece in pieces])}
    lengths = np.concatenate([np.diff(indptr) for indptr, _, _ in pieces])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    if indptr[-1] >= 2**31:
        raise ValueError(f"a block of {indptr[-1]:,} non-zeros is too large; give a smaller block_bytes")
    indices = np.concatenate([indices for _, indices, _ in pieces])
    if indices.size and indices.max() >= 2**31 - 1:
        raise DataError(f"column {indices.max():,} is too large: a store has at most 2³¹ − 1 columns; hash them to fewer")
    return {
        "indptr": indptr.astype(np.int32),
        "indices": indices.astype(np.int32, copy=False),
        "data": np.concatenate([data for _, _, data in pieces]),
    }


def _squares(arrays: dict[str, np.ndarray]) -> np.ndarray:
    rows = storage.dense(arrays["x"]) if "x" in arrays else storage.csr_arrays(*(arrays[k] for k in ("indptr", "indices", "data")))
    out = np.empty(rows.length())
    storage.sqnorms(rows, out)
    return out


def _permuted(block: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    order = rng.permutation(len(block["labels"]))
    out = {key: block[key][order] for key in ("labels", "origin", "sqnorms")}
    if "x" in block:
        return {**out, "x": block["x"][order]}
    rows = storage.take(storage.csr_arrays(block["indptr"], block["indices"], block["data"]), order)
    return {**out, "indptr": rows.indptr.view(np.int32), "indices": rows.indices.view(np.int32), "data": rows.data}


# ------------------------------------------------------------------------------------------------------------------------ mixing


def _mix(job: Job, say: Callable[[str, int], Any]) -> None:
    made = 0
    for group in job.groups():
        for j in range(len(group)):
            if made >= len(job.parts):
                block = _permuted(_gathered(job.folder, group, j), np.random.default_rng([job.settings["seed"], 1, made]))
                job.parts.append(job.write(f"part-{made:05d}", block))
                job.save()
                say("mix", sum(part.rows for part in job.parts))
            made += 1
        for part in group:  # all its slices are in final parts
            for array in part.files:
                array_path(job.folder, part.name, array).unlink(missing_ok=True)
    job.stage = "done"
    job.save()


def _gathered(folder: Path, group: list[Part], j: int) -> dict[str, np.ndarray]:
    """Return slice j of each raw part, one after the other; only the slices are read."""
    storage_kind = "dense" if "x" in group[0].files else "csr"
    slices: dict[str, list[np.ndarray]] = {key: [] for key in ARRAYS[storage_kind]}
    for part in group:
        arrays = {key: np.load(array_path(folder, part.name, key), mmap_mode="r") for key in part.files}
        here = slice(j * part.rows // len(group), (j + 1) * part.rows // len(group))
        for key in ("labels", "origin", "sqnorms", *(["x"] if storage_kind == "dense" else [])):
            slices[key].append(np.array(arrays[key][here]))
        if storage_kind == "csr":
            indptr = np.array(arrays["indptr"][here.start : here.stop + 1])
            slices["indptr"].append(indptr - indptr[0])
            for key in ("indices", "data"):
                slices[key].append(np.array(arrays[key][indptr[0] : indptr[-1]]))
    meta = {key: np.concatenate(slices[key]) for key in ("labels", "origin", "sqnorms")}
    if storage_kind == "dense":
        return {**meta, "x": np.concatenate(slices["x"])}
    return {**meta, **_joined(list(zip(slices["indptr"], slices["indices"], slices["data"], strict=True)))}


def _adopt_raw(job: Job) -> None:
    """Give raw parts that need no mixing their final names."""
    for k, part in enumerate(job.raw):
        name = f"part-{k:05d}"
        for array in part.files:
            path = array_path(job.folder, part.name, array)
            if path.exists():  # a stop in the middle may have left some renamed already
                os.replace(path, array_path(job.folder, name, array))
        job.parts.append(Part(name, part.rows, part.stored, part.files))
    job.stage = "done"
    job.save()
