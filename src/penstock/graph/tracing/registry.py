"""The operators by name. Defining a public function with `@operator` registers it; its module is loaded on demand."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from penstock.core.call_site import user_call_site
from penstock.core.unsupported import explain_absence
from penstock.errors import ArgumentTypeError, PenstockError, UnknownNameError, did_you_mean
from penstock.graph.arguments.argument_checks import bind_arguments, coerce_arguments, is_optional, type_hints
from penstock.graph.arguments.input_conversion import collect_results, convert_constants, expand_input_lists
from penstock.graph.identity.call_record import CallRecorder
from penstock.graph.ir.node import OperatorCall
from penstock.graph.tracing.deferred_tracing import CallJournal

P = ParamSpec("P")
R = TypeVar("R")

ENTRY_POINTS = "penstock.operators"
"""The group of entry points through which other packages add operators: name -> the decorated function."""

_operators: dict[str, Callable[..., Any]] = {}
_homes: dict[str, str] = {}
"""The modules of the operators that `penstock.fn` offers, loaded or not."""

_LINE = re.compile(r"^from (penstock\.\S+) import \(?\s*(\w+) as \2\b", re.MULTILINE)
"""How a stub of `penstock.fn` offers an operator, or a module of them."""

kind: ContextVar[str] = ContextVar("kind")
"""The public name of the operator whose function is running."""

journal: ContextVar[CallJournal | None] = ContextVar("journal", default=None)
"""Where the calls of the definition that is being traced are noted."""


def operator(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register the public function of an operator.

    The function is called while a definition is traced. Before it runs, the names of its arguments are checked; an
    error that it raises gets the line of the user's definition.

    Args:
        name: as `penstock.fn` spells it, such as "readers.file".

    Raises:
        ArgumentTypeError: another operator has that name.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        home = function.__module__
        if name in _operators or _homes.get(name, home) != home:
            raise ArgumentTypeError(f"there is an operator named {name!r} already", fix="choose another name")

        _operators[name] = call = wrap_operator(name, function)
        return call

    return register


def wrap_operator(name: str, function: Callable[P, R], maker: OperatorCall | None = None) -> Callable[P, R]:
    """A function that acts as the operator `name` while it runs, with the checks that `operator` describes.

    With a list of nodes as an input, it runs once for each of them, and returns a list.

    Args:
        name: as `operator` takes it.
        function: is called.
        maker: the call of the operator's function that returned this one, if one did.
    """
    recorder, signature = CallRecorder(name, function, maker), inspect.signature(function)

    def once(*args: P.args, **kwargs: P.kwargs) -> R:
        token = kind.set(name)
        try:
            sets = expand_input_lists(
                name, bind_arguments(signature, args, _known(name, function, kwargs), f"fn.{name}")
            )
            calls = [
                coerce_arguments(function, convert_constants(each, _constant), f"fn.{name}", one_is_many=True)
                for each in sets
            ]
            results = [recorder.record(each) for each in calls]
            return results[0] if len(results) == 1 else collect_results(results)
        except PenstockError as error:
            error.where = error.where or user_call_site()
            raise
        finally:
            kind.reset(token)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        noted = None if kind.get(None) else journal.get()  # what an operator calls in turn belongs to its call
        return once(*args, **kwargs) if noted is None else noted.call(functools.partial(once, *args, **kwargs))

    return call


def _known(name: str, function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given by name and count."""
    known = _names(function)
    if "seed" not in known:  # as in DALI, any operator takes one, and those that draw no random numbers ignore it
        kwargs = {name: given for name, given in kwargs.items() if name != "seed"}
    _check_names(name, kwargs, known)
    hints = type_hints(function)
    # as in DALI, None stands for what is not given
    return {name: given for name, given in kwargs.items() if given is not None or is_optional(hints.get(name, Any))}


def check_arguments(name: str, given: Iterable[str]) -> None:
    """Check that an operator has arguments of these names.

    Raises:
        ArgumentTypeError: it has none of one of them.
    """
    try:
        _check_names(name, given, _names(inspect.unwrap(lookup(name))) | {"seed"})
    except ArgumentTypeError as error:
        error.where = user_call_site()
        raise


def _check_names(name: str, given: Iterable[str], known: frozenset[str]) -> None:
    for each in given:
        if each not in known:
            fix = explain_absence(f"fn.{name}({each}=)") or did_you_mean(each, known)
            raise ArgumentTypeError(f"fn.{name} has no argument {each!r}", given=each, fix=fix)


@functools.cache
def _names(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's arguments, including those that ``**options: Unpack[...]`` stands for."""
    parameters = inspect.signature(function).parameters.values()
    options = {each.name for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    return frozenset(type_hints(function)) - options - {"return"}


def _constant(value: Any) -> Any:
    return lookup("constant")(value)


def lookup(name: str) -> Callable[..., Any]:
    """The public function of an operator, built in or from another package's entry point.

    Raises:
        UnknownNameError: there is none; it proposes names that are near.
    """
    if name not in _operators and name in _homes:
        import_module(_homes[name])
    if name not in _operators:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            entry.load()
    if name not in _operators:
        raise UnknownNameError(f"there is no operator {name!r}", fix=did_you_mean(name, registered()))
    return _operators[name]


def registered() -> list[str]:
    """The names of all operators but those of other packages that are not loaded, sorted."""
    return sorted({*_operators, *_homes})


def available() -> frozenset[str]:
    """The names of all operators, those of other packages that are not loaded yet included."""
    return frozenset({*_operators, *_homes, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def lazy_module(
    module: str, present: Callable[[str], str] = str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A part of `penstock.fn`: its `__getattr__`, which loads the operators that its stub lists, and its `__dir__`.

    Operators of other packages are found, too. Any other name is answered with an error that helps.

    Args:
        module: the module's name.
        present: says what an operator is called now, given an older name.
    """
    names = vars(sys.modules[module])
    prefix = f"{module}.".removeprefix("penstock.fn.")
    listed = {name: home for home, name in _LINE.findall(Path(names["__file__"]).with_suffix(".pyi").read_text())}
    _homes.update({prefix + name: home for name, home in listed.items() if home != "penstock.fn"})

    def getattr_(name: str) -> Any:
        if name == "__all__":
            return dir_()
        if name.startswith("__"):
            raise AttributeError(name)  # Python looks for these itself
        wanted = present(prefix + name)
        try:
            found = names[name] = lookup(wanted)
        except UnknownNameError as error:
            fix = explain_absence(f"fn.{wanted}")
            known = error if fix is None else UnknownNameError(f"DALI's fn.{wanted} is not offered", fix=fix)
            known.where = user_call_site()
            raise known from None
        return found

    def dir_() -> list[str]:
        return sorted(listed)

    return getattr_, dir_
