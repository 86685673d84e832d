"""The page of all settings: type, range, default, unit and meaning, from the models that validate them.

`python -m tests.contract.docs` writes docs/configuration.md; test_reference.py compares both.
"""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, create_model
from pydantic_core import PydanticUndefined

from streams.cli.options import collector_params
from streams.config.loader import PREFIX
from streams.config.setting_meanings import meanings, section_of
from streams.config.settings import Collectors, Settings

PAGE = Path(__file__).parents[3] / "docs/configuration.md"

_HEAD = f"""# Configuration

All settings of all parts. This page is generated from the models that validate them: `make docs` writes it.

One TOML file has the settings of all parts; each part reads its own. `deploy/examples` has examples.

```sh
railsight config check --config railsight.toml
```

- **A setting that is absent has its default.** An unknown setting is refused by name, with the nearest known name.
- **The environment overrides the file**: `{PREFIX}STORE__URL` is `url` of `[store]`; lists and tables are JSON.
- **A secret** is never in the file. It comes from the environment or from the file that the setting with `_file` names.
- **A collector's settings** can also be given as `railsight collect KIND --set key=value`.

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

    path: str
    type: str
    range: str
    default: str
    unit: str
    meaning: str


class Section(NamedTuple):
    """One section: its path, the sentence of its model, its settings."""

    path: str
    meaning: str
    settings: tuple[Setting, ...]


def settings_model() -> type[BaseModel]:
    """Return the model of the whole configuration, with a section for each installed collector."""
    fields: dict[str, Any] = {name: (params | None, None) for name, params in sorted(collector_params().items())}
    collect = create_model("Collectors", __base__=Collectors, **fields)
    return create_model("Settings", __base__=Settings, collect=(collect, collect()))


def sections(model: type[BaseModel] | None = None, path: str = "") -> Iterator[Section]:
    """Yield the sections of the configuration, each before those inside it."""
    model = model or settings_model()
    schema = model.model_json_schema()
    inner = {name: found for name in model.model_fields if (found := section_of(model, name)) is not None}
    plain = tuple(
        _setting(model, name, f"{path}.{name}".lstrip("."), schema) for name in model.model_fields if name not in inner
    )
    if path:
        yield Section(path, _sentence(model), plain)
    for name, section in inner.items():
        yield from sections(section, f"{path}.{name}".lstrip("."))


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
    unit = _unit(path, kinds)
    default = _default(info.default if info.default_factory is None else info.get_default(call_default_factory=True))
    return Setting(path, type_, limits, default, unit, meanings(model).get(name, ""))


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
    """Return the page."""
    return "\n".join([_HEAD, *(part for section in sections() for part in _lines(section))])


def _lines(section: Section) -> Iterator[str]:
    yield f"## `[{section.path}]`\n"
    yield f"{section.meaning}\n"
    if section.settings:
        yield "| setting | type | range | default | unit | meaning |\n|---|---|---|---|---|---|"
        for one in section.settings:
            name = one.path.rpartition(".")[2]
            cells = (f"`{name}`", one.type, one.range, one.default, one.unit, one.meaning)
            yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
        yield ""
