"""The documentation's site builds without a warning: no broken link, no page outside of the navigation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html"]
    return subprocess.run([*command, str(docs), str(out)], capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    out = tmp_path_factory.mktemp("site")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    """The start page links to each page of docs/, and none is orphaned (a warning would have ended the build)."""
    pages = {str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md")}
    assert pages == {path for path in pages if (site / path).is_file()}
    linked = set(re.findall(r'class="reference internal" href="([^"#]+)', (site / "index.html").read_text()))
    assert pages - linked - {"index.html"} == set()


def test_links_and_pictures_lead_to_files_of_the_site(site: Path) -> None:
    """Each relative link of each page, with its anchor, is there; also those that Sphinx does not check."""
    anchors: dict[Path, set[str]] = {}
    broken = []
    for page in site.rglob("*.html"):
        text = page.read_text()
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//|#$", target) or target.startswith(("genindex", "search")):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not file.exists():
                broken.append(f"{page.name}: {target}")
            elif anchor and file.suffix == ".html":
                ids = anchors.setdefault(file, set(re.findall(r'id="([^"]+)"', file.read_text())))
                if anchor not in ids:
                    broken.append(f"{page.name}: {target}")
    assert broken == []


def test_the_rows_of_a_table_follow_its_header() -> None:
    """An empty line inside a table makes its other rows plain text, without a warning of the build."""
    broken = [
        f"{page.name}: {lines[at][:60]}"
        for page in (*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "deploy/automation/README.md")
        for lines in (["", *page.read_text("utf-8").splitlines(), ""],)
        for at in range(1, len(lines) - 1)
        if lines[at].startswith("|") and not lines[at - 1].startswith("|") and not lines[at + 1].startswith("|--")
    ]
    assert broken == []


def test_the_list_of_errors_is_in_the_site(site: Path) -> None:
    """It is made when the site is built."""
    page = (site / "troubleshooting.html").read_text()
    assert "unknown collector {kind}" in re.sub(r"<[^>]+>", "", page)
    assert page.count("<tr") > 100


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """A page that links to nothing ends the build with a warning that names it."""
    docs = tmp_path / "docs"
    (docs / "static").mkdir(parents=True)
    (docs / "static/railsight.css").touch()
    (docs / "conf.py").write_text((DOCS / "conf.py").read_text())
    (docs / "index.md").write_text("# Start\n\n[nothing](missing.md)\n")
    done = build(docs, tmp_path / "out")
    assert done.returncode != 0
    assert "missing.md" in done.stderr
