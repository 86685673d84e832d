"""Reads exports of NetBox's REST API: devices, interfaces and cables, in the shapes of NetBox 3.x and 4.x.

An export is the answer of a list endpoint, with `results`, or a list of objects. Unknown fields are ignored. An
incomplete set of pages, an object of another endpoint, a repeated object and a field of another type are refused, with
the file, the id and the next step.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import orjson
from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from streams.instrument.text import refusal
from streams.wire.errors import Misconfigured

PREFIX = "railsight_"
"""The prefix of the custom fields with columns of the inventory."""
INTERFACE = "dcim.interface"
_ENDPOINT = re.compile(r"/api/([a-z-]+/[a-z-]+)/\d+/?(?:\?.*)?$")


def _blank_if_null(value: object) -> object:
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_blank_if_null)]


class Named(BaseModel):
    """A related object, as NetBox nests it."""

    name: _Text = ""
    slug: _Text = ""


class DeviceType(BaseModel):
    """The model of a device."""

    model: _Text = ""
    manufacturer: Named | None = None


class Choice(BaseModel):
    """A value of a fixed list."""

    value: _Text = ""


class NetboxObject(BaseModel):
    """A device, an interface or a cable; custom fields or tags `NAME:VALUE` have the columns that NetBox lacks."""

    id: int
    custom_fields: dict[str, Any] = {}
    tags: list[Named] = []

    def defines(self, column: str) -> bool:
        """Return whether NetBox has the custom field, even without a value, or the object has the tag."""
        return PREFIX + column in self.custom_fields or self._tag(column) is not None

    def column(self, name: str) -> object:
        """Return the value of the custom field, else of the tag; a blank text if there is none."""
        value = self.custom_fields.get(PREFIX + name)
        if value is None:
            value = self._tag(name)
        return "" if value is None else str(value) if isinstance(value, int) else value

    def _tag(self, column: str) -> str | None:
        found = (tag.name.partition(":") for tag in self.tags)
        return next((value.strip() for name, _, value in found if name.strip().lower() == column), None)


class Related(BaseModel):
    """A related object, reduced to its id."""

    id: int


class Chassis(Related):
    """Several devices with one control plane, which the master reports."""

    name: _Text = ""
    master: Related | None = None


class DeviceObject(NetboxObject):
    """An object of /api/dcim/devices/. NetBox before 3.6 has `device_role` in place of `role`."""

    name: _Text
    role: Named | None = Field(validation_alias=AliasChoices("role", "device_role"))
    device_type: DeviceType | None = None
    tenant: Named | None = None
    site: Named | None = None
    rack: Named | None = None
    position: float | None = None
    serial: _Text = ""
    virtual_chassis: Chassis | None = None


class InterfaceObject(NetboxObject):
    """An object of /api/dcim/interfaces/; `speed` is in kbit/s."""

    name: str
    label: _Text = ""
    device: Related
    type: Choice | None = None
    speed: Annotated[int, Field(ge=0)] | None = None
    mgmt_only: bool = False
    connected_endpoints: list[Related] | None = None
    connected_endpoints_type: str | None = None
    connected_endpoints_reachable: bool | None = None

    @property
    def far_interface(self) -> int | None:
        """Return the interface at the end of the path through patch panels, which NetBox 3.3 and later trace."""
        if self.connected_endpoints_type != INTERFACE or not self.connected_endpoints_reachable:
            return None
        found = self.connected_endpoints or []
        return found[0].id if len(found) == 1 else None


class Termination(BaseModel):
    """One object at one end of a cable."""

    object_type: str
    object_id: int = Field(validation_alias=AliasChoices("object_id", AliasPath("object", "id")))


class CableObject(NetboxObject):
    """An object of /api/dcim/cables/. NetBox before 3.3 has one termination at each end, in other fields."""

    a_terminations: list[Termination]
    b_terminations: list[Termination]
    status: Choice | None = None
    label: _Text = ""

    @model_validator(mode="before")
    @classmethod
    def _from_single_terminations(cls, value: object) -> object:
        if not isinstance(value, Mapping) or "termination_a_type" not in value:
            return value
        return dict(value) | {
            f"{end}_terminations": [
                {"object_type": value.get(f"termination_{end}_type"), "object_id": value.get(f"termination_{end}_id")}
            ]
            for end in "ab"
        }


Kind = Literal["device", "interface", "cable"]
_Model = TypeVar("_Model", bound=NetboxObject)
_MODEL: dict[Kind, type[NetboxObject]] = {"device": DeviceObject, "interface": InterfaceObject, "cable": CableObject}
_KIND_OF_ENDPOINT: dict[str, Kind] = {f"dcim/{kind}s": kind for kind in _MODEL}


class Found(NamedTuple, Generic[_Model]):
    """An object and the file that has it."""

    file: Path
    kind: Kind
    object: _Model

    def error(self, message: str) -> Misconfigured:
        """Return the error about this object."""
        return Misconfigured(f"{self.file}: {self.kind} {self.object.id} {message}")


@dataclass(slots=True)
class Exports:
    """All objects by id, in the order of the files."""

    devices: dict[int, Found[DeviceObject]] = field(default_factory=dict)
    interfaces: dict[int, Found[InterfaceObject]] = field(default_factory=dict)
    cables: dict[int, Found[CableObject]] = field(default_factory=dict)


class _Page(NamedTuple):
    """The envelope of one answer."""

    file: Path
    length: int
    total: int | None
    following: object
    is_part: bool


def read_exports(files: Iterable[Path]) -> Exports:
    """Read all files; raises Misconfigured at the first error."""
    exports = Exports()
    by_kind: dict[Kind, dict[int, Any]] = {
        "device": exports.devices, "interface": exports.interfaces, "cable": exports.cables,
    }  # fmt: skip
    pages: dict[Kind, list[_Page]] = defaultdict(list)
    for file in files:
        results, page = _read(file)
        kinds = set()
        for number, raw in enumerate(results, 1):
            kind = _kind(file, number, raw)
            kinds.add(kind)
            found = _found(file, kind, number, raw)
            known = by_kind[kind].setdefault(found.object.id, found)
            if known is not found:
                raise found.error(f"is also in {known.file}; export each object once")
        for kind in kinds:
            pages[kind].append(page)
    for kind, of_kind in pages.items():
        _check_complete(kind, of_kind)
    return exports


def _read(file: Path) -> tuple[list[Any], _Page]:
    try:
        document = orjson.loads(file.read_bytes())
    except OSError as error:
        raise Misconfigured(f"{file}: cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise Misconfigured(f"{file}: is not JSON ({error}); save the answer of the REST API unchanged") from error
    if isinstance(document, list):
        return document, _Page(file, len(document), None, None, is_part=False)
    if not isinstance(document, dict) or not isinstance(results := document.get("results"), list):
        raise Misconfigured(f"{file}: is neither a list nor an object with `results`; save the answer of a list, such "
                            "as /api/dcim/cables/?limit=0")  # fmt: skip
    count = document.get("count")
    if count is not None and type(count) is not int:
        raise Misconfigured(f"{file}: `count` is {count!r:.40} and not a number; save the answer unchanged")
    following = document.get("next")
    is_part = bool(following or document.get("previous")) or count not in (None, len(results))
    page = _Page(file, len(results), count, following, is_part)
    if is_part and not results:
        raise _incomplete(page, f"0 of {count} objects")
    return results, page


def _kind(file: Path, number: int, raw: object) -> Kind:
    """Return the kind of an object by its URL, else by a field that only this kind has."""
    if not isinstance(raw, dict):
        raise Misconfigured(f"{file}: object {number} is {raw!r:.40} and not an object; save the answer unchanged")
    if found := _ENDPOINT.search(str(raw.get("url", ""))):
        if (kind := _KIND_OF_ENDPOINT.get(found[1])) is not None:
            return kind
        raise Misconfigured(f"{file}: object {raw.get('id', number)} is of /api/{found[1]}/; give exports of "
                            "/api/dcim/devices/, /api/dcim/interfaces/ and /api/dcim/cables/")  # fmt: skip
    if "device_type" in raw:
        return "device"
    if "a_terminations" in raw or "termination_a_type" in raw:
        return "cable"
    if "device" in raw:
        return "interface"
    raise Misconfigured(f"{file}: object {raw.get('id', number)} is no device, interface or cable; export without "
                        "brief=1 and without a choice of fields")  # fmt: skip


def _found(file: Path, kind: Kind, number: int, raw: Mapping[str, Any]) -> Found[Any]:
    try:
        return Found(file, kind, _MODEL[kind].model_validate(raw))
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(map(str, detail["loc"]))
        value = "" if detail["type"] == "missing" else f" {detail['input']!r:.40}"
        raise Misconfigured(
            f"{file}: {kind} {raw.get('id', f'number {number}')}: {place}{value} {refusal(detail)}; "
            "export without brief=1 and without a choice of fields"
        ) from error


def _check_complete(kind: Kind, pages: Sequence[_Page]) -> None:
    """Raise Misconfigured if the pages of a list have fewer objects than the list."""
    parts = [page for page in pages if page.is_part]
    present = sum(page.length for page in parts)
    for page in parts:
        if page.total is None or present < page.total:
            raise _incomplete(page, f"{present} of {page.total or 'an unknown number of'} {kind}s")


def _incomplete(page: _Page, present: str) -> Misconfigured:
    following = f", `next` is {page.following}" if page.following else ""
    return Misconfigured(
        f"{page.file}: is incomplete ({present}{following}); fetch the other pages and give all files together"
    )
