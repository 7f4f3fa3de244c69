"""Operators on sound give DALI's numbers."""

import io

import numpy as np
import pytest
import soundfile

from penstock import Pipeline, errors, fn

RNG = np.random.default_rng(11)
SIGNALS = [RNG.normal(size=size).astype(np.float32) for size in (300, 411, 1700)]
SPECTRA = [np.abs(RNG.normal(size=(17, columns))).astype(np.float32) for columns in (9, 4, 12)]
BURSTS = [np.where((np.arange(500) > 90 * n) & (np.arange(500) < 90 * n + 77), SIGNALS[2][:500], 0) for n in (0, 1, 4)]


@pytest.mark.parametrize("border", ["clamp", "reflect", "zero"])
def test_preemphasis_filter(agree, border):
    agree(lambda lib, x: lib.fn.preemphasis_filter(x, border=border), SIGNALS, atol=1e-6)
    parts = [np.array(part, np.float32) for part in (0.0, 0.5, 0.9)]
    agree(lambda lib, x, part: lib.fn.preemphasis_filter(x, preemph_coeff=part), SIGNALS, parts, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"window_length": 32, "window_step": 10},
        {"window_length": 33, "window_step": 11},
        {"window_length": 31.7, "window_step": 16.5, "nfft": 40},
        {"window_length": 32, "window_step": 16, "center_windows": False, "power": 1},
        {"window_length": 32, "window_step": 16, "reflect_padding": False, "layout": "tf"},
        {"window_length": 64, "window_step": 64, "window_fn": [1.0] * 64},
    ],
    ids=str,
)
def test_spectrogram(agree, arguments):
    agree(lambda lib, x: lib.fn.spectrogram(x, **arguments), SIGNALS, rtol=1e-4, atol=5e-3)


def test_signals_of_several_axes(agree):
    agree(
        lambda lib, x, y: (
            lib.fn.preemphasis_filter(x, border="reflect"),
            lib.fn.preemphasis_filter(y),
            lib.fn.spectrogram(y, window_length=32, window_step=10),
        ),
        *([np.stack([signal, -signal]) for signal in SIGNALS], [signal[None, :, None] for signal in SIGNALS]),
        rtol=1e-4,
        atol=5e-3,
    )


def test_spectrogram_of_several_signals():
    with Pipeline(1) as pipeline:
        pairs = fn.readers.arrays(np.zeros((1, 2, 600), np.float32))
        with pytest.raises(errors.DefinitionError, match="a signal has one axis"):
            fn.spectrogram(pairs)
        pairs = fn.external_source(lambda: np.zeros((1, 2, 600), np.float32))
        pipeline.set_outputs(fn.spectrogram(pairs))
    with pytest.raises(errors.SampleError, match="a signal has one axis"):
        pipeline.run()


@pytest.mark.parametrize("arguments", [{}, {"power": 1}, {"nfft": 32}, {"axis": 0}], ids=str)
def test_power_spectrum(agree, arguments):
    agree(lambda lib, x: lib.fn.power_spectrum(x, **arguments), SPECTRA, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"nfilter": 5, "sample_rate": 16000.0},
        {"nfilter": 4, "sample_rate": 8000.0, "mel_formula": "htk", "normalize": False},
        {"nfilter": 3, "sample_rate": 8000.0, "freq_low": 300.0, "freq_high": 3000.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["ft", ""])
def test_mel_filter_bank(agree, arguments, layout):
    agree(lambda lib, x: lib.fn.mel_filter_bank(x, **arguments), SPECTRA, layouts=(layout,), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments", [{}, {"multiplier": 20.0, "reference": 2.0, "cutoff_db": -10.0}, {"cutoff_db": -1000.0}], ids=str
)
def test_to_decibels(agree, arguments):
    spectra = [np.concatenate([np.zeros_like(spectrum[:1]), spectrum]) for spectrum in SPECTRA]
    agree(lambda lib, x: lib.fn.to_decibels(x, **arguments), spectra, atol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_mfcc": 5},
        {"n_mfcc": 50, "normalize": True},
        {"n_mfcc": 6, "dct_type": 1},
        {"n_mfcc": 6, "dct_type": 3},
        {"n_mfcc": 6, "dct_type": 3, "normalize": True},
        {"n_mfcc": 6, "dct_type": 4, "normalize": True},
        {"n_mfcc": 6, "lifter": 4.0},
        {"n_mfcc": 3, "axis": 1},
    ],
    ids=str,
)
def test_mfcc(agree, arguments):
    agree(lambda lib, x: lib.fn.mfcc(x, **arguments), SPECTRA, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"window_length": 16},
        {"window_length": 16, "cutoff_db": -20.0},
        {"window_length": 8, "reference_power": 1e9, "cutoff_db": -30.0},
        {"window_length": 8, "reference_power": 100.0, "cutoff_db": -30.0},
    ],
    ids=str,
)
def test_nonsilent_region(agree, arguments):
    agree(lambda lib, x: lib.fn.nonsilent_region(x, **arguments), [x.astype(np.float32) for x in BURSTS])
    agree(lambda lib, x: lib.fn.nonsilent_region(x, window_length=8), [np.zeros(50, np.float32)])


