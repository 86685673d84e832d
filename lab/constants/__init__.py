"""Changes constants for a run of the laboratory or of a test: shorter times and smaller limits than the product's.

A constant is a ClassVar of the class that has the settings of its section. `python -m lab.constants
'{"runtime.session_s": 6}' process …` runs a command of railsight with changed constants.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel

from streams.config.loader import model_at

Model = TypeVar("Model", bound=BaseModel)


def with_constants(model: type[Model], **constants: Any) -> type[Model]:
    """Return a subclass with other constants; raise ValueError for a name that is no constant of the model."""
    if unknown := constants.keys() - model.__class_vars__:
        raise ValueError(f"not constants of {model.__name__}: {', '.join(sorted(unknown))}")
    annotations = {name: ClassVar[type(value)] for name, value in constants.items()}
    return type(model.__name__, (model,), {"__module__": model.__module__, "__annotations__": annotations, **constants})


def params_of(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the model with settings and constants, also of its sections; raise ValidationError."""
    constants = {name: value for name, value in values.items() if name in model.__class_vars__}
    settings = {name: value for name, value in values.items() if name not in constants}
    for name, value in settings.items():
        inner = model_at(model, (name,))
        if inner is not None and isinstance(value, Mapping):
            settings[name] = params_of(inner, value)
    return with_constants(model, **constants).model_validate(settings)


def set_constants(constants: Mapping[str, Any]) -> None:
    """Set constants of this process by section and name, such as `runtime.session_s`; raise ValueError for others."""
    for path, value in constants.items():
        model, name = _model_of(path)
        if name not in model.__class_vars__:
            raise ValueError(f"not a constant: {path}")
        setattr(model, name, value)


def is_constant(path: str) -> bool:
    """Return True if a section and name, such as `runtime.session_s`, name a constant and not a setting."""
    model, name = _model_of(path)
    return name in model.__class_vars__


def _model_of(path: str) -> tuple[type[BaseModel], str]:
    from streams.cli.options import collector_params
    from streams.config.settings import Settings

    *section, name = path.split(".")
    is_collector = section[0] == "collect"
    root = collector_params()[section[1]] if is_collector else Settings
    model = model_at(root, tuple(section[2 if is_collector else 0 :]))
    if model is None:
        raise ValueError(f"no such section: {path}")
    return model, name


def command_with(constants: Mapping[str, Any], *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs a command of railsight with other constants."""
    return (sys.executable, "-m", "lab.constants", json.dumps(constants), *arguments)
