"""Sequences of the user's own as data sets."""

import jax
import numpy as np
import pytest

from penstock import Pipeline, data_iterator, errors, fn
from penstock.sources.formats.map_style_source import MapStyleSource
from penstock.testing import check_iterator, check_source

ROWS = jax.NamedSharding(jax.make_mesh((4,), ("batch",)), jax.P("batch"))


class Dataset:
    """As Grain and PyTorch have them."""

    def __init__(self, length=22):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return np.full((2, 2), index, np.uint8), index


@pytest.mark.parametrize(
    "items",
    [
        ["a", "bcd", ""],
        [b"abc", b"d"],
        [1, 2, 3],
        np.arange(12).reshape(3, 4),
        [np.zeros((2, 3)), np.zeros((4, 5))],
        [{"x": np.zeros(2), "y": 1}, {"x": np.ones(3), "y": 2}],
        {"x": ["one", "two"], "y": np.arange(2)},
        Dataset(),
    ],
)
def test_contract(items):
    check_source(MapStyleSource(items, ""))


def batches(iterator):
    return [(np.asarray(batch["x"]).tolist(), np.asarray(batch["y"]).tolist()) for batch in iterator]


def make(batch_size=8, sharding=None, items=None):
    data = Dataset() if items is None else items

    @data_iterator(output_map=["x", "y"], reader_name="reader", sharding=sharding)
    def training():
        x, y = fn.readers.items(data, layout={0: "HW"}, random_shuffle=True, name="reader")
        return x, y * 1

    return training(batch_size=batch_size, seed=5)


def test_shuffles_shards_and_resumes():
    one, four = make(), make(sharding=ROWS)
    seen = [batches(one), batches(one)]
    assert seen == [batches(four), batches(four)]
    assert seen[0] != seen[1]
    assert max(y for _, ys in seen[0] for y in ys) == 21
    run = make()
    next(run)
    state = run.get_state()
    again = make(sharding=ROWS)
    again.set_state(state)
    assert batches(again) == seen[0][1:]


class Numbers:
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return self.numbers[index]


def numbers_by_name(numbers):
    return {"x": list(map(str, numbers)), "y": numbers}


def arrow_numbers(numbers):
    return pytest.importorskip("pyarrow", reason="PyArrow is not installed").array(numbers)


FORMS = [
    list,
    np.array,
    Numbers,
    numbers_by_name,
    arrow_numbers,
    lambda numbers: [np.full(2, number) for number in numbers],
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("length", "place"), [(4, 2), (1000, 500)])
def test_items_of_shards_are_one_data_set_only_if_all_are_equal(form, length, place):
    one = MapStyleSource(form([*range(length)]), "")
    assert one.reads_same_samples(MapStyleSource(form([*range(length)]), ""))
    other = MapStyleSource(form([number + 5000 * (number == place) for number in range(length)]), "")
    # Of objects that are not compared as a whole, only some items are read.
    assert one.reads_same_samples(other) is (length > 64 and form in (Numbers, FORMS[-1]))
    assert not one.reads_same_samples(MapStyleSource(form([*range(length + 1)]), ""))


def test_shards_with_equal_ends_are_read_whole():
    parts = [[0, 1, 2, 9], [0, 5, 6, 9]]

    @data_iterator(sharding=jax.NamedSharding(jax.make_mesh((2,), ("batch",)), jax.P("batch")))
    def training(shard_id, num_shards):
        return {"x": fn.readers.items(parts[shard_id])}

    assert [np.asarray(batch["x"]).tolist() for batch in training(batch_size=2)] == [[0, 0], [1, 5], [2, 6], [9, 9]]


class Odd(Dataset):
    def __getitem__(self, index):
        if index == 7:
            raise OSError("no such page")
        return np.zeros((2, 2), np.uint8 if index < 9 else np.float32), index


def test_errors_name_the_item():
    with pytest.raises(errors.SampleError, match=r"item (7|9|1\d|2\d) of a Odd"):
        list(make(items=Odd()))
    for wrong, kind in ((3, errors.ArgumentTypeError), ([], errors.DefinitionError), ([object()], errors.SampleError)):
        with pytest.raises(kind, match="test_map_style_source"):
            make(items=wrong)


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        (
            {"x": 1, "note": "a"},
            {"x": 1, "note": None},
            r"value 'note' of item 1 [\s\S]*missing values[\s\S]*leave 'note'",
        ),
        ({"x": 1, "y": 2}, {"x": 1, "y": float("nan")}, "value 'y' of item 1 of a list differs in kind"),
        ((1, 2), (1, "a"), "value 1 of item 1 of a list differs in kind"),
        (1, None, r"item 1 of a list: [\s\S]*missing values"),
    ],
)
def test_errors_name_the_value(first, other, message):
    with pytest.raises(errors.SampleError, match=message):
        MapStyleSource([first, other], "").read(np.arange(2), [None] * 2)


