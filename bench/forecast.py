"""Hold what a study forecasts against what it then took: make repro | python -m bench.forecast

It passes the lines on, and prints one JSON line for each forecast from half of the study on. The exit status is 1 where
one of them was off by a third or more. A time of less than a minute is held against one minute.
"""

import json
import re
import sys
import time

FORECAST = re.compile(r"run (\d+) of \d+ · (?:about ([\d.]+) (s|min|h)|less than a minute) left")
SECONDS = {"s": 1, "min": 60, "h": 3600}


def main() -> int:
    started = time.monotonic()
    said: list[tuple[int, float, float]] = []  # the run, the seconds since the start, the seconds left
    for line in sys.stdin:
        print(line, end="", flush=True)
        if found := FORECAST.search(line):
            left = float(found[2]) * SECONDS[found[3]] if found[2] else 60.0
            said.append((int(found[1]), time.monotonic() - started, left))
    whole = time.monotonic() - started
    worst = 0.0
    for run, past, left in said:
        if past >= whole / 2:
            took = max(whole - past, 60.0)
            worst = max(worst, abs(left / took - 1))
            print(
                json.dumps(
                    {"run": run, "said_seconds": left, "took_seconds": round(took), "ratio": round(left / took, 2)}
                )
            )
    return 0 if said and worst < 1 / 3 else 1


if __name__ == "__main__":
    sys.exit(main())
