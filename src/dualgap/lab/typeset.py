"""Formulas on a page: TeX between dollar signs becomes MathML, which a browser shows without a script or a font.

The MathML of the studies that ship is kept in their folders; `python tools/formulas.py` writes it. A formula that is not in it, and
any other dollar sign, is shown as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dualgap.lab.studies import formulas

__all__ = ["apart", "formulas_of", "typeset"]

FORMULA = re.compile(r"\$([^$\n]+)\$")


def formulas_of(value: Any) -> list[str]:
    """Return the TeX of every formula in a study's table, wherever it stands."""
    if isinstance(value, str):
        return FORMULA.findall(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return list(dict.fromkeys(tex for part in inner for tex in formulas_of(part)))


def apart(text: str, plain: Callable[[str], str], formula: Callable[[str], str]) -> str:
    """Return a text whose known formulas went through one function and the rest of it through another."""
    out, end = [], 0
    for found in FORMULA.finditer(text):
        if found[1] in formulas():
            out += [plain(text[end : found.start()]), formula(found[1])]
            end = found.end()
    return "".join([*out, plain(text[end:])])


def typeset(text: str) -> Any:
    """Return a text as safe HTML with its formulas as MathML."""
    from markupsafe import Markup, escape

    return Markup(apart(text, lambda part: str(escape(part)), formulas().__getitem__))
