"""The report: whole, offline, safe, and alive in a browser."""

import base64
import csv
import gzip
import html.parser
import importlib.util
import io
import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from dualgap.lab import parse_study, run_study
from dualgap.lab.columns import shown_number
from dualgap.lab.ranking import LEVELS
from dualgap.lab.report import write_report
from dualgap.lab.tables import TableData

EVIL = "<img src=x onerror=alert(1)>"
EVIL_END = "</script><script>alert(2)</script>"
EVIL_LINK = '<a href="javascript:alert(3)">|`x`'


COLUMNS = "return getComputedStyle(document.querySelector('.panels')).gridTemplateColumns.split(' ').length"
LOOKS = [
    {
        "epoch": epoch,
        "line": [1.0, -0.5 * epoch, 0.1],
        "inside": [0, 1][:epoch],
        "primal": 1.0 / epoch,
        "dual": 0.1 * epoch,
        "test_error": 0.1,
    }
    for epoch in (1, 2)
]
WATCHED = {"names": ["x₁", EVIL], "points": [[-1.0, -1.0], [1.0, 1.0], [0.5, -0.5]], "y": [-1, 1, 1], "looks": LOOKS}


@pytest.fixture
def evil(tiny, made_up):
    """A study in which every name is an attack."""
    data = [{"id": "plane", "name": "separable", "label": EVIL}, {"id": "cloud", "name": "overlapping", "label": EVIL_END}]
    solvers = [
        {"id": "sdca", "solver": "sdca", "label": EVIL_LINK},
        {"id": "pegasos", "solver": "pegasos", "label": f"Pegasos {EVIL}"},
    ]
    table = tiny(
        title=f"Title {EVIL_END}",
        about=EVIL,
        notes=[EVIL],
        data=data,
        solvers=solvers,
        figures=[
            {
                "id": "gap",
                "kind": "convergence",
                "title": EVIL,
                "caption": EVIL_END,
                "options": {"race": "main", "y": "relative_gap"},
            }
        ],
        tables=[
            {
                "id": "t",
                "kind": "measures",
                "title": EVIL,
                "caption": EVIL,
                "options": {"race": "main", "columns": ["accuracy"], "baseline": True},
            }
        ],
        claims=[
            {
                "id": "c",
                "says": EVIL_END,
                "check": "near",
                "options": {
                    "race": "main",
                    "data": ["plane"],
                    "solvers": ["sdca"],
                    "column": "accuracy",
                    "value": 0.9,
                    "within": 0.1,
                },
            }
        ],
    )

    def outcome(cell):
        if cell.data.id == "cloud" and cell.run == 1:
            return {"status": "failed", "error": EVIL}
        return {"primal": (1.0, 0.5, 0.4 + 0.01 * cell.run)}

    results = made_up(table, outcome)
    results.store.add_watch(results.runs[0].key, WATCHED)
    results.store.add_command(f"dualgap compare '{EVIL}'")
    kept = {"title": EVIL, "caption": EVIL_END, "columns": ["l2", EVIL], "rows": [["0.1", 0.9]], "near": 1}
    (results.store.folder / "explain").mkdir()
    (results.store.folder / "explain" / "c.json").write_text(json.dumps(kept))
    return results


class Elements(html.parser.HTMLParser):
    """Collects the elements that a browser would make."""

    def __init__(self):
        super().__init__()
        self.found, self.scripts, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def unpacked(page, id):
    """The text of a part of the page, as the page's script unpacks it."""
    return gzip.decompress(base64.b64decode(page.split(f'id="{id}">')[1].split("</script>")[0])).decode()


def test_every_name_is_escaped(evil, tmp_path):
    page = write_report(evil, tmp_path).read_text(encoding="utf-8")
    elements = Elements()
    elements.feed(page)
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 3  # two packed blocks of data, and ours
    assert not [attrs for tag, attrs in elements.found if tag == "img" and attrs.get("src") == "x"]
    assert not [attrs for _, attrs in elements.found if any(name.startswith("on") for name in attrs)]
    assert not [attrs for tag, attrs in elements.found if tag == "a" and not attrs["href"].startswith(("#", "https://"))]
    assert any(EVIL in text for text in elements.text)  # shown as text
    assert json.loads(unpacked(page, "curve-data"))["problems"][0]["title"] == EVIL


