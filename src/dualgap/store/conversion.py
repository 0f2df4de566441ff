"""`convert`: text and table files into a store, streaming, resumable, shuffled.

Reading fills one block after another; each is shuffled and written as a raw part. Mixing then makes every final part out of a slice of
each raw one: raw parts are shuffled already, so that slices are contiguous reads, and yet rows end up anywhere. Data sorted by class,
as files often are, thus become blocks that each look like the whole. Without shuffling, what is read is final. No more than two blocks are
in memory, and after a stop the same command goes on at the last part written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, repeat, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import FULL, one_of, whole_number
from dualgap.core import rows as storage
from dualgap.data import TABLE_KINDS, TASKS, DataError, TableOptions, fetch, files_of, is_url, kind_of
from dualgap.store.manifest import PROGRESS, Job
from dualgap.store.part_files import MANIFEST, Part, StoreError, array_path, layout_of, read_slice, write_part
from dualgap.store.sources import Piece, Source, given_pairs, learn_arrays, learn_tables, open_libsvm
from dualgap.store.store import Store, read_ahead, write_encoder

__all__ = ["convert", "write_store"]

BLOCK_BYTES = 1 << 26
MIXERS = 2  # threads that make final parts; each holds a block
ARRAY_KINDS = ("npz", "mat")
MOST_COLUMNS = 2**31 - 1
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
    data : path or address, or several
        LIBSVM text, CSV (also zipped), Parquet, Arrow, NPZ or MAT, also compressed. Several files are one data set, in that order; a
        folder stands for the tables in it. NPZ, MAT and Arrow files are read whole, one at a time. A file at an address that fsspec
        opens, such as s3://bucket/data.parquet, is copied to FOLDER.input first; the copy is deleted when the store is made.
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
    if is_url(folder):
        raise StoreError(f"folder is {folder!r}: a store is read many times, so it is on a local disk; give a local folder")
    folder = Path(folder)
    asked = one_of("task", task, TASKS) if tables is None else tables.task
    names = _files(data, folder)
    sources = _open_sources(list(names), target, dtype, zero_based, n_features, tables, seed, asked)
    settings = _settings(sources, list(names.values()), dtype, block_bytes, shuffle, seed)
    if (folder / MANIFEST).exists():
        store = Store(folder)
        if (store.manifest.sources, store.manifest.dtype, store.task) != tuple(
            settings[key] for key in ("sources", "dtype", "task")
        ):
            raise StoreError(f"{folder} holds a store of other data, or with other options; delete it, or give another folder")
    else:
        with _room_in(folder, "give the same command again: it goes on from there"):
            job = Job.resume(folder, settings) or Job.begin(folder, settings)
            write_encoder(folder, sources[0].encoder, sources[0].labels or {})
            store = _make(job, sources, n_features, progress or _silent)
    shutil.rmtree(_copies_beside(folder), ignore_errors=True)
    return store


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
    given = given_pairs(chain([first], waiting), "csr" if sparse.issparse(first[0]) else "dense", dtype, task)
    with _room_in(folder, "delete the folder and call write_store again"):
        job = Job.begin(folder, _settings([given], [], dtype, block_bytes, shuffle, seed))
        return _make(job, [given], n_features, _silent)


@contextmanager
def _room_in(folder: Path, then: str) -> Iterator[None]:
    """Say what to do where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StoreError(f"{folder} cannot be written: {error.strerror}. Free some space there, then {then}") from None


def _silent(stage: str, rows: int) -> None:
    pass


def _make(job: Job, sources: Sequence[Source], n_features: int | None, say: Callable[[str, int], Any]) -> Store:
    """Do what is left of a conversion."""
    if job.stage == "read":
        _read(job, sources, say)
    if job.stage == "mix":
        _mix(job, say)
    job.finish(n_features)
    return Store(job.folder)


def _copies_beside(folder: Path) -> Path:
    """Return where files at an address are copied to, until the store is made."""
    return folder.with_name(f"{folder.name}.input")


def _files(data: Paths, folder: Path) -> dict[Path, str]:
    """Return the files to convert, each with its name; a folder stands for the tables in it, files at an address are copied."""
    words = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    if not words:
        raise ValueError("data is empty; give at least one file")
    files: dict[Path, str] = {}
    for number, word in enumerate(words):
        if is_url(word):
            found = fetch(str(word), _copies_beside(folder) / f"{number:05d}")
        else:
            found = {path: str(path) for path in files_of([word])}
        files |= found
    return files