@pytest.mark.parametrize("layout", [{"imagee": "HWC"}, {0: "HWC"}])
def test_layouts_of_other_values_are_refused(layout):
    with (
        Pipeline(batch_size=1),
        pytest.raises(errors.DefinitionError, match=r"layout has an entry.*\s+given.*\s+.*image"),
    ):
        fn.readers.items([{"image": np.zeros((2, 2, 3), np.uint8), "label": 1}], layout=layout)


def test_dictionaries_in_items_are_refused():
    with pytest.raises(errors.SampleError, match="value 'boxes' of item 0 of a list is a dictionary"):
        MapStyleSource([{"x": 1, "boxes": {"left": 2}}], "")


def test_values_of_dictionaries_are_found_by_name():
    items = [{"left": 1, "right": 2}, {"right": 20, "left": 10}]
    columns = MapStyleSource(items, "").read(np.arange(2), [None] * 2)
    assert [column.tolist() for column in columns] == [[1, 10], [2, 20]]


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        ({"a": 1, "b": 2}, {"a": 4, "c": 5}, r"names \['a', 'c'\]\s+expected: names \['a', 'b'\]"),
        ({"a": 1, "b": 2}, {"a": 4}, r"names \['a'\]\s+expected: names \['a', 'b'\]"),
        ({"a": 1}, {"a": 4, "b": 5}, r"names \['a', 'b'\]\s+expected: names \['a'\]"),
        ({"a": 1}, 4, r"1 without names\s+expected: names \['a'\]"),
        (1, {0: 4}, r"names \[0\]\s+expected: 1 without names"),
        ((1, 2), (4, 5, 6), r"3 without names\s+expected: 2 without names"),
        ((1, 2), (4,), r"1 without names\s+expected: 2 without names"),
    ],
)
def test_items_with_other_values_are_samples_that_fail(first, other, message):
    with pytest.raises(
        errors.SampleError, match=rf"item 1 of a list has other values.*\s+given:\s+{message}"
    ) as caught:
        MapStyleSource([first, other, first], "").read(np.arange(3), [None] * 2)
    assert caught.value.index == 1


class Damaged(Dataset):
    """Has one item that cannot be read."""

    def __init__(self, bad):
        super().__init__()
        self.bad = bad

    def __getitem__(self, index):
        if index == self.bad:
            raise OSError("no such page")
        return super().__getitem__(index)


@pytest.mark.parametrize("bad", [20, 21])
def test_bad_items_are_tolerated_also_at_the_end(bad):
    skipping = data_iterator(lambda: fn.readers.items(Damaged(bad)), ["x", "y", "valid"], on_error="skip")
    batch = next(skipping(batch_size=22))
    assert np.asarray(batch["y"])[np.asarray(batch["valid"])].tolist() == [n for n in range(22) if n != bad]
    with pytest.raises(errors.SampleError, match=f"item {bad} of a Damaged cannot be read: OSError: no such page"):
        list(make(items=Damaged(bad)))


def hugging_face():
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    return datasets.Dataset.from_dict({"x": [[n, n + 1] for n in range(22)], "y": list(range(22))}).with_format("numpy")


def arrow():
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    return pyarrow.table({"x": [f"{n:02}" for n in range(22)], "y": list(range(22))})


def grain_dataset():
    grain = pytest.importorskip("grain", reason="Grain is not installed")
    return grain.MapDataset.range(22).map(lambda n: {"x": np.full(2, n), "y": n})


class TorchLike(Dataset):
    """Ends by an IndexError, and has lists of other libraries' numbers."""

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError(index)
        return {"x": jax.numpy.full(2, index), "y": index}


def data_frame():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame({"x": [f"{n:02}" for n in range(22)], "y": range(22)})
    return table.iloc[::-1]  # rows are labeled 21, 20, ..., 0


