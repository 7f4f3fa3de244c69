"""Callbacks that training tests share."""

from penstock import train


class StopAt(train.Callback):
    """Stops the training after a step."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, loop):
        if loop.step == self.step:
            loop.stop("enough")
