"""Wrong calls of operators: valid calls of `cases` in which arguments are replaced by values of every kind.

All is drawn from one seed, so that a finding can be repeated: ``calls(seed=3)`` yields the same calls in every run.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from case_data import IMAGES
from cases import CASES

from penstock import Pipeline, fn, types
from penstock.graph.tracing import registry
from penstock.graph.tracing.registry import OperatorFunction, lookup, registered
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

USES_PER_OPERATOR = 4


@dataclass(frozen=True)
class Input:
    """Place of an input in a call: the number of its column."""

    number: int


@dataclass(frozen=True)
class Node:
    """A node among the wrong values: samples that are added to the inputs of a call."""

    array: Any
    layout: str = ""


@dataclass
class Use:
    """A valid call of an operator, without its nodes."""

    operator: str
    columns: list[Any] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Call:
    """A call that may be wrong.

    Args:
        use: The valid call.
        args: Inputs of the wrong call.
        kwargs: Arguments of the wrong call.
        changed: Names of the arguments that differ from the valid call.
    """

    use: Use
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    changed: tuple[str, ...]

    def inputs(self) -> tuple[list[Any], list[str]]:
        """Return the columns of the call and their layouts: those of the valid call, then those of wrong nodes."""
        extra = [item for item in (*self.args, *self.kwargs.values()) if isinstance(item, Node)]
        return (
            [*self.use.columns, *(np.stack([item.array] * 4) for item in extra)],
            [*self.use.layouts, *(item.layout for item in extra)],
        )

    def make(
        self, function: Callable[..., Any], nodes: Any, convert: Callable[[Any], Any] = lambda value: value
    ) -> Any:
        """Call a function with nodes in the places of inputs."""
        extra = iter(nodes[len(self.use.columns) :])

        def place(item: Any) -> Any:
            if isinstance(item, Input):
                return nodes[item.number]
            return next(extra) if isinstance(item, Node) else convert(item)

        args = [place(item) for item in self.args]
        return function(*args, **{name: place(item) for name, item in self.kwargs.items()})

    def __str__(self) -> str:
        parts = [repr(item) for item in self.args] + [f"{name}={item!r}" for name, item in self.kwargs.items()]
        return f"fn.{self.use.operator}({', '.join(part[:60].replace(chr(10), '') for part in parts)})"


def uses() -> dict[str, list[Use]]:
    """Return valid calls of each operator: those of `cases` whose nodes are inputs, and some of readers."""
    found: dict[str, list[Use]] = {name: [] for name in registered()}
    for cases in CASES.values():
        for case in cases:
            for use in _recorded(case):
                known = found[use.operator]
                same = any((one.kwargs.keys(), len(one.args)) == (use.kwargs.keys(), len(use.args)) for one in known)
                if len(known) < USES_PER_OPERATOR and not same:
                    known.append(use)
    for name, kwargs in READERS.items():
        found[name] = [Use(name, kwargs=kwargs)]
    return {name: found[name] for name in found if found[name] and lookup(name).label}


READERS: dict[str, dict[str, Any]] = {
    "external_source": {"source": [IMAGES], "num_outputs": 1, "layout": "HWC"},
    "inputs.video": {"sequence_length": 2, "name": "fed"},
    "readers.array_record": {"paths": ["missing"]},
    "readers.arrays": {"arrays": IMAGES, "layout": "HWC"},
    "readers.caffe": {"path": "missing"},
    "readers.caffe2": {"path": "missing"},
    "readers.cifar10": {"path": "missing"},
    "readers.coco": {"file_root": ".", "annotations_file": "missing"},
    "readers.file": {"files": [__file__], "labels": [3], "random_shuffle": True, "initial_fill": 4},
    "readers.fits": {"files": ["missing"]},
    "readers.items": {"items": [IMAGES[0]] * 4},
    "readers.mnist": {"images": "missing", "labels": "missing"},
    "readers.mxnet": {"path": ["missing"], "index_path": ["missing"]},
    "readers.nemo_asr": {"manifest_filepaths": ["missing"]},
    "readers.numpy": {"files": ["missing"]},
    "readers.parquet": {"paths": ["missing"], "columns": ["x"]},
    "readers.sequence": {"file_root": "missing", "sequence_length": 2},
    "readers.tfrecord": {"path": ["missing"], "index_path": ["missing"], "features": {}},
    "readers.video": {"filenames": ["missing"], "sequence_length": 2},
    "readers.video_resize": {"filenames": ["missing"], "sequence_length": 2, "size": [3, 3]},
    "readers.webdataset": {"paths": ["missing"], "ext": ["jpg"]},
}


def _recorded(case: Any) -> list[Use]:
    """Return the calls of a case whose nodes are inputs of the case."""
    found: list[Use] = []
    columns = list(case.inputs)
    layouts = list(case.layouts) or [""] * len(columns)
    own = OperatorFunction.__call__

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        outermost = registry._running.get() is None
        result = own(self, *args, **kwargs)
        if outermost:
            numbers = {node.value: number for number, node in enumerate(nodes)}
            try:
                place = lambda item: Input(numbers[item.value]) if isinstance(item, DataNode) else item  # noqa: E731
                known = tuple(map(place, args)), {name: place(item) for name, item in kwargs.items()}
            except KeyError:
                return result
            found.append(Use(self.name, columns, layouts, *known))
        return result

    with Pipeline(4):
        nodes = _read(columns, layouts)
        with mock.patch.object(OperatorFunction, "__call__", record):
            case.build(*nodes)
    return found


class Thing:
    """An object that is no argument of anything."""

    def __repr__(self) -> str:
        return "Thing()"


def _function(*values: Any) -> Any:
    return values


NUMBERS = (0, -1, -3, 1, 7, 0.5, -0.5, 2**31, 2**63, 10**30, 1e30, float("nan"), float("inf"), -float("inf"))
NODES = (
    Node(np.uint8(3)),
    Node(np.float32(0.5)),
    Node(np.arange(3, dtype=np.int32)),
    Node(np.float32([[0.5, 1], [2, 3]])),
    Node(np.ones((5, 4, 3), np.uint8), "HWC"),
    Node(np.ones((2, 3, 4, 2, 3), np.float32), "FDHWC"),
    Node(np.array(True)),
    Node(np.zeros((0, 4), np.float32)),
)
OTHERS = (
    *(
        [],
        [[]],
        [0],
        [-3],
        [1, 2, 3, 4, 5, 6, 7],
        [[1, 2], [3, 4]],
        [1, 2],
        [0.5, float("nan")],
        [None],
        ["a"],
        [[1], 2],
    ),
    *("", "nonsense", "HWC", "a\0b", b"abc", None, True, False, Thing(), Thing, _function, {}, {"a": 1}, 1j, ...),
    *(np.zeros((0,)), np.arange(3), np.ones((2, 2), np.float32), np.array(["a"]), np.array(None), np.float32(2.5)),
    *(types.INT8, types.STRING, types.NO_TYPE, types.INTERP_LINEAR, types.GRAY, np.uint8, "float16", range(3), {1, 2}),
    *(np.datetime64("2020-01-01"), (x for x in ()), slice(1, 2), -0.0, 3.0, "3", types.Constant(3)),
)
VALUES = (*NUMBERS, *OTHERS, *NODES)


def calls(seed: int, count: int | None = None) -> Iterator[Call]:
    """Yield wrong calls.

    Args:
        seed: Seed of the choice.
        count: Number of calls; None yields every value for every argument of every use, then as many pairs.
    """
    rng = np.random.default_rng(seed)
    every = [use for known in uses().values() for use in known]
    valid = _valid_values(every)
    if count is None:
        single = [one for use in every for one in _single(use)]
    else:
        numbers = sorted(rng.integers(0, len(every), count // 2).tolist())
        single = [
            _one_of(rng, options)
            for number, group in itertools.groupby(numbers)
            for options in [list(_single(every[number]))]
            for _ in group
        ]
    yield from single
    for number in rng.integers(0, len(every), count - len(single) if count is not None else len(single)):
        yield _several(every[number], rng, valid)


def _one_of(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(0, len(options)))]


def _names(use: Use) -> list[str]:
    """Return the arguments of an operator that are passed by name."""
    parameters = inspect.signature(lookup(use.operator)).parameters.values()
    return [item.name for item in parameters if item.kind is item.KEYWORD_ONLY]


def _inputs(use: Use) -> list[str]:
    """Return the names of the inputs of a call."""
    names: list[str] = []
    for item in inspect.signature(lookup(use.operator)).parameters.values():
        if item.kind is item.VAR_POSITIONAL:
            names += [item.name] * (len(use.args) - len(names))
        elif item.kind is not item.KEYWORD_ONLY and item.name not in use.kwargs:
            names.append(item.name)
    return names[: len(use.args)]


def _single(use: Use) -> Iterator[Call]:
    """Yield the calls in which one thing is wrong: a value, a missing argument, an unknown one, one input more."""
    names = _names(use)
    for name in names:
        for value in VALUES:
            yield Call(use, use.args, {**use.kwargs, name: value}, (name,))
    for name in use.kwargs:
        yield Call(use, use.args, {key: value for key, value in use.kwargs.items() if key != name}, (name,))
    for number, name in enumerate(_inputs(use)):
        for value in VALUES:
            yield Call(use, (*use.args[:number], value, *use.args[number + 1 :]), use.kwargs, (name,))
        yield Call(use, use.args[:number], use.kwargs, (name,))
    yield Call(use, (*use.args, 3), use.kwargs, ())
    yield Call(use, use.args, {**use.kwargs, "nonsense": 3}, ("nonsense",))


def _several(use: Use, rng: np.random.Generator, valid: dict[str, list[Any]]) -> Call:
    """Return a call with two to four other arguments, most of them valid on their own."""
    names = _names(use)
    chosen = [names[number] for number in rng.choice(len(names), min(len(names), int(rng.integers(2, 5))), False)]
    kwargs = dict(use.kwargs)
    for name in chosen:
        kwargs[name] = _one_of(rng, valid[name] if name in valid and rng.random() < 0.7 else VALUES)
    return Call(use, use.args, kwargs, tuple(chosen))


def _valid_values(every: list[Use]) -> dict[str, list[Any]]:
    """Return the values that arguments of a name have in valid calls."""
    found: dict[str, list[Any]] = {}
    for use in every:
        for name, value in use.kwargs.items():
            if not isinstance(value, Input):
                found.setdefault(name, []).append(value)
    return found


def nodes_of(call: Call) -> Any:
    """Return the nodes of the inputs of a call, in the definition that is being traced."""
    return _read(*call.inputs())


def _read(columns: list[Any], layouts: list[str]) -> Any:
    if not columns:
        return ()
    if all(isinstance(column, np.ndarray) for column in columns):
        nodes = fn.readers.arrays(tuple(columns), layout=layouts)
        return [nodes] if isinstance(nodes, DataNode) else list(nodes)
    return apply_reader(ListSource([list(column) for column in columns], layouts), {})


def function_of(call: Call, package: Any = fn) -> Callable[..., Any]:
    """Return the function that a call calls."""
    function = package
    for part in call.use.operator.split("."):
        function = getattr(function, part)
    return function
