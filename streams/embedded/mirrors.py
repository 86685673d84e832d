"""Which Maven repository the jars come from, when the user has said so.

RAILSIGHT_MAVEN_REPOSITORY wins, then a mirror of Maven Central in the user's settings.xml.
None leaves it to jgo, which knows the default; no repository's address is written here.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit
from xml.etree import ElementTree as ET

OVERRIDE = "RAILSIGHT_MAVEN_REPOSITORY"

log = logging.getLogger(__name__)


def repository(environ: Mapping[str, str] = os.environ, settings: Path | None = None) -> str | None:
    """Return the repository to fetch from instead of jgo's default, or None."""
    if override := environ.get(OVERRIDE):
        return override.rstrip("/")
    path = settings or Path.home() / ".m2" / "settings.xml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    try:
        return mirror_of_central(text, environ)
    except ET.ParseError as error:
        log.warning("%s is not XML (%s), so no mirror is taken from it", path, error)
        return None


def mirror_of_central(settings: str, environ: Mapping[str, str]) -> str | None:
    """Return the address of the first mirror in a settings.xml that stands for Central, with its credentials."""
    # The file is the user's own, as is the account that reads it.
    root = ET.fromstring(settings)  # noqa: S314 — trusted input
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        address = _text(mirror, "url", environ)
        if (
            address
            and _text(mirror, "blocked", environ) != "true"
            and _covers_central(_text(mirror, "mirrorOf", environ))
        ):
            return _with_credentials(address.rstrip("/"), root, _text(mirror, "id", environ), environ)
    return None


def _covers_central(pattern: str) -> bool:
    """Follow Maven's matching: a list of ids, `*`, `external:*` and exclusions such as `!central`.

    `external:http:*` stands for plain HTTP only, which Central is not.
    """
    parts = [part.strip() for part in pattern.split(",")]
    return "!central" not in parts and any(part in ("central", "*", "external:*") for part in parts)


def _with_credentials(address: str, root: ET.Element, server: str, environ: Mapping[str, str]) -> str:
    for entry in root.iterfind("{*}servers/{*}server"):
        user, password = _text(entry, "username", environ), _text(entry, "password", environ)
        if user and server and _text(entry, "id", environ) == server:
            at = urlsplit(address)
            place = f"{quote(user, safe='')}:{quote(password, safe='')}@{at.netloc}"
            return urlunsplit((at.scheme, place, at.path, at.query, ""))
    return address


def redact_credentials(address: str) -> str:
    """Return `address` as it may be shown to people and written to logs."""
    at = urlsplit(address)
    return urlunsplit((at.scheme, at.netloc.rpartition("@")[2], at.path, at.query, ""))


def _text(element: ET.Element, name: str, environ: Mapping[str, str]) -> str:
    """Return a child's text, stripped, with Maven's `${env.NAME}` filled in; empty where it is absent."""
    text = (element.findtext(f"{{*}}{name}") or "").strip()
    return re.sub(r"\$\{env\.([^}]+)\}", lambda found: environ.get(found.group(1), ""), text)
