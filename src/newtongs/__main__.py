"""The command ``newtongs``, also as ``python -m newtongs``."""

import atexit
import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

from .base.process import leave

CLOSED_PIPE = 1


def main() -> NoReturn:
    """Set how idle threads wait, then run the command line.

    By default, idle OpenMP threads spin. When another process is busy, every small operation then
    waits for the scheduler and the command runs ten times slower. The policy must be set before
    torch is imported.
    """
    signal.signal(signal.SIGINT, leave)  # the libraries take seconds to load
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from .cli import main as run

        run()
        code: object = 0
    except SystemExit as stop:
        code = stop.code or 0
    except KeyboardInterrupt:
        leave()
    except BaseException:
        traceback.print_exc()
        code = 1
    close(code if isinstance(code, int) else 1)


def close(code: int) -> NoReturn:
    """Do what Python does at exit, but keep responding to Ctrl-C, then end the process."""
    for thread in threading.enumerate():
        # A thread whose start was interrupted is listed but not alive.
        if thread is not threading.current_thread() and thread.is_alive() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or CLOSED_PIPE
    os._exit(code)


if __name__ == "__main__":
    main()
