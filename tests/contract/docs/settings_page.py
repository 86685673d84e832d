"""The page of all settings: type, range, default, unit and meaning, from the models that validate them.

A setting that several sections inherit from one model is listed once. A secret and its file are one setting.
`python -m tests.contract.docs` writes docs/settings-reference.md; test_reference.py compares both.
"""

import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, create_model
from pydantic_core import PydanticUndefined

from streams.cli.options import collector_params
from streams.config.loader import secrets_of
from streams.config.setting_meanings import meanings, section_of
from streams.config.settings import Collectors, Settings

PAGE = Path(__file__).parents[3] / "docs/settings-reference.md"

_HEAD = """# Reference of settings

Every setting, by section. This page is generated from the models that validate them: `make docs` writes it.
[Configuration](configuration.md) has the settings that sites set, by task, and how a configuration is written.

The column *range* has the values that are accepted; a setting without one accepts every value of its type.
"""

UNITS = {
    "_per_s": "per second", "_per_min": "per minute", "_per_hour": "per hour", "_ns": "nanoseconds",
    "_us": "microseconds", "_s": "seconds",
    "_bytes": "bytes", "_mib": "MiB", "_bps": "bit/s", "_dbm": "dBm", "_db": "dB", "_c": "°C", "_ratio": "ratio",
    "_days": "days", "_decades": "decades",
}  # fmt: skip
"""The unit of a number, by the end of its name."""

UNITS_BY_NAME = {
    "detect.stale.cadences": "intervals",
}
"""The units of fractional numbers whose name has none."""


class Setting(NamedTuple):
    """One setting as the page has it."""

    name: str
    path: str
    """Of one of the sections that have it."""
    type: str
    range: str
    default: str
    unit: str
    meaning: str


class Section(NamedTuple):
    """Settings that one model declares: the paths of the sections that have them, and the sentence of the model."""

    paths: tuple[str, ...]
    meaning: str
    settings: tuple[Setting, ...]


def settings_model() -> type[BaseModel]:
    """Return the model of the whole configuration, with a section for each installed collector."""
    fields: dict[str, Any] = {name: (params | None, None) for name, params in sorted(collector_params().items())}
    collect = create_model("Collectors", __base__=Collectors, **fields)
    return create_model("Settings", __base__=Settings, collect=(collect, collect()))


def sections() -> list[Section]:
    """Return the settings by the model that declares them, in the order of the configuration."""
    paths: dict[type[BaseModel], list[str]] = {}
    found: dict[type[BaseModel], list[Setting]] = {}
    for path, model in models(settings_model()):
        schema = model.model_json_schema()
        for name in _plain_names(model):
            owner = next(base for base in model.__mro__ if name in base.__annotations__)
            if path not in paths.setdefault(owner, []):
                paths[owner].append(path)
            own = found.setdefault(owner, [])
            if not any(one.name == name for one in own):
                own.append(_setting(model, name, path, schema))
    return [Section(tuple(paths[owner]), _sentence(owner), tuple(own)) for owner, own in found.items()]


