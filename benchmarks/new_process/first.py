"""Sends one record: ``python -m benchmarks.new_process.first MODULE BOOTSTRAP_SERVERS TOPIC``.

The line on standard output is a JSON object: when the imports began, when they had ended and when
the record was delivered, in seconds of the clock that all processes share, and the CPU seconds of
this process until then.
"""

from __future__ import annotations

import importlib
import json
import sys
from time import monotonic, process_time


def main() -> None:
    module, bootstrap_servers, topic = sys.argv[1:]
    times = {"began": monotonic()}
    client = importlib.import_module(module)
    times["imported"] = monotonic()

    def delivered() -> None:
        times["delivered"] = monotonic()
        times["cpu_seconds"] = process_time()

    client.send_first(bootstrap_servers, topic, delivered)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
