"""Makes the relative paths of settings absolute, and finds files and folders of a configuration that are unreadable.

Files that a process writes itself (spools, states, data) may be missing.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from streams.config.settings import Settings

_WRITTEN = {"state_file", "data", "spool", "folder"}
"""Settings whose files or folders are created by the process that uses them."""
_MAX_DEPTH = 8


def unreadable_files(settings: Settings) -> list[str]:
    """Return a line for each file or folder of the settings that is missing or not readable."""
    written = {path for params in settings.collectors.values() for path in getattr(params, "written_files", tuple)()}
    return list(_unreadable(settings, "", written, 0))


def _unreadable(model: BaseModel, where: str, written: set[Path], depth: int) -> Iterator[str]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        at = f"{where}{name}"
        if isinstance(value, BaseModel) and depth < _MAX_DEPTH:
            yield from _unreadable(value, f"{at}.", written, depth + 1)
        elif isinstance(value, Path) and name not in _WRITTEN and value not in written:
            if not value.exists():
                yield f"{at}: {value} does not exist; create it, or correct the setting"
            elif not os.access(value, os.R_OK):
                yield f"{at}: {value} is not readable by this user; correct its owner or mode (0600 for a secret)"


Model = TypeVar("Model", bound=BaseModel)


def with_absolute_paths(settings: Model, folder: Path) -> Model:
    """Return the settings with every relative path below `folder`; settings without paths stay the same objects."""
    changes: dict[str, object] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            inner = with_absolute_paths(value, folder)
            if inner is not value:
                changes[name] = inner
        elif isinstance(value, Path) and not value.is_absolute():
            changes[name] = folder / value
    if not changes:
        return settings
    # A copy with `update` marks its fields as set, and `up` starts its own servers only if they are not set.
    copy = settings.model_copy(update=changes)
    copy.__pydantic_fields_set__.intersection_update(settings.model_fields_set)
    return copy