@pytest.mark.parametrize("quality", [0.0, 50.0, 100.0])
@pytest.mark.parametrize("rates", [(16000, 22050), (22050, 16000), (8000, 16000), (3, 1)], ids=str)
def test_audio_resample(agree, rates, quality):
    source, target = rates
    agree(lambda lib, x: lib.fn.audio_resample(x, in_rate=source, out_rate=target, quality=quality), SIGNALS, atol=3e-5)


def test_audio_resample_of_other_kinds(agree):
    agree(
        lambda lib, x: (lib.fn.audio_resample(x, scale=1.5), lib.fn.audio_resample(x, out_length=77)),
        SIGNALS,
        atol=3e-5,
    )
    pairs = [np.stack([signal, -signal], 1) for signal in SIGNALS]
    agree(lambda lib, x: lib.fn.audio_resample(x, scale=1.25), pairs, atol=3e-5)
    whole = [(signal * 3000).astype(np.int16) for signal in SIGNALS]
    agree(lambda lib, x: lib.fn.audio_resample(x, scale=0.7), whole, off=1)
    agree(lambda lib, x: lib.fn.audio_resample(x, scale=0.7, dtype=lib.types.FLOAT), whole, atol=3e-5)


@pytest.mark.parametrize(
    "rates",
    [{"scale": 0.1}, {"scale": 1.1}, {"in_rate": 0.1, "out_rate": 0.3}, {"in_rate": 0.7, "out_rate": 2.1}],
    ids=str,
)
def test_audio_resample_rounds_rates_to_float32(agree, rates):
    signals = [np.sin(np.arange(2000, dtype=np.float32))] * 2
    agree(lambda lib, x: lib.fn.audio_resample(x, **rates), signals, atol=3e-5)
    columns = [np.full(2, rate, np.float32) for rate in rates.values()]
    agree(
        lambda lib, x, *nodes: lib.fn.audio_resample(x, **dict(zip(rates, nodes, strict=True))),
        *(signals, *columns),
        atol=3e-5,
    )


INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32")


@pytest.mark.parametrize("source", [*INTEGERS, "float32"])
@pytest.mark.parametrize("target", [*INTEGERS, "float"])
def test_audio_resample_scales_one_dtype_to_another(agree, source, target):
    def define(lib, x, scale=1.0):
        return lib.fn.audio_resample(x, scale=scale, dtype=getattr(lib.types, target.upper()))

    if source == "float32":
        signal = np.concatenate([[-2, -1, -0.5, 0, 0.25, 0.5, 1, 2], RNG.uniform(-1, 1, 100)]).astype(source)
    else:
        low, high = np.iinfo(source).min, np.iinfo(source).max
        middle = high // 2
        ends = [low, low + 1, -(-low // 2), middle // 2, middle, middle + 1, high - 1, high]
        signal = np.concatenate([ends, RNG.integers(low, high, 100, endpoint=True)]).astype(source)
    agree(define, list(signal[:, None]))  # single elements are not resampled, so that the numbers are exact
    wide = 1 << 13 if target in ("uint32", "int32") else 1
    agree(lambda lib, x: define(lib, x, 0.7), [signal], off=wide, atol=1e-5)


def encoded(kind, channels, **options):
    file = io.BytesIO()
    soundfile.write(file, RNG.normal(size=(400, channels)) / 9, 8000, format=kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [encoded("WAV", 2), encoded("WAV", 2, subtype="PCM_24"), encoded("FLAC", 2), encoded("WAV", 2, subtype="FLOAT")]


@pytest.mark.parametrize("kind", ["FLOAT", "INT16", "INT32"])
@pytest.mark.parametrize("arguments", [{}, {"downmix": True}, {"sample_rate": 11025.0, "downmix": True}], ids=str)
def test_decoders_audio(agree, kind, arguments):
    off = 1 if kind == "INT16" else 2**18
    # DALI rounds the samples of the last file to -1, 0 or 1.
    files = FILES[:-1] if kind != "FLOAT" and not arguments else FILES
    agree(
        lambda lib, x: lib.fn.decoders.audio(x, dtype=getattr(lib.types, kind), **arguments), files, off=off, atol=3e-5
    )


@pytest.mark.parametrize("kind", ["INT16", "INT32"])
@pytest.mark.parametrize(
    ("container", "subtype"), [("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("OGG", "VORBIS"), ("OGG", "OPUS")]
)
def test_files_with_floats_have_the_full_scale_of_integers(agree, kind, container, subtype):
    """As in DALI when it averages several channels: only then DALI decodes to floats and scales them."""

    def define(lib, x):
        signals, _ = lib.fn.decoders.audio(x, dtype=getattr(lib.types, kind), downmix=lib.fn is not fn)
        return signals[:, 0] if lib.fn is fn else signals

    file = io.BytesIO()
    soundfile.write(file, np.repeat(SIGNALS[0][:, None], 2, axis=1), 8000, format=container, subtype=subtype)
    file.seek(0)
    assert np.abs(soundfile.read(file)[0]).max() > 1
    # Lossy formats decode the two channels, which DALI averages, to slightly different numbers.
    off = 0 if container == "WAV" else 1 if kind == "INT16" else 2**12
    agree(define, [np.frombuffer(file.getvalue(), np.uint8)], off=off)
