"""The entry point of the command line: `dualgap`, and `python -m dualgap`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line, or say which extra it needs; returns the exit code."""
    try:
        from dualgap.app import cli
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "dualgap":
            raise
        from dualgap.core import missing_packages, needs

        print(f"dualgap: {needs('the command line', *dict.fromkeys([error.name, *missing_packages('lab')]))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while modules are loaded
        print("dualgap: stopped by Ctrl-C; nothing was written", file=sys.stderr)
        return 130
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
