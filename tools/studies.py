"""Publish the studies: `python tools/studies.py FOLDER` writes docs/studies/ from what `dualgap reproduce all --out FOLDER` left.

A page a study with every statement, the figures that statements point to, and the tables; and one overview. No run is repeated.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import matplotlib
from PIL import Image

from dualgap.core import write_atomically
from dualgap.lab import Results, ResultStore, counts_table, load_study, study_names
from dualgap.lab.draw import STYLE, draw
from dualgap.lab.figures import FigureData
from dualgap.lab.report import Report, as_markdown
from dualgap.lab.results import file_name

DOCS = Path(__file__).resolve().parents[1] / "docs" / "studies"
OVERVIEW = """# The five studies

Five student reports compare algorithms that train support vector machines. Each [study](../lab.md#the-five-studies) repeats one of them,
with its settings and with the errors of its formulas corrected. It judges every statement: it holds, it does not hold, or it cannot be
told. The lab's page says [how a verdict is made](../lab.md#claims). `make studies` makes these pages anew.

{counts}

{pages}
"""


def publish(folder: Path, out: Path = DOCS) -> int:
    """Write the pages of the studies whose results are in a folder; return how many there are."""
    reports = {}
    for study in sorted(folder.glob("*/study.json")):
        reports[study.parent.name] = Report(Results.load(load_study(study), ResultStore(study.parent / "results")))
    shutil.rmtree(out, ignore_errors=True)
    for name, report in reports.items():
        told = {claim.figure for claim in report.study.claims}
        figures = [figure for figure in report.figures if figure.id in told]
        for figure in figures:
            write_atomically(out / name / f"{file_name(figure.id)}.png", compact_png(figure))
        write_atomically(out / f"{name}.md", as_markdown(report, figures, name))
    counts = counts_table({name: report.verdicts for name, report in reports.items()}).to_markdown()
    pages = "\n".join(f"- [{report.study.title}]({name}.md). {report.tally}" for name, report in reports.items())
    write_atomically(out / "index.md", OVERVIEW.format(counts=counts, pages=pages))
    return len(reports)


def compact_png(figure: FigureData, pixels: int = 840) -> bytes:
    """Return a figure as a small PNG, to be published: at most so many pixels across, and the few colours that a drawing needs."""
    canvas, drawn, small = draw(figure), io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context(STYLE):
        canvas.savefig(drawn, format="png", dpi=min(70.0, pixels / canvas.get_figwidth()))
    image = Image.open(drawn).convert("RGB")
    counts: Any = image.getcolors(2**24)
    most = sorted(counts, reverse=True)[:32]  # of a drawing: paper, grid, ink, lines, bands
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in most for part in colour])
    few = image.quantize(128) if figure.is_pictures else image.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> int:
    """Publish the folder named on the command line."""
    if len(sys.argv) != 2:
        print("give the folder that `dualgap reproduce all --out FOLDER` wrote", file=sys.stderr)
        return 2
    found, wanted = publish(Path(sys.argv[1])), len(study_names())
    print(f"{DOCS}: {found} of {wanted} studies")
    return 0 if found == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
