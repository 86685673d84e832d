"""Tests which repository the user's Maven settings select."""

from pathlib import Path

import pytest

from streams.embedded.mirrors import mirror_of_central, redact_credentials, repository

NAMESPACE = 'xmlns="urn:maven:settings:1.2.0"'
MIRROR = "<mirror><id>inner</id><mirrorOf>{of}</mirrorOf><url>https://mirror.inner.test/all/</url>{more}</mirror>"


def settings(*mirrors: str, servers: str = "", namespace: str = NAMESPACE) -> str:
    return f"<settings {namespace}><mirrors>{''.join(mirrors)}</mirrors><servers>{servers}</servers></settings>"


@pytest.mark.parametrize("of", ["central", "*", "external:*", "*,!internal", " other , central "])
@pytest.mark.parametrize("namespace", [NAMESPACE, ""])
def test_a_mirror_that_stands_for_central_is_taken(of: str, namespace: str) -> None:
    """Maven's own patterns for Central are understood, with the namespace and without."""
    text = settings(MIRROR.format(of=of, more=""), namespace=namespace)
    assert mirror_of_central(text, {}) == "https://mirror.inner.test/all"


@pytest.mark.parametrize("of", ["internal", "*,!central", "external:http:*", ""])
def test_a_mirror_of_something_else_is_not_taken(of: str) -> None:
    """A mirror of other repositories is not one of Central."""
    assert mirror_of_central(settings(MIRROR.format(of=of, more="")), {}) is None


def test_a_blocked_mirror_is_passed_over() -> None:
    """Maven ships a blocking pseudo-mirror; the first real one counts."""
    blocked = MIRROR.format(of="*", more="<blocked>true</blocked>").replace("inner", "blocker")
    assert mirror_of_central(settings(blocked), {}) is None
    assert mirror_of_central(settings(blocked, MIRROR.format(of="*", more="")), {}) == "https://mirror.inner.test/all"


def test_credentials_of_the_mirrors_server_go_with_it_and_are_not_shown() -> None:
    """User and password come from the server of the same id, from the environment too, and are never logged."""
    servers = (
        "<server><id>other</id><username>no</username><password>no</password></server>"
        "<server><id>inner</id><username>me@site</username><password>${env.MIRROR_PASSWORD}</password></server>"
    )
    found = mirror_of_central(settings(MIRROR.format(of="*", more=""), servers=servers), {"MIRROR_PASSWORD": "a/b"})
    assert found == "https://me%40site:a%2Fb@mirror.inner.test/all"
    assert redact_credentials(found) == "https://mirror.inner.test/all"


def test_the_environment_wins_over_the_settings(tmp_path: Path) -> None:
    """The variable overrides the file; without either, jgo's default applies."""
    path = tmp_path / "settings.xml"
    assert repository({}, path) is None
    path.write_text(settings(MIRROR.format(of="*", more="")))
    assert repository({}, path) == "https://mirror.inner.test/all"
    assert repository({"RAILSIGHT_MAVEN_REPOSITORY": "https://one.run.test/m2/"}, path) == "https://one.run.test/m2"


def test_settings_that_are_no_xml_are_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An invalid settings file causes a warning, and the broker starts."""
    path = tmp_path / "settings.xml"
    path.write_text("<settings>")
    assert repository({}, path) is None
    assert "settings.xml is not XML" in caplog.text
