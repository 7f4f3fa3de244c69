"""Conditions in definitions: what is refused, what stays Python's, and what is rewritten."""
# ruff: noqa: SIM108, PLC3002, RET503  # the statements and lambdas are what is tested

import collections
import functools
import textwrap
import traceback

import numpy as np
import pytest
from pipeline_runs import run

from penstock import Pipeline, fn, pipeline, pipeline_def, types
from penstock.errors import DefinitionError
from penstock.graph.conditionals import convert_function, do_not_convert
from penstock.graph.identity.fingerprint import canonical_definition


def numbers(count=4):
    return fn.readers.arrays(np.arange(count, dtype=np.int32))


def converted(define):
    """Return the outputs of a definition with conditionals, as lists."""
    outputs = [output.tolist() for output in run(define, batch_size=4, enable_conditionals=True)]
    return outputs[0] if len(outputs) == 1 else outputs


def one_branch_only():
    x = numbers()
    if x > 1:
        y = x
    return y


def entry_in_one_branch():
    x, data = numbers(), {}
    if x > 1:
        data["y"] = x
    return data["y"]


def other_dtype():
    x = numbers()
    if x > 1:
        y = x * 1.5
    else:
        y = x
    return y


def other_rank():
    x = numbers()
    if x > 1:
        y = x
    else:
        y = fn.constant([1, 2])
    return y


def other_layout():
    x = fn.readers.arrays(np.zeros((4, 2, 2)), layout="HW")
    if numbers() > 1:
        x = fn.transpose(x, perm=[1, 0])
    return x


def other_kind():
    x = numbers()
    if x > 1:
        y = "a"
    else:
        y = x
    return y


def nothing_for_some_rows():
    x = numbers()
    if x > 1:
        return x


def different_results():
    x = numbers()
    if x > 1:
        return x, x
    return x


def other_dtype_further_in():
    x = numbers()
    if x > 1:
        if x > 2:
            x = x * 1.5
    else:
        x = x + 1
    return x


def a_vector_as_condition():
    if fn.readers.arrays(np.zeros((4, 1))):
        return fn.constant(1)
    return fn.constant(2)


def integers_in_and():
    x = numbers()
    return x and x > 1


def an_integer_after_or():
    x = numbers()
    return x > 1 or 5


def break_of_some_rows():
    x = numbers()
    for i in range(3):
        if x > i:
            break
    return x


def while_a_node():
    x = numbers()
    while x > 1:
        x = x - 1
    return x


def made_in_a_branch():
    x, kept = numbers(), collections.deque()
    if x > 1:
        kept.append(x * 2)
    return kept[0] + 1


def made_in_the_other_branch():
    x, kept = numbers(), collections.deque()
    if x > 1:
        kept.append(x * 2)
    else:
        x = kept[0] + 1
    return x


def a_list_that_one_branch_extends():
    x, sizes = numbers(), [2]
    if x > 1:
        sizes.append(3)
    return x + len(sizes)


MISUSE = {
    a_list_that_one_branch_extends: ("do not agree on sizes", "if x > 1:"),
    one_branch_only: ("y is assigned in one branch", "if x > 1:"),
    entry_in_one_branch: (r"data\['y'\] is assigned in one branch", "if x > 1:"),
    other_dtype: ("do not agree on y: .*differ in dtype", "if x > 1:"),
    other_dtype_further_in: ("do not agree on x: .*differ in dtype", "if x > 2:"),
    other_rank: ("do not agree on y: .*differ in number of axes", "if x > 1:"),
    other_layout: ("do not agree on x: .*differ in layout", "if numbers() > 1:"),
    other_kind: ("do not agree on y", "if x > 1:"),
    nothing_for_some_rows: ("do not agree on what the function returns", ""),
    different_results: ("do not agree on what the function returns", "return x"),
    a_vector_as_condition: ("a condition is one number", "if fn.readers"),
    integers_in_and: ("`and` combines truth values", "return x and x > 1"),
    an_integer_after_or: ("`or` combines truth values", "return x > 1 or 5"),
    break_of_some_rows: ("break depends on a node", "if x > i:"),
    while_a_node: (r"the truth of[^\0]*fix: .*which choose for each sample; while", "while x > 1:"),
    made_in_a_branch: ("was made in a branch", "return kept[0] + 1"),
    made_in_the_other_branch: ("was made in a branch", "x = kept[0] + 1"),
}


@pytest.mark.parametrize("define", MISUSE, ids=lambda define: define.__name__)
def test_what_cannot_be_is_refused_at_the_line(define):
    message, line = MISUSE[define]
    with pytest.raises((DefinitionError, TypeError), match=message) as caught:
        converted(define)
    assert __file__ in str(caught.value.where)
    if define is not break_of_some_rows:
        assert line in str(caught.value.where)


def test_map_converts_its_function():
    def larger(x):
        return x * 2 if x > 1 else x

    assert converted(lambda: tuple(map(larger, [numbers(), numbers() + 1]))) == [[0, 1, 4, 6], [1, 4, 6, 8]]


def test_arrays_and_lists_that_a_branch_changes_in_place_are_joined():
    def define():
        x, size, sizes = numbers(), np.array([4, 4]), [2]
        before = size
        if x > 1:
            size *= 2
            sizes.append(3)
        elif x > 0:
            sizes += [5]
        else:
            sizes.append(9)
        return fn.copy(size), sizes[1], fn.constant(before)

    assert converted(define) == [[[4, 4], [4, 4], [8, 8], [8, 8]], [9, 5, 3, 3], [[4, 4]] * 4]


