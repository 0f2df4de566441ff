"""Old module names, so that pickles and imports written for version 0.1 still find their classes.

A name in the table is imported under its new name; both names then stand for the same module. Delete an entry when no file that
matters can hold it any more.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["MOVED", "keep_functions"]

_ROOMS = {  # new folder: "old=new" for each module, or one word where the name has not changed
    "core": "jit workers=threads rows linalg passes=threads losses penalties",
    "kernels": "gaussian panels=values expansion=sums blocks=gram_cache semidefinite",
    "problem": "inputs scaling",
    "proof": "certificate",
    "run": "result evaluation audit=certifying approximate=approximation",
    "app": "cli cli_fit=model_commands lab.models=model_file lab.scale=model_file lab.terminal=terminal",
    "solvers": "solvers.held=precomputed",
    "solvers.coordinate": "ascent solvers.sdca=sdca solvers.asdca=asdca solvers.dca=dca solvers.leap=extrapolation "
    "solvers.blocks=streamed solvers.dual_coordinate=dual_coordinate",
    "solvers.gradient": "solvers.sgd=sgd solvers.pegasos=pegasos solvers.saga=saga solvers.svrg=svrg solvers.apg=apg "
    "solvers.subgradient=subgradient solvers.dual_gradient=dual_gradient solvers.primal=primal solvers.lazy=lazy_prox",
    "solvers.newton": "solvers.newton_cg=newton_cg solvers.prox_newton=prox_newton solvers.newton_steps=steps",
    "cluster": "distributed.checkpoint=checkpoint distributed.cluster=dask_workers distributed.inputs=inputs "
    "distributed.partition=partition distributed.pose=objective distributed.rounds=rounds distributed.team=worker_pool "
    "distributed.train=train",
    "data": "data.sources=known_files data.tables=csv_parquet",
    "store": "store.blocks=folder store.convert=conversion store.sources=file_pieces",
    "estimators": "estimators.scale=on_cluster",
    "lab": "lab.fields=schema lab.content=report_model lab.cells=plan lab.work=run_one lab.store=result_store lab.progress=live",
    "lab.claims": "lab.verdicts=verdicts lab.checks=levels lab.trends=trends",
}
MOVED = {"dualgap.distributed": "dualgap.cluster"} | {
    f"dualgap.{old}": f"dualgap.{room}.{new or old}"
    for room, names in _ROOMS.items()
    for old, _, new in (name.partition("=") for name in names.split())
}


def keep_functions(*old: str) -> None:
    """Load old modules whose name is also a function of their package: an import later on would put the module in its place."""
    sys.modules.update({name: importlib.import_module(MOVED[name]) for name in old})


class _Moved(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a module of MOVED under its new name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


sys.meta_path.insert(0, _Moved())  # before the finder of files, which would read the same file a second time
