"""How long a command takes, and the most memory that it holds."""

import json
import subprocess
import sys

# A process of its own starts the command: on Linux a child's peak is at least what its parent held.
LAUNCHER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
quiet = subprocess.DEVNULL
code = subprocess.run([sys.executable, "-m", "newtongs", *sys.argv[1:]], stdout=quiet).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, time.perf_counter() - start, 1024 * used.ru_maxrss]))
"""


def command_peak(*words):
    """Exit code, seconds and most bytes of ``newtongs`` with these words."""
    launched = [sys.executable, "-c", LAUNCHER, *map(str, words)]
    said = subprocess.run(launched, capture_output=True, text=True, check=True).stdout
    return tuple(json.loads(said))
