"""The command ``newtongs``, also as ``python -m newtongs``."""

import os
import sys


def main() -> None:
    """Settle how idle threads wait, then run the command line.

    OpenMP's threads spin while they wait. Beside another busy process that makes every small
    operation wait for the scheduler, ten times slower in all; the policy must be set before torch
    is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from .cli import main as run
    except KeyboardInterrupt:  # the libraries take seconds to load
        print("newtongs: stopped", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
