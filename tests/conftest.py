"""How long properties are looked for: a bounded number of examples, none of them timed, the same ones in CI."""

import os

from hypothesis import settings

settings.register_profile("here", max_examples=40, deadline=None)
settings.register_profile("checked", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("checked" if os.environ.get("CI") else "here")
