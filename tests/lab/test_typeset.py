"""Formulas on a page: every one of the studies is typeset, and nothing else is."""

import re

import pytest

from dualgap.lab.report import written
from dualgap.lab.studies import formulas, study_names, table_of
from dualgap.lab.typeset import formulas_of, typeset

KNOWN = r"b_k + \frac{1}{c} \sum_{i \ne k} \lambda_i Q_{ki} + \lambda_k Q_{kk}"


def shipped():
    return {tex for name in study_names() for tex in formulas_of(table_of(name))}


def test_every_formula_of_the_studies_is_kept_as_mathml():
    assert shipped() == set(formulas()), "run: python tools/formulas.py"
    for mathml in formulas().values():
        assert re.fullmatch(r'<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">.*</math>', mathml)
        assert not re.search("script|href|src", mathml)


def test_a_formula_is_typeset_and_the_rest_escaped():
    page = typeset(f"<b> ${KNOWN}$ & more")
    assert page == f"&lt;b&gt; {formulas()[KNOWN]} &amp; more"
    assert written(f"a_b ${KNOWN}$") == f"a\\_b ${KNOWN}$"


@pytest.mark.parametrize("text", ["costs $5 and $6", "$x$", "$<img src=x>$", "$", ""])
def test_other_dollar_signs_are_shown_as_they_are(text):
    assert typeset(text) == text.replace("<", "&lt;").replace(">", "&gt;")
