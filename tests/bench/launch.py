"""Start a command, and write its seconds and peak resident memory as JSON: launch.py RESULT COMMAND …

The kernel hands the peak of whoever starts a process on to that process. This interpreter is small, whoever started it.
"""

import json
import os
import sys
import time

result, *command = sys.argv[1:]
started = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
seconds = time.perf_counter() - started
with open(result, "w", encoding="ascii") as file:  # noqa: PTH123  pathlib would be imported for this
    json.dump({"seconds": seconds, "kibibytes": usage.ru_maxrss}, file)
sys.exit(os.waitstatus_to_exitcode(status))
