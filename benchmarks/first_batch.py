"""Time to the first batch of an ImageNet training in a new process, compared with DALI.

    python benchmarks/first_batch.py FOLDER [--rounds N] [--only NAME ...]

FOLDER contains JPEGs, flat or in one folder per class. `cold` starts with empty caches of compiled code
(NUMBA_CACHE_DIR and XDG_CACHE_HOME point to a new folder), so the first batch compiles its kernels, unless an installed
release contains them; `warm` uses the caches of an earlier process. In both cases, files and libraries are in the page
cache. The parts are the start of Python, the import of JAX, the import of the library, tracing and planning, and the
first batch. The CPU time includes batches that threads prefetch in the meantime.

Targets: at most 1 s warm for all parts; at most 4 s cold for the batch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from data import jpegs
from measure import BATCH, selected

PROGRAM = Path(__file__).with_name("first_batch_program.py")
PARTS = ("python", "jax", "library", "plan", "batch")
CONTENDERS = {"penstock, cold": "penstock", "penstock, warm": "penstock", "DALI": "dali"}


def first_batch(library: str, task: Path, caches: Path) -> dict[str, tuple[float, float]]:
    """Return wall-clock and CPU seconds of each part of a new process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(caches / "numba"), "XDG_CACHE_HOME": str(caches)}
    # pip compiles modules to bytecode when it installs them; this folder has the same effect from the second round on
    environment |= {"PYTHONPYCACHEPREFIX": str(caches.parent / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    before = time.time(), 0.0
    command = [sys.executable, str(PROGRAM), library, str(task)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")
    seconds = {}
    for part, moment in json.loads(result.stdout.splitlines()[-1]).items():
        seconds[part] = moment[0] - before[0], moment[1] - before[1]
        before = moment
    return seconds


def main() -> None:
    """Run the contenders in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only these contenders")
    options = parser.parse_args()
    contenders = {name: CONTENDERS[name] for name in selected(CONTENDERS, options.only)}
    if find_spec("nvidia") is None and contenders.pop("DALI", None):
        print("DALI: skipped, not installed")
    with tempfile.TemporaryDirectory() as scratch:
        task = Path(scratch) / "task.json"
        files = jpegs(options.folder)._asdict()
        task.write_text(json.dumps({**files, "threads": options.threads, "batch_size": BATCH}))
        runs: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in contenders}
        for number in range(options.rounds + 1):
            for name, library in contenders.items():
                caches = Path(scratch) / (f"{name} {number}" if name.endswith("cold") else name)
                seconds = first_batch(library, task, caches)
                if number:  # The first round fills the caches.
                    runs[name].append(seconds)
    report(runs)


def report(runs: dict[str, list[dict[str, tuple[float, float]]]]) -> None:
    """Print the median of each part."""
    print(f"{'seconds':<18}" + "".join(f"{part:>9}" for part in PARTS) + f"{'total':>9}{'CPU':>9}")
    for name, rounds in runs.items():
        parts = [statistics.median(seconds[part][0] for seconds in rounds) for part in PARTS]
        totals = [statistics.median(sum(pair[i] for pair in seconds.values()) for seconds in rounds) for i in (0, 1)]
        print(f"{name:<18}" + "".join(f"{value:>9.2f}" for value in [*parts, *totals]))


if __name__ == "__main__":
    main()
