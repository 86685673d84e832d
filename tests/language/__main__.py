"""`python -m tests.language [PATH...]`: prints what breaks the rules of language."""

import sys

from tests.language.scan import check, files


def main(prefixes: list[str]) -> int:
    """Print the hits below these paths, or below all, and return 1 if there are any."""
    chosen = [path for path in files() if not prefixes or path.startswith(tuple(prefixes))]
    hits = check(chosen)
    for hit in hits:
        sys.stdout.write(f"{hit}\n")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
