"""The command `cold`: thin; it parses, builds, calls and prints. Bad input is one line and exit status 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cold.errors import ColdError

INTERRUPTED = 130  # what a shell reports for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    from cold.cli.app import command

    try:
        code = command().main(args=arguments, prog_name="cold", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ColdError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        print("cold: interrupted before there was a text", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's own errors: an unknown option, a missing value
            return _fail(f"{error.format_message()} See `cold --help`, or `cold COMMAND --help`.")
        if type(error).__name__ == "Abort":
            return INTERRUPTED
        raise


def _fail(message: str) -> int:
    print("cold: " + " ".join(message.split()), file=sys.stderr)
    return 2
