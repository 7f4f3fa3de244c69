"""EarlyStopping stops at the right epoch, also in a resumed training."""

import numpy as np
import pytest

from penstock import train
from penstock.errors import UsageError


class Record(train.Callback):
    """Record a value per epoch, as Evaluate does."""

    def __init__(self, values, every=1):
        self.values, self.record_interval = values, every

    def on_epoch_end(self, loop):
        if loop.epoch % self.record_interval == 0:
            loop.history.epochs[-1]["value"] = self.values[loop.epoch // self.record_interval - 1]


def epochs_of(values, every=1, callbacks=(), **options):
    step = train.data_parallel(lambda state, batch: state + 1)
    stop = train.EarlyStopping("value", **{"mode": "min", **options})
    callbacks = [Record(values, every), stop, *callbacks]
    return train.fit(step, np.float32(0), train.batches(np.ones(8), 8), epochs=20, callbacks=callbacks)


@pytest.mark.parametrize(
    ("values", "options", "epochs"),
    [
        ([3, 2, 1, 1, 1, 1], {"patience": 3}, 6),
        ([3, 2, 2.5, 1, 1.5, 1.5], {"patience": 2}, 6),
        ([1, 2, 3, 3, 2], {"mode": "max", "patience": 2}, 5),
        ([1.0, 0.95, 0.9, 0.85], {"min_delta": 0.1, "patience": 2}, 3),
        ([1.0, 0.95, 0.85, 0.8, 0.8], {"min_delta": 0.1, "patience": 2}, 5),
        ([1.0, float("nan"), float("nan")], {"patience": 2}, 3),
        ([float("nan"), 1.0, 1.0, 1.0], {"patience": 2}, 4),
    ],
)
def test_training_stops_after_epochs_without_improvement(values, options, epochs):
    loop = epochs_of([*values, *[None] * 20], **options)
    assert loop.epoch == epochs
    assert loop.stopped.startswith(f"value has not improved for {options['patience']} epochs; the best is ")


def test_a_value_that_is_never_a_number():
    assert epochs_of([float("nan")] * 9, patience=1).stopped == "value has not improved for 1 epoch"


def test_epochs_without_a_value_do_not_count(capsys):
    assert epochs_of([2, 1, 1, 1], every=3, patience=2).epoch == 12
    assert capsys.readouterr().out == (
        "stopped at step 12 of 20: value has not improved for 2 epochs; the best is 1 in epoch 6\n"
    )


def test_patience_survives_a_resume(tmp_path, capsys):
    values = [3, 2, 1, 1, 1, 1, 1, 1]

    class Interrupt(train.Callback):
        def on_epoch_end(self, loop):
            if loop.epoch == 4:
                loop.stop("interrupted")

    assert epochs_of(values, patience=3, callbacks=[Interrupt(), train.Checkpoint(tmp_path)]).epoch == 4
    assert epochs_of(values, patience=3, callbacks=[train.Checkpoint(tmp_path)]).epoch == 6
    # the training is over: another start has nothing to do
    again = epochs_of(values, patience=3, callbacks=[train.Checkpoint(tmp_path)])
    assert (again.epoch, again.step) == (6, 6)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "resumed at step 4 of 20 (4 of 20 epochs are complete)",
        "stopped at step 6 of 20: value has not improved for 3 epochs; the best is 1 in epoch 3",
        "resumed at step 6 of 20 (6 of 20 epochs are complete)",
        "stopped at step 6 of 20: value has not improved for 3 epochs; the best is 1 in epoch 3",
    ]


@pytest.mark.parametrize(("every", "epoch"), [(1, 1), (3, 3)])
def test_a_name_that_is_never_recorded_is_refused(every, epoch):
    class Other(train.Callback):
        record_interval = every

        def on_epoch_end(self, loop):
            self.epoch = loop.epoch
            if loop.epoch % every == 0:
                loop.history.epochs[-1]["val_accuracy"] = 0.5

    other = Other()
    step = train.data_parallel(lambda state, batch: (state, state))
    with pytest.raises(UsageError, match=r"given: +val_acuracy\n +expected: loss, val_accuracy"):
        train.fit(
            step,
            np.float32(0),
            train.batches(np.ones(8), 8),
            epochs=5,
            callbacks=[other, train.EarlyStopping("val_acuracy", "max")],
        )
    assert other.epoch == epoch


def test_evaluate_every_few_epochs():
    evaluate = train.Evaluate(lambda state, batch: batch["x"] * state, train.batches(np.ones(8), 8), "val", every=2)
    step = train.data_parallel(lambda state, batch: state + 1)
    data = train.batches(np.ones(8), 8)
    loop = train.fit(step, np.float32(0), data, epochs=5, callbacks=[evaluate])
    assert loop.history.epochs == [{}, {"val": 2.0}, {}, {"val": 4.0}, {}]
