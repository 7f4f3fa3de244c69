"""readers.nemo_asr: speech and transcripts from manifests of NVIDIA NeMo."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Array, Spec, optional_import
from penstock.graph import (
    DataLocation,
    DataNode,
    DType,
    Operator,
    PerformanceHint,
    Range,
    SampleContext,
    SampleKernel,
    apply,
    operator,
)
from penstock.operators.argument_limits import MAX_RATE, SOUND_DTYPES, Quality, supported_dtype
from penstock.operators.audio.audio_resample import denormalize_samples
from penstock.operators.audio.sinc_resampling import resample, resampled_length
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.nemo_source import NemoSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps
from penstock.types import FLOAT


@dataclass(frozen=True)
class ToRate(Operator, SampleKernel):
    """Resampling of signals of any rate to one rate.

    Args:
        rate: Target rate in Hz.
        quality: Quality of resampling, 0 to 100.
        dtype: Element type of the result.
    """

    rate: float
    quality: float
    dtype: np.dtype[Any]

    def infer(self, signal: Spec, rate: Spec) -> Spec:
        """Return the spec of a signal of unknown length."""
        del rate
        return Spec(self.dtype, signal.shape)

    def sample(self, context: SampleContext, signal: Array, rate: Array) -> Array:
        """Resample one signal, unless it already has the rate."""
        file_rate = float(rate)
        if file_rate != self.rate:
            length = resampled_length(len(signal), self.rate / file_rate)
            signal = resample(signal, file_rate / self.rate, length, self.quality)
        return denormalize_samples(signal, self.dtype)


@operator("readers.nemo_asr")
@rounds_to_bfloat16
def nemo_asr(
    *,
    manifest_filepaths: DataLocation[Path | Sequence[Path]],
    sample_rate: Annotated[float, Range(high=MAX_RATE)] = -1.0,
    quality: Quality = 50.0,
    downmix: bool = True,
    dtype: DType = FLOAT,
    min_duration: Annotated[float, Range(0)] = 0.0,
    max_duration: Annotated[float, Range(0)] = 0.0,
    read_sample_rate: bool = True,
    read_text: bool = True,
    read_idxs: bool = False,
    normalize_text: PerformanceHint[bool] = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode | list[DataNode]:
    """Read speech and transcripts from manifests of NVIDIA NeMo. Requires the extra `audio`.

    Each line of a manifest is a JSON object with `audio_filepath` and optionally `offset` and `duration` of a segment,
    in seconds, and `text`. Paths are relative to the working directory, or to the folder of the manifest if only that
    has the first file. Only the segment is read from a file.

    Args:
        manifest_filepaths: A manifest, or several, read one after the other.
        sample_rate: Rate in Hz to resample to; a number of at most 0 keeps the rates of the files.
        quality: Quality of resampling, 0 to 100, as in `fn.audio_resample`.
        downmix: If True, channels are averaged.
        dtype: Element type of signals: float32 (full scale is 1), int16 or int32 (full scale is the largest integer).
        min_duration: Least `duration` of entries, in seconds; entries without one are left out, too. 0 reads all.
        max_duration: Largest `duration` of entries, in seconds; 0 for no limit.
        read_sample_rate: If True, the rate of each file is returned.
        read_text: If True, the texts are returned.
        read_idxs: If True, the index of each entry is returned. Entries that are left out do not count.
        normalize_text: It has no effect, as in DALI.
        **loader: See `ReaderArguments`.

    Returns:
        The signals, (samples,), or (samples, channels) without `downmix`. Then, as selected: rates of the files in Hz,
        float32 of shape (); UTF-8 texts, uint8 (n,), empty for entries without text; indices, int64 (1,).

    Raises:
        SourceNotFoundError: A manifest, or the first sound file, does not exist.
        SourceError: A line is not an entry, or no entries remain.
        DefinitionError: No manifests, an unsupported `dtype`, or a quality or duration out of range.
        MissingExtraError: The package soundfile is not installed.
        SampleError: While running, a sound file cannot be decoded, or ends before its segment begins.

    Example:
        >>> import numpy as np, penstock, soundfile, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> folder = Path(tempfile.mkdtemp())
        >>> soundfile.write(folder / "1.wav", np.zeros((4000, 2)), 8000)
        >>> line = '{"audio_filepath": "1.wav", "offset": 0.25, "duration": 0.125, "text": "no"}'
        >>> _ = (folder / "train.json").write_text(line)
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(*fn.readers.nemo_asr(manifest_filepaths=folder / "train.json"))
        >>> signals, rates, texts = pipeline.run()
        >>> signals.at(0).shape, float(rates.at(0)), bytes(texts.at(0))
        ((1000,), 8000.0, b'no')
    """
    del normalize_text
    # Imported here, so that a missing package fails while tracing instead of in the first batch.
    optional_import.import_extra("soundfile", "audio", "decoding sound")
    manifests = as_paths(manifest_filepaths)
    check_not_empty(manifest_filepaths=manifests)
    element = supported_dtype(dtype, SOUND_DTYPES)
    resampled = sample_rate > 0
    # Resampling computes in float32 and rounds once at the end; otherwise integers are read without a conversion.
    read_as = np.dtype(np.float32) if resampled else element
    limits = float(min_duration), float(max_duration)
    source = open_shared(NemoSource, manifests, *limits, downmix, read_as, stamp=file_stamps(*manifests))
    signals, rates, texts, numbers = apply_reader(source, loader)
    if resampled:
        # A node after the reader, because a sample has to be decoded before its rate is known.
        signals = apply(ToRate(float(sample_rate), float(quality), element), signals, rates, common={})
    optional = ((rates, read_sample_rate), (texts, read_text), (numbers, read_idxs))
    others = [node for node, is_selected in optional if is_selected]
    return [signals, *others] if others else signals
