"""Progress in log files, terminals and notebooks, and the lines of `fit`."""

import os
import pty
import re
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from train_callbacks import StopAt

from penstock import train

# Metrics of a step that has not finished are not shown.
FIGURES = r"(loss [\d.]+, )?([\d,]+ rows/s, )?wait \d+%(, eta \d+:\d\d:\d\d)?"

PROGRAM = """
    import numpy as np
    from penstock import train

    step = train.data_parallel(lambda state, batch: (state * 0.99, {"loss": state, "error": 1 - state}))
    data = train.batches(np.ones(320, np.float32), 8)
    progress = train.ProgressBar("rows", mininterval=0, miniters=1)
    loop = train.fit(step, np.float32(1), data, epochs=2, callbacks=[progress])
    loop
"""


@pytest.mark.slow
def test_lines_of_a_log_file(sgd, weights, samples, errors, capsys):
    callbacks = [
        train.Evaluate(errors, train.batches(samples, 16), "val"),
        StopAt(6),
        train.ProgressBar("rows", interval=0),
    ]
    data = train.batches(samples, 16, shuffle=True)
    train.fit(train.data_parallel(sgd), weights, data, epochs=3, callbacks=callbacks)
    out, error = capsys.readouterr()
    assert error == ""
    assert out.replace("\n", "").isprintable()  # no control characters
    lines, report = out.splitlines()[:8], out.splitlines()[8:]
    patterns = [rf"epoch {1 + n // 3}/3, step {n + 1}/9: {FIGURES}" for n in range(6)]
    records = [rf"epoch {n}/3: loss [\d.]+, val [\d.]+, [\d,]+ rows/s, wait \d+%" for n in (1, 2)]
    patterns[3:3], patterns[7:] = records[:1], records[1:]
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    assert re.fullmatch(r"the step waited for data \d+% of the [\d.]+ s", report[0])
    assert report[1].startswith("slowest stage: ")
    assert max(map(len, report)) <= 80
    assert report[-1] == "stopped at step 6 of 9: enough"


def test_lines_of_an_endless_iterator(capsys):
    step = train.data_parallel(lambda state, batch: (state, {"loss": state}))
    batches = [{"x": np.ones(8, np.float32)}] * 4
    train.fit(step, np.float32(1), batches, steps=3, callbacks=[train.ProgressBar(interval=0)])
    first, _, third, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epoch 1, step 1/3: (loss 1, )?wait \d+%", first)
    assert re.fullmatch(r"epoch 1, step 3/3: loss 1, [\d,]+ steps/s, wait \d+%, eta 0:00:00", third)


@pytest.mark.parametrize("option", [{"interval": 3600}, {"interval": 0, "disable": True}])
def test_lines_only_when_it_is_time(option, capsys):
    step = train.data_parallel(lambda state, batch: (state, {"loss": state}))
    data = train.batches(np.ones(32), 8)
    train.fit(step, np.float32(1), data, epochs=1, callbacks=[train.ProgressBar(**option)])
    epoch, summary, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epoch 1/1: loss 1, [\d,]+ samples/s, wait \d+%", epoch)
    assert summary.startswith("the step waited for data")


def test_fit_says_that_it_resumes_and_that_nothing_is_left(tmp_path, capsys):
    def run(callbacks=(), **length):
        step = train.data_parallel(lambda state, batch: state + 1)
        data = train.batches(np.ones(32), 8)
        train.fit(step, np.float32(0), data, callbacks=[*callbacks, train.Checkpoint(tmp_path)], **length)
        return capsys.readouterr().out

    assert run([StopAt(6)], epochs=3) == "stopped at step 6 of 12: enough\n"
    assert run([StopAt(9)], epochs=3) == (
        "resumed at step 6 of 12 (1 of 3 epochs are complete)\nstopped at step 9 of 12: enough\n"
    )
    assert run(steps=10) == "resumed at step 9 of 10\n"
    assert run(steps=10) == "nothing is left to do: resumed at step 10 of 10\n"
    assert run(epochs=2) == "nothing is left to do: resumed at step 10 of 8 (2 of 2 epochs are complete)\n"


def on_terminal(program, columns):
    """Run a program on a terminal and return the contents of its lines, each time that they were written."""
    import fcntl
    import termios

    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-c", textwrap.dedent(program)]
    process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, env={**os.environ, "TERM": "xterm"})
    os.close(inside)
    written = b""
    try:
        while block := os.read(outside, 65536):
            written += block
    except OSError:  # the program has closed the terminal
        pass
    finally:
        os.close(outside)
    assert process.wait(timeout=60) == 0, written
    return [line.strip() for line in re.split(r"[\r\n]+", written.decode()) if line.strip()]


@pytest.mark.slow
def test_bar_fits_into_80_columns():
    lines = on_terminal(PROGRAM, 80)
    bars = [line for line in lines if line.endswith("|")]
    assert len(bars) == 80
    for number, line in enumerate(bars, 1):
        assert len(line) < 80
        place = rf"epoch {1 + (number > 40)}/2, step {number}/80: "
        assert re.fullmatch(rf"{place}(loss [\d.]+, )?([\d,]+ rows/s, )?wait \d+%(, eta [\d:]+)? \|.+\|", line), line
    rest = [line.partition(":")[0] for line in lines if not line.endswith("|")]
    assert rest[:2] == ["epoch 1/2", "epoch 2/2"]
    assert rest[2].startswith("the step waited for data")


@pytest.mark.slow
def test_bar_in_a_notebook():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(PROGRAM))])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    *outputs, result = notebook.cells[0].outputs
    assert result.data["text/plain"] == "TrainLoop(step=80, epoch=2)"
    texts = {"stdout": "", "stderr": ""}
    for output in outputs:
        texts[output.name] += output.text
    assert [line.partition(":")[0] for line in texts["stdout"].splitlines()][:2] == ["epoch 1/2", "epoch 2/2"]
    bars = [line for line in re.split(r"[\r\n]+", texts["stderr"]) if line.strip()]
    assert bars
    assert all(re.match(r"epoch [12]/2, step \d+/80: ", line) for line in bars)
