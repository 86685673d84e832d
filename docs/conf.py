"""Builds the documentation's site with Sphinx: `make docs`."""

import re
import sys
from pathlib import Path

from pygments.lexers.sql import SqlLexer
from pygments.token import Name
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "railsight"
author = "the authors of railsight"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "railsight"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static"]
html_css_files = ["railsight.css"]
myst_heading_anchors = 4
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # a language that Pygments does not have, such as csv


class ClickHouseLexer(SqlLexer):
    """SQL with the parameters of ClickHouse (`{id:String}`) and the variables of Grafana (`$__fromTime`)."""

    tokens = SqlLexer.tokens | {
        "root": [(r"\{\w+:[^}]+\}|\$\w+", Name.Variable), *SqlLexer.tokens["root"]],
    }


def read_page(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the list of errors, which is made from the code, into its page; link to the page of the automation."""
    source[0] = re.sub(r"\]\((?:\.\./)+deploy/automation/README\.md", "](/remediation.md", source[0])
    if page == "troubleshooting":
        from tests.contract.docs.errors_page import PLACEHOLDER, table

        source[0] = source[0].replace(PLACEHOLDER, table())


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the hook and the lexer."""
    app.connect("source-read", read_page)
    app.add_lexer("sql", ClickHouseLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
