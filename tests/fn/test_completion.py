"""Editors complete operators and their arguments from the stubs, without importing the package."""

import pytest

jedi = pytest.importorskip("jedi", reason="jedi is not installed (dependency group test)")


def completions(code):
    text = f"from penstock import fn\nx = fn.random.uniform()\n{code}"
    return {item.name for item in jedi.Script(text).complete(text.count("\n") + 1, len(code))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("fn.resize(x, si", "size="),
        ("fn.resize(x, resize_sh", "resize_shorter="),
        ("fn.readers.file(ran", "random_shuffle="),
        ("fn.readers.file(na", "name="),
        ("fn.flip(x, dev", "device="),
        ("fn.res", "resize"),
        ("fn.readers.web", "webdataset"),
        ("fn.random.uniform(ran", "range="),
    ],
)
def test_completions(code, name):
    assert name in completions(code)


def test_completions_of_fn_do_not_list_what_stubs_import():
    names = completions("fn.")
    assert {"resize", "readers", "slice"} <= names
    internal = {
        "DataNode",
        "Any",
        "overload",
        "present",
        "lazy_module",
        "operator_modules",
        "operator_aliases",
        "arithmetic",
    }
    assert not internal & names


def test_signatures_have_documentation():
    text = "from penstock import fn\nfn.resize("
    (signature, *_) = jedi.Script(text).get_signatures(2, 10)
    assert signature.docstring(raw=True).startswith("Resize images")
    assert "resize_shorter" in [parameter.name for parameter in signature.params]
