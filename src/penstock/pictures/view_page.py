"""Page of `penstock view`: the effects of operators on samples as one static HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from importlib.resources import files
from itertools import zip_longest

from penstock.pictures.operator_effects import (
    DefinitionEffects,
    OperatorEffect,
    Pairs,
    SampleEffects,
    SampleValue,
)
from penstock.pictures.value_html import difference_html, value_html


def view_page(first: DefinitionEffects, second: DefinitionEffects | None = None) -> str:
    """Return a page that shows the effects of operators, without references to other files.

    Args:
        first: Effects of a definition.
        second: Effects of another definition, or of the same one with another seed, to show beside it.
    """
    style, script = (
        files("penstock.pictures").joinpath(f"view_page.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    # File names and labels are data of strangers. They are escaped, and the browser runs no other script than this one.
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    pairs = zip_longest(first.samples, () if second is None else second.samples)
    articles = "".join(
        _article(number, mine, theirs, paired=second is not None) for number, (mine, theirs) in enumerate(pairs)
    )
    only = "<label><input type=checkbox id=differences> only differences</label>" if second is not None else ""
    return f"""<!DOCTYPE html>
<html lang=en>
<meta charset=utf-8>
<meta http-equiv=Content-Security-Policy content="{policy}">
<meta name=viewport content="width=device-width">
<title>{escape(first.name)}: penstock view</title>
<style>{style}</style>
<header>
<h1>{_heading(first, second)}</h1>
<nav>
<button id=previous type=button>Previous sample</button>
<button id=next type=button>Next sample</button>
<output id=place></output>
<label>Operators <input type=search id=filter placeholder="crop, random" aria-label="Filter by operator name"></label>
{only}
</nav>
</header>
<main>
{articles}
<p id=empty class=empty hidden>No operator to show.</p>
</main>
<script>{script}</script>
</html>
"""


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _heading(first: DefinitionEffects, second: DefinitionEffects | None) -> str:
    if second is None:
        return f"{escape(first.name)} <small>seed {first.seed}</small>"
    left, right = (f"{escape(item.name)} <small>seed {item.seed}</small>" for item in (first, second))
    return f"{left} and {right}"


def _article(number: int, mine: SampleEffects | None, theirs: SampleEffects | None, *, paired: bool) -> str:
    known = [sample for sample in (mine, theirs) if sample is not None]
    titles = dict.fromkeys(f"{escape(item.title)} <small>{escape(item.origin)}</small>" for item in known)
    errors = "".join(f"<p class=error>{escape(item.error)}</p>" for item in known if item.error)
    lists = [() if sample is None else sample.effects for sample in (mine, theirs)]
    pairs = _align(*lists) if paired else ((effect, None) for effect in lists[0])
    sections = "".join(_section(left, right, paired=paired) for left, right in pairs)
    hidden = " hidden" if number else ""
    return f"<article{hidden}>\n<h2>{' and '.join(titles)}</h2>\n{errors}{sections}</article>\n"


def _align(
    mine: Sequence[OperatorEffect], theirs: Sequence[OperatorEffect]
) -> Iterator[tuple[OperatorEffect | None, OperatorEffect | None]]:
    """Pair the calls of two definitions by the names of their operators, in order."""
    names = [[effect.name.partition(" ")[0] for effect in side] for side in (mine, theirs)]
    for kind, low, high, start, end in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(mine[low:high], theirs[start:end], strict=True)
        else:
            yield from ((effect, None) for effect in mine[low:high])
            yield from ((None, effect) for effect in theirs[start:end])


def _section(mine: OperatorEffect | None, theirs: OperatorEffect | None, *, paired: bool) -> str:
    known = [effect for effect in (mine, theirs) if effect is not None]
    name = " / ".join(dict.fromkeys(effect.name for effect in known))
    lines = " / ".join(dict.fromkeys(effect.line for effect in known))
    random = " class=random" if any(effect.draws for effect in known) else ""
    if not paired:
        body = f"<div class=side>{_effect(known[0], None)}</div>"
        differs = ""
    else:
        sides = "".join(f"<div class=side>{_effect(*pair)}</div>" for pair in ((mine, theirs), (theirs, mine)))
        difference = _difference(mine, theirs)
        body = f"<div class=pair>{sides}</div>{difference}"
        differs = " data-differs" if difference else ""
    badge = "<span class=badge>differs</span>" if differs else ""
    return (
        f'<section data-operator="{escape(name.lower())}"{random}{differs}>'
        f"<h3>{escape(name)} <small>{escape(lines)}</small>{badge}</h3>{body}</section>\n"
    )


def _effect(effect: OperatorEffect | None, beside: OperatorEffect | None) -> str:
    """Return arguments, draws and values of a call; those that differ from another call are marked."""
    if effect is None:
        return "<p class=none>not in this definition</p>"
    facts = [
        *_facts(effect.arguments, beside and beside.arguments, ""),
        *_facts(effect.draws, beside and beside.draws, "drawn"),
    ]
    others: Iterable[SampleValue] = () if beside is None else beside.values
    values = "".join(
        f"<div class=value>{_output_names(value)}{value_html(value, other)}</div>"
        for value, other in zip_longest(effect.values, list(others)[: len(effect.values)])
    )
    nothing = "<p class=none>nothing: the sample takes another branch</p>"
    return f"<dl>{''.join(facts)}</dl><div>{values or nothing}</div>"


def _facts(pairs: Pairs, beside: Pairs | None, kind: str) -> Iterator[str]:
    for number, (name, text) in enumerate(pairs):
        differs = beside is not None and beside[number : number + 1] != ((name, text),) and (name, text) not in beside
        names = " ".join(filter(None, [kind, "differs" if differs else ""]))
        label = f"draws {name}" if kind else name or "input"
        yield f'<dt>{escape(label)}</dt><dd class="{names}">{escape(text)}</dd>'


def _output_names(value: SampleValue) -> str:
    return f"<b>output {escape(', '.join(value.outputs))}</b>" if value.outputs else ""


def _difference(mine: OperatorEffect | None, theirs: OperatorEffect | None) -> str:
    """Return the differences of two calls as HTML; "" if there are none."""
    if mine is None or theirs is None:
        return "<div class=difference><p>only in one definition</p></div>"
    if len(mine.values) != len(theirs.values):
        return "<div class=difference><p>different numbers of results</p></div>"
    parts = [difference_html(*pair) for pair in zip(mine.values, theirs.values, strict=True)]
    if any(parts):
        return f"<div class=difference><b>Difference</b>{''.join(parts)}</div>"
    arguments = mine.arguments != theirs.arguments or mine.draws != theirs.draws
    return "<div class=difference><p>other arguments, same results</p></div>" if arguments else ""
