"""Reads a configuration: one TOML file, then the environment over it, validated as a whole.

Decides how a setting is spelled in each place and how what is wrong with it is said: one line a problem, all of them at
once, and never a secret's value. What the settings are is said by the rooms' own Params, composed in settings.py.

Environment: `RAILSIGHT__SECTION__KEY=value`. A secret `x` (a SecretStr) is given by the environment or as `x_file`,
the name of a file that holds it; it is refused in the TOML file itself, which people commit and paste.
"""

import difflib
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, SecretStr, ValidationError

from streams.wire.errors import Misconfigured

PREFIX = "RAILSIGHT__"
Model = TypeVar("Model", bound=BaseModel)


@dataclass
class CollectedErrors:
    """What was read so far: the settings as a tree, and a line for each problem."""

    tree: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def load_model(model: type[Model], path: Path | None, environ: Mapping[str, str], unread: Sequence[str] = ()) -> Model:
    """The settings of `path` (None: the defaults) with the environment over them; raises Misconfigured.

    Sections that are `unread` (`collect`, `collect.snmp`) belong to another process that shares the file.
    """
    gathered = collect_errors(model, path, environ)
    for section in unread:
        *outer, last = section.split(".")
        place = gathered.tree
        for name in outer:
            place = place.get(name, {})
        place.pop(last, None)
    checked = validated(model, gathered)
    if checked is None or gathered.problems:
        raise Misconfigured("\n".join(gathered.problems))
    return checked


def collect_errors(model: type[BaseModel], path: Path | None, environ: Mapping[str, str]) -> CollectedErrors:
    """Read both sources without judging more than their form."""
    gathered = CollectedErrors()
    if path is not None:
        _take_file(gathered, path)
        _refuse_secrets(gathered, model, gathered.tree, ())
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX):
            _take_variable(gathered, name, value)
    _read_secrets(gathered, model, gathered.tree, ())
    return gathered


def validated(model: type[Model], gathered: CollectedErrors) -> Model | None:
    """The tree as the model, or None, with a line for each problem added to `gathered`."""
    try:
        return model.model_validate(gathered.tree)
    except ValidationError as error:
        # Never the input: it may be a secret, or the address with one in it.
        details = error.errors(include_input=False, include_url=False, include_context=False)
        gathered.problems += [_describe(model, detail) for detail in details]
    return None


def _take_file(gathered: CollectedErrors, path: Path) -> None:
    try:
        gathered.tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        gathered.problems.append(f"{path}: {error.strerror}")
    except UnicodeDecodeError:
        gathered.problems.append(f"{path}: not UTF-8")
    except tomllib.TOMLDecodeError as error:
        gathered.problems.append(f"{path}: {error}")


def _take_variable(gathered: CollectedErrors, name: str, value: str) -> None:
    *sections, key = name.removeprefix(PREFIX).lower().split("__")
    place = gathered.tree
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            gathered.problems.append(f"{name}: {section} is a value in the file, not a section")
            return
    if not key or not all(sections):
        gathered.problems.append(f"{name}: not of the form {PREFIX}SECTION__KEY")
        return
    place[key] = _plain(value)


def _plain(value: str) -> Any:
    """Lists and tables are JSON in the environment; all else is read by the setting's own type."""
    if value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _refuse_secrets(
    gathered: CollectedErrors, model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]
) -> None:
    for section, inner, held in _sections(model, tree, at):
        for name in secrets_of(inner):
            if name in held:
                gathered.problems.append(
                    f"{_dotted((*section, name))}: a secret does not belong into this file; name a file that holds it"
                    f" as {name}_file, or set {_variable((*section, name))}"
                )
                del held[name]


def _read_secrets(
    gathered: CollectedErrors, model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]
) -> None:
    for section, inner, held in _sections(model, tree, at):
        for name in secrets_of(inner):
            if (key := f"{name}_file") in held and key not in inner.model_fields:
                place = Path(str(held.pop(key)))
                try:
                    held.setdefault(name, place.read_text(encoding="utf-8").rstrip("\r\n"))
                except (OSError, UnicodeDecodeError) as error:
                    gathered.problems.append(
                        f"{_dotted((*section, key))}: {place}: {getattr(error, 'strerror', None) or 'not UTF-8'}"
                    )


def secrets_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of a model's settings that are secret."""
    return tuple(name for name, info in model.model_fields.items() if SecretStr in _parts(info.annotation))


def _sections(
    model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], dict[str, Any]]]:
    """Each model of the tree that the input says anything about: where it stands, the model, what was said."""
    if isinstance(tree, dict):
        yield at, model, tree
    for name, info in model.model_fields.items():
        inner = next((part for part in _parts(info.annotation) if _is_model(part)), None)
        held = tree.get(name)
        if inner is not None and isinstance(held, dict):
            yield from _sections(inner, held, (*at, name))


def _parts(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _describe(model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    where = tuple(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(where[-1], _names_at(model, where[:-1]), n=1)
        return f"{_dotted(where)}: no such setting" + (f" (did you mean {near[0]}?)" if near else "")
    if detail["type"] == "missing":
        return f"{_dotted(where)}: needed, and not there"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{_dotted(where)}: {message[:1].lower()}{message[1:]}"


def _names_at(model: type[BaseModel], where: tuple[str, ...]) -> list[str]:
    for part in where:
        info = model.model_fields.get(part)
        inner = next((p for p in _parts(info.annotation) if _is_model(p)), None) if info else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _dotted(where: tuple[str, ...]) -> str:
    return ".".join(where)


def _variable(where: tuple[str, ...]) -> str:
    return PREFIX + "__".join(where).upper()