def _open_sources(
    paths: list[Path],
    target: Any,
    dtype: str,
    zero_based: Any,
    n_features: int | None,
    tables: TableOptions | None,
    seed: int,
    task: str,
) -> Sequence[Source]:
    if target is None and tables is not None and tables.target != "":
        target = tables.target
    one_of("dtype", dtype, ("float64", "float32"))
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based={zero_based!r} is unknown; choose True, False or 'auto'")
    kinds = [kind_of(path) for path in paths]
    for family in (ARRAY_KINDS, TABLE_KINDS):
        inside = [kind in family for kind in kinds]
        if any(inside) and not all(inside):
            one, other = paths[inside.index(True)], paths[inside.index(False)]
            raise DataError(f"{one} and {other} cannot share a store: their formats hold different things")
    if kinds[0] in ARRAY_KINDS:
        return learn_arrays(paths, target, dtype, n_features, tables, task)
    if kinds[0] in TABLE_KINDS:
        return learn_tables(paths, target, dtype, tables, seed, n_features, task)
    if tables is not None:
        tables.refuse(str(paths[0]))
    return open_libsvm(paths, target, dtype, zero_based, n_features, task)


def _settings(
    sources: Sequence[Source], names: Sequence[str], dtype: str, block_bytes: int, shuffle: bool, seed: int
) -> dict[str, Any]:
    """Return what decides the contents of the store, as plain data: a conversion with other settings is another one."""
    described = []
    for source, name in zip(sources, names, strict=False):  # pairs of a program have no names
        stat = Path(source.path).stat()
        described.append({"path": name, "bytes": stat.st_size, "modified": stat.st_mtime_ns, **source.asked})
    return {
        "sources": described,
        "storage": sources[0].storage,
        "dtype": dtype,
        "task": sources[0].task or "classification",
        "block_bytes": whole_number("block_bytes", block_bytes),
        "shuffle": bool(shuffle),
        "seed": int(seed),
    }


# ----------------------------------------------------------------------------------------------------------------------- reading


def _read(job: Job, sources: Sequence[Source], say: Callable[[str, int], Any]) -> None:
    """Read what is left of the sources into raw parts. While a block is put together and written, the next one is read."""
    with ThreadPoolExecutor(1, thread_name_prefix="dualgap-write") as writer:
        waiting: Future[dict[str, Any]] | None = None
        for pieces, place in _blocks(job, sources):
            if waiting is not None:
                job.note(**waiting.result())
                say("read", job.rows)
            codes = job.codes(np.concatenate([piece.labels for piece in pieces]))
            waiting = writer.submit(_write_block, job, pieces, codes, place)
            del pieces
        if waiting is not None:
            job.note(**waiting.result())
            say("read", job.rows)
    job.note(stage="mix" if job.settings["shuffle"] else "done")


def _blocks(job: Job, sources: Sequence[Source]) -> Iterator[tuple[list[Piece], tuple[int, int]]]:
    """Yield (the pieces of a block, the source and the piece that come after it)."""
    held: list[Piece] = []
    width, size = job.features, 0
    for s, k, piece in _remaining(job, sources):
        columns = piece.X.shape[1]
        if job.settings["storage"] == "dense":
            if width and columns != width:
                raise DataError(f"{sources[s].path} has {columns} columns besides the labels, the files before have {width}")
            width = columns
        held.append(piece)
        size += piece.nbytes
        if size >= job.settings["block_bytes"]:
            yield held, (s, k + 1)
            held, size = [], 0
    if held:
        yield held, (len(sources), 0)


def _remaining(job: Job, sources: Sequence[Source]) -> Iterator[tuple[int, int, Piece]]:
    """Yield the pieces that are not yet written, with their source and number; a thread reads the next one."""
    for s in range(job.source, len(sources)):
        skip = job.pieces if s == job.source else 0
        pieces: Iterator[Any] = iter(sources[s].read(skip))
        if isinstance(sources[s].path, Path):  # a program's own iterator stays in its own thread
            ahead = read_ahead(lambda waiting: next(waiting, None), repeat(pieces))
            pieces = takewhile(lambda piece: piece is not None, ahead)
        for k, piece in enumerate(pieces, start=skip):
            yield s, k, piece


