"""The overview: every statement of several studies, counted, escaped, with a link to the report."""

from dualgap.lab import Report, write_overview
from dualgap.lab.claims.verdicts import in_words, judge
from dualgap.lab.overview import counts_table

EVIL = "<script>alert(1)</script>"


def test_statements_and_counts(tiny, made_up, tmp_path):
    near = {"race": "main", "data": ["plane"], "solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.05}
    claims = [
        {"id": "a", "says": EVIL, "check": "near", "options": near},
        {"id": "b", "says": "Set so.", "check": "near", "options": near, "calibrated": "the data"},
        {"id": "c", "says": "A guess.", "note": "No number can tell."},
        {"id": "d", "says": "Not so.", "check": "near", "options": {**near, "value": 0.1}},
    ]

    def outcome(cell):
        return {"accuracy": 0.9 + 1e-3 * cell.run, "primal": (1.0, 0.5, 0.4 + 1e-3 * cell.run)}

    results = made_up(tiny(claims=claims, runs=3), outcome)
    verdicts = [judge(results, claim) for claim in results.study.claims]
    assert [v.verdict for v in verdicts] == ["holds", "calibrated", "not judged", "does not hold"]
    table = counts_table({"tiny": verdicts})
    assert table.columns == (
        "study",
        "statements",
        "judged",
        "holds",
        "does not hold",
        "cannot be told",
        "calibrated",
        "not judged",
    )
    assert table.rows == (("tiny", 4, 3, 1, 1, 0, 1, 1), ("all", 4, 3, 1, 1, 0, 1, 1))
    assert (
        in_words(verdicts)
        == "Of 3 statements judged: 1 holds, 1 does not hold, 1 about data that the text made. 1 more is not judged."
    )
    page = write_overview({"tiny": Report(results)}, tmp_path).read_text(encoding="utf-8")
    assert EVIL not in page
    assert "tiny/report.html#claim-d" in page
    assert len((tmp_path / "overview.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4
