"""Words that names and prose must not use, and where they may stand all the same.

A banned word is a metaphor or an idiom for which the field has a term. The replacement says which.
"""

from dataclasses import dataclass

BANNED_IN_NAMES: dict[str, str] = {
    "told": "emitted, reported",
    "tells": "emits, reports",
    "said": "reported, published, printed",
    "says": "reports",
    "heard": "received, observed",
    "hears": "receives, observes",
    "spoken": "reported",
    "speaks": "reports",
    "selves": "identities",
    "kept": "retained, state",
    "held": "active, stored",
    "anew": "replace, rebuild",
    "nobody": "none",
    "somebody": "any",
    "whoever": "the caller, the owner",
    "whose": "owner",
    "crowd": "incast, senders",
    "crowds": "incasts",
    "crowded": "incast",
    "stifle": "throttle",
    "stifles": "throttles",
    "stifled": "throttled",
    "mended": "repaired",
    "befell": "happened",
}
"""Parts of identifiers, split at underscores and capitals, and what to use instead."""

BANNED_IN_PROSE: dict[str, str] = {
    r"told": "emitted, reported; distinguished",
    r"tells?": "reports, emits; distinguishes",
    r"said": "reported, stated",
    r"says?": "reports, states",
    r"heard": "received, observed",
    r"hears?": "receives",
    r"spoken": "reported",
    r"speaks?": "reports, uses",
    r"selves": "identities",
    r"anew": "again",
    r"lets? go": "release, evict",
    r"look(?:s|ed)? again": "evaluate again",
    r"nobody": "no one, no process, no source",
    r"somebody": "a person, another process",
    r"whoever": "the caller, the reader",
    r"stands? for all": "is the root of the group",
    r"crowd(?:s|ed|ing)?": "incast",
    r"stifle[sd]?": "throttled",
    r"mended": "repaired",
    r"by chance": "randomly",
    r"befell": "happened",
    r"go(?:es)? away": "disappears, ends",
    r"went away": "disappeared, ended",
    r"in vain": "false page, without effect",
}
"""Regular expressions of whole words in docstrings, comments, messages and pages, and what to use instead."""

OPENINGS = ("What", "Which", "Who", "Whose", "How", "Where", "When", "Whether", "Why")
"""Words that no docstring begins with: its first line is a sentence that states what the thing does or is."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """One exception: the banned text in the files of a path, and why it stands there."""

    path: str
    text: str
    reason: str


ALLOWED: tuple[Allowed, ...] = (
    Allowed("tests/language/vocabulary.py", "*", "the list of banned words itself"),
    Allowed("tests/contract/test_language.py", "*", "spoils copies with banned words"),
    Allowed("CHANGELOG.md", "renamed", "names the former names"),
    Allowed("CHANGELOG.md", "(were `", "names the former names"),
    Allowed("streams/store/migrations/", "*", "shipped migrations are immutable, their digests recorded"),
)
"""Exceptions by file or folder; `*` allows every word."""
