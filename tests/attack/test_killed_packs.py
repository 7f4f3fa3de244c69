"""`penstock pack` killed at every point where it changes the disk, and with a damaged manifest."""

import os
import random
import shutil
from pathlib import Path

import pytest
from attack_seeds import SEEDS
from case_data import photograph
from mutations import MUTATIONS, mutated

from penstock.cli import main

COUNT, PER_SHARD = 7, 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        path = folder / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(photograph(number)))
    return folder


def pack(photos, folder, *words):
    options = "--samples-per-shard", PER_SHARD, "--threads", 1, *words
    return main(["pack", str(photos), str(folder), *map(str, options)])


def contents(folder):
    """Return the files of a pack by name, and the lines of its manifest in any order."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {**files, "pack.jsonl": sorted(set(files["pack.jsonl"].splitlines()))}


@pytest.mark.parametrize("form", ["tar", "array_record"])
def test_a_pack_that_is_killed_at_any_point_is_resumed(form, photos, tmp_path, monkeypatch):
    if form == "array_record":
        pytest.importorskip("array_record.python.array_record_module", reason="not built for this system")
    whole, killed = tmp_path / "whole", []

    def watched(function):
        """Keep a copy of the folder as a kill before this call would leave it."""

        def call(*arguments, **options):
            killed.append(tmp_path / f"killed{len(killed)}")
            shutil.copytree(whole, killed[-1])
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, watched(getattr(owner, name)))
        assert pack(photos, whole, "--format", form) == 0
    assert len(killed) >= 3 * (3 if form == "array_record" else 6)
    expected = contents(whole)
    for number, folder in enumerate(killed):
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        if number % 2:  # the last bytes did not reach the disk
            newest.write_bytes(newest.read_bytes()[: -random.Random(number).randrange(1, 20)])
        code = pack(photos, folder, "--format", form)
        if code:  # verification has removed a shard that is damaged
            code = pack(photos, folder, "--format", form)
        assert code == 0
        assert contents(folder) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_manifest_is_refused_or_repaired(seed, photos, tmp_path, capsys):
    assert pack(photos, tmp_path) == 0
    manifest, expected = tmp_path / "pack.jsonl", contents(tmp_path)
    original = manifest.read_bytes()
    for number in range(MUTATIONS // 50):
        rng = random.Random(f"{seed} {number}")
        manifest.write_bytes(mutated(original, rng))
        capsys.readouterr()
        code = pack(photos, tmp_path)
        if code == 1 and "are not what was written" in capsys.readouterr().err:  # a checksum was hit
            code = pack(photos, tmp_path)
        if code == 0:
            assert {name: data for name, data in contents(tmp_path).items() if name != "pack.jsonl"} == {
                name: data for name, data in expected.items() if name != "pack.jsonl"
            }
        else:
            assert code in (1, 2)
            if not (tmp_path / "data-00000-of-00003.tar").exists():
                manifest.write_bytes(original)
                assert pack(photos, tmp_path) == 0