@pytest.mark.parametrize("data", [hugging_face, arrow, data_frame, grain_dataset, TorchLike])
def test_data_sets_of_other_libraries(data):
    items = data()
    check_source(MapStyleSource(items, ""))

    @data_iterator(output_map=["x", "y"], reader_name="reader")
    def training():
        data = fn.readers.items(items, random_shuffle=True, name="reader")
        x = fn.python_function(data["x"], function=lambda x: x.astype(np.int32)[:2], dtype=np.int32, ndim=1)
        return fn.reshape(x, shape=[2]), data["y"]

    (first, _) = check_iterator(lambda: training(batch_size=11, seed=1))
    seen = np.concatenate([batch["y"] for batch in first])
    assert sorted(seen.tolist()) == list(range(22))
    x = np.concatenate([batch["x"] for batch in first])[:, 0]
    np.testing.assert_array_equal(x, seen // 10 + ord("0") if data in (arrow, data_frame) else seen)


def columns_of(items):
    source = MapStyleSource(items, "")
    return dict(zip(source.names, source.read(np.arange(len(source)), [None] * len(source.specs)), strict=True))


@pytest.mark.parametrize("named", [True, False])
def test_columns_of_pyarrow_keep_their_dtypes(named):
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    numbers = {
        np.dtype(name): pyarrow.array(np.array([3, 1], name))
        for name in ("int8", "uint16", "uint64", "float16", "float32", "bool")
    }
    columns = {str(dtype): array for dtype, array in numbers.items()} | {
        "text": pyarrow.array(["a", "bc"]),
        "bytes": pyarrow.array([b"", b"d"]),
        "categories": pyarrow.array(["e", "e"]).dictionary_encode(),
        "large": pyarrow.array([2**63 - 1, 2**63], pyarrow.uint64()),
        "list": pyarrow.array([[1, 2], []], pyarrow.list_(pyarrow.float32())),
        "fixed": pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(pyarrow.uint8(), 2)),
        "boxes": pyarrow.array([[[1, 2, 3]], []], pyarrow.list_(pyarrow.list_(pyarrow.int16()))),
        "file": pyarrow.array([{"bytes": b"f", "path": None}, {"bytes": b"gh", "path": "gh.png"}]),
    }
    result = columns_of(columns if named else pyarrow.table(columns))
    for dtype in numbers:
        assert result[str(dtype)].dtype == dtype
        assert result[str(dtype)].tolist() == np.array([3, 1], dtype).tolist()
    for name in ("text", "bytes", "categories", "file"):
        assert {value.dtype for value in result[name]} == {np.dtype(np.uint8)}
    assert [bytes(value) for value in result["text"]] == [b"a", b"bc"]
    assert [bytes(value) for value in result["bytes"]] == [b"", b"d"]
    assert [bytes(value) for value in result["categories"]] == [b"e", b"e"]
    assert [bytes(value) for value in result["file"]] == [b"f", b"gh"]
    assert result["large"].tolist() == [2**63 - 1, 2**63]
    assert [(value.dtype, value.tolist()) for value in result["list"]] == [(np.float32, [1, 2]), (np.float32, [])]
    assert [(value.dtype, value.tolist()) for value in result["fixed"]] == [(np.uint8, [1, 2]), (np.uint8, [3, 4])]
    assert [(value.dtype, value.shape) for value in result["boxes"]] == [(np.int16, (1, 3)), (np.int16, (0, 3))]


def test_arrays_of_pyarrow_are_data_sets():
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    assert columns_of(pyarrow.array([1, 2], pyarrow.int8()))[0].tolist() == [1, 2]
    rows = pyarrow.chunked_array([[{"x": 1, "y": "a"}], [{"x": 2, "y": "bc"}]])
    assert [value.tolist() for value in columns_of(rows)["y"]] == [[97], [98, 99]]
    with pytest.raises(errors.SampleError, match=r"value 'x' of item 1 [\s\S]*missing values"):
        columns_of(pyarrow.table({"x": [1, None]}))
    for values in ([[1, 2], [None]], [[[1, 2]], [[1], [2, 3]]]):
        with pytest.raises(errors.SampleError, match="value 'x' of item 1"):
            columns_of(pyarrow.table({"x": values}))


def test_empty_lists_are_like_the_first_item():
    columns = columns_of([{"boxes": [[1, 2, 3, 4]], "labels": [1]}, {"boxes": [], "labels": []}])
    assert [(value.dtype, value.shape) for value in columns["boxes"]] == [(np.int64, (1, 4)), (np.int64, (0, 4))]
    assert [(value.dtype, value.shape) for value in columns["labels"]] == [(np.int64, (1,)), (np.int64, (0,))]
    with pytest.raises(errors.SampleError, match="differs in kind from the first item"):
        columns_of([1, []])


def test_columns_that_change_between_readers_are_read_again():
    rows = {"x": [1, 2, 3]}
    pipeline = Pipeline(batch_size=3, num_threads=1)
    with pipeline:
        before = fn.readers.items(rows)["x"]
        rows["x"] = [7, 8, 9]
        pipeline.set_outputs(before, fn.readers.items(rows)["x"])
    assert [output.as_array().tolist() for output in pipeline.run()] == [[1, 2, 3], [7, 8, 9]]


def test_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    column = pyarrow.array([1, 2])
    for table in (
        pandas.DataFrame([[1, 2]], columns=["a", "a"]),
        pyarrow.Table.from_arrays([column, column], ["a", "a"]),
    ):
        with pytest.raises(errors.DefinitionError, match="'a'"):
            MapStyleSource(table, "")


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_tables_of_one_row_are_not_items(form):
    with pytest.raises(errors.SampleError, match=r"a table is not a sample[\s\S]*with_format\(\"numpy\"\)"):
        MapStyleSource(hugging_face().with_format(form), "")


def test_series_of_pandas_are_read_by_position():
    table = data_frame()
    columns = {"x": table["y"], "y": table["y"].tolist(), "z": table["x"].astype("category")}
    first = {
        name: column[0].tolist()
        for name, column in zip("xyz", MapStyleSource(columns, "").read(np.array([0]), [None] * 3), strict=True)
    }
    assert first == {"x": 21, "y": 21, "z": [50, 49]}
    assert MapStyleSource(table["y"], "").read(np.array([3]), [None])[0].tolist() == [18]
    with pytest.raises(errors.SampleError, match="item 0 of a DataFrame"):
        MapStyleSource(table.assign(x=object()), "")
