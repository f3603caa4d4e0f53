"""Option and error handling that all commands share: errors of users are one sentence. Imports no engine."""

import argparse
import sys
from collections.abc import Sequence

DATABASE = "an agent's database: a URL or an SQLite file"


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that a command line names; return its exit status."""
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except Exception as error:
        from memory_core.errors import MemoryInspectorError  # here, as most commands end without an error
        from memory_core.text import printable

        # Errors of the user's files and settings are usage errors; anything else keeps its traceback.
        if not isinstance(error, MemoryInspectorError):
            raise
        print(f"memory-inspector: {printable(str(error))}", file=sys.stderr)
        return 2
