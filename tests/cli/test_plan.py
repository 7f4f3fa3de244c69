"""The command `penstock plan` with unusual programs; tests/test_examples.py prints the plans of usual ones."""

import signal
import threading

import pytest

from penstock.cli import main


def test_a_file_that_does_not_exist(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "none.py"])
    assert "no file 'none.py'" in capsys.readouterr().err


def test_a_file_that_cannot_be_read(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "x" * 300])
    assert "cannot be read: File name too long" in capsys.readouterr().err


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


TRAINING = """
import sys, threading
from penstock import data_iterator, fn

@data_iterator
def training():
    return {"x": fn.readers.arrays([1, 2, 3, 4])}

def train(iterator):
    for batch in iterator:
        print("trained")
"""


@pytest.fixture
def threads_of_programs(monkeypatch):
    """Let threads of a program end by SystemExit without a report, and wait for them."""
    # The hook of pytest reports SystemExit, too.
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)

    def wait():
        for thread in threading.enumerate():
            if thread.name.startswith("Thread-"):
                thread.join(10)

    yield wait
    wait()


@pytest.mark.parametrize(
    "rest",
    [
        "thread = threading.Thread(target=train, args=[training(batch_size=2)])\nthread.start()\nthread.join()",
        "thread = threading.Thread(target=lambda: train(training(batch_size=2)))\nthread.start()\nthread.join()",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool: pool.submit(train, training(batch_size=2)).result()",
    ],
    ids=["thread", "all in a thread", "pool"],
)
@pytest.mark.parametrize(
    ("handler", "sends"),
    [(signal.default_int_handler, True), (signal.SIG_IGN, True), (signal.SIG_IGN, False)],
    ids=["default", "ignored", "as on Windows"],
)
def test_a_program_that_iterates_in_a_thread_ends(
    tmp_path, monkeypatch, capsys, threads_of_programs, rest, handler, sends
):
    if not sends:
        monkeypatch.delattr(signal, "pthread_kill")
    before = signal.signal(signal.SIGINT, handler)
    program = tmp_path / "train.py"
    program.write_text(f"{TRAINING}\n{rest}\nprint('saved')\n")
    assert main(["plan", str(program)]) == 0
    assert signal.signal(signal.SIGINT, before) is handler
    threads_of_programs()
    said = capsys.readouterr()
    assert said.out.startswith("plan of training: ")
    assert "trained" not in said.out
    assert "saved" not in said.out
    assert not said.err


@pytest.mark.parametrize(
    "wait",
    [
        "train(training(batch_size=2))",
        "thread = threading.Thread(target=train, args=[training(batch_size=2)]); thread.start(); thread.join()",
    ],
    ids=["main", "thread"],
)
@pytest.mark.parametrize(
    "cleanup",
    [
        "finally: print(loss)",
        "finally: threading.Lock().release()",
        "except BaseException: raise ValueError('training failed') from None",
    ],
    ids=["name", "lock", "other error"],
)
def test_a_program_whose_cleanup_fails(tmp_path, capsys, threads_of_programs, wait, cleanup):
    program = tmp_path / "train.py"
    program.write_text(f"{TRAINING}\ntry:\n    {wait}\n{cleanup}\n")
    assert main(["plan", str(program)]) == 0
    threads_of_programs()
    said = capsys.readouterr()
    assert said.out.startswith("plan of training: ")
    assert "trained" not in said.out
    assert not said.err


def test_a_program_that_fails_before_its_first_batch(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(f"{TRAINING}\ntry: training(batch_size=2)\nfinally: print(loss)\n")
    with pytest.raises(NameError, match="loss"):
        main(["plan", str(program)])


def test_a_program_that_ends_with_an_exit_code(tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text(f"{TRAINING}\ntraining(batch_size=2)\nsys.exit(int(sys.argv[1]))\n")
    assert main(["plan", str(program), "0"]) == 0
    assert capsys.readouterr().out.startswith("plan of training: ")
    with pytest.raises(SystemExit, match="3"):
        main(["plan", str(program), "3"])
