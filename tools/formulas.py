"""Write the formulas.json of each study that ships: the MathML of its formulas. Needs the extra `docs`.

python tools/formulas.py
"""

import json
import tomllib
from pathlib import Path

from mathml import mathml

from dualgap.lab.typeset import formulas_of

STUDIES = Path(__file__).parents[1] / "src" / "dualgap" / "lab" / "studies"


def formulas(folder: Path) -> dict[str, str]:
    """Return the MathML of each formula of a study, by its TeX."""
    found = [tex for path in sorted(folder.glob("*.toml")) for tex in formulas_of(tomllib.loads(path.read_text(encoding="utf-8")))]
    return {tex: mathml(tex, "inline") for tex in dict.fromkeys(found)}


if __name__ == "__main__":
    for study in sorted(STUDIES.glob("*/study.toml")):
        written = json.dumps(formulas(study.parent), indent=1, ensure_ascii=False)
        (study.parent / "formulas.json").write_text(written + "\n", encoding="utf-8")
