"""`convert`: text and table files into a store, streaming, resumable, shuffled.

Reading fills one block after another; each is shuffled and written as a raw part. Mixing then makes every final part out of a slice of
each raw one: raw parts are shuffled already, so that slices are contiguous reads, and yet rows end up anywhere. Data sorted by class,
as files often are, thus become blocks that each look like the whole. No more than two blocks are in memory, and after a stop the same
command goes on at the last part written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, repeat, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualgap.core import FULL, one_of, whole_number
from dualgap.data import TABLE_KINDS, TASKS, DataError, TableOptions, fetch, files_of, is_url, kind_of
from dualgap.store.array_pieces import ARRAY_KINDS, ArraySource, learn_arrays
from dualgap.store.assembly import gather_rows, squares
from dualgap.store.encoding import write_encoder
from dualgap.store.file_pieces import AnyPiece, Given, LibsvmSource, Piece, open_libsvm
from dualgap.store.job import Job
from dualgap.store.manifest import LABELS, MANIFEST, PROGRESS, Part, StoreError, array_path, checked_record, read_slice
from dualgap.store.runs import read_ahead
from dualgap.store.store import Store
from dualgap.store.table_pieces import TableSource, learn_tables

__all__ = ["convert", "write_store"]

BLOCK_BYTES = 1 << 26
MIXERS = 2  # threads that make final parts; each holds a block
FileSource = LibsvmSource | TableSource | ArraySource
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
    settings = _settings(sources, names, block_bytes, shuffle, seed)
    if (sources[0].labels.task if isinstance(sources[0], TableSource) else asked) == "regression":
        settings["task"] = "regression"
    store = _finished(folder, settings)
    if store is None:
        with _room_in(folder, "give the same command again: it goes on from there"):
            job = Job.resume(folder, settings) or Job.begin(folder, settings)
            write_encoder(folder, sources[0])
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
    given = Given("csr" if sparse.issparse(first[0]) else "dense", dtype, chain([first], waiting))
    settings = {"sources": [], "storage": given.storage, "dtype": dtype, "task": one_of("task", task, TASKS)}
    with _room_in(folder, "delete the folder and call write_store again"):
        job = Job.begin(folder, {**settings, "block_bytes": block_bytes, "shuffle": shuffle, "seed": seed})
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
) -> Sequence[FileSource]:
    if target is None and tables is not None and tables.target != "":
        target = tables.target
    one_of("dtype", dtype, ("float64", "float32"))
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based={zero_based!r} is unknown; choose True, False or 'auto'")
    kinds = [kind_of(path) for path in paths]
    if any(kind in ARRAY_KINDS for kind in kinds):
        _require_alike(paths, kinds, ARRAY_KINDS)
        return learn_arrays(paths, target, dtype, n_features, tables)
    if any(kind in TABLE_KINDS for kind in kinds):
        _require_alike(paths, kinds, TABLE_KINDS)
        return learn_tables(paths, target, dtype, tables, seed, n_features, task)
    if tables is not None:
        tables.refuse(str(paths[0]))
    sources: list[LibsvmSource] = []
    for path in paths:
        sources.append(open_libsvm(path, target, dtype, zero_based, n_features))
        zero_based = sources[0].zero_based  # every file counts its columns as the first one does
    return sources


def _require_alike(paths: Sequence[Path], kinds: Sequence[str], family: Sequence[str]) -> None:
    """Raise unless all files are of one family of formats."""
    inside = [kind in family for kind in kinds]
    if not all(inside):
        one, other = paths[inside.index(True)], paths[inside.index(False)]
        raise DataError(f"{one} and {other} cannot share a store: their formats hold different things")


def _settings(sources: Sequence[FileSource], names: dict[Path, str], block_bytes: int, shuffle: bool, seed: int) -> dict[str, Any]:
    whole_number("block_bytes", block_bytes)
    described = []
    for source in sources:
        stat = source.path.stat()
        options = {"target": source.target, "zero_based": source.zero_based, "n_features": source.n_features}
        described.append({"path": names[source.path], "bytes": stat.st_size, "modified": stat.st_mtime_ns, **options})
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
    """Read what is left of the sources into raw parts. While a block is put together and written, the next one is read."""
    with ThreadPoolExecutor(1, thread_name_prefix="dualgap-write") as writer:
        waiting: Future[Written] | None = None
        for pieces, place in _blocks(job, sources):
            if waiting is not None:
                _commit(job, waiting.result(), say)
            codes = job.codes(np.concatenate([piece.labels for piece in pieces]))
            waiting = writer.submit(_write_raw, job, len(job.raw), job.rows, pieces, codes, place)
            del pieces
        if waiting is not None:
            _commit(job, waiting.result(), say)
    job.stage = "mix" if job.settings["shuffle"] and len(job.raw) > 1 else "adopt"
    job.save()


def _blocks(job: Job, sources: Sequence[AnySource]) -> Iterator[tuple[list[AnyPiece], tuple[int, int]]]:
    """Yield (the pieces of a block, the source and the piece that come after it)."""
    held: list[AnyPiece] = []
    width, size = job.features, 0
    for s, k, piece in _remaining(job, sources):
        if job.settings["storage"] == "dense":
            if width and piece.width != width:
                raise DataError(f"{sources[s].path} has {piece.width} columns besides the labels, the files before have {width}")
            width = piece.width
        held.append(piece)
        size += piece.nbytes
        if size >= job.settings["block_bytes"]:
            yield held, (s, k + 1)
            held, size = [], 0
    if held:
        yield held, (len(sources), 0)


def _remaining(job: Job, sources: Sequence[AnySource]) -> Iterator[tuple[int, int, AnyPiece]]:
    """Yield the pieces that are not yet written, with their source and number; a thread reads the next one."""
    for s in range(job.source, len(sources)):
        skip = job.pieces if s == job.source else 0
        pieces: Iterator[Any] = sources[s].pieces(skip)
        if not isinstance(sources[s], Given):  # a program's own iterator stays in its own thread
            pieces = _ahead(pieces)
        for k, piece in enumerate(pieces, start=skip):
            yield s, k, piece


def _ahead(pieces: Iterator[Any]) -> Iterator[Any]:
    return takewhile(lambda piece: piece is not None, read_ahead(lambda _: next(pieces, None), repeat(None)))


class Written(NamedTuple):
    """A raw part that has been written, its number of features, and where the input goes on after it."""

    raw: Part
    features: int
    place: tuple[int, int]


def _write_raw(job: Job, number: int, first: int, pieces: list[AnyPiece], codes: np.ndarray, place: tuple[int, int]) -> Written:
    """Put a block together, in random order if asked, and write it."""
    rows, settings = len(codes), job.settings
    order = np.random.default_rng([settings["seed"], 0, number]).permutation(rows) if settings["shuffle"] else None
    arrays = gather_rows(pieces, order, settings["dtype"])
    pieces.clear()
    origin = np.arange(rows, dtype=np.int64) if order is None else order
    lengths = squares(arrays)
    if not np.isfinite(lengths).all():
        row = first + int(origin[~np.isfinite(lengths)].min()) + 1
        raise DataError(f"row {row}: a value is too large for {settings['dtype']}; scale the data, or give dtype='float64'")
    block = {"labels": codes if order is None else codes[order], "origin": origin + first, "sqnorms": lengths, **arrays}
    features = block["x"].shape[1] if "x" in block else int(block["indices"].max(initial=-1)) + 1
    return Written(job.write(f"raw-{number:05d}", block, final=not settings["shuffle"]), features, place)


def _commit(job: Job, written: Written, say: Callable[[str, int], Any]) -> None:
    job.raw.append(written.raw)
    job.rows += written.raw.rows
    job.features = max(job.features, written.features)
    job.source, job.pieces = written.place
    job.save()
    say("read", job.rows)


# ------------------------------------------------------------------------------------------------------------------------ mixing


def _mix(job: Job, say: Callable[[str, int], Any]) -> None:
    """Make the final parts, two at a time; which rows a part has, and in which order, does not depend on that."""
    wanted = [(group, j) for group in job.groups() for j in range(len(group))]
    begun = len(job.parts)
    work = read_ahead(lambda made: _mixed(job, *wanted[made], made), range(begun, len(wanted)), threads=MIXERS)
    for made, part in enumerate(work, start=begun):
        job.parts.append(part)
        job.save()
        say("mix", sum(part.rows for part in job.parts))
        if wanted[made][1] == len(wanted[made][0]) - 1:
            _release(job.folder, wanted[made][0])
    for group in job.groups()[: job.groups_done()]:  # a stop may have come before they were deleted
        _release(job.folder, group)
    job.stage = "done"
    job.save()


def _release(folder: Path, group: list[Part]) -> None:
    """Delete raw parts: all their slices are in final parts."""
    for part in group:
        for array in part.files:
            array_path(folder, part.name, array).unlink(missing_ok=True)


def _mixed(job: Job, group: list[Part], j: int, number: int) -> Part:
    """Write the final part that has slice j of each raw part of a group; only the slices are read."""
    slices = [_slice(job, part, j, len(group)) for part in group]
    pieces, origins, lengths = zip(*slices, strict=True)
    codes = np.concatenate([piece.labels for piece in pieces])
    order = np.random.default_rng([job.settings["seed"], 1, number]).permutation(len(codes))
    arrays = gather_rows(pieces, order, job.settings["dtype"])
    meta = {"labels": codes[order], "origin": np.concatenate(origins)[order], "sqnorms": np.concatenate(lengths)[order]}
    return job.write(f"part-{number:05d}", {**meta, **arrays}, final=True)


def _slice(job: Job, part: Part, j: int, count: int) -> tuple[Piece, np.ndarray, np.ndarray]:
    """Return slice j of a raw part, of `count` of them: rows with their labels, origins and squared lengths."""
    first, last = j * part.rows // count, (j + 1) * part.rows // count
    folder, dtype, width = job.folder, job.settings["dtype"], job.features
    label_kind = np.dtype(LABELS[job.settings.get("task", "classification")]).str
    labels, origin, lengths = (
        read_slice(folder, part, array, kind, first, last)
        for array, kind in (("labels", label_kind), ("origin", "i8"), ("sqnorms", "f8"))
    )
    if "x" in part.files:
        return (
            Piece(labels, (read_slice(folder, part, "x", dtype, first * width, last * width).reshape(-1, width),)),
            origin,
            lengths,
        )
    indptr = read_slice(folder, part, "indptr", "i4", first, last + 1)
    ends = int(indptr[0]), int(indptr[-1])
    rows = (
        indptr - indptr[0],
        *(read_slice(folder, part, array, kind, *ends) for array, kind in (("indices", "i4"), ("data", dtype))),
    )
    return Piece(labels, rows), origin, lengths


def _adopt_raw(job: Job) -> None:
    """Give raw parts that need no mixing their final names, and a single shuffled one its checksums."""
    shuffled = job.settings["shuffle"]
    for k, part in enumerate(job.raw):
        name = f"part-{k:05d}"
        for array in part.files:
            path = array_path(job.folder, part.name, array)
            if path.exists():  # a stop in the middle may have left some renamed already
                os.replace(path, array_path(job.folder, name, array))
        files = {array: checked_record(job.folder, name, array) for array in part.files} if shuffled else part.files
        job.parts.append(Part(name, part.rows, part.stored, files))
    job.stage = "done"
    job.save()
