"""Write src/dualgap/lab/studies/formulas.json: the MathML of every formula in the studies that ship. Needs the extra `docs`.

python tools/formulas.py
"""

import json
import tomllib
from pathlib import Path

from mathml import mathml

from dualgap.lab.typeset import formulas_of

STUDIES = Path(__file__).parents[1] / "src" / "dualgap" / "lab" / "studies"


def formulas() -> dict[str, str]:
    """Return the MathML of each formula, by its TeX."""
    found = [tex for path in sorted(STUDIES.glob("*.toml")) for tex in formulas_of(tomllib.loads(path.read_text(encoding="utf-8")))]
    return {tex: mathml(tex, "inline") for tex in dict.fromkeys(found)}


if __name__ == "__main__":
    (STUDIES / "formulas.json").write_text(json.dumps(formulas(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
