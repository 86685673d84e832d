"""The help of `railsight collect KIND`: an example of that collector, and its settings with defaults and meanings."""

import json
from collections.abc import Iterator

import typer
from pydantic import BaseModel
from typer.core import TyperCommand

from streams.cli.collector_registry import installed_collectors, spec_of
from streams.config.setting_meanings import meanings, section_of

_HELP = ("-h", "--help")


class CollectCommand(TyperCommand):
    """The command `collect`; its help is that of the collector that the command line names."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; the collector must be known before `--help` prints."""
        kind = next((word for word in args if word in installed_collectors()), None)
        if kind is not None and any(word in _HELP for word in args):
            self.help = collector_help(kind)
        return super().parse_args(ctx, args)


def collector_help(kind: str) -> str:
    """Return the help of one installed collector, in the paragraphs that typer prints."""
    spec = spec_of(kind)
    return "\n\n".join(
        [
            f"Run the collector {kind}; without --bootstrap or kafka.bootstrap it publishes nothing.",
            f"Example: `railsight collect {kind} {spec.example}`.",
            # A backspace stops typer from joining the lines of a paragraph.
            "\b\n"
            + "\n".join([f"Settings, under collect.{kind} in the file or as --set key=value:", *_lines(spec.Params)]),
        ]
    )


def _lines(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield a line for each setting, those of inner sections after the others, as `--set` spells them."""
    inner = {name: found for name in model.model_fields if (found := section_of(model, name)) is not None}
    for name, info in model.model_fields.items():
        if name not in inner:
            default = "required" if info.is_required() else _text(info.get_default(call_default_factory=True))
            yield f"  {path}{name} ({default}): {meanings(model).get(name, '')}".replace("[", r"\[")
    for name, section in inner.items():
        yield from _lines(section, f"{path}{name}.")


def _text(value: object) -> str:
    if type(value).__name__ == "SecretStr" or value in (None, "", (), {}):
        return "none"
    return json.dumps(value, default=str, ensure_ascii=False)
