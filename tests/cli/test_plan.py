"""The command `penstock plan` with what is no program; tests/test_examples.py prints the plans of one."""

import pytest

from penstock.cli import main


def test_a_file_that_does_not_exist(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "none.py"])
    assert "no file 'none.py'" in capsys.readouterr().err


def test_a_program_without_an_iterator(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "idle.py").write_text("print('idle')")
    assert main(["plan", "idle.py"]) == 1
    assert "made no iterator" in capsys.readouterr().out


def test_a_program_that_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text("from penstock import fn\nfn.readers.file(file_root='none')\n")
    assert main(["plan", "wrong.py"]) == 1
    assert capsys.readouterr().err.startswith("penstock plan: fn.readers.file: ")
