"""Base of operators that call a NumPy function of the user: inference of its outputs before there are data."""

import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np

from penstock.core import Array, Spec
from penstock.core.slow_waits import PATIENCE_SECONDS, SlowWait, current_line
from penstock.errors import DefinitionError, SampleError, short_repr
from penstock.graph import Operator, Value, check_layout, current_trace
from penstock.operators.first_sample import first_sample
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.outputs import per_output
from penstock.sources.external.array_conversion import check_unmasked
from penstock.types import as_dtype

# Two values for unknown extents in a trial with zeros. An output extent that differs between them is unknown, too.
_FILLERS = (96, 160)

# The same for samples with more than three unknown extents: 160**4 elements would take gigabytes.
_SMALL_FILLERS = (24, 40)

_FIX = "declare its outputs with dtype= and ndim="

# Dtype and rank of each output.
Kinds = tuple[tuple[np.dtype[Any], int], ...]


@dataclass(frozen=True)
class NumpyFunction(Operator):
    """A function from arrays to arrays.

    Args:
        code: The function.
        num_outputs: Number of arrays that it returns.
        layouts: Layout of each output, or "".
        kinds: Dtype and rank of each output, as declared by the user; empty to infer them.
        takes_rng: True if the function gets a random generator for each sample.
    """

    reads_content: ClassVar[bool] = True
    reproducible: ClassVar[Literal["always", "in a run", "never"]] = "in a run"
    code: FunctionIdentity
    num_outputs: int
    layouts: tuple[str, ...]
    kinds: Kinds
    takes_rng: bool

    @property
    def random_bits(self) -> int:
        """Four words, the key of a generator, if the function gets one."""
        return 4 * self.takes_rng

    def generator(self, bits: Any = None) -> np.random.Generator:
        """Return the generator of a sample from its random bits; by default one for a trial."""
        # Philox takes its key as it is, where other generators hash a seed for longer than a short function runs.
        key = 0 if bits is None else np.ascontiguousarray(bits, "<u4").view("<u8")
        return np.random.Generator(np.random.Philox(key=key))

    @abstractmethod
    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """Call the function with one sample of each input."""

    def resolve_kinds(self, inputs: Sequence[Value]) -> Self:
        """Return the function with the dtypes and ranks of its outputs for the first sample, unless zeros suffice.

        Inputs of known extents are replaced by zeros. Inputs of unknown extents need their first sample: the function
        could reject zeros of an arbitrary size, and large zeros could exhaust the memory.

        Args:
            inputs: Inputs of the call.

        Raises:
            DefinitionError: The function also fails on the first sample, or that cannot be computed.
        """
        if self.kinds or not self.num_outputs:
            return self
        specs = [value.spec for value in inputs]
        dense = all(spec.dense for spec in specs)
        if dense and self._accepts_zeros(specs):
            return self
        try:
            samples = _first_samples(inputs)
        except DefinitionError:
            not_fed = current_trace().journal.open
            if dense and not not_fed:
                raise
            # Dense inputs have been tried above.
            if not_fed and (dense or not self._accepts_zeros(specs)):
                return self._with_assumed_outputs(specs[0])
            return self  # zeros remain
        outputs = self._outputs_for("the first sample", samples)
        return replace(self, kinds=tuple([(array.dtype, array.ndim) for array in outputs]))

    def _accepts_zeros(self, specs: Sequence[Spec]) -> bool:
        try:
            self.infer(*specs)
        except DefinitionError:
            return False
        return True

    def _with_assumed_outputs(self, first: Spec) -> Self:
        """Return the function for inputs that are not fed yet, with outputs of the kind of its first input.

        Any kind will do, because the definition is traced again with the first batch. To search for the kinds that the
        function accepts, it would have to be called for every combination of kinds of its inputs.
        """
        return replace(self, kinds=tuple([(first.dtype, len(layout or first.shape)) for layout in self.layouts]))

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """Return the specs of the outputs: declared, of the first sample, or of a trial with zeros."""
        outputs = [(dtype, (None,) * ndim) for dtype, ndim in self.kinds] or self._infer_by_trial(inputs)
        return tuple([self._spec(number, *output) for number, output in enumerate(outputs)])

    def _spec(self, number: int, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> Spec:
        bare = Spec(dtype, shape)
        layout = check_layout(self.layouts[number], bare, len(shape))
        return replace(bare, layout=layout)

    def _infer_by_trial(self, inputs: Sequence[Spec]) -> list[tuple[np.dtype[Any], tuple[int | None, ...]]]:
        if not self.num_outputs:
            return []
        unknown = max([spec.shape.count(None) for spec in inputs], default=0)
        fillers = (_SMALL_FILLERS if unknown > 3 else _FILLERS)[: 2 if unknown else 1]
        results: list[Sequence[Array]] = []
        for filler in fillers:
            zeros = [np.zeros([filler if n is None else n for n in spec.shape], spec.dtype) for spec in inputs]
            results.append(self._outputs_for("zeros", zeros))
        outputs: list[tuple[np.dtype[Any], tuple[int | None, ...]]] = []
        for arrays in zip(*results, strict=True):
            extents = zip(*(array.shape for array in arrays), strict=True)
            # An extent of 0 may come from the zeros, as with a crop whose bounds are inputs, too: it counts as unknown.
            shape = tuple(max(sizes) or None if len(set(sizes)) == 1 else None for sizes in extents)
            outputs.append((arrays[0].dtype, shape))
        return outputs

    def _outputs_for(self, what: str, samples: Sequence[Array]) -> Sequence[Array]:
        """Call the function while the definition is traced."""
        thread = threading.current_thread()
        with SlowWait(lambda: f"{self.code} has not returned for {what} in {PATIENCE_SECONDS:g} s; {_advice(thread)}"):
            try:
                return self.attempt(samples)
            except SampleError as error:  # a wrong result, whose message has its own fix
                raise DefinitionError(str(error.args[0])) from error
            except Exception as error:  # user functions may raise anything
                raise DefinitionError(
                    f"{self.code} fails on {what}, so its outputs are not known: {type(error).__name__}: {error}",
                    given=", ".join(f"{sample.dtype}{list(sample.shape)}" for sample in samples),
                    fix=_FIX,
                ) from error

    def check(self, sample: Sequence[Array]) -> None:
        """Check the outputs for a sample against their declared dtypes and ranks.

        Raises:
            SampleError: They differ.
        """
        for output, (dtype, ndim) in zip(sample, self.kinds, strict=False):
            if (output.dtype, output.ndim) != (dtype, ndim):
                raise SampleError(
                    f"{self.code} returns another dtype or rank than the definition declares",
                    given=f"{output.dtype}{list(output.shape)}",
                    expected=f"{dtype} with {ndim} axes",
                )


def _advice(thread: threading.Thread) -> str:
    return f"so that it is not called while the definition is traced, {_FIX}; it is at {current_line(thread)}"


def _first_samples(inputs: Sequence[Value]) -> list[Array]:
    """Return a copy of the first sample of each input. The function may change it."""
    return [np.array(first_sample(value, _FIX)) for value in inputs]


def as_array(code: FunctionIdentity, output: Any) -> Array:
    """Convert a result of a function to an array, also a tensor of another library or its DLPack capsule.

    Raises:
        SampleError: Its dtype cannot be the dtype of samples.
        ArgumentTypeError: It has masked elements.
    """
    check_unmasked(output)
    # Python has no public name for the type of capsules before 3.13.
    is_capsule = type(output).__name__ == "PyCapsule"
    array: Array = np.from_dlpack(cast(Any, _Capsule(output))) if is_capsule else np.asarray(output)
    dtype = array.dtype
    # NumPy reports the narrow floats of ml_dtypes as kind "V", like bytes and records. "g" and "G" are long doubles.
    if dtype.kind not in "biufcV" or dtype.char in "gG" or issubclass(dtype.type, np.void):
        raise SampleError(
            f"{code} must return arrays of numbers or booleans",
            given=f"{dtype}{list(array.shape)}",
            fix='convert its result, for example with .astype("float32")',
        )
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


class _Capsule:
    """Adapter that gives a DLPack capsule the methods that `numpy.from_dlpack` calls."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU, device 0


def kinds_of(num_outputs: int, dtype: Any, ndim: int | Sequence[int] | None) -> Kinds:
    """Return the declared dtype and rank of each output.

    Args:
        num_outputs: Number of outputs.
        dtype: Dtype of all outputs, or a list with one per output.
        ndim: Rank of all outputs, or a list with one per output.

    Raises:
        DefinitionError: One of the two is missing, or has another number of entries.
    """
    if (dtype is None) != (ndim is None):
        raise DefinitionError("dtype and ndim must be set together", given=f"dtype={short_repr(dtype)}, ndim={ndim}")
    if dtype is None:
        return ()
    dtypes = [as_dtype(kind).newbyteorder("=") for kind in per_output("dtype", dtype, num_outputs)]
    return tuple(zip(dtypes, per_output("ndim", ndim, num_outputs), strict=True))
