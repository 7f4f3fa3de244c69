"""Manifests of speech; DALI reads the same ones in tests/dali/test_readers.py."""

import json
import os
import sys

import numpy as np
import pytest
import soundfile

from penstock import Pipeline, fn, ops, types
from penstock.errors import DefinitionError, MissingExtraError, SampleError, SourceError, SourceNotFoundError
from penstock.sources.formats.nemo_source import NemoSource
from penstock.testing import check_bad_samples, check_source

RAMP = (np.arange(40) / 64).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    soundfile.write(tmp_path / "a.wav", RAMP, 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "b.flac", np.stack([RAMP, -RAMP / 2], 1), 16000)
    return tmp_path


def write(folder, *entries, name="m.json"):
    (folder / name).write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in entries))
    return str(folder / name)


def source(*manifests, shortest=0.0, longest=0.0, downmix=True, dtype=np.float32):
    return NemoSource(manifests, shortest, longest, downmix, np.dtype(dtype))


def elements(found):
    return [np.rint(signal * 64).astype(int).tolist() for signal in found.read(np.arange(len(found)), [None] * 4)[0]]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({}, range(40)),
        ({"duration": 3 / 8000}, range(3)),
        ({"offset": 35 / 8000}, range(35, 40)),
        ({"offset": 35 / 8000, "duration": 1}, range(35, 40)),
        ({"offset": 1.7 / 8000, "duration": 2.9 / 8000}, range(1, 3)),
        ({"offset": -1, "duration": 3 / 8000}, range(3)),
        ({"offset": 40 / 8000}, []),
        ({"duration": 0}, []),
        ({"duration": -1}, range(40)),
    ],
    ids=str,
)
def test_parts(folder, part, expected):
    assert elements(source(write(folder, {"audio_filepath": "a.wav", **part}))) == [list(expected)]