def test_markdown_and_csv(evil, tmp_path):
    write_report(evil, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<img" not in text.replace("\\<img", "")
    assert (tmp_path / "figures" / "gap.png").exists()
    table = (tmp_path / "tables" / "t.csv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "data,solver,test accuracy"
    assert len(table) == 1 + 4 + 2
    assert len((tmp_path / "tables" / "runs.csv").read_text(encoding="utf-8").splitlines()) == 1 + 8


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "-1+2", "-"]
)
def test_no_formula_reaches_a_spreadsheet(text):
    written = TableData("t", "", "", (text,), ((text,),)).to_csv()
    for [cell] in csv.reader(io.StringIO(written, newline="")):
        assert cell == "'" + text  # dropping the first character returns it


@pytest.mark.parametrize("cell", ["-1", "+1", "-2.5e-3", "a=b", "' quoted", "yes", "a\r=1", "1-2", -1, -0.5, True])
def test_other_cells_are_written_as_they_are(cell):
    written = TableData("t", "", "", ("head",), ((cell,),)).to_csv()
    assert list(csv.reader(io.StringIO(written, newline=""))) == [["head"], [str(cell)]]


def test_numbers_as_a_reader_sees_them():
    cells = (0.123456, float("inf"), 1234567, 3.2e-7, None, True, 12345.6)
    assert [shown_number(cell) for cell in cells] == ["0.1235", "–", "1,234,567", "3.2e-7", "", "True", "12,346"]
    assert LEVELS == (1e-2, 1e-4, 1e-6)  # docs/lab.md names them


def test_the_page_needs_nothing_else(evil, tmp_path):
    page = write_report(evil, tmp_path).read_text(encoding="utf-8")
    elements = Elements()
    elements.feed(page)
    for tag, attrs in elements.found:
        for name in ("src", "href"):
            # A link to a paper is followed by nobody but the reader.
            allowed = ("#", "data:", "https://doi.org/", "https://arxiv.org/") if tag == "a" else ("data:", "#")
            assert attrs.get(name, "#").startswith(allowed), (tag, attrs)
    assert len(page) < 5e5


def sections(page):
    """The titles in the page's list of contents."""
    return re.findall(r'<a href="#\w+">([^<]+)</a>', page.split('<nav class="contents"')[1].split("</nav>")[0])


def test_a_race_opens_with_its_picture_and_ends_with_who_was_left_out(tiny, made_up, tmp_path):
    """Pegasos ends with the smaller gap: it comes first where the boundary is watched."""
    results = made_up(
        tiny(left_out=["libsvm: not here"]), lambda cell: {"dual": (0.1, 0.3, 0.2 if cell.solver.id == "sdca" else 0.3999)}
    )
    for run in results.runs:
        results.store.add_watch(run.key, WATCHED)
    page = write_report(results, tmp_path).read_text(encoding="utf-8")
    assert sections(page) == ["Curves", "Watch it happen", "Ranking", "What was run", "The gap", "Environment", "Left out"]
    titles = [seen["title"] for seen in json.loads(unpacked(page, "watch-data"))]
    assert titles[0] == "plane · Pegasos"
    assert page.index("libsvm: not here") > page.index('id="environment"')
    assert "libsvm: not here" in (tmp_path / "report.md").read_text(encoding="utf-8").splitlines()[-1]


def test_a_study_opens_with_its_statements(evil, tmp_path):
    page = write_report(evil, tmp_path).read_text(encoding="utf-8")
    assert sections(page)[:3] == ["Statements", "Figures", "Tables"]
    assert 'value="explained"' in page
    assert ' explained" id="claim-c"' in page
    assert "The number of runs was given: 2. With fewer than 5, most statements cannot be told." in page


