"""Uses of operators that compute something else than their user expects: a warning says what to write."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import Pipeline, fn, types
from penstock.errors import PenstockWarning

BYTES = np.full((4, 6, 6, 3), 200, np.uint8)
UNIT = BYTES.astype(np.float32) / 255
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
SCALED = {name: [255 * value for value in values] for name, values in IMAGENET.items()}


def normalize(images, mean, std):
    mean, std = (np.float32(values).reshape(1, 1, 3) for values in (mean, std))
    return fn.normalize(images, mean=mean, stddev=std)


@pytest.mark.parametrize("operator", [fn.crop_mirror_normalize, normalize])
@pytest.mark.parametrize(
    ("data", "statistics", "problem", "fix"),
    [
        (BYTES, IMAGENET, r"uint8 images have pixels from 0 to 255, but mean=.*0\.485", r"mean=\[0\.485 \* 255"),
        (UNIT, SCALED, r"pixels from 0 to 1, as the first one shows", r"mean=\[0\.485, \.\.\.\]"),
    ],
)
def test_statistics_of_another_range(operator, data, statistics, problem, fix):
    with pytest.warns(PenstockWarning, match=f"{problem}(.|\\n)*fix: {fix}"):
        run(lambda x: operator(x, **statistics), data, layout="HWC")
    right = SCALED if statistics is IMAGENET else IMAGENET
    run(lambda x: operator(x, **right), data, layout="HWC")
    # Floats of another range, and what is only known later, are not guessed at.
    run(lambda x: operator(x * 255.0, **SCALED), UNIT, layout="HWC")


@pytest.mark.parametrize(("labels", "options"), [([3, 1], {}), ([-1, 1], {}), ([3.0, 1.0], {}), ([3, 1], {"axis": 0})])
def test_a_label_that_is_not_a_class(labels, options):
    def vectors(labels):
        return run(lambda x: fn.one_hot(x, num_classes=3, **options), labels)[0].tolist()

    assert vectors([0, 2]) == [[1, 0, 0], [0, 0, 1]]
    with pytest.warns(PenstockWarning, match=r"a label is not from 0 to 2(.|\n)*labels - 1") as caught:
        assert vectors(labels) == [[0, 0, 0], [0, 1, 0]]
    assert [warning.filename for warning in caught] == [__file__]


def test_a_label_is_reported_once():
    pipeline = Pipeline(1)
    with pipeline:
        pipeline.set_outputs(fn.one_hot(fn.readers.arrays([5, 6, 7]), num_classes=3, dtype=types.UINT8))
    with pytest.warns(PenstockWarning) as caught:
        assert len([pipeline.run() for _ in range(3)]) == 3
    assert len(caught) == 1
