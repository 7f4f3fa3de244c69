"""Loggers: where metrics of a training are written."""

import csv
import io
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from penstock.core import optional_import
from penstock.core.atomic_files import fsync_file
from penstock.errors import CheckpointError, UsageError, error_text, short_repr
from penstock.graph import check_annotations


@runtime_checkable
class Logger(Protocol):
    """Destination of metrics, for `LogMetrics`. Only process 0 of a job calls it."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write values of a step. Steps never decrease."""
        ...

    def resume(self, step: int) -> None:
        """Remove what was written after a step, which the resumed training writes again."""
        ...

    def close(self) -> None:
        """Write what is buffered. `log` may be called again."""
        ...


class CSVLogger(Logger):
    """Logger that writes a CSV file with a row per logged step and a column per name.

    The first column is "step". Values that a step does not have are empty.

    Args:
        path: Path of the file. Rows are appended to an existing file.

    Raises:
        CheckpointError: While logging, the file cannot be written, or another program wrote it.
        UsageError: While logging, a value is called "step".

    Example:
        >>> import tempfile
        >>> logger = CSVLogger(tempfile.mkdtemp() + "/metrics.csv")
        >>> logger.log({"loss": 0.5}, 10), logger.log({"loss": 0.25, "val_accuracy": 0.75}, 20)
        (None, None)
        >>> print(logger.path.read_text())
        step,loss,val_accuracy
        10,0.5,
        20,0.25,0.75
        <BLANKLINE>
    """

    @check_annotations
    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._names: list[str] = []

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Append a row. The first row with a new name writes the file again, with a column more."""
        if "step" in values:
            raise UsageError(
                "a value is called step, the name of the first column, which has the number of the step",
                given=", ".join(values),
                fix="another name for the metric, such as training_step",
            )
        row = {"step": step, **values}
        try:
            if not self._names:
                self._continue()
            if names := [name for name in row if name not in self._names]:
                rows = self._rows()
                self._names += names
                self._replace([*rows, row])
                return
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, self._names, lineterminator="\n").writerow(row)
        except CheckpointError:
            raise
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def resume(self, step: int) -> None:
        """Remove the rows of later steps."""
        try:
            self._continue()
            rows = self._rows()
            if any(int(row["step"]) > step for row in rows):
                self._replace([row for row in rows if int(row["step"]) <= step])
        except CheckpointError:
            raise
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Do nothing: each row is in the file."""

    def _continue(self) -> None:
        """Read the columns of an existing file. Write it again without a part of a last row, to append to it."""
        text = self._text()
        rows = _whole_rows(text)
        self._names = next(csv.reader(io.StringIO(rows, newline="")), [])
        if self._names and self._names[0] != "step":
            raise self._foreign("a file with the column step first", ", ".join(self._names))
        if self._names and rows != text:
            self._replace(self._rows())

    def _text(self) -> str:
        if not self.path.exists():
            return ""
        with self.path.open(newline="") as file:
            return file.read()

    def _foreign(self, expected: str, given: str) -> CheckpointError:
        return CheckpointError(
            f"this logger did not write {self.path}", given=short_repr(given), expected=expected, fix="another path"
        )

    def _rows(self) -> list[dict[str, Any]]:
        rows = list(csv.DictReader(io.StringIO(_whole_rows(self._text()), newline="")))
        # The reader collects surplus cells under None.
        if wrong := [row for row in rows if None in row or not (row["step"] or "").isdecimal()]:
            raise self._foreign("a whole number as step in each row", str(list(wrong[0].values())))
        return cast(list[dict[str, Any]], rows)

    def _replace(self, rows: list[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Not `write_atomically`, whose files only the user may read.
        partial = self.path.with_name(f"{self.path.name}.partial")
        with partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            fsync_file(file)
        partial.replace(self.path)


def _whole_rows(text: str) -> str:
    """Return a text without a part of a last row, which a killed process may leave."""
    return text[: text.rfind("\n") + 1]


class TensorBoardLogger(Logger):
    """Logger that writes event files for TensorBoard.

    Args:
        directory: Directory of the run. A resumed training adds a file, and TensorBoard hides the steps that it
            repeats.

    Raises:
        MissingExtraError: The package tensorboardX is not installed.

    Example:
        >>> import tempfile
        >>> logger = TensorBoardLogger(tempfile.mkdtemp())
        >>> logger.log({"loss": 0.5}, 10)
        >>> logger.close()
    """

    @check_annotations
    def __init__(self, directory: str | PathLike[str]) -> None:
        self._module = optional_import.import_extra("tensorboardX", "tensorboard", "train.TensorBoardLogger")
        self._directory = str(directory)
        self._purge_step: int | None = None
        self._writer: Any = None

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write a scalar per value."""
        if self._writer is None:
            # The names of event files contain the second in which they begin. TensorBoard reads them in their order, so
            # the step tells two of one second apart.
            self._writer = self._module.SummaryWriter(
                self._directory, purge_step=self._purge_step, filename_suffix=f".{self._purge_step or 0:012d}"
            )
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def resume(self, step: int) -> None:
        """Tell TensorBoard to hide later steps of other files."""
        self._purge_step = step + 1

    def close(self) -> None:
        """Write the events, and end the thread that writes them."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WandbLogger(Logger):
    """Logger that sends metrics to Weights & Biases, or stores them with ``mode="offline"``.

    Args:
        **init: Arguments of `wandb.init`, such as ``project``, ``name`` and ``mode``. With ``id`` and
            ``resume="allow"``, a resumed training continues the run; W&B ignores steps that it has already.

    Raises:
        MissingExtraError: The package wandb is not installed.

    Example:
        >>> logger = WandbLogger(project="digits", mode="disabled")
        >>> logger.log({"loss": 0.5}, 10)
        >>> logger.close()
    """

    def __init__(self, **init: Any) -> None:
        self._wandb = optional_import.import_extra("wandb", "wandb", "train.WandbLogger")
        self._init = init
        self._run: Any = None

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log the values. The first call starts the run."""
        if self._run is None:
            self._run = self._wandb.init(**self._init)
        self._run.log(dict(values), step=step)

    def resume(self, step: int) -> None:
        """Do nothing: W&B ignores values of steps that it has."""

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None


def _unwritable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the metrics cannot be written: {error_text(error)}",
        given=path,
        fix="a folder that can be written to, on a disk with room",
    )
