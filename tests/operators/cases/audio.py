"""Uses of the operators on sound."""

from case_data import FLAGS, PLACES, SHORTER, SIGNALS, SPECTRA

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "audio_resample": [
        OperatorCase(lambda x: fn.audio_resample(x, in_rate=16000, out_rate=22050), [SIGNALS]),
        OperatorCase(lambda x, n: fn.audio_resample(x, out_length=n + 9), [SHORTER, FLAGS]),
        OperatorCase(lambda x: fn.audio_resample(x, scale=0.6, quality=10, dtype=types.INT16), [SIGNALS / 9]),
    ],
    "mel_filter_bank": [
        OperatorCase(lambda x: fn.mel_filter_bank(x, nfilter=4, sample_rate=8000), [SPECTRA], ("ft",)),
        OperatorCase(lambda x: fn.mel_filter_bank(x, nfilter=3, mel_formula="htk", normalize=False), [SPECTRA]),
    ],
    "mfcc": [
        OperatorCase(lambda x: (fn.mfcc(x, n_mfcc=4), fn.mfcc(x, axis=1, dct_type=3, lifter=4)), [SPECTRA]),
    ],
    "nonsilent_region": [OperatorCase(lambda x: fn.nonsilent_region(x, window_length=4, cutoff_db=-5), [SHORTER])],
    "power_spectrum": [
        OperatorCase(lambda x: (fn.power_spectrum(x, nfft=64), fn.power_spectrum(x, power=1)), [SIGNALS]),
    ],
    "preemphasis_filter": [
        OperatorCase(lambda x, c: fn.preemphasis_filter(x, preemph_coeff=c), [SHORTER, PLACES]),
        OperatorCase(lambda x: fn.preemphasis_filter(x, border="reflect", dtype=types.INT16), [SIGNALS * 99]),
    ],
    "spectrogram": [
        OperatorCase(lambda x: fn.spectrogram(x, window_length=16, window_step=7, nfft=20), [SHORTER]),
        OperatorCase(
            lambda x: fn.spectrogram(x, window_length=8, center_windows=False, power=1, layout="tf"), [SIGNALS]
        ),
    ],
    "to_decibels": [OperatorCase(lambda x: (fn.to_decibels(x), fn.to_decibels(x, reference=2.0)), [SPECTRA])],
}
