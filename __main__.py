"""Run the command line: python -P -m toolbox_mcp."""

import sys

from .server.cli import main

if __name__ == "__main__":
    sys.exit(main())
