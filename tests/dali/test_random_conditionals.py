"""Random programs with `if`, `elif`, `else`, loops and boolean expressions give the same in both libraries.

``PENSTOCK_CONDITIONALS=500`` runs that many programs, from the seed ``PENSTOCK_CONDITIONALS_SEED`` on.
"""

import linecache
import os
import random

import numpy as np
import pytest

import penstock

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

COUNT = int(os.environ.get("PENSTOCK_CONDITIONALS", "5"))
SEED = int(os.environ.get("PENSTOCK_CONDITIONALS_SEED", "0"))
ROWS = 4


class Program:
    """Random function of two nodes of integers and one of booleans.

    Args:
        seed: Seed of the choices.

    Attributes:
        source: Source text of the function ``program(lib, a, b, c)``, which returns two nodes.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def program(lib, a, b, c):", "    x = a", "    y = b"]
        self.block(1)
        self.block(1)
        self.source = "\n".join([*self.lines, "    return x, y", ""])

    def number(self, depth: int = 0) -> str:
        """Return an expression of an integer node."""
        kind = self.random.random()
        if depth > 2 or kind < 0.4:
            return self.random.choice("xyab")
        if kind < 0.6:
            return f"({self.number(depth + 1)} {self.random.choice('+-*')} {self.random.randint(1, 3)})"
        if kind < 0.9:
            return f"({self.number(depth + 1)} {self.random.choice('+-')} {self.number(depth + 1)})"
        return f"lib.fn.cast({self.number(depth + 1)}, dtype=lib.types.INT32)"

    def condition(self, depth: int = 0) -> str:
        """Return an expression of a boolean node."""
        kind = self.random.random()
        if depth > 1 or kind < 0.5:
            comparison = self.random.choice(["<", ">", "==", "<=", "!="])
            return f"{self.number(1)} {comparison} {self.random.randint(-3, 6)}"
        if kind < 0.8:
            word = self.random.choice(["and", "or"])
            return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"
        return "c" if kind < 0.9 else f"(not {self.condition(depth + 1)})"

    def block(self, depth: int) -> None:
        """Add one or two statements."""
        indent = "    " * depth
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.random()
            if depth < 4 and kind < 0.45:
                self.branches(depth)
            elif depth < 4 and kind < 0.52:
                self.lines.append(f"{indent}for _ in range({self.random.randint(1, 3)}):")
                self.block(depth + 1)
            elif kind < 0.6:
                self.lines.append(f"{indent}x, y = {self.number(1)}, {self.number(1)}")
            elif kind < 0.68:
                self.lines.append(f"{indent}x += {self.random.randint(1, 3)}")
            elif kind < 0.72:
                self.lines.append(f"{indent}pass")
            else:
                self.lines.append(f"{indent}{self.random.choice('xy')} = {self.number()}")

    def branches(self, depth: int) -> None:
        """Add an `if` statement."""
        heads = [f"if {self.condition()}:"]
        heads += [f"elif {self.condition()}:"] * (self.random.random() < 0.35)
        heads += ["else:"] * (self.random.random() < 0.7)
        for head in heads:
            self.lines.append("    " * depth + head)
            self.block(depth + 1)


def outputs(lib, source, name, columns):
    """Run a program in a library and return its two outputs as lists of samples."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # AutoGraph reads the source
    namespace = {}
    exec(compile(source, name, "exec"), namespace)

    @lib.pipeline_def(batch_size=ROWS, num_threads=1, device_id=None, enable_conditionals=True)
    def define():
        nodes = [lib.fn.external_source(source=[column], cycle=True) for column in columns]
        return namespace["program"](lib, *nodes)

    pipeline = define()
    pipeline.build()
    return [[(np.asarray(item).dtype, np.asarray(item).tolist()) for item in output] for output in pipeline.run()]


@pytest.mark.timeout(0 if COUNT > 20 else 300)
@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_same_results(seed):
    source, rng = Program(seed).source, np.random.default_rng(seed)
    columns = [list(rng.integers(-4, 6, ROWS, np.int32)) for _ in range(2)] + [list(rng.integers(0, 2, ROWS) > 0)]
    try:
        expected = outputs(dali, source, f"<dali {seed}>", columns)
    except Exception:  # noqa: BLE001  # a program that DALI refuses says nothing
        pytest.skip("DALI refuses the program")
    assert outputs(penstock, source, f"<penstock {seed}>", columns) == expected, source
