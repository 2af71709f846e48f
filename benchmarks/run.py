"""Run all parts, or those named: each in a process of its own, so that no part warms another up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PARTS = ("imports", "first_launch", "compiling", "linking", "launching", "throughput", "random_numbers", "simulator")


def main() -> None:
    """Run the parts in turn; options other than names are handed on."""
    named = [argument for argument in sys.argv[1:] if argument in PARTS]
    handed_on = [argument for argument in sys.argv[1:] if argument not in PARTS]
    failed = []
    for part in named or PARTS:
        script = Path(__file__).with_name(f"{part}.py")
        if subprocess.run([sys.executable, str(script), *handed_on], check=False).returncode:
            failed.append(part)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
