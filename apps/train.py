"""The file to launch where a launcher wants one: ``ray job submit -- python apps/train.py config=run.yaml``.

The same as ``evr train``: the same arguments, messages and exit codes.
"""

from __future__ import annotations

import sys

from evr_apps.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    main()