def test_a_variable_that_is_not_used_afterwards_may_be_anything():
    def define():
        x = numbers()
        if x > 1:
            how, step = "up", x * 1.5
            x = x + fn.cast(step, dtype=types.INT32) * len(how)
        else:
            how, step = None, x
            x = x - step if how is None else x
        return x

    assert converted(define) == [0, 0, 8, 13]


def test_rows_that_return_take_no_part_in_the_rest():
    def define():
        x = numbers(8)
        for limit in (1, 3):
            if x < limit:
                return x * 100
            x = x + 1
        if x > 6:
            if x == 8:
                return x
            x = -x
        return x

    made = pipeline_def(define, enable_conditionals=True, batch_size=8)()
    expected = []
    for n in range(8):
        if n < 1:
            expected.append(0)
        elif n + 1 < 3:
            expected.append((n + 1) * 100)
        else:
            expected.append(-(n + 2) if n + 2 > 6 and n + 2 != 8 else n + 2)
    for placement in ("host", "device"):
        made = pipeline_def(define, enable_conditionals=True, batch_size=8, placement=placement)()
        assert np.asarray(made.run()[0].as_cpu().as_array()).tolist() == expected


def test_expressions_choose_row_by_row():
    assert converted(lambda: numbers() * 10 if numbers() > 1 else numbers()) == [0, 1, 20, 30]


def test_python_conditions_are_evaluated_once_and_lazily():
    calls = []

    def note(value):
        calls.append(value)
        return value

    def define():
        x = numbers()
        if note(0) or (note("") and note(1)):
            raise AssertionError
        if note(1) < note(2) < note(0) < note(7):
            raise AssertionError
        for i in range(5):
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
        return x if not note(None) else None

    assert converted(define) == [2, 3, 4, 5]
    assert calls == [0, "", 1, 2, 0, None]


class Adder:
    """Private names, a class of its own, and a method that calls another one."""

    def __init__(self, amount):
        self.__amount = amount

    def add(self, x):
        if x > 1:
            x = x + self.__amount
        return x


class Twice(Adder):
    def add(self, x):
        return super().add(x) * 2 if x > 0 else super().add(x)


def test_methods_partials_and_closures_are_converted():
    offset = 3

    def inner(x):
        nonlocal offset
        if x > 1:
            x = x + offset
        offset += 1
        return x

    def define():
        x = numbers()
        return inner(x), Twice(5).add(x), functools.partial(inner, x)(), (lambda v: v > 0 and v < 2)(x)

    assert converted(define) == [[0, 1, 5, 6], [0, 2, 14, 16], [0, 1, 6, 7], [False, True, False, False]]
    assert offset == 5


def test_libraries_and_what_is_marked_run_as_they_are():
    @do_not_convert
    def marked(x):
        return x and 1

    assert convert_function(marked) is marked
    assert pipeline.do_not_convert is do_not_convert
    for function in (fn.flip, np.stack, np.linalg.norm, textwrap.dedent, len, int, Pipeline):
        assert convert_function(function) is function
    with pytest.raises(TypeError, match="do_not_convert"):
        converted(lambda: marked(numbers()))


def test_a_definition_without_source_is_refused():
    scope = {"numbers": numbers}
    exec("def define():\n    x = numbers()\n    return x", scope)
    with pytest.raises(DefinitionError, match="the source of define cannot be read"):
        converted(scope["define"])


def test_tracebacks_show_the_users_lines():
    def define():
        x = numbers()
        if x > 1:
            x = x + undefined_name  # noqa: F821  # so that it fails
        return x

    with pytest.raises(NameError, match="undefined_name") as caught:
        converted(define)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "define")
    assert "undefined_name" in last.line


def test_a_branch_does_not_change_the_draws_of_others():
    def define(*, forked):
        x, first = numbers(), fn.random.uniform(range=[0, 1])
        if forked and x > 1:
            y = fn.random.uniform(range=[0, 1])
        else:
            y = fn.random.uniform(range=[0, 1])
        return first, y, fn.random.uniform(range=[0, 1])

    def plain():
        first, second, third, last = (fn.random.uniform(range=[0, 1]) for _ in range(4))
        numbers()
        return first, second, third, last

    first, y, last = converted(lambda: define(forked=True))
    drawn = converted(plain)
    assert (first, last) == (drawn[0], drawn[3])
    assert y == drawn[2][:2] + drawn[1][2:]


def test_experimental_definitions_have_conditionals_where_they_say_so():
    @pipeline.experimental.pipeline_def(batch_size=2)
    def define():
        x = numbers()
        if x == 1:
            x = x + 5
        return x

    assert define(enable_conditionals=True).run()[0].as_array().tolist() == [0, 6]
    with pytest.raises(TypeError, match="enable_conditionals"):
        define()


def test_the_fingerprint_has_the_conditions():
    def define(limit):
        x = numbers()
        if x > limit:
            x = x * 2
        return x

    texts = []
    for limit in (1, 2):
        made = pipeline_def(define, enable_conditionals=True, batch_size=2)(limit=limit)
        texts.append(canonical_definition(made.graph).calls)
    assert [text for text in texts[0] if text.startswith("conditional.select")]
    assert texts[0] != texts[1]


def test_what_is_noted_of_a_branch_does_not_grow_with_what_was_before_it():
    @pipeline_def(batch_size=2, enable_conditionals=True)
    def definition():
        x = fn.external_source([np.int32([1, 2])], cycle=True)
        for number in range(3):
            if x > number:  # noqa: SIM102  # a branch in a branch is meant
                if x < number:
                    x = x + 1
        return x

    calls = [node.call for node in definition().graph.nodes if node.kind == "conditional.branch" and node.call]
    assert [len(call.sources) for call in calls] == [1, 2] * 3  # a guard written out would double with each
