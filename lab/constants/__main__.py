"""Runs a command of railsight with other constants; the first argument has them as JSON."""

import json
import sys

from lab.constants import set_constants
from streams.cli.main import main

set_constants(json.loads(sys.argv[1]))
main(sys.argv[2:])
