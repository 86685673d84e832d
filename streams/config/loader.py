"""Loads a configuration: one TOML file, then the environment over it, validated as a whole.

Defines the spelling of settings in each source and the error lines: all problems at once, one line for each, with the
source of the value but never a secret. settings.py composes the settings from the Params of the rooms.

Environment: `RAILSIGHT__SECTION__KEY=value`. A secret `x` (a SecretStr) comes from the environment or from the file
named by `x_file`; the TOML file must not contain it, because such files are committed and shared.
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

from streams.instrument.text import refusal
from streams.wire.errors import Misconfigured

PREFIX = "RAILSIGHT__"
Model = TypeVar("Model", bound=BaseModel)


@dataclass
class RawSettings:
    """The settings of all sources as a tree, the origin of each, and a line for each problem."""

    tree: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    path: Path | None = None
    variables: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The environment variable of each setting that comes from one."""

    def origin(self, where: tuple[str, ...]) -> str:
        """Return the variable or the file of a setting, in parentheses; empty for a default."""
        for length in range(len(where), 0, -1):
            if (name := self.variables.get(where[:length])) is not None:
                return f" (in {name})"
        return f" (in {self.path})" if self.path is not None else ""


def load_model(model: type[Model], path: Path | None, environ: Mapping[str, str], ignored: Sequence[str] = ()) -> Model:
    """Load the settings of `path` (None: the defaults) with the environment over them; raises Misconfigured.

    The `ignored` sections (`collect`, `collect.snmp`) belong to another process that shares the file.
    """
    raw = read_sources(model, path, environ)
    for section in ignored:
        *outer, last = section.split(".")
        table = raw.tree
        for name in outer:
            table = table.get(name, {})
        table.pop(last, None)
    settings = validate(model, raw)
    if settings is None or raw.problems:
        raise Misconfigured("\n".join(raw.problems))
    return settings


def read_sources(model: type[BaseModel], path: Path | None, environ: Mapping[str, str]) -> RawSettings:
    """Read both sources and check only their form."""
    raw = RawSettings(path=path)
    if path is not None:
        _read_file(raw, path)
        _refuse_secrets(raw, model, raw.tree, ())
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX):
            _read_variable(raw, name, value)
    _read_secret_files(raw, model, raw.tree, ())
    return raw


def validate(model: type[Model], raw: RawSettings) -> Model | None:
    """Return the tree as the model; on errors, return None and add a line for each error to `raw.problems`."""
    try:
        return model.model_validate(raw.tree)
    except ValidationError as error:
        # Excludes the input, because it may be a secret, or an address that contains one.
        details = error.errors(include_input=False, include_url=False)
        raw.problems += [_describe(model, raw, detail) for detail in details]
    return None


def _read_file(raw: RawSettings, path: Path) -> None:
    try:
        raw.tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raw.problems.append(f"cannot read {path}: {error.strerror}")
    except UnicodeDecodeError:
        raw.problems.append(f"cannot read {path}: not UTF-8")
    except (ValueError, RecursionError) as error:  # also for a number or a nesting that Python does not parse
        raw.problems.append(f"cannot parse {path}: {error}")


def _read_variable(raw: RawSettings, name: str, value: str) -> None:
    *sections, key = name.removeprefix(PREFIX).lower().split("__")
    table = raw.tree
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raw.problems.append(f"{name}: {section} is a value, not a section; remove one of the two")
            return
    if not key or not all(sections):
        raw.problems.append(f"{name}: not of the form {PREFIX}SECTION__KEY; rename or unset it")
        return
    table[key] = _parsed(value)
    raw.variables[(*sections, key)] = name


def _parsed(value: str) -> Any:
    """Parse lists and tables, which are JSON in the environment; the type of a setting parses other values."""
    if value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _refuse_secrets(raw: RawSettings, model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]) -> None:
    for section, inner, table in _sections(model, tree, at):
        for name in secrets_of(inner):
            if name in table:
                where = (*section, name)
                raw.problems.append(
                    f"{_dotted(where)}: a secret must not be in this file{raw.origin(where)}; set {name}_file to the"
                    f" path of a file with it, or set {_variable(where)}"
                )
                del table[name]


def _read_secret_files(raw: RawSettings, model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]) -> None:
    for section, inner, table in _sections(model, tree, at):
        for name in secrets_of(inner):
            if (key := f"{name}_file") in table and key not in inner.model_fields:
                path = Path(str(table.pop(key)))
                try:
                    table.setdefault(name, path.read_text(encoding="utf-8").rstrip("\r\n"))
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    where = (*section, key)
                    raw.problems.append(f"{_dotted(where)}: cannot read {path}: {reason}{raw.origin(where)}")


def secrets_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the secret settings of a model."""
    return tuple(name for name, info in model.model_fields.items() if SecretStr in _parts(info.annotation))


def secret_variables(model: type[BaseModel], environ: Mapping[str, str]) -> list[str]:
    """Return the environment variables that have a secret of the model."""
    found = []
    for name in environ:
        *sections, key = name.removeprefix(PREFIX).lower().split("__")
        inner: type[BaseModel] | None = model if name.startswith(PREFIX) else None
        for section in sections:
            inner = None if inner is None else _model_of(inner, section)
        if inner is not None and key in secrets_of(inner):
            found.append(name)
    return found


def _model_of(model: type[BaseModel], section: str) -> type[BaseModel] | None:
    info = model.model_fields.get(section)
    return None if info is None else next((part for part in _parts(info.annotation) if _is_model(part)), None)


def _sections(
    model: type[BaseModel], tree: Mapping[str, Any], at: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], dict[str, Any]]]:
    """Yield each section of the tree that is present: its path, its model, its table."""
    if isinstance(tree, dict):
        yield at, model, tree
    for name, info in model.model_fields.items():
        inner = next((part for part in _parts(info.annotation) if _is_model(part)), None)
        table = tree.get(name)
        if inner is not None and isinstance(table, dict):
            yield from _sections(inner, table, (*at, name))


def _parts(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _describe(model: type[BaseModel], raw: RawSettings, detail: Mapping[str, Any]) -> str:
    where = tuple(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        owner = model_at(model, where[:-1])
        if owner is not None and where[-1] in owner.__class_vars__:
            value = getattr(owner, where[-1])
            return f"{_dotted(where)}: not a setting but fixed, at {value}{raw.origin(where)}; remove it"
        near = difflib.get_close_matches(where[-1], owner.model_fields if owner else (), n=1)
        return f"{_dotted(where)}: unknown setting{raw.origin(where)}" + (f"; did you mean {near[0]}?" if near else "")
    if detail["type"] == "missing":
        return f"{_dotted(where)}: required and not set; set it in the file or as {_variable(where)}"
    return f"{_dotted(where)}: {refusal(detail)}{raw.origin(where)}"


def model_at(model: type[BaseModel], where: tuple[str, ...]) -> type[BaseModel] | None:
    """Return the model of a section by the names on its path, or None if there is no such section."""
    inner: type[BaseModel] | None = model
    for part in where:
        inner = None if inner is None else _model_of(inner, part)
    return inner


def _dotted(where: tuple[str, ...]) -> str:
    return ".".join(where)


def _variable(where: tuple[str, ...]) -> str:
    return PREFIX + "__".join(where).upper()
