"""Selects the Maven repository of the jars, if the user has configured one.

RAILSIGHT_MAVEN_REPOSITORY takes precedence, then a mirror of Maven Central in the user's settings.xml.
None means jgo's default; this module has no repository's address.
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
        log.warning("%s is not XML (%s), so its mirrors are ignored", path, error)
        return None


def mirror_of_central(settings: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the first mirror of Central in a settings.xml, with its credentials."""
    # The file belongs to the user whose account reads it.
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
    """Return whether a pattern covers Central, by Maven's rules: ids, `*`, `external:*`, exclusions such as `!central`.

    `external:http:*` matches plain HTTP only, which Central does not use.
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
    """Return `address` without credentials, for messages and logs."""
    at = urlsplit(address)
    return urlunsplit((at.scheme, at.netloc.rpartition("@")[2], at.path, at.query, ""))


def _text(element: ET.Element, name: str, environ: Mapping[str, str]) -> str:
    """Return a child's text, stripped, with Maven's `${env.NAME}` replaced; empty if the child is absent."""
    text = (element.findtext(f"{{*}}{name}") or "").strip()
    return re.sub(r"\$\{env\.([^}]+)\}", lambda found: environ.get(found.group(1), ""), text)
