"""Formats values of a device as Telegraf's gnmi input does: a fake of its line protocol, by its documented behaviour.

The tag `path` has the container, without keys; a key is a tag by its own name, or by its list's path if an earlier list
has a key of this name. Names of fields and of tags have underscores for hyphens.
"""

from collectors.gnmi.paths import Elems


def line(elems: Elems, value: str | float | bool, source: str, at_ns: int) -> str:
    tags: dict[str, str] = {"source": source}
    path = ""
    for step in elems[:-1]:
        path += f"/{step.name}"
        for key, own in step.keys:
            short = key.replace("-", "_")
            tags[f"{path}/{short}" if short in tags else short] = own
    tags["path"] = path
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value}i"
    written = ",".join(f"{key}={own}" for key, own in sorted(tags.items()))
    return f"gnmi,{written} {elems[-1].name.replace('-', '_')}={text} {at_ns}"
