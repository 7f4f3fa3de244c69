"""Digests of the values that the user's functions refer to: defaults, closures, globals, and attributes of objects."""

import dis
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np

from penstock.core import Array
from penstock.core.tracebacks import PACKAGE
from penstock.graph import Graph, parameters
from penstock.iterate.code_version import code_text

_LIBRARIES = (
    PACKAGE,
    "<frozen",
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)

# Values to look at; the others count by their types. A table of so many numbers takes about 0.3 s.
_MAX_VALUES = 200_000

# Levels of values inside of values, such as the nodes of a linked list, each of which takes some frames of the stack.
_MAX_DEPTH = 64

# Bytes of an array that counts completely, and elements of a larger one.
_WHOLE_BYTES, _ELEMENTS = 64 << 20, 1 << 16

# Instructions and methods that change a container.
_CHANGING = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
_CHANGING_METHODS = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "move_to_end",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "setdefault",
    "update",
}

# Methods that prepare an object. What others store, such as a counter, may differ between processes.
_PREPARING = {"__init__", "__post_init__", "__new__", "__setstate__"}

# Attributes of a wrapper in which JAX, functools, Numba and NumPy keep the function.
_WRAPPED = ("__wrapped__", "func", "py_func", "pyfunc")


def function_values(graph: Graph) -> dict[str, str]:
    """Return a digest of the values that each function of a definition refers to, by the name of the function.

    It follows functions, classes and modules of the user; those of installed packages count by name. Absolute paths
    count by their last part. Variables that the functions assign, and lists, dicts and sets that they may change, do
    not count: they may already differ between processes of one program.
    """
    walks: dict[str, _Walk] = {}
    for node in graph.nodes:
        for function in _callables([*parameters(node.operator).values(), *node.arguments.values()], 8):
            walks.setdefault(_name(function), _Walk()).visit(function)
    return {name: walk.digest.hexdigest()[:16] for name, walk in walks.items()}


def _callables(things: Iterable[Any], depth: int) -> Iterator[Any]:
    """Yield the functions of the user in arguments of an operator."""
    for thing in things:
        if depth == 0 or isinstance(thing, str | bytes | int | float | type):
            continue
        if isinstance(thing, tuple | list):
            yield from _callables(cast(list[Any], thing), depth - 1)
        elif isinstance(thing, Mapping):
            yield from _callables(cast(Mapping[Any, Any], thing).values(), depth - 1)
        elif is_dataclass(thing) and _is_library_class(type(thing)):
            yield from _callables([getattr(thing, field.name) for field in fields(thing) if field.compare], depth - 1)
        elif callable(thing):
            yield thing


