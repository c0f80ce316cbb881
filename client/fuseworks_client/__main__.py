"""`python -m fuseworks_client`: the same as `fuseworks`."""

import sys

from fuseworks_client.cli import main

if __name__ == "__main__":
    sys.exit(main())
