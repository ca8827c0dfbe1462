"""The file to launch where a launcher wants one: ``python apps/evaluate.py --model_path policy --records val.jsonl``.

The same as ``evr eval``: the same arguments, messages and exit codes.
"""

from __future__ import annotations

import sys

from evr_apps.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["eval"]
    main()
