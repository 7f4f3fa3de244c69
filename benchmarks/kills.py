"""Kill a training at random steps, resume it on 1, 2 or 8 devices, and compare with a run that nobody kills.

    python benchmarks/kills.py                                     small_training.py, 30 kills
    python benchmarks/kills.py --program "train.py --small --checkpoints {folder}"

Each trial is killed with SIGKILL after a random step and a random delay, on 1, 2 or 8 devices, and resumed on 1, 2 or 8
devices. On the same number of devices, the last checkpoint must be equal bit for bit; otherwise, sums are rounded
differently, and arrays may differ by 1e-5 of the largest parameter. A program gets its devices from
JAX_NUM_CPU_DEVICES and writes checkpoints to {folder}.

Exits with 1 if a trial differs. Times are not measured.
"""

from __future__ import annotations

import argparse
import os
import random
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5


def run_and_kill(steps, delay, program):
    """Run a program in this process, and kill it some seconds after a number of steps."""
    from penstock.train import History

    count, add = 0, History.add

    def counted(history, metrics):
        nonlocal count
        add(history, metrics)
        count += 1
        if count == steps:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

    History.add = counted
    sys.argv = program
    sys.path.insert(0, str(Path(program[0]).parent))
    runpy.run_path(program[0], run_name="__main__")


def run(program, folder, devices, *, kill=None):
    """Run a program in a new process. Returns its exit code."""
    words = shlex.split(program.format(folder=folder))
    command = [sys.executable, *words]
    if kill is not None:
        command = [sys.executable, __file__, "--kill-after", str(kill[0]), "--delay", str(kill[1]), "--run", *words]
    variables = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        # Trials compile the same programs.
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(folder.parent / "compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{shlex.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.returncode


def steps_of(folder):
    """Return the steps of the checkpoints in a folder."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []


def last_arrays(folder):
    """Return the arrays of the last checkpoint by name."""
    import jax
    import orbax.checkpoint as ocp

    path = folder / str(steps_of(folder)[-1]) / "state"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        names = checkpointer.metadata(path).item_metadata.tree
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), names)
        tree = checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args=as_numpy))
    return {jax.tree_util.keystr(path): array for path, array in jax.tree_util.tree_leaves_with_path(tree)}


def difference(mine, right):
    """Return the largest difference of two states, as a fraction of the largest parameter; 0 if all bits are equal."""
    if mine.keys() != right.keys():
        return float("inf")
    if all(mine[name].tobytes() == right[name].tobytes() for name in right):
        return 0.0
    largest = max(np.abs(array).max() for array in right.values() if array.dtype.kind == "f")
    return max(np.abs(mine[name].astype(np.float64) - right[name].astype(np.float64)).max() for name in right) / largest


def main():
    """Run all trials and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", default=f"{HERE / 'small_training.py'} {{folder}}", help="script with arguments")
    parser.add_argument("--steps", type=int, default=20, help="number of steps of the program")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill-after", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--delay", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_and_kill(options.kill_after, options.delay, options.run)
        return
    draw, worst, failed = random.Random(options.seed), 0.0, 0
    pairs = [(before, after) for before in options.devices for after in options.devices]
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        whole = {}
        for devices in options.devices:
            run(options.program, root / f"whole-{devices}", devices)
            whole[devices] = last_arrays(root / f"whole-{devices}")
            apart = difference(whole[devices], whole[options.devices[0]])
            print(f"{devices} devices: {apart:.1e} from the run on {options.devices[0]}", flush=True)
        for number in range(options.kills):
            before, after = pairs[number % len(pairs)]
            folder, kill = root / f"killed-{number}", (draw.randrange(1, options.steps), draw.uniform(0, 0.05))
            if run(options.program, folder, before, kill=kill) == 0:
                sys.exit(f"the program ended before it was killed after step {kill[0]}")
            resumed = steps_of(folder)
            unfinished = sum(path.name.startswith(".unfinished") for path in folder.iterdir())
            run(options.program, folder, after)
            # A run on other devices has no equal: the first steps are those of one, the last those of another.
            apart = difference(last_arrays(folder), whole[after])
            right = apart == 0 if before == after else apart <= TOLERANCE
            worst, failed = max(worst, apart), failed + (not right)
            print(
                f"{number + 1}: killed {kill[1] * 1000:.0f} ms after step {kill[0]} on {before}, checkpoints {resumed}"
                f"{', one unfinished' if unfinished else ''}; resumed on {after}: "
                f"{'equal bits' if apart == 0 else f'{apart:.1e}'}{'' if right else ' WRONG'}",
                flush=True,
            )
    print(f"{options.kills} kills, {failed} wrong; largest difference {worst:.1e} of the largest parameter")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