class _Walk:
    """Digest of everything that values refer to. Each function, class or mutable object counts once: cycles end."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # keeps the objects, whose ids could be used again
        self._count = self._depth = 0

    def visit(self, value: Any) -> None:
        """Add a value to the digest."""
        self._count += 1
        if self._count > _MAX_VALUES or self._depth > _MAX_DEPTH:
            self._write(type(value).__qualname__)
            return
        if value is None or isinstance(value, bool | int | float | complex | bytes | range | np.dtype):
            self._write(type(value).__name__, repr(cast(Any, value)))
            return
        if isinstance(value, str | PurePath):
            text = os.fspath(value)
            self._write("text", os.path.basename(text) if os.path.isabs(text) else text)  # noqa: PTH117, PTH119  # text
            return
        # Python may or may not make one object of equal constants, such as tuples.
        if not isinstance(value, tuple | frozenset | np.generic):
            if id(value) in self._seen:
                self._write(f"object {self._seen[id(value)][0]}")
                return
            self._seen[id(value)] = len(self._seen), value
        self._write(type(value).__qualname__)
        self._depth += 1
        self._visit_content(value)
        self._depth -= 1

    def _visit_content(self, value: Any) -> None:
        match value:
            case tuple() | list():
                self._visit_all(cast(list[Any], value))
            case dict():
                for key, item in cast(dict[Any, Any], value).items():
                    self._visit_all((key, item))
            case set() | frozenset():
                # The order of a set of texts differs between processes, because Python salts their hashes.
                self._write(*sorted(_key(item) for item in cast(set[Any], value)))
            case FunctionType():
                self._visit_function(value)
            case MethodType():
                self._visit_all((value.__func__, value.__self__))
            case functools.partial():
                partial = cast(functools.partial[Any], value)
                self._visit_all((partial.func, partial.args, partial.keywords))
            case type():
                self._visit_class(cast(type, value))
            case ModuleType():
                self._write(value.__name__)
            case _:
                self._visit_object(value)

    def _visit_all(self, values: Iterable[Any]) -> None:
        items = list(values)
        self._write(str(len(items)))
        for item in items:
            self.visit(item)

    def _visit_function(self, function: FunctionType) -> None:
        code = function.__code__
        if code.co_filename.startswith(_LIBRARIES):
            self._write(code.co_qualname)
            if hasattr(function, "__wrapped__"):
                self.visit(cast(Any, function).__wrapped__)
            return
        self._write(code_text(code))
        self._visit_all((function.__defaults__, function.__kwdefaults__))
        use = _Use([code])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._visit_variable(name, cell.cell_contents, use)
            except ValueError:  # not assigned yet
                self._write(name)
        for name in sorted(use.globals):
            # The names of the module and of its file differ between a main program and a host.
            if name in function.__globals__ and not name.startswith("__"):
                self._visit_variable(name, function.__globals__[name], use)

    def _visit_variable(self, name: str, value: Any, use: "_Use") -> None:
        if name in use.assigned or (use.changes and isinstance(value, list | dict | set)):
            return
        self._write(name)
        self.visit(value)
        # Of command-line arguments, only those that the code names, since others may name a host or a folder.
        users = isinstance(value, ModuleType) and not _is_library_module(value)
        if users or isinstance(value, Namespace | SimpleNamespace):
            names = (use.names & vars(value).keys()) - use.followed.get(id(value), set())
            use.followed.setdefault(id(value), set()).update(names)  # two modules may import each other
            for inner in sorted(names):
                self._visit_variable(inner, vars(value)[inner], use)

    def _visit_class(self, kind: type) -> None:
        self._write(kind.__qualname__)
        use = _use_of_methods(kind)
        for base in _users_bases(kind):
            for name, value in sorted(vars(base).items()):
                inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if isinstance(inner, FunctionType) or not name.startswith("__"):
                    self._visit_variable(name, inner, use)

    def _visit_object(self, value: Any) -> None:
        kind = type(value)
        if hasattr(kind, "__array__") and not kind.__module__.startswith("penstock."):
            try:
                array = np.asarray(value)
            except Exception:  # noqa: BLE001  # arrays of other libraries may raise anything
                return
            self._visit_array(array)
        elif _is_library_class(kind):
            self._write(str(_attribute(value, "__qualname__") or _attribute(value, "__name__")))
            wrapped = [inner for name in _WRAPPED if callable(inner := _attribute(value, name))]
            self._visit_all(wrapped[:1])
        else:
            self.visit(kind)
            use = _use_of_methods(kind)
            slots = [name for base in _users_bases(kind) for name in _slots(base) if hasattr(value, name)]
            attributes = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
            for name in sorted(attributes):
                # A cached property exists only where it has been used.
                if not isinstance(getattr(kind, name, None), functools.cached_property):
                    self._visit_variable(name, attributes[name], use)

    def _visit_array(self, array: Array) -> None:
        self._write(str(array.dtype), str(array.shape))
        if array.dtype.hasobject:
            self._visit_all(array.ravel().tolist())
        elif array.nbytes <= _WHOLE_BYTES:
            self.digest.update(np.ascontiguousarray(array).data if array.dtype.kind in "biufc" else array.tobytes())
        else:
            self.digest.update(array.flat[np.linspace(0, array.size - 1, _ELEMENTS).astype(np.int64)].tobytes())

    def _write(self, *texts: str) -> None:
        for text in texts:
            data = text.encode(errors="surrogatepass")
            self.digest.update(f"{len(data)} ".encode() + data)


class _Use:
    """Uses of variables in some code and in the functions inside of it.

    Attributes:
        globals: Names of global variables that it reads.
        names: Names of attributes and globals.
        assigned: Names of variables outside of the code, and of attributes, that it assigns.
        changes: True if it may change containers.
        followed: By the id of a module or namespace, the names of its values that have been visited.
    """

    def __init__(self, codes: Iterable[CodeType]) -> None:
        self.globals: set[str] = set()
        self.names: set[str] = set()
        self.assigned: set[str] = set()
        self.changes = False
        self.followed: dict[int, set[str]] = {}
        for code in codes:
            self._add(code)

    def _add(self, code: CodeType) -> None:
        self.names.update(code.co_names)
        self.changes = self.changes or not _CHANGING_METHODS.isdisjoint(code.co_names)
        for instruction in dis.get_instructions(code):
            name, argument = instruction.opname, instruction.argval
            self.changes = self.changes or name in _CHANGING
            if name in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.globals.add(argument)
            elif name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR") or (
                name in ("STORE_DEREF", "DELETE_DEREF") and argument in code.co_freevars
            ):
                self.assigned.add(argument)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add(constant)


def _key(item: Any) -> str:
    plain = item is None or isinstance(item, bool | int | float | complex | str | bytes)
    return repr(item) if plain else type(item).__qualname__


def _users_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if not _is_library_class(base)]


def _use_of_methods(kind: type) -> _Use:
    """Return the uses of variables in the methods of a class that do not prepare its objects."""
    methods = [item for base in _users_bases(kind) for item in vars(base).items() if item[0] not in _PREPARING]
    return _Use(function.__code__ for _, function in methods if isinstance(function, FunctionType))


def _name(function: Any) -> str:
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(cast(functools.partial[Any], inner).func)
    name: str = getattr(inner, "__qualname__", type(inner).__qualname__)
    return name.rpartition("<locals>.")[2]


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001  # objects of other libraries may raise anything
        return None


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _is_library_class(kind: type) -> bool:
    # The main module may be that of the command which runs the program, and `penstock serve` removes the program from
    # the modules again.
    module = None if kind.__module__ == "__main__" else sys.modules.get(kind.__module__)
    return module is not None and _is_library_module(module)


def _is_library_module(module: ModuleType) -> bool:
    # A namespace package has no file, and neither has a module that is built in.
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return file is None or file.startswith(_LIBRARIES)
