"""MkDocs hook: turn the TeX formulas of a page into MathML while the site is built, so that a page loads no script and no font.

pymdownx.arithmatex finds `$…$` and `$$…$$` in the Markdown text and keeps Markdown from reading what is between them. This hook
converts what was found.
"""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
FENCE = re.compile(r"(?<!\\left)(?<!\\right)\\([lr])([vV]ert|brace|angle)(?![A-Za-z])")
NAME = re.compile(r"<m([oi])>([A-Za-z]{2,})</m\1>")
SIGN = re.compile(
    r"((?:&#x00028;|\[|&#x0003[CDE];|&#x0226[45];|&#x0002C;|&#x02190;)</mo>|<mspace[^>]*/>)<mo>(&#x02212;|&#x0002B;|&#x000B1;)</mo>"
)
SLASH = "<mo>&#x0002F;</mo>"
PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<m([io])>(&#x0203[23];)</m\2></msup>")
INFINITY = re.compile(r"<mo>(&#x0221E;)</mo>")


def on_page_content(content: str, **_: object) -> str:
    """Return the page's HTML with every formula as MathML."""
    content = DISPLAY.sub(lambda found: f'<div class="formula">{mathml(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: mathml(found[1], "inline"), content)


def mathml(tex: str, display: str) -> str:
    r"""Return a formula, escaped as HTML, as a MathML element with the spaces that TeX would set.

    Norms and braces become fences, close to what they enclose: `\lVert` counts as `\left\lVert`. Names such as max and clip
    become operators. A sign after a bracket, a comma, a space or a relation belongs to its number. A slash and an
    infinity have no spaces. A prime keeps its size, since fonts draw it small and high already.
    """
    tex = FENCE.sub(lambda found: ("\\left" if found[1] == "l" else "\\right") + found[0], html.unescape(tex).strip())
    out = NAME.sub(r'<mo form="prefix" lspace="0.17em" rspace="0.08em">\2</mo>', convert(tex, display=display))
    out = SIGN.sub(r'\1<mo form="prefix">\2</mo>', out)
    out = out.replace(SLASH, SLASH.replace("<mo>", '<mo lspace="0" rspace="0">'))
    out = PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\3</mo></mrow>', out)
    return INFINITY.sub(r"<mi>\1</mi>", out)
