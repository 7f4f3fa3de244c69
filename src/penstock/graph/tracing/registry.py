"""Operators by name. `@operator` makes and registers the public function of an operator; modules load on first use."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from penstock.core import user_call_site
from penstock.core.foreign_names import FOREIGN
from penstock.core.tracebacks import hide_internal_frames
from penstock.core.unsupported import explain_absence
from penstock.core.user_callbacks import tracing_variable
from penstock.errors import ArgumentTypeError, PenstockError, UnknownNameError, about, did_you_mean
from penstock.graph.arguments.argument_checks import (
    bind_arguments,
    coerce_argument,
    coerce_arguments,
    is_optional,
    type_hints,
)
from penstock.graph.arguments.argument_groups import CommonArguments, group_hints, public_docstring, public_signature
from penstock.graph.arguments.argument_marks import marks_of
from penstock.graph.arguments.argument_snapshots import snapshot_arguments
from penstock.graph.arguments.input_conversion import collect_results, convert_constants, expand_input_lists
from penstock.graph.arguments.input_requirements import Input
from penstock.graph.identity.call_record import CallRecorder
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.node import NodeHandle, OperatorCall
from penstock.graph.tracing.deferred_tracing import CallJournal

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# Group of entry points through which other packages add operators: name -> the decorated function.
ENTRY_POINTS = "penstock.operators"

_operators: dict[str, OperatorFunction[..., Any]] = {}
_homes: dict[str, str] = {}  # the modules of the operators that `penstock.fn` offers, loaded or not

# Operator whose function is running; of operators that call each other, the innermost.
_running: ContextVar[OperatorFunction[..., Any] | None] = tracing_variable("running_operator")

# Common arguments of the call that is running.
_common: ContextVar[CommonArguments | None] = tracing_variable("common_arguments")

# The calls of the definition that is being traced.
journal: ContextVar[CallJournal | None] = tracing_variable("journal")


class OperatorFunction(Generic[P, R]):
    """Public function of an operator, such as `fn.resize`.

    A call has four phases: `bind` its arguments to names, `coerce` them to their declared types, expand lists of
    nodes into one call per node, and `record` each call. An error gets the line of the user's definition.

    Arguments are declared once, in the signature of the function; `inspect.signature` and `help` of this object show
    them together with the arguments that every operator takes (`CommonArguments`).

    Args:
        name: Name as `penstock.fn` spells it, such as "readers.file".
        function: Function that builds the nodes. It runs while a definition is traced.
        defaults: Defaults that differ from those of the argument groups; those of common arguments take effect.
        maker: Call of the operator that returned this function, if one did: its arguments also identify this call.

    Attributes:
        call_on_data: Computes a call outside of definitions on data at once; returns NotImplemented for other calls.
            `penstock.eager` sets it, a later stage, since recording does not know how a graph runs.
    """

    call_on_data: ClassVar[Any] = None

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        *,
        defaults: Mapping[str, Any] | None = None,
        maker: OperatorCall | None = None,
    ) -> None:
        functools.update_wrapper(cast(Any, self), function)
        self.name, self.function, self._defaults = name, function, defaults or {}
        self.__doc__ = public_docstring(function)
        self._recorder = CallRecorder(name, function, maker)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Record a use of the operator in the definition that is being traced; outside of one, compute it on data."""
        # Only the user's own calls can be made again: what an operator calls in turn belongs to its call.
        try:
            if _running.get() is None:
                calls = journal.get()
                if calls is not None:
                    return calls.call(functools.partial(self._call, *snapshot_arguments(self.function, args, kwargs)))
                if self.call_on_data is not None:
                    result: Any = self.call_on_data(self, args, kwargs)
                    if result is not NotImplemented:
                        return result
            return self._call(args, kwargs)
        except Exception as error:
            hide_internal_frames(error)
            raise

    def __get__(self, instance: object, owner: type | None = None) -> OperatorFunction[P, R]:
        """Return the operator itself, also as a class attribute: its first argument is data, not an instance.

        Having this method also makes pydoc treat the object as a routine, so that `help` prints its signature.
        """
        return self

    def __getattr__(self, name: str) -> Any:
        # Resolving annotations takes longer than importing the module, so the signature is made when it is first read.
        if name != "__signature__":
            raise AttributeError(name)
        self.__signature__ = public_signature(self.function, self._defaults)
        return self.__signature__

    def __repr__(self) -> str:
        return f"<operator fn.{self.name}>"

    def __reduce__(self) -> str:
        # Pickled by name, like a function: code that users send to worker processes may refer to operators.
        return self.__qualname__

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> R:
        try:
            with running(self), about(self.label) if self.label else nullcontext():
                bound, common = self.bind(args, kwargs)
                calls = [self.coerce(call) for call in expand_input_lists(bound, type_hints(self.function))]
                # Names are unique, so that of the call is for the first element of lists.
                unnamed = cast(CommonArguments, {key: value for key, value in common.items() if key != "name"})
                results = [self.record(call, unnamed if number else common) for number, call in enumerate(calls)]
                return results[0] if len(results) == 1 else collect_results(results)
        except PenstockError as error:
            # An operator that this one calls has already set the line.
            error.where = error.where or user_call_site()
            raise

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[inspect.BoundArguments, CommonArguments]:
        """Return the function's own arguments by name, and the common ones, checked.

        Raises:
            ArgumentTypeError: The operator has no argument of a name, or one is missing.
        """
        self._check_names(kwargs)
        hints, common_hints = type_hints(self.function), group_hints(CommonArguments)
        own: dict[str, Any] = {}
        common: dict[str, Any] = {}
        for name, value in kwargs.items():
            # As in DALI, None stands for "not given", and operators that draw no random numbers ignore a seed.
            hint = hints.get(name, common_hints.get(name, Any))
            if value is None and not is_optional(hint):
                continue
            if name in self._own_names:
                own[name] = value
                continue
            checked = coerce_argument(hint, value, name)
            if name != "seed":
                common[name] = checked
        bound = bind_arguments(self._source_signature, args, own)
        for name, value in bound.arguments.items():
            # The annotations of some inputs allow anything, but an input without a default is needed.
            if value is None and self._source_signature.parameters[name].default is inspect.Parameter.empty:
                raise ArgumentTypeError(f"{name} is missing", given="None", expected="an input")
        return bound, cast(CommonArguments, common)

    def coerce(self, bound: inspect.BoundArguments) -> inspect.BoundArguments:
        """Return the arguments in the declared types: nodes for inputs, whole numbers for 3.0, lists for one number.

        Raises:
            ArgumentTypeError: An argument has another type.
            DefinitionError: A number is out of range.
        """
        bound = convert_constants(bound, type_hints(self.function), lookup("constant"))
        bound = coerce_arguments(self.function, bound, one_is_many=True)
        for name, requirement in self._requirements.items():
            value = bound.arguments.get(name)
            for node in cast(tuple[Any, ...], value) if isinstance(value, tuple) else (value,):
                if isinstance(node, NodeHandle):
                    requirement.check(name, cast(Any, node).spec)
        return bound

    def record(self, bound: inspect.BoundArguments, common: CommonArguments) -> R:
        """Run the function and record which nodes this call made."""
        defaults = {name: value for name, value in self._defaults.items() if name in group_hints(CommonArguments)}
        token = _common.set(cast(CommonArguments, {**defaults, **common}))
        try:
            return self._recorder.record(bound, common)
        finally:
            _common.reset(token)

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the operator from another operator's function, with the common arguments of that one."""
        return cast(Any, self)(*args, **common_arguments(), **kwargs)

    def check_names(self, names: Iterable[str]) -> None:
        """Check that the operator has arguments of these names.

        Raises:
            ArgumentTypeError: It does not have one of them.
        """
        try:
            with about(self.label):
                self._check_names(names)
        except ArgumentTypeError as error:
            error.where = user_call_site()
            raise

    @property
    def argument_names(self) -> frozenset[str]:
        """Names of all arguments: the function's, its group's and the common ones; without ``*inputs``."""
        return self._own_names | group_hints(CommonArguments).keys()

    @property
    def label(self) -> str:
        """Name under which users call the operator, or "" for what they write with Python's operators."""
        module = self.name.partition(".")[0]
        if module in ("arithmetic", "conditional", "getitem"):
            return ""
        return self.name if module == "math" else f"fn.{self.name}"

    @functools.cached_property
    def schema(self) -> Mapping[str, Argument]:
        """Arguments that may differ between samples."""
        return self._marked(Argument)

    @functools.cached_property
    def _requirements(self) -> Mapping[str, Input]:
        return self._marked(Input)

    def _marked(self, kind: type[T]) -> dict[str, T]:
        marked = ((name, marks_of(hint)) for name, hint in type_hints(self.function).items())
        return {name: mark for name, marks in marked for mark in marks if isinstance(mark, kind)}

    @functools.cached_property
    def _source_signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @functools.cached_property
    def _own_names(self) -> frozenset[str]:
        parameters = self._source_signature.parameters.values()
        variadic = {item.name for item in parameters if item.kind in (item.VAR_KEYWORD, item.VAR_POSITIONAL)}
        return frozenset(type_hints(self.function)) - variadic - {"return"}

    def _check_names(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.argument_names:
                fix = explain_absence(f"fn.{self.name}({name}=)") or did_you_mean(name, self.argument_names)
                raise ArgumentTypeError(f"there is no argument {name!r}", given=name, fix=fix)


def operator(
    name: str, *, defaults: Mapping[str, Any] | None = None
) -> Callable[[Callable[P, R]], OperatorFunction[P, R]]:
    """Register the public function of an operator.

    Args:
        name: Name as `penstock.fn` spells it, such as "readers.file".
        defaults: Defaults that differ from those of the argument groups, as `OperatorFunction` takes them.

    Raises:
        ArgumentTypeError: Another operator has that name.
    """

    def register(function: Callable[P, R]) -> OperatorFunction[P, R]:
        home = function.__module__
        if name in _operators or _homes.get(name, home) != home:
            raise ArgumentTypeError(f"there is an operator named {name!r} already", fix="choose another name")
        _operators[name] = result = OperatorFunction(name, function, defaults=defaults)
        return result

    return register


@contextmanager
def running(operator: OperatorFunction[..., Any]) -> Generator[None]:
    """Attribute the nodes that are recorded meanwhile to an operator."""
    token = _running.set(operator)
    try:
        yield
    finally:
        _running.reset(token)


def running_operator() -> OperatorFunction[..., Any] | None:
    """Return the operator whose function is running, or None."""
    return _running.get()


def common_arguments() -> CommonArguments:
    """Return the common arguments of the operator call that is running."""
    return _common.get() or {}


def lookup(name: str) -> OperatorFunction[..., Any]:
    """Return the public function of an operator, built in or from another package's entry point.

    Raises:
        UnknownNameError: No operator has this name; similar names are suggested.
    """
    if name not in _operators and name in _homes:
        import_module(_homes[name])
    if name not in _operators:
        for entry in _offered_by_packages().get(name, ()):
            entry.load()  # imports the module, whose decorator registers the operator
    if name not in _operators:
        raise UnknownNameError(f"there is no operator {name!r}", fix=did_you_mean(name, registered()))
    return _operators[name]


def registered() -> list[str]:
    """Return the names of all operators, sorted; without those of other packages that are not loaded."""
    return sorted({*_operators, *_homes})


def is_available(name: str) -> bool:
    """Tell whether there is an operator of this name, perhaps in another package that is not loaded yet."""
    return name in _operators or name in _homes or name in _offered_by_packages()


def available() -> frozenset[str]:
    """Return the names of all operators, including those of other packages that are not loaded yet."""
    return frozenset({*_operators, *_homes, *_offered_by_packages()})


@functools.cache
def _offered_by_packages() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the entry points of other packages by the name of their operator.

    The search reads the metadata of all installed packages, which takes tens of milliseconds. It runs once per process,
    and only for a name that is not built in.
    """
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        found.setdefault(entry.name, []).append(entry)
    return found


def declare_modules(modules: Mapping[str, str]) -> None:
    """Declare which module defines each operator, so that `lookup` loads it on first use; replaces earlier ones."""
    _homes.clear()
    _homes.update(modules)


def lazy_module(
    module: str, present: Callable[[str], str] = str, submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module of `penstock.fn`, which load operators on first use.

    Operators of other packages are found as well. Any other name raises an error that suggests a fix.

    Args:
        module: Name of the module.
        present: Maps an older name of an operator to its present name.
        submodules: Submodules to list besides those that define operators.
    """
    names = vars(sys.modules[module])
    prefix = f"{module}.".removeprefix("penstock.fn.")

    def getattr_(name: str) -> Any:
        if name == "__all__":
            return dir_()
        if name.startswith("__"):
            raise AttributeError(name)  # Python looks for these itself
        full_name = present(prefix + name)
        try:
            # As an attribute of the module, it is found the next time without this function.
            result = names[name] = lookup(full_name)
        except UnknownNameError as error:
            known = error
            if fix := explain_absence(f"fn.{full_name}"):
                known = UnknownNameError(f"DALI's fn.{full_name} is not offered", fix=fix)
            elif name in FOREIGN:
                library, fix = FOREIGN[name]
                known = UnknownNameError(f"fn has no operator {name!r}, which is a name of {library}", fix=fix)
            known.where = user_call_site()
            hide_internal_frames(known)
            raise known from None
        return result

    def dir_() -> list[str]:
        names_below = [name.removeprefix(prefix) for name in _homes if name.startswith(prefix)]
        return sorted({*submodules, *(name.partition(".")[0] for name in names_below)})

    return getattr_, dir_
