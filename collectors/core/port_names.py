"""Normalizes names of ports that devices and programs decorate. Pure."""


def unquoted(name: str) -> str:
    """Return a name without literal quotes around it: some agents and scripts send `"1"` for port 1."""
    if len(name) > 2 and name[0] == name[-1] and name[0] in "\"'":
        return name[1:-1].strip()
    return name
