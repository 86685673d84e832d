"""Makes the relative paths of settings absolute, for a process that runs in another folder."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

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
