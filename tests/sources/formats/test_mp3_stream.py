"""MP3 files without a Xing header, whose length libsndfile estimates from the size of the first frame."""

import io
import json

import numpy as np
import pytest
import soundfile

from penstock import Pipeline, fn
from penstock.sources.formats.mp3_stream import read_stream, states_length
from penstock.sources.formats.nemo_source import NemoSource

# The first frame of the noise is small, so that libsndfile expects a fifth of the samples.
NOISE = np.random.default_rng(0).normal(size=(20_000, 2)) * np.linspace(0, 0.2, 20_000)[:, None]
ID3 = b"ID3\3\0\0\0\0\0\x20" + b"TSSE\0\0\0\x16\0\0\0Info" + bytes(17)


def encoded():
    file = io.BytesIO()
    soundfile.write(file, NOISE, 44_100, format="MP3")
    return file.getvalue()


WHOLE = encoded()
FRAMES = 19
STREAM = WHOLE[WHOLE.index(WHOLE[:2], 4) :]


def ranges(data):
    """Return a function that returns byte ranges."""
    return lambda start, stop: array(data[start:stop])


def array(data):
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (STREAM, FRAMES),
        (ID3 + STREAM + b"TAG" + bytes(125), FRAMES),
        (STREAM + bytes(5000), FRAMES),
        (STREAM[:-1], FRAMES - 1),
    ],
    ids=["plain", "tags", "zeros", "cut"],
)
def test_streams_are_read_to_their_ends(tmp_path, data, frames):
    assert not states_length(ranges(data))
    assert states_length(ranges(WHOLE))
    assert states_length(ranges(ID3 + WHOLE))
    signal = read_stream(array(data), "float32")
    assert signal.shape == (frames * 1152, 2)
    # The start is the same as without a stream; the end is that of the encoded noise.
    estimated = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    assert len(estimated) != len(signal)
    assert abs(estimated[:1152] - signal[:1152]).max() == 0
    assert abs(signal[19_000:20_000]).max() > 0.3
    (tmp_path / "a.mp3").write_bytes(data)
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps({"audio_filepath": "a.mp3", "offset": 0.25}))
    nemo = NemoSource((str(manifest),), 0, 0, False, np.dtype(np.float32))
    assert np.array_equal(nemo.read(np.arange(1), [None] * 4)[0][0], signal[11_025:])
    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(*fn.decoders.audio(fn.constant(array(data))))
    assert np.array_equal(pipeline.run()[0].at(0), signal)
    pipeline.close()


def test_damaged_streams_are_refused():
    with pytest.raises(soundfile.SoundFileError):
        read_stream(array(STREAM[:3000] + bytes(3000) + STREAM[6000:]), "float32")
    with pytest.raises(soundfile.SoundFileError):
        read_stream(array(b"no sound"), "float32")