def models(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections of the configuration with their models, each before those inside it."""
    if path:
        yield path, model
    for name in model.model_fields:
        if (inner := section_of(model, name)) is not None:
            yield from models(inner, f"{path}.{name}".lstrip("."))


def _plain_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a section's settings, without secrets that have a file as well: the file stands for both."""
    doubled = {name for name in secrets_of(model) if f"{name}_file" in model.model_fields}
    return [name for name in model.model_fields if section_of(model, name) is None and name not in doubled]


def _sentence(model: type[BaseModel]) -> str:
    own = (base.__doc__ for base in model.__mro__ if base.__module__.startswith(("streams.", "collectors.", "lab.")))
    text = inspect.cleandoc(next((text for text in own if text), ""))
    text = " ".join(text.split("\n\n")[0].split())
    return text.partition("`: ")[2] or text if text.startswith("`[") else text


def _setting(model: type[BaseModel], name: str, path: str, schema: dict[str, Any]) -> Setting:
    info, raw = model.model_fields[name], schema["properties"][name]
    options = [_resolved(option, schema) for option in raw.get("anyOf", [raw])]
    kinds = [option for option in options if option.get("type") != "null"]
    type_ = " or ".join(dict.fromkeys(_type(option, schema) for option in kinds))
    limits = ", ".join(filter(None, dict.fromkeys(_range({**raw, **option}, schema) for option in kinds)))
    unit = _unit(f"{path}.{name}", kinds)
    default = _default(info.default if info.default_factory is None else info.get_default(call_default_factory=True))
    meaning = meanings(model).get(name, "")
    if (secret := name.removesuffix("_file")) in secrets_of(model):
        name, type_ = f"{secret}_file", "secret"
        meaning = f"{meaning.rstrip('.')}; or `{secret}` in the environment."
    return Setting(name, f"{path}.{name}", type_, limits, default, unit, meaning)


def _resolved(option: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if reference := option.get("$ref"):
        return dict(schema["$defs"][reference.rpartition("/")[2]])
    return option


def _type(option: dict[str, Any], schema: dict[str, Any]) -> str:
    if "enum" in option or "const" in option:
        return "choice"
    if (format_ := option.get("format")) in ("path", "password"):
        return {"path": "path", "password": "secret"}[format_]
    if option.get("type") == "array":
        items = option.get("items") or {}
        return f"list of {_plural(_type(_resolved(items, schema), schema))}" if items else "list"
    names = {"string": "text", "number": "number", "integer": "integer", "boolean": "boolean", "object": "table"}
    return names.get(option.get("type", ""), "value")


def _plural(name: str) -> str:
    return {"text": "texts", "value": "values"}.get(name, f"{name}s")


def _range(option: dict[str, Any], schema: dict[str, Any]) -> str:
    if option.get("type") == "array" and "items" in option:
        least = f"at least {option['minItems']}" if option.get("minItems") else ""
        inner = _range(_resolved(option["items"], schema), schema)
        return ", ".join(filter(None, (least, inner)))
    if "const" in option:
        return f"`{option['const']}`"
    if "enum" in option:
        return ", ".join(f"`{value}`" for value in option["enum"])
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {_number(option[key])}" for key, sign in signs.items() if key in option]
    if "pattern" in option:
        found.append(f"`{option['pattern']}`")
    if option.get("minLength"):
        found.append("not empty")
    return ", ".join(found)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) and (value < 0.001 or value % 1) else f"{int(value)}"


def _unit(path: str, kinds: list[dict[str, Any]]) -> str:
    if not any(option.get("type") in ("number", "integer") for option in kinds):
        return ""
    if path in UNITS_BY_NAME:
        return UNITS_BY_NAME[path]
    if path.endswith(".cpu"):
        return "CPU"
    by_suffix = next((unit for suffix, unit in UNITS.items() if path.endswith(suffix)), None)
    if by_suffix:
        return by_suffix
    if all(option.get("type") == "integer" for option in kinds):
        return "number"
    return "ratio" if any(option.get("maximum", option.get("exclusiveMaximum")) == 1 for option in kinds) else "?"


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    plain = json.loads(json.dumps(value, default=str, ensure_ascii=False))
    if type(value).__name__ == "SecretStr" or plain in ("", [], {}):
        return "empty"
    text = json.dumps(plain, ensure_ascii=False)
    return f"`{text.strip(chr(34)) if isinstance(plain, str) else text}`"


def page() -> str:
    return "\n".join([_HEAD, *(part for section in sections() for part in _lines(section))])


def _lines(section: Section) -> Iterator[str]:
    yield f"## {_heading(section.paths)}\n"
    yield f"{section.meaning}\n"
    yield from table((f"`{one.name}`", one) for one in section.settings)


def _heading(paths: tuple[str, ...]) -> str:
    """Return the names of the sections; those of all collectors are one."""
    collectors = {path.split(".")[1] for path in paths if path.startswith("collect.")}
    if len(collectors) > 4:
        return f"`[collect.<name>{'.publisher' if paths[0].endswith('.publisher') else ''}]`"
    return ", ".join(f"`[{path}]`" for path in paths)


def table(rows: Iterable[tuple[str, Setting]]) -> Iterator[str]:
    """Yield a table of settings with their names as the page writes them."""
    yield "| setting | type | range | default | unit | meaning |\n|---|---|---|---|---|---|"
    for name, one in rows:
        cells = (name, one.type, one.range, one.default, one.unit, one.meaning)
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
    yield ""