def _write_block(job: Job, pieces: list[Piece], codes: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    """Put a block together and write it, in random order as a raw part or in its own as a final one; return what `Job.note` takes."""
    rows, settings, shuffle = len(codes), job.settings, job.settings["shuffle"]
    number = len(job.raw if shuffle else job.parts)
    order = np.random.default_rng([settings["seed"], 0, number]).permutation(rows) if shuffle else np.arange(rows)
    arrays = _put_together([piece.X for piece in pieces], order, settings["dtype"])
    pieces.clear()
    stored = (
        storage.dense(arrays["x"]) if "x" in arrays else storage.csr_arrays(*(arrays[k] for k in ("indptr", "indices", "data")))
    )
    squares = np.empty(rows)
    storage.sqnorms(stored, squares)
    if not np.isfinite(squares).all():
        row = job.rows + int(order[~np.isfinite(squares)].min()) + 1
        raise DataError(f"row {row}: a value is too large for {settings['dtype']}; scale the data, or give dtype='float64'")
    block = {"labels": codes[order], "origin": order + job.rows, "sqnorms": squares, **arrays}
    features = block["x"].shape[1] if "x" in block else int(block["indices"].max(initial=-1)) + 1
    return {
        "raw" if shuffle else "part": write_part(job.folder, f"{'raw' if shuffle else 'part'}-{number:05d}", block),
        "rows": job.rows + rows,
        "features": max(job.features, features),
        "source": place[0],
        "pieces": place[1],
        "classes": list(job.classes),
        "counts": list(job.counts),
    }


def _put_together(blocks: Sequence[Any], order: np.ndarray, dtype: str) -> dict[str, np.ndarray]:
    """Return the arrays of the rows of some matrices; row k of the result is row order[k] of the matrices one below the other."""
    if isinstance(blocks[0], np.ndarray):
        place, start = np.empty(len(order), dtype=np.int64), 0
        place[order] = np.arange(len(order))
        x = np.empty((len(order), blocks[0].shape[1]), dtype)
        for rows in blocks:
            x[place[start : start + len(rows)]] = rows
            start += len(rows)
        return {"x": x}
    width, stored = max(X.shape[1] for X in blocks), sum(X.nnz for X in blocks)
    if width > MOST_COLUMNS:
        raise DataError(f"column {width - 1:,} is too large: a store has at most 2³¹ − 1 columns; hash them to fewer")
    if stored >= 2**31:
        raise ValueError(f"a block of {stored:,} non-zeros is too large; give a smaller block_bytes")
    wide = [sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X in blocks]
    X = sparse.vstack(wide, format="csr")[order]
    return {
        "indptr": X.indptr.astype(np.int32, copy=False),
        "indices": X.indices.astype(np.int32, copy=False),
        "data": X.data.astype(dtype, copy=False),
    }


# ------------------------------------------------------------------------------------------------------------------------ mixing


def _mix(job: Job, say: Callable[[str, int], Any]) -> None:
    """Make the final parts, two at a time; which rows a part has, and in which order, does not depend on that."""
    wanted = [(group, j) for group in job.groups() for j in range(len(group))]
    begun = len(job.parts)
    work = read_ahead(lambda made: _mixed(job, *wanted[made], made), range(begun, len(wanted)), threads=MIXERS)
    for (group, j), part in zip(wanted[begun:], work, strict=True):
        job.note(part=part)
        say("mix", sum(part.rows for part in job.parts))
        if j == len(group) - 1:
            _release(job.folder, group)
    _release(job.folder, job.raw)  # a stop may have come before some were deleted
    job.note(stage="done")


def _release(folder: Path, group: Sequence[Part]) -> None:
    """Delete raw parts: all their slices are in final parts."""
    for part in group:
        for array in part.files:
            array_path(folder, part.name, array).unlink(missing_ok=True)


def _mixed(job: Job, group: list[Part], j: int, number: int) -> Part:
    """Write the final part that has slice j of each raw part of a group; only the slices are read."""
    dtype, found = job.settings["dtype"], []
    matrices: list[Any] = []
    for part in group:

        def values(array: str, first: int, last: int, part: Part = part) -> np.ndarray:
            layout = layout_of(part, array, dtype, job.features, job.task)
            return read_slice(array_path(job.folder, part.name, array), layout, first, last)

        first, last = j * part.rows // len(group), (j + 1) * part.rows // len(group)
        found.append([values(name, first, last) for name in ("labels", "origin", "sqnorms")])
        if "x" in part.files:
            matrices.append(values("x", first, last))
            continue
        indptr = values("indptr", first, last + 1)
        indices, data = (values(name, int(indptr[0]), int(indptr[-1])) for name in ("indices", "data"))
        matrices.append(sparse.csr_matrix((data, indices, indptr - indptr[0]), shape=(last - first, job.features)))
    labels, origin, squares = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    order = np.random.default_rng([job.settings["seed"], 1, number]).permutation(len(labels))
    block = {"labels": labels[order], "origin": origin[order], "sqnorms": squares[order]}
    return write_part(job.folder, f"part-{number:05d}", {**block, **_put_together(matrices, order, dtype)})
