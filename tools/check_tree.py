"""Check of the source tree: one meaning per file name, small folders and modules, no import cycles.

Run by `make lint`. import-linter checks the order of the folders; this script checks what import-linter cannot:

* no two modules of different meaning share a base name,
* no folder holds more than 24 modules, and no module has more than 400 lines,
* no file imports another in a cycle, even inside functions. Imports for type checkers do not count.

Prints one line per violation and exits with 1 if there is one. Needs only Python.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src"
MAX_FILES, MAX_LINES = 24, 400

# Paths that DALI or rocAL defines, so their names are not ours to choose.
FOREIGN = ("fn/", "plugin/", "ops/", "rocal/", "auto_aug/", "tfrecord.py", "backend.py", "data_node.py", "tensors.py")
FOREIGN += ("pipeline/experimental.py", "experimental.py")
# A package and its main module.
MAIN_MODULES = {
    ("pipeline", "pipeline/pipeline.py"),
    ("plan", "plan/plan.py"),
    ("graph/tracing", "graph/tracing/apply.py"),
}


def modules() -> dict[str, str]:
    """Dotted names of all modules, by their path below `src/penstock`."""
    package = ROOT / "penstock"
    paths = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    return {path: dotted(path) for path in paths}


def dotted(path: str) -> str:
    """Return the dotted name of a module."""
    return f"penstock.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")


def operator_names(path: str) -> set[str]:
    """Return the last parts of the public operator names that a module defines."""
    if not path.startswith("operators/"):
        return set()
    text = (ROOT / "penstock" / path).read_text()
    return {name.rpartition(".")[2] for name in re.findall(r'^@operator\(\s*"([\w.]+)"', text, re.MULTILINE)}


def check_base_names(paths: dict[str, str]) -> list[str]:
    """Find base names with more than one meaning. Operator families and the paths of DALI and rocAL are exempt."""
    holders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        stem = Path(path).stem
        if stem == "__init__":
            stem = Path(path).parent.name
        if path.startswith(FOREIGN) or stem in ("", "__main__") or stem in operator_names(path):
            continue
        holders[stem].append(path)
    violations: list[str] = []
    for stem, found in holders.items():
        names = {path.removesuffix("/__init__.py") for path in found}
        if any({package, module} == names for package, module in MAIN_MODULES):
            continue
        # A format and the reader of it share the format's name: a package of sources, a module of operators.
        formats = [path for path in found if path.startswith("sources/formats/")]
        if len(found) > 1 and len(found) - len(formats) > 0 and not (len(found) == 2 and formats):
            violations.append(f"base name {stem}: {', '.join(sorted(found))}")
    return violations


def check_sizes(paths: dict[str, str]) -> list[str]:
    """Find folders with too many modules and modules with too many lines."""
    count: dict[str, int] = defaultdict(int)
    violations: list[str] = []
    for path in paths:
        count[Path(path).parent.as_posix()] += Path(path).stem != "__init__"
        lines = (ROOT / "penstock" / path).read_text().count("\n")
        if lines > MAX_LINES:
            violations.append(f"module {path}: {lines} lines, at most {MAX_LINES} are allowed")
    violations += [
        f"folder {name}: {n} modules, at most {MAX_FILES} are allowed" for name, n in count.items() if n > MAX_FILES
    ]
    return violations


def imports(path: str, known: set[str]) -> set[str]:
    """Return the dotted names of the package's modules that a module imports, inside functions too."""
    tree = ast.parse((ROOT / "penstock" / path).read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    result: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                result.add(whole if whole in known else node.module)
    return result & known


def check_cycles(paths: dict[str, str]) -> list[str]:
    """Find strongly connected groups of files, with Tarjan's algorithm. Packages that only re-export do not count."""
    packages = {name for path, name in paths.items() if path.endswith("__init__.py")}
    known = set(paths.values())
    graph = {name: imports(path, known) - packages - {name} for path, name in paths.items() if name not in packages}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(group := stack[at:]) > 1:
                cycles.append(f"import cycle: {', '.join(sorted(group))}")
            del stack[at:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return cycles


def main() -> int:
    """Print the violations and return the exit status."""
    paths = modules()
    violations = [*check_base_names(paths), *check_sizes(paths), *check_cycles(paths)]
    print("\n".join([*violations, f"{len(paths)} modules, {len(violations)} violations"]))
    return bool(violations)


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    sys.exit(main())
