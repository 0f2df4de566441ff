"""The command `convert`: files to a store."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.app.options import OK, Json, Seed, TaskName, loss_and_task, takes_table
from dualgap.app.terminal import columns_of, print_json, say

if TYPE_CHECKING:
    from dualgap.data import TableOptions

__all__ = ["convert"]


@takes_table
def convert(
    data: Annotated[list[str], typer.Argument(help="Files (LIBSVM text, CSV, Parquet; compressed or not), then the folder.")],
    table: TableOptions,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    block_mb: Annotated[float, typer.Option(min=0.001, help="Megabytes a block; training holds two blocks.")] = 64.0,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of columns. [default: the largest that occurs]", show_default=False)
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Put the rows in random order.")] = True,
    task: TaskName = "",
    seed: Seed = 0,
    json_: Json = False,
) -> int:
    """Convert files to a store, for data larger than memory.

    A store is a folder of plain arrays that `fit` trains on without reading them into memory.

    The columns of tables are prepared as `fit` prepares them, by what a first pass learns from a random sample of the rows; the store
    keeps it, so that a model reads other tables by the names of their columns. Give the same command again after a stop, and it goes on.

    A target column of many different numbers is that of a regression, as in `fit`; for LIBSVM text, NPZ and MAT files say
    --task regression.

    \b
    Examples:
      dualgap convert data.libsvm.bz2 store/
      dualgap convert day-1.csv day-2.csv store/ --target label --dtype float32
      dualgap convert s3://bucket/2024.parquet store/ --target label
    """
    from dualgap.app.fit_display import print_preparation
    from dualgap.data import doubtful_labels, is_url, named_files
    from dualgap.store import convert as convert_files

    if len(data) < 2:
        raise ValueError("give at least one file and, last, the folder that the store goes to")

    def show_progress(stage: str, rows: int) -> None:
        say(f"{'read' if stage == 'read' else 'mixed'} {rows:,} rows", error=True)

    options: dict[str, Any] = {"dtype": dtype, "block_bytes": int(block_mb * 1e6), "n_features": n_features}
    table = replace(table, task=loss_and_task("", task)[1])
    # convert copies files at an address to where it can go on with them after a stop
    opened: list[Any] = [nullcontext([word]) if is_url(word) else named_files([word]) for word in data[:-1]]
    with ExitStack() as stack:
        files = [file for each in opened for file in stack.enter_context(each)]
        store = convert_files(files, data[-1], shuffle=shuffle, seed=seed, progress=show_progress, tables=table, **options)
    preparation = store.preparation
    if json_:
        kept = {
            "task": store.task,
            "rows": store.shape[0],
            "features": store.shape[1],
            "classes": store.classes,
            "counts": store.manifest.counts,
        }
        print_json({"store": data[-1], **kept, "bytes": store.nbytes, "prepared": columns_of(preparation)})
        return OK
    for line in doubtful_labels(store.classes):
        say(line)
    if preparation is not None:
        print_preparation(preparation)
    say(f"{store}, {store.nbytes / 1e6:,.1f} MB")
    say(data[-1])
    return OK
