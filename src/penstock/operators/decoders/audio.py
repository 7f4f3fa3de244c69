"""decoders.audio: decoding of sound files."""

import io
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Array, Spec, optional_import
from penstock.graph import Argument, DataNode, DType, Operator, SampleContext, SampleKernel, apply_many, operator
from penstock.operators.argument_limits import MAX_RATE, SOUND_DTYPES, Quality, supported_dtype
from penstock.operators.audio.audio_resample import denormalize_samples
from penstock.operators.audio.sinc_resampling import resample, resampled_length
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.sources.formats.mp3_stream import read_stream, states_length
from penstock.sources.formats.nemo_source import FLOAT_SUBTYPES
from penstock.sources.storage.sample_limit import check_announced_size
from penstock.types import FLOAT


@dataclass(frozen=True)
class DecodeAudio(Operator, SampleKernel):
    """Decoding of a sound file to a signal and its rate.

    Args:
        dtype: Element type of the signal.
        downmix: True to average the channels.
        quality: Quality of resampling, 0 to 100.
    """

    reads_content: ClassVar[bool] = True
    dtype: np.dtype[Any]
    downmix: bool
    quality: float

    def infer(self, data: Spec, *, sample_rate: Any) -> tuple[Spec, Spec]:
        """Return specs of unknown length and channel count; only the file knows them."""
        shape = (None,) if self.downmix else (None, None)
        return Spec(self.dtype, shape), Spec(np.dtype(np.float32), ())

    def sample(self, context: SampleContext, data: Array, *, sample_rate: Any) -> tuple[Array, Array]:
        """Decode one file, and downmix and resample its signal."""
        soundfile = optional_import.import_extra("soundfile", "audio", "decoding sound")
        target_rate = float(np.asarray(sample_rate).reshape(()))
        with soundfile.SoundFile(io.BytesIO(data.tobytes())) as file:
            rate = float(file.samplerate)
            unprocessed = not self.downmix and target_rate in (0.0, rate) and file.subtype not in FLOAT_SUBTYPES
            # libsndfile trusts the frame count in a FLAC header, so a damaged file could claim any amount of memory.
            check_announced_size(file.frames * file.channels * 4)
            # An untouched signal is read in the output's type: int32 does not fit into float32 without loss.
            stored_dtype = self.dtype.name if unprocessed else "float32"
            if file.format == "MP3" and not states_length(lambda start, stop: data[start:stop]):
                values: Array = read_stream(data, stored_dtype)
            else:
                # Formats without seeking, such as GSM 6.10, need the count.
                values = file.read(file.frames, dtype=stored_dtype, always_2d=True)
        # DALI averages before it resamples, which also costs less.
        if self.downmix:
            values = values.mean(axis=1, dtype=np.float32)
        if target_rate not in (0.0, rate):
            length = resampled_length(len(values), target_rate / rate)
            values = resample(values, rate / target_rate, length, self.quality)
        signal = values if unprocessed else denormalize_samples(values, self.dtype)
        return np.ascontiguousarray(signal), np.array(target_rate or rate, np.float32)


@operator("decoders.audio")
@rounds_to_bfloat16
def audio(
    data: EncodedBytes,
    *,
    sample_rate: Annotated[float | DataNode, Argument(np.float32, low=0, high=MAX_RATE)] = 0.0,
    quality: Quality = 50.0,
    downmix: bool = False,
    dtype: DType = FLOAT,
) -> list[DataNode]:
    """Decode sound files: WAV, FLAC, OGG, MP3 and the other formats of libsndfile. Requires the extra `audio`.

    Args:
        data: Bytes of each file, uint8 of shape (n,).
        sample_rate: Rate in Hz to resample to, at most 10,000,000; 0 keeps the rate of the file. A node sets the rate
            per sample.
        quality: Quality of resampling, 0 to 100, as in `fn.audio_resample`.
        downmix: If True, channels are averaged.
        dtype: Element type: float32 (full scale is 1), int16 or int32 (full scale is the largest integer).

    Returns:
        The signals, (samples, channels), or (samples,) with `downmix`; and their rates in Hz, float32.

    Raises:
        DefinitionError: The input is not a vector of bytes, or `dtype` is not supported.
        MissingExtraError: The package soundfile is not installed.
        SampleError: While running, a file cannot be decoded.

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
    # Imported here as well, so that a missing package fails while tracing instead of in the first batch.
    optional_import.import_extra("soundfile", "audio", "decoding sound")
    kernel = DecodeAudio(supported_dtype(dtype, SOUND_DTYPES), downmix, float(quality))
    return apply_many(kernel, data, sample_rate=sample_rate)