def test_the_source(folder):
    long = {"audio_filepath": "a.wav", "duration": 4 / 8000, "text": "é\n"}
    short = {"audio_filepath": str(folder / "b.flac"), "duration": 3 / 16000, "offset": 2 / 16000}
    none = {"audio_filepath": "a.wav", "text": "none"}
    first, second = write(folder, long, "", short, none), write(folder, none, long, name="n.json")
    found = source(first, second)
    check_source(found)
    signals, rates, texts, numbers = found.read(np.arange(5), [None] * 4)
    assert [len(signal) for signal in signals] == [4, 3, 40, 40, 4]
    assert rates.tolist() == [8000, 16000, 8000, 8000, 8000]
    assert [bytes(text).decode() for text in texts] == ["é\n", "", "none", "none", "é\n"]
    assert numbers.ravel().tolist() == [0, 1, 2, 0, 1]
    assert found.describe(1) == f"{folder}/b.flac from 0.000125 s"
    assert found.path(1) == f"{folder}/b.flac"
    assert found.reads_same_samples(source(first, second))
    others = [source(first), source(second, first), source(first, second, downmix=False)]
    assert not any(map(found.reads_same_samples, others))
    assert len({each.fingerprint() for each in (found, *others[:2])}) == 3
    assert len(source(first, second, shortest=3 / 16000)) == 3
    assert len(source(first, second, longest=3 / 16000)) == 3
    check_source(source(first, dtype=np.int16, downmix=False))
    whole = source(write(folder, short), dtype=np.int16).read(np.array([0]), [None] * 4)[0][0]
    assert whole.tolist() == [round((RAMP[n] * 32768 - RAMP[n] * 16384) / 2 / 32768 * 32767) for n in (2, 3, 4)]


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_files_with_floats_have_the_full_scale_of_integers(folder, subtype, dtype):
    soundfile.write(folder / "a.wav", [[0.5, -0.25], [1.5, -1.5]], 8000, subtype=subtype)
    found = source(write(folder, {"audio_filepath": "a.wav"}), downmix=False, dtype=dtype)
    limits = np.iinfo(dtype)
    expected = [[(limits.max + 1) // 2, -(limits.max + 1) // 4], [limits.max, limits.min]]
    assert found.read(np.array([0]), [None] * 4)[0][0].tolist() == expected


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_peaks_of_lossy_files_saturate(folder, subtype):
    soundfile.write(folder / "a.ogg", 1.5 * np.sin(np.arange(4000) / 9), 8000, subtype=subtype)
    floats, _ = soundfile.read(folder / "a.ogg")
    found = source(write(folder, {"audio_filepath": "a.ogg"}), downmix=False, dtype=np.int16)
    signal = found.read(np.arange(1), [None] * 4)[0][0][:, 0]
    assert np.abs(floats).max() > 1.1
    np.testing.assert_allclose(signal, np.clip(floats * 32767, -32768, 32767), rtol=0, atol=1)


def test_files_without_seeking(folder):
    soundfile.write(folder / "a.wav", np.sin(np.arange(8000) / 9), 8000, subtype="GSM610")
    with soundfile.SoundFile(folder / "a.wav") as file:
        assert not file.seekable()
        right = file.read(file.frames, dtype="float32")
    parts = ({}, {"offset": 0.25, "duration": 0.5})
    found = source(write(folder, *({"audio_filepath": "a.wav", **part} for part in parts)))
    whole, segment = found.read(np.arange(2), [None] * 4)[0]
    assert np.array_equal(whole, right)
    assert np.array_equal(segment, right[2000:6000])
    with Pipeline(batch_size=1) as pipeline:
        data = fn.constant(np.fromfile(folder / "a.wav", np.uint8))
        pipeline.set_outputs(*fn.decoders.audio(data, downmix=True))
    signals, rates = pipeline.run()
    assert np.array_equal(signals.at(0), right)
    assert float(rates.at(0)) == 8000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes with names")
def test_bad_files_are_named(folder):
    good = {"audio_filepath": "a.wav"}
    (folder / "text.wav").write_text("no sound")
    os.mkfifo(folder / "pipe.wav")
    bad = [{"audio_filepath": name} for name in ("none.wav", "text.wav", ".", "pipe.wav")] + [{**good, "offset": 1}]
    found = source(write(folder, good, *bad, good))
    check_bad_samples(found, [1, 2, 3, 4, 5])
    for index, message in (
        (1, "none.wav. cannot be read: No such file"),
        (2, "text.wav. cannot be read: .*[Ff]ormat not recognised"),
        (4, "pipe.wav. cannot be read: not a regular file, but a folder, a pipe"),
        (5, "a.wav from 1 s. cannot be read: the offset is 1.0 s, but the file has only 0.005 s"),
    ):
        with pytest.raises(SampleError, match=message):
            found.read(np.array([index]), [None] * 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"audio', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"text": "x"}', "audio_filepath is None"),
        ('{"audio_filepath": 3}', "audio_filepath is 3"),
        ('{"audio_filepath": "a\\u0000"}', "audio_filepath is"),
        ('{"audio_filepath": "a.wav", "text": 5}', "text is 5"),
        ('{"audio_filepath": "a.wav", "duration": "1"}', "duration is '1'"),
        ('{"audio_filepath": "a.wav", "offset": NaN}', "offset is nan"),
        ('{"audio_filepath": "a.wav", "offset": 1e999}', "offset is inf"),
        ('{"audio_filepath": "a.wav", "offset": true}', "offset is True"),
    ],
    ids=range(11),
)
def test_lines_that_are_no_entry(folder, line, message):
    with pytest.raises(SourceError, match=rf"m.json:3 is not a valid entry: {message}"):
        source(write(folder, {"audio_filepath": "a.wav"}, "", line))


def test_manifests_that_cannot_be_read(folder):
    for entries in ([], [""]):
        with pytest.raises(SourceError, match="do not contain matching entries"):
            source(write(folder, *entries))
    with pytest.raises(SourceNotFoundError, match=r"there is no file 'none.wav'"):
        source(write(folder, {"audio_filepath": "none.wav"}))
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        source(str(folder / "none"))


def test_definitions(folder, monkeypatch):
    manifest = write(folder, {"audio_filepath": "a.wav", "text": "x"})
    for options in (
        {"manifest_filepaths": []},
        {"dtype": types.UINT8},
        {"quality": 101},
        {"max_duration": -1.0},
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match="nemo_asr"):
            fn.readers.nemo_asr(**{"manifest_filepaths": manifest, **options})
    with Pipeline(batch_size=1) as pipeline:
        older = ops.NemoAsrReader(manifest_filepaths=manifest, read_text=False, read_idxs=True)()
        alone = ops.readers.NemoAsr(manifest_filepaths=[manifest], read_text=False, read_sample_rate=False)()
        pipeline.set_outputs(*older, alone)
    signals, rates, numbers, again = (output.at(0) for output in pipeline.run())
    assert (rates.item(), numbers.tolist()) == (8000, [0])
    assert np.array_equal(signals, again)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with Pipeline(batch_size=1), pytest.raises(MissingExtraError, match=r"penstock\[audio\]"):
        fn.readers.nemo_asr(manifest_filepaths=manifest)
