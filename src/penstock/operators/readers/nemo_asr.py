"""readers.nemo_asr: speech and what is said, from manifests of NVIDIA NeMo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation, PerformanceHint, Range
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import MAX_RATE
from penstock.operators.audio.audio_resample import denormalize_samples
from penstock.operators.audio.sinc_resampling import resample, resampled_length
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.nemo_source import NemoSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class ToRate(Operator, SampleKernel):
    """A signal of any rate at one rate; those that have it already stay as they are.

    Args:
        rate: in Hz.
        quality: of resampling.
        dtype: of the result.
    """

    rate: float
    quality: float
    dtype: np.dtype[Any]

    def infer(self, signal: Spec, rate: Spec) -> Spec:
        """Any length."""
        del rate
        return Spec(self.dtype, signal.shape)

    def sample(self, context: SampleContext, signal: Array, rate: Array) -> Array:
        """The signal."""
        own = float(rate)
        if own != self.rate:
            length = resampled_length(len(signal), self.rate / own)
            signal = resample(signal, own / self.rate, length, self.quality)
        return denormalize_samples(signal, self.dtype)


@operator("readers.nemo_asr")
def nemo_asr(
    *,
    manifest_filepaths: DataLocation[Path | Sequence[Path]],
    sample_rate: Annotated[float, Range(high=MAX_RATE)] = -1.0,
    quality: Annotated[float, Range(0, 100)] = 50.0,
    downmix: bool = True,
    dtype: Any = FLOAT,
    min_duration: float = 0.0,
    max_duration: float = 0.0,
    read_sample_rate: bool = True,
    read_text: bool = True,
    read_idxs: bool = False,
    normalize_text: PerformanceHint[bool] = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode | list[DataNode]:
    """Read speech and what is said, from manifests of NVIDIA NeMo. Needs the extra `audio`.

    A line of a manifest is a JSON object: `audio_filepath`, and, where they are given, `offset` and `duration`, in
    seconds, of the part that is read, and `text`. Paths are relative to the working directory; or to the manifest's
    folder, if the first one leads to a file there only. Only the part is read.

    Args:
        manifest_filepaths: a manifest, or several, read one after the other.
        sample_rate: in Hz, to which signals are resampled; without it they keep their own.
        quality: of resampling, from 0 to 100, as in `fn.audio_resample`.
        downmix: whether channels are averaged.
        dtype: element type of signals: float32, int16 or int32. The largest integer stands for 1.
        min_duration: in seconds; entries whose `duration` is less, or that have none, are left out.
        max_duration: in seconds; entries whose `duration` is more are left out. 0 is no limit.
        read_sample_rate: whether to give the rate of each file.
        read_text: whether to give the texts.
        read_idxs: whether to give the number of each entry in its manifest; those that are left out do not count.
        normalize_text: without effect, as in DALI.
        **loader: See `ReaderArguments`.

    Returns:
        The signals, (elements,), or (elements, channels) without `downmix`. Then, if they are asked for, the rates that
        the files have, in Hz, float32 of shape (); the texts in UTF-8, uint8 (?,), empty where there is none; and the
        numbers, int64 (1,).

    Raises:
        SourceNotFoundError: a manifest, or the first sound file, does not exist.
        SourceError: a line is no entry, or none are left.
        DefinitionError: no manifests, another `dtype`, or a quality or a limit that is out of range.
        MissingExtraError: the package soundfile is not installed.
        SampleError: while running, a sound file that cannot be decoded, or that ends before the part begins.

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
    optional_import.import_extra("soundfile", "audio", "fn.readers.nemo_asr")
    manifests = as_paths(manifest_filepaths)
    element = as_dtype(dtype)
    if not manifests or element.name not in ("float32", "int16", "int32"):
        raise DefinitionError(
            "fn.readers.nemo_asr reads manifests, and gives float32, int16 or int32",
            given=f"{len(manifests)} manifests, {element}",
        )
    if not 0 <= quality <= 100 or min(min_duration, max_duration) < 0:
        raise DefinitionError(
            "fn.readers.nemo_asr: quality lies between 0 and 100, and durations are not negative",
            given=f"quality={quality}, min_duration={min_duration}, max_duration={max_duration}",
        )
    resampled = sample_rate > 0
    read_as = np.dtype(np.float32) if resampled else element
    limits = float(min_duration), float(max_duration)
    source = open_shared(NemoSource, manifests, *limits, bool(downmix), read_as, stamp=file_stamps(*manifests))
    signals, rates, texts, numbers = apply_reader(source, loader)
    if resampled:
        signals = apply(ToRate(float(sample_rate), float(quality), element), signals, rates, common={})
    asked = ((rates, read_sample_rate), (texts, read_text), (numbers, read_idxs))
    others = [node for node, wanted in asked if wanted]
    return [signals, *others] if others else signals