def test_the_published_pages(tiny, tmp_path):
    """A page a study, with the figures that its statements point to, and an overview; nothing of this machine but its kind."""
    spec = importlib.util.spec_from_file_location("studies", Path(__file__).parents[2] / "tools" / "studies.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    options = {"race": "main", "data": ["plane"], "solvers": ["sdca"], "column": "accuracy", "value": 0.9, "within": 0.5}
    claims = [{"id": "c", "says": "<b> 90 %", "check": "near", "figure": "gap", "options": options}]
    figures = [
        {"id": id, "kind": "convergence", "title": id, "options": {"race": "main", "y": "primal"}} for id in ("gap", "other")
    ]
    run_study(parse_study(tiny(claims=claims, figures=figures)), tmp_path / "made" / "tiny", jobs=1)
    assert tool.publish(tmp_path / "made", tmp_path / "docs") == 1
    page = (tmp_path / "docs" / "tiny.md").read_text(encoding="utf-8")
    assert '<details id="claim-c"><summary>' in page
    assert "&lt;b&gt; 90 %" in page
    assert "![gap](tiny/gap.png)" in page
    assert [path.name for path in (tmp_path / "docs" / "tiny").iterdir()] == ["gap.png"]
    assert (tmp_path / "docs" / "tiny" / "gap.png").stat().st_size < 60_000
    assert "| tiny | 1 | 1 |" in (tmp_path / "docs" / "index.md").read_text(encoding="utf-8")
    for path in (str(tmp_path), platform.node()):
        assert path not in page


def test_a_report_without_any_result(tiny, made_up, tmp_path):
    page = write_report(made_up(tiny(), lambda cell: None), tmp_path, {"plane": "fetch it from somewhere"})
    assert "fetch it from somewhere" in page.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------------- a browser


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: the page is not tried in a browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("there is no Chromium with a chromedriver on this machine: the page is not tried in a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--no-first-run"]
    for argument in ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900", *quiet]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    made.set_page_load_timeout(1800)
    yield made
    made.quit()


@pytest.mark.slow
def test_in_a_browser(evil, tmp_path, browser):
    from selenium.common.exceptions import NoAlertPresentException
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(write_report(evil, tmp_path).resolve().as_uri())
    wait = WebDriverWait(browser, 1800)
    lines = "return document.querySelectorAll('#explorer .curve').length"
    shown = wait.until(lambda page: page.execute_script(lines))
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.title.startswith(f"Title {EVIL_END}")

    def click(selector):
        place = browser.find_element("css selector", selector)
        browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", place)
        place.click()
        return place

    # a solver is hidden and comes back
    chip = click("#solvers button[data-solver=pegasos]")
    assert chip.text == f"Pegasos {EVIL}"
    wait.until(lambda page: page.execute_script(lines) < shown)
    assert chip.get_attribute("aria-pressed") == "false"
    click("#solvers button[data-solver=pegasos]")
    wait.until(lambda page: page.execute_script(lines) == shown)

    # axes can be chosen
    across = "return document.querySelector('#explorer .axis').textContent"
    click("#x-axis button[data-column=epoch]")
    wait.until(lambda page: page.execute_script(across) == "epochs")
    click("#y-axis button[data-column=test_error]")
    wait.until(lambda page: not page.execute_script("return document.getElementById('y-log').checked"))
    click("#middle button[data-column=median]")
    wait.until(lambda page: page.execute_script(lines) == shown)

    # statements fold, are filtered, and a link opens one
    assert not browser.execute_script("return document.getElementById('claim-c').open")
    browser.execute_script("location.hash = 'claim-c'")
    wait.until(lambda page: page.execute_script("return document.getElementById('claim-c').open"))
    seen = "return getComputedStyle(document.getElementById('claim-c')).display"
    click(".filter input[value=all]")
    assert browser.execute_script(seen) != "none"

    # the boundary moves over the epochs, and so does the gap
    line = "return document.querySelector('#watch-plane .boundary').getAttribute('y1')"
    told = "return document.getElementById('watch-told').textContent"
    before = browser.execute_script(line)
    assert browser.execute_script(told).startswith("epoch 1: P = 1, D = 0.1, gap 0.9, 1 of the 3 rows")
    browser.execute_script("const s = document.getElementById('watch-epoch'); s.value = '1'; s.dispatchEvent(new Event('input'))")
    assert browser.execute_script(told).startswith("epoch 2: P = 0.5, D = 0.2, gap 0.3, 2 of the 3 rows")
    assert browser.execute_script(line) != before
    assert browser.execute_script("return document.querySelectorAll('#watch-plane .support').length") == 2

    # another problem; panels stand side by side where there is room
    browser.execute_script("const s = document.getElementById('problem'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    for width in (400, 900, 1400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wait.until(lambda page, width=width: page.execute_script("return window.innerWidth") == width)
        assert browser.execute_script(COLUMNS) == (1 if width == 400 else 2)
        assert not browser.execute_script("return document.documentElement.scrollWidth > window.innerWidth"), width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    trouble = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not trouble


@pytest.mark.slow
def test_without_scripts_figures_and_tables_are_there(evil, tmp_path, browser):
    page = write_report(evil, tmp_path).resolve()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        pictures = browser.find_elements("css selector", "figure svg, figure img")
        assert pictures
        assert pictures[0].size["width"] > 200
        for empty in browser.find_elements("css selector", ".explorer"):
            assert not empty.is_displayed(), "no room is kept for what needs scripts"
        assert "Ranking" in browser.find_element("css selector", "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_page_says_what_to_use_and_what_made_it(evil, tmp_path):
    page = write_report(evil, tmp_path).read_text(encoding="utf-8")
    elements = Elements()
    elements.feed(page)
    text = " ".join(elements.text)
    assert f"dualgap compare '{EVIL}'" in text
    assert "use " in text
    assert 'id="solver-sdca"' in page
