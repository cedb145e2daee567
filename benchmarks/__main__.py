"""`python benchmarks [--quick] [NAME…]`: runs the benchmarks in turn; exit status 1 if one missed a target."""

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
ORDER = (
    "streaming_client",
    "request_client",
    "event_loop",
    "end_to_end",
    "panes",
    "startup",
    "token_counter",
    "executor",
    "branches",
    "history",
)
"""P1 and P2, P3, P4, P5, P6, P9, P10, P11, P12, P13."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("names", nargs="*", default=ORDER, choices=[*ORDER, ORDER], metavar="NAME")
    arguments = parser.parse_args()
    missed = []
    for name in arguments.names:
        command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if arguments.quick else [])]
        if subprocess.run(command, check=False).returncode:
            missed.append(name)
        print()
    print(f"targets missed in: {', '.join(missed)}" if missed else "every target met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
