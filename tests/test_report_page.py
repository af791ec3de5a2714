"""The web page of all results: whole, harmless, and readable on a laptop and on a phone."""

import html.parser
import json
import re
import shutil
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from test_report_human import record

from memory_maze.cli import main
from memory_maze.play.recordings import check_name
from memory_maze.report.layout import markdown
from memory_maze.report.markup import escape_markdown, make_html

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
NAMES = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "[x](javascript:alert(3))", "a|`b`\\"]


class Page(html.parser.HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.tables, self.in_cell = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.texts.append(data)
        if self.in_cell:
            self.tables[-1][-1][-1] += data

    @property
    def text(self):
        return "".join(self.texts)

    def table(self, *header):
        """The lines of the first table that begins so."""
        return next(lines for lines in self.tables if lines[0][: len(header)] == list(header))


def write(out, *arguments):
    main(["report", "page", "--out", str(out), *map(str, arguments)])
    return out / "index.html"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Of the real results, and of people with names that others would run."""
    folder = tmp_path_factory.mktemp("page")
    for number, name in enumerate(NAMES):
        for score in (20, 30):
            record(folder / "recordings", name, score=score + number)
            record(folder / "recordings", name, "11x11", score=2 * score)
    return write(folder / "out", "--results", RESULTS, "--recordings", folder / "recordings")


@pytest.fixture(scope="module")
def page(file):
    return Page(file.read_text())


def documented_tables(name):
    """The tables that the README and the documents have of some results."""
    text = "\n".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    parts = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    blocks = [block for part in parts for block in part.split("\n\n")]
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    return [[[cell.strip() for cell in line[1:-1].split("|")] for line in table] for table in tables]


@pytest.mark.parametrize(
    "name",
    [
        "results/online",
        "results/trials",
        "results/probing",
        "results/probing-small",
        "results/policies.json",
        "results/equivalence.json",
        "results/explorer.json",
        "results/data-gpu.json",
        "results/reference.json",
        "results/throughput-cpu.json",
        "results/throughput-gpu.json",
        "results/start.json",
    ],
)
def test_the_page_has_the_tables_of_the_documents(page, name):
    tables = documented_tables(name)
    assert tables
    for header, _, *rows in tables:
        found = [[cell.strip() for cell in line] for table in page.tables for line in table]
        for row in [header, *rows]:
            assert [cell.replace("`", "") for cell in row] in found, row


def test_every_result_tells_how_it_was_made(page):
    lines = [line for table in page.tables if table[0][:2] == ["result", "command"] for line in table[1:]]
    commands = {(line[1], line[3][:8], line[4]) for line in lines}
    files = [*RESULTS.glob("*.json"), *RESULTS.glob("*/*.json")]
    assert len(files) > 15
    for path in files:
        report = json.loads(path.read_text())
        for one in [report] if "command" in report else report.values():
            assert (one["command"], one["commit"][:8], one["date"][:10]) in commands, path
    (line,) = [line for line in lines if line[0] == "throughput-gpu.json"]
    assert "16 cores" in line[2]
    assert "NVIDIA H200" in line[2]
    assert line[5] == "0"


def test_people_are_beside_the_papers_human(page):
    lines = {line[0]: line[1:] for line in page.table("score", "9x9")}
    assert lines["Human, the paper's"][0] == "26.4 ± 1.6"
    assert lines["People"][0].startswith("26.5 ± ")
    assert lines["episodes"] == ["8", "8", "-", "-"]


def test_names_are_text_and_nothing_else(page):
    assert [line[0] for line in page.table("player")[1:]] == NAMES
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_the_page_needs_nothing_beside_it(page, file):
    keys = ("src", "href", "srcset")
    links = [attributes[key] for _, attributes in page.tags for key in keys if key in attributes]
    outside = {link for link in links if not link.startswith(("data:", "#"))}
    assert outside == {"https://arxiv.org/abs/2210.13383"}
    assert not re.search(r"url\(|@import", file.read_text())
    anchors = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    targets = [link[1:] for link in links if link.startswith("#")]
    assert set(targets) == anchors >= {"people", "speed"}
    assert sum(link.startswith("data:image/png") for link in links) >= 6
    assert str(file.parent.parent) not in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == ["index.html"]


@hypothesis.given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=40))
@hypothesis.example("\\")
@hypothesis.example("a\\|b")
@hypothesis.example("&lt;")
def test_any_name_is_read_as_it_was_given(name):
    hypothesis.assume(name.isprintable() and name.strip())
    name = check_name(name)
    table = markdown(["player", "score"], [[escape_markdown(name), "1"]])
    assert Page(make_html([table])).tables == [[["player", "score"], [name, "1"]]]


def test_text_of_others_is_no_markup():
    table = markdown(["agent <b>", "command"], [["<i>x", "`a | b > c`"]])
    page = Page(make_html([table, "1 < 2 & <u>`<s>`", "## <q>"]))
    assert page.tables == [[["agent <b>", "command"], ["<i>x", "a | b > c"]]]
    assert not {tag for tag, _ in page.tags} & set("biusq")
    assert "1 < 2 & <u><s>" in page.text


def test_what_is_missing_is_named_with_what_makes_it(tmp_path, capsys):
    results = tmp_path / "results"
    results.mkdir()
    shutil.copy(RESULTS / "start.json", results)
    file = write(tmp_path / "out", "--results", results, "--recordings", tmp_path / "none")
    page = Page(file.read_text())
    printed = capsys.readouterr().out
    for text in (
        "results/online, which python benchmarks/online.py makes",
        "results/probing, which python benchmarks/probing.py makes",
        "recordings of people, which memory-maze play --out none or memory-maze serve makes",
        "results/throughput-gpu.json, which python benchmarks/throughput.py on a GPU makes",
        "results/policies.json, which python benchmarks/policies.py makes",
    ):
        assert f"Not here: {text}." in page.text
        assert text in printed.replace("`", "")
    measured = json.loads((RESULTS / "start.json").read_text())["results"]["9x9"]
    times = [f"{measured[kind]['total_seconds']:.1f} s" for kind in ("cold", "warm")]
    assert ["9x9", *times] in page.table("", "first run")
    assert not any(tag == "img" for tag, _ in page.tags)


def test_anonymous_pages_have_no_names(tmp_path):
    record(tmp_path / "recordings", "Ann")
    arguments = ["--results", tmp_path, "--recordings", tmp_path / "recordings", "--anonymous"]
    page = Page(write(tmp_path / "out", *arguments).read_text())
    assert [line[0] for line in page.table("player")] == ["player", "P1"]
    assert "Ann" not in page.text


def test_damaged_records_are_named_and_the_page_is_made(tmp_path, capsys):
    record(tmp_path / "recordings")
    path = record(tmp_path / "recordings", "Ben")
    path.write_text("[]")
    arguments = ["--results", tmp_path, "--recordings", tmp_path / "recordings"]
    text = Page(write(tmp_path / "out", *arguments).read_text()).text
    assert f"left out: {path}" in capsys.readouterr().out.replace("\n", "")
    assert f"damaged: {path.name}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--out DIR"),
        (["runs", "--out", "out"], "runs not found: give directories of runs or recordings"),
        (["damaged", "--out", "out"], "damaged: no runs or recordings of people found"),
        (["--out", "out"], "no results in results and no recordings in recordings"),
        (["--out", "out", "--results", "damaged"], "start.json: not what python benchmarks/start.py writes"),
    ],
)
def test_what_cannot_be_made_is_told_in_one_line(tmp_path, monkeypatch, arguments, message, capsys):
    monkeypatch.chdir(tmp_path)
    Path("damaged").mkdir()
    Path("damaged/start.json").write_text('{"results": 3}')
    with pytest.raises(SystemExit):
        main(["report", "page", *arguments])
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_browser_shows_it(browser, file, width, height):
    view = browser.new_page(viewport={"width": width, "height": height})
    troubles = []
    view.on("console", lambda message: troubles.append(message.text))
    view.on("pageerror", lambda error: troubles.append(str(error)))
    view.on("dialog", lambda dialog: troubles.append(dialog.message))
    requests = []
    view.on("request", lambda request: requests.append(request.url))
    view.goto(file.as_uri())
    assert troubles == []
    assert not [url for url in requests if url.startswith("http")]
    sizes = "[document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert max(view.evaluate(sizes)) <= width, "the page itself does not scroll sideways"
    assert view.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 400)")
    assert view.locator("td", has_text=NAMES[0]).count() == 1
    # The first table is in the first place that scrolls: it is wider than a phone, and can be moved.
    view.evaluate("document.querySelector('.scroll').scrollLeft = 40")
    assert view.evaluate("document.querySelector('.scroll').scrollLeft") == (40 if width < 500 else 0)
    view.click("nav >> text=Speed")
    assert view.evaluate("location.hash") == "#speed"
    view.emulate_media(media="print")
    assert view.locator("nav").is_hidden()
    view.close()
