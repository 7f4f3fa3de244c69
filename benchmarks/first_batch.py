"""Time to the first batch of an ImageNet training in a new process, compared with DALI.

    python benchmarks/first_batch.py FOLDER [--rounds N] [--only NAME ...]

FOLDER contains JPEGs, flat or in one folder per class. `cold` starts with empty caches of compiled code
(NUMBA_CACHE_DIR and XDG_CACHE_HOME point to a new folder), so the first batch compiles its kernels, unless an installed
release contains them; `warm` uses the caches of an earlier process. In both cases, files and libraries are in the page
cache. The parts are the start of Python, the import of JAX, the import of the library, tracing and planning, and the
first batch. The CPU time includes batches that threads prefetch in the meantime. Before that, the program prints the
CPU time of imports: of the package alone, and of what a program with photographs needs, after `import jax`.

Targets: at most 30 ms and 200 ms for the imports; at most 1 s warm and 3 s cold for all that follows `import jax`.
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

# Statements by name, each with what a process runs before them.
IMPORTS = {
    "import penstock": ("", "import penstock"),
    "names and operators": (
        "import jax, jax.numpy",
        "from penstock import data_iterator, fn, types; fn.readers.file, fn.decoders.image, fn.resize",
    ),
}


def environment(caches: Path) -> dict[str, str]:
    """Return the environment of a process with caches of its own."""
    # pip compiles modules to bytecode when it installs them; this folder has the same effect from the second round on
    bytecode = {"PYTHONPYCACHEPREFIX": str(caches.parent / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, "NUMBA_CACHE_DIR": str(caches / "numba"), "XDG_CACHE_HOME": str(caches), **bytecode}


def import_seconds(name: str, caches: Path) -> float:
    """Return the CPU seconds of an import in a new process."""
    before, statement = IMPORTS[name]
    code = f"import time\n{before}\nstart = time.process_time()\n{statement}\nprint(time.process_time() - start)"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, env=environment(caches), capture_output=True, text=True, check=True).stdout)


def first_batch(library: str, task: Path, caches: Path) -> dict[str, tuple[float, float]]:
    """Return wall-clock and CPU seconds of each part of a new process."""
    before = time.time(), 0.0
    command = [sys.executable, str(PROGRAM), library, str(task)]
    result = subprocess.run(command, env=environment(caches), capture_output=True, text=True, check=False)
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
        for name in IMPORTS:
            times = [import_seconds(name, Path(scratch) / "imports") for _ in range(options.rounds + 1)][1:]
            print(f"{name}: {1e3 * statistics.median(times):.0f} ms of CPU time, {1e3 * min(times):.0f} at best")
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
