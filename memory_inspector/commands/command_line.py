"""Option and error handling that all commands share: errors of users are one sentence. Imports no engine."""

import argparse
import os
import sys
from collections.abc import Sequence

READER_GONE = 141
"""Exit status of programs whose output nobody reads any more: 128 and the number of SIGPIPE."""

DATABASE = "an agent's database: a URL or an SQLite file"


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that a command line names; return its exit status."""
    options = parser.parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()  # here, where a reader that has gone is noticed
        return status
    except BrokenPipeError:  # as of `memory-inspector why PHRASE | head`, which has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        return READER_GONE
    except Exception as error:
        from memory_core.errors import MemoryInspectorError  # here, as most commands end without an error
        from memory_core.text import printable

        # Errors of the user's files and settings are usage errors; anything else keeps its traceback.
        if not isinstance(error, MemoryInspectorError):
            raise
        print(f"memory-inspector: {printable(str(error))}", file=sys.stderr)
        return 2
