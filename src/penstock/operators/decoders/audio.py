"""decoders.audio: signals from sound files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import MAX_RATE
from penstock.operators.audio.audio_resample import denormalize_samples
from penstock.operators.audio.sinc_resampling import resample, resampled_length
from penstock.sources.storage.sample_limit import check_announced_size
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class DecodeAudio(Operator, SampleKernel):
    """A signal and its rate, from an encoded file.

    Args:
        dtype: of the signal.
        downmix: whether channels are averaged.
        quality: of resampling.
    """

    reads_content: ClassVar[bool] = True
    dtype: np.dtype[Any]
    downmix: bool
    quality: float
    schema: ClassVar[Mapping[str, Argument]] = {"sample_rate": Argument(np.float32, low=0, high=MAX_RATE)}

    def infer(self, data: Spec, *, sample_rate: Any) -> tuple[Spec, Spec]:
        """Any length, any number of channels."""
        if data.dtype != np.uint8 or len(data.shape) != 1:
            raise DefinitionError("fn.decoders.audio takes encoded bytes", given=data, expected="uint8[n]")
        shape = (None,) if self.downmix else (None, None)
        return Spec(self.dtype, shape), Spec(np.dtype(np.float32), ())

    def sample(self, context: SampleContext, data: Array, *, sample_rate: Any) -> tuple[Array, Array]:
        """The signal and its rate."""
        soundfile = optional_import.import_extra("soundfile", "audio", "fn.decoders.audio")
        wanted = float(np.asarray(sample_rate).reshape(()))
        with soundfile.SoundFile(io.BytesIO(data.tobytes())) as file:
            rate = float(file.samplerate)
            as_it_is = not self.downmix and wanted in (0.0, rate)
            check_announced_size(file.frames * file.channels * 4)  # libsndfile believes the header of a FLAC file
            values: Array = file.read(dtype=self.dtype.name if as_it_is else "float32", always_2d=True)
        if self.downmix:
            values = values.mean(axis=1, dtype=np.float32)
        if wanted not in (0.0, rate):
            values = resample(values, rate / wanted, resampled_length(len(values), wanted / rate), self.quality)
        signal = values if as_it_is else denormalize_samples(values, self.dtype)
        return np.ascontiguousarray(signal), np.array(wanted or rate, np.float32)


@operator("decoders.audio")
def audio(
    data: DataNode,
    *,
    sample_rate: float | DataNode = 0.0,
    quality: Annotated[float, Range(0, 100)] = 50.0,
    downmix: bool = False,
    dtype: Any = FLOAT,
) -> list[DataNode]:
    """Decode sound files: WAV, FLAC, OGG, MP3 and what else libsndfile reads. Needs the extra `audio`.

    Args:
        data: the bytes of each file.
        sample_rate: in Hz, up to 10,000,000, to which signals are resampled; 0 keeps their own. A node gives each
            sample its own.
        quality: of resampling, as in `fn.audio_resample`.
        downmix: whether channels are averaged.
        dtype: element type: float32, int16 or int32. The largest integer stands for 1.

    Returns:
        The signals, (elements, channels), or (elements,) with `downmix`; and their rates in Hz, float32.

    Raises:
        DefinitionError: the input is no vector of bytes, or another `dtype`.
        MissingExtraError: the package soundfile is not installed.
        SampleError: a file that cannot be decoded.

    Example:
        >>> import io
        >>> import numpy as np, penstock, soundfile
        >>> from penstock import fn
        >>> file = io.BytesIO()
        >>> soundfile.write(file, np.zeros((100, 2)), 8000, format="WAV")
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     bytes_ = fn.constant(np.frombuffer(file.getvalue(), np.uint8))
        ...     pipeline.set_outputs(*fn.decoders.audio(bytes_, downmix=True))
        >>> signals, rates = pipeline.run()
        >>> signals.at(0).shape, float(rates.at(0))
        ((100,), 8000.0)
    """
    optional_import.import_extra("soundfile", "audio", "fn.decoders.audio")
    element = as_dtype(dtype)
    if element.name not in ("float32", "int16", "int32"):
        raise DefinitionError("fn.decoders.audio: no such type", given=element, expected="float32, int16 or int32")
    return apply_many(DecodeAudio(element, downmix, float(quality)), data, sample_rate=sample_rate)
