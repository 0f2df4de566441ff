"""`python -m benchmarks`: one command, one table, one figure, in benchmarks/outputs/."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES, GENERATED
from benchmarks.linear import PATIENCE, PENALTIES, ratios, run
from benchmarks.profile import write_profile
from benchmarks.records import OUTPUTS, write_csv

QUICK_PATIENCE = 2.0  # seconds: most fits of dualgap take less than 0.1


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Seconds to a certified precision, dualgap against its peers.")
    parser.add_argument("--data", default=None, help="names of cases, separated by commas")
    parser.add_argument("--losses", default=None, help="hinge, squared_hinge, logistic; hinge by default")
    parser.add_argument("--peers", default=None, help="names of peers, separated by commas; all that are installed by default")
    parser.add_argument("--repeats", type=int, default=3, help="fits of which the fastest counts")
    parser.add_argument(
        "--patience",
        type=float,
        default=None,
        help=f"seconds after which a peer is stopped on one problem; {PATIENCE:g} by default",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="all losses and penalties on the data sets of files, with few seconds for a peer: about 25 minutes on an idle machine",
    )
    parser.add_argument(
        "--l2", default=",".join(PENALTIES), help="penalties, separated by commas: numbers, or numbers divided by n"
    )
    options = parser.parse_args()
    quick = options.quick
    peers = options.peers.split(",") if options.peers else None
    names = options.data.split(",") if options.data else [name for name in CASES if not quick or name not in GENERATED]
    losses = options.losses or ("hinge,squared_hinge,logistic" if quick else "hinge")
    patience = options.patience or (QUICK_PATIENCE if quick else PATIENCE)
    OUTPUTS.mkdir(exist_ok=True)
    table: list[dict[str, Any]] = []
    problems = run(
        names,
        losses.split(","),
        peers,
        options.repeats,
        patience,
        options.l2.split(","),
    )
    for records in problems:
        # After each problem, so that a run that is ended early has left what it found.
        table = ratios(records)
        write_csv("linear.csv", records)
        write_csv("ratios.csv", table)
        write_markdown(OUTPUTS / "ratios.md", table)
        write_profile(OUTPUTS, records, table)
    if not table:
        raise SystemExit("no problem was raced: none of the data sets is at hand")
    print_table(table)
    print("\n" + (OUTPUTS / "profile.md").read_text(encoding="utf-8"))
    figure(table, OUTPUTS / "linear.png")
    print(f"\ntables and figure in {OUTPUTS}")


def write_markdown(path: Path, table: list[dict[str, Any]]) -> None:
    """Write the table of ratios: one line a problem, the targets side by side."""
    targets = list(dict.fromkeys(row["target"] for row in table))
    lines = ["| data | loss | l2 | " + " | ".join(f"{t:g}: dualgap | best peer | ratio" for t in targets) + " |"]
    lines.append("| --- " * (3 + 3 * len(targets)) + "|")
    for key in dict.fromkeys((row["data"], row["loss"], row["l2"]) for row in table):
        here = [row for row in table if (row["data"], row["loss"], row["l2"]) == key]
        cells = []
        for row in here:
            peer = f"{row['its seconds']:.3g} s, {row['best peer']}" if np.isfinite(row["its seconds"]) else "none reached it"
            ratio = f"{row['ratio']:.1f} ×" if np.isfinite(row["ratio"]) else "—"
            cells.append(f"{row['dualgap']:.3g} s | {peer} | {ratio}")
        lines.append(f"| {key[0]} | {key[1].replace('_', ' ')} | {key[2]:.0e} | " + " | ".join(cells) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def print_table(table: list[dict[str, Any]]) -> None:
    print(f"\n{'data':22s} {'loss':14s} {'l2':>8s} {'target':>7s} {'dualgap':>9s} {'best peer':>22s} {'seconds':>9s} {'ratio':>7s}")
    for row in table:
        print(
            f"{row['data']:22s} {row['loss']:14s} {row['l2']:8.1e} {row['target']:7.0e} {row['dualgap']:9.4f} "
            f"{row['best peer']:>22s} {row['its seconds']:9.4f} {row['ratio']:7.2f}"
        )
    for target in dict.fromkeys(row["target"] for row in table):
        found = [row["ratio"] for row in table if row["target"] == target and np.isfinite(row["ratio"])]
        if found:
            print(f"geometric mean of the ratios at {target:g}: {np.exp(np.mean(np.log(found))):.2f}")


def figure(table: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    targets = [t for t in (1e-3, 1e-6) if any(row["target"] == t for row in table)]
    labels = list(dict.fromkeys(f"{row['data']}, {row['loss'].replace('_', ' ')}, l2 = {row['l2']:.0e}" for row in table))
    fig, axes = plt.subplots(1, len(targets), figsize=(6.2 * len(targets), 1.2 + 0.34 * len(labels)), sharey=True, squeeze=False)
    for axis, target in zip(axes[0], targets, strict=True):
        rows = [row for row in table if row["target"] == target]
        places = np.arange(len(rows))
        axis.barh(places - 0.19, [row["dualgap"] for row in rows], 0.36, color="#0072B2", label="dualgap (certified)")
        axis.barh(places + 0.19, [row["its seconds"] for row in rows], 0.36, color="#E69F00", label="best peer")
        for place, row in zip(places, rows, strict=True):
            text = f"{row['ratio']:.1f}×" if np.isfinite(row["ratio"]) else "no peer"
            longest = np.nanmax([row["dualgap"], row["its seconds"]])
            axis.text(longest * 1.12, place, text, va="center", fontsize=8)
        axis.set_xscale("log")
        axis.set_xlim(right=axis.get_xlim()[1] * 3)
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel("seconds")
        axis.set_title(f"to a relative suboptimality of {target:g}", fontsize=10)
        axis.set_yticks(places, labels, fontsize=8)
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0][0].invert_yaxis()
    fig.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", fontsize=9, frameon=False, ncol=2)
    for spine in ("top", "right"):
        for axis in axes[0]:
            axis.spines[spine].set_visible(False)
    fig.tight_layout(rect=(0, 0.05, 1, 1))
    fig.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
