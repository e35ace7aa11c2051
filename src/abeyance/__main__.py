"""``python -m abeyance``: the command line, for where the console script is not on the path."""

import sys

from abeyance.cli import main

if __name__ == "__main__":
    sys.exit(main())
