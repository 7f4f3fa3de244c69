"""Rewriting of a function's syntax tree, so that conditions on nodes work.

An `if` statement becomes, with the helpers of `penstock.graph.conditionals.control_flow`::

    fork = activation.fork(test, ("x", "y"), (lambda: x, lambda: y))
    if fork.enter_body():
        with fork:
            body
    if fork.enter_else():
        <restore x and y>
        with fork:
            orelse
    if fork.forks:
        fork.join()
        <assign the joined x and y>

Nothing is moved into other functions, so the debugger shows the user's variables, and each statement keeps its line.
Nested functions are not rewritten here, but when they are called.
"""

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

# Placeholder that the helpers replace in the compiled code. A global name could be shadowed by the user.
HOOKS = "\0penstock.hooks"

_ACTIVATION = "_penstock_activation"

Function = ast.FunctionDef | ast.Lambda
_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def rewrite(function: Function) -> None:
    """Rewrite a function in place."""
    positional = [*function.args.posonlyargs, *function.args.args]
    locals_ = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    if not isinstance(function, ast.Lambda):
        outer = {
            name for node in _own(function.body) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        }
        locals_ = (locals_ | _targets(function.body).keys()) - outer
    rewriter = _Rewriter(positional[0].arg if positional else "", locals_)
    if isinstance(function, ast.Lambda):
        function.body = rewriter.visit(function.body)
        return
    # A docstring must stay the first statement, outside of the `with` that is added.
    docstring = function.body[:1] if ast.get_docstring(function, clean=False) is not None else []
    body = function.body[len(docstring) :]
    # Without an `if` no branch is traced that could return or leave a name without a value.
    if not any(isinstance(node, ast.If) for node in _own(body)):
        function.body = [*docstring, *rewriter.block(body)]
        return
    rewriter.returns = any(
        isinstance(inner, ast.Return) for node in _own(body) if isinstance(node, ast.If) for inner in _own([node])
    )
    begin = ast.withitem(_hook("Activation"), ast.Name(_ACTIVATION, ast.Store()))
    rewritten = rewriter.block(body)
    if rewriter.returns:
        rewritten.append(_placed(ast.Return(_activation("leave", ast.Constant(None))), body[-1]))
    function.body = [*docstring, _placed(ast.With([begin], rewritten), body[0])]


class _Rewriter(ast.NodeTransformer):
    """Rewrites the statements and expressions of one function.

    Args:
        first: Name of its first argument, or "".
        locals_: Names of its arguments and variables.
    """

    def __init__(self, first: str, locals_: AbstractSet[str]) -> None:
        self._first, self._locals = first, locals_
        self.returns = False  # True if the function returns in an `if` statement
        self._count = 0
        self._inside: list[str] = []  # forks around the current statement, inside the innermost loop

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        block: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            block += result if isinstance(result, list) else [result]
        return block

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, _OTHER_SCOPES) else super().generic_visit(node)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        self._count += 1
        name = f"_penstock_fork_{self._count}"
        targets = _targets([*node.body, *node.orelse], self._locals)
        texts = ast.Tuple([ast.Constant(text) for text in targets], ast.Load())
        getters = ast.Tuple([_thunk(_as(target, ast.Load())) for target in targets.values()], ast.Load())
        test = self.visit(node.test)
        self._inside.append(name)
        body, orelse = self.block(node.body), self.block(node.orelse)
        self._inside.pop()
        restore = [_restore(name, number, target) for number, target in enumerate(targets.values())]
        left = ast.If(_of(name, "left"), [ast.Return(_activation("end"))], [])
        join: list[ast.stmt] = [ast.Expr(_call(_of(name, "join"))), *restore, *([left] if self.returns else [])]
        result: list[ast.stmt] = [
            ast.Assign([ast.Name(name, ast.Store())], _activation("fork", test, texts, getters)),
            ast.If(_call(_of(name, "enter_body")), [_within(name, body)], []),
            ast.If(_call(_of(name, "enter_else")), [*restore, _within(name, orelse or [ast.Pass()])], []),
            ast.If(_of(name, "forks"), join, []),
        ]
        return [_placed(statement, node.test) for statement in result]

    def visit_Return(self, node: ast.Return) -> ast.Return:
        value = ast.Constant(None) if node.value is None else self.visit(node.value)
        return _placed(ast.Return(_activation("leave", value) if self.returns else value), node)

    def _jump(self, node: ast.Break | ast.Continue) -> list[ast.stmt]:
        word = ast.Constant("break" if isinstance(node, ast.Break) else "continue")
        checks = [ast.Expr(_call(_of(name, "jump"), word)) for name in self._inside]
        return [*(_placed(check, node) for check in checks), node]

    visit_Break = visit_Continue = _jump  # noqa: N815  # the names of `ast`

    def _loop(self, node: ast.For | ast.While) -> ast.AST:
        # `break` and `continue` end only the innermost loop, so they may depend on an `if` around that loop.
        around, self._inside = self._inside, []
        result = self.generic_visit(node)
        self._inside = around
        return result

    visit_For = visit_While = _loop  # noqa: N815  # the names of `ast`

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._first and not node.args and isinstance(node.func, ast.Name) and node.func.id == "super":
            names = [ast.Name(name, ast.Load()) for name in ("__class__", self._first)]
            node.args = [_placed(name, node.func) for name in names]  # the call may move into a lambda
        node.func = _placed(_hook("converted", node.func), node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if _binds(node):
            return node
        name = "conjunction" if isinstance(node.op, ast.And) else "disjunction"
        return _placed(_hook(name, *map(_thunk, node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _placed(_hook("negation", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _binds(node):
            return node
        return _placed(_hook("if_expression", node.test, _thunk(node.body), _thunk(node.orelse)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        # A single comparison calls the node's own method. In a chain, Python asks the first result for its truth.
        if len(node.ops) == 1 or _binds(node):
            return node
        links = [
            ast.Tuple([_comparing(op), _thunk(right)], ast.Load())
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]
        return _placed(_hook("comparison", node.left, *links), node)


def _own(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and their descendants in the same function."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _OTHER_SCOPES):
            todo += ast.iter_child_nodes(node)


def _binds(node: ast.AST) -> bool:
    """Return True if an expression cannot be moved into a lambda: it assigns, awaits or yields."""
    return any(isinstance(inner, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for inner in _own([node]))


def _targets(statements: Sequence[ast.stmt], locals_: AbstractSet[str] = frozenset()) -> dict[str, ast.expr]:
    """Return the targets of assignments by their text: names, and entries and attributes of unassigned names.

    Of the local names, those that statements such as `sizes.append(3)` may change are targets, too.
    """
    names: dict[str, ast.expr] = {}
    changed: dict[str, ast.expr] = {}
    parts: dict[str, ast.expr] = {}
    # A comprehension has a scope of its own, so its variables are not assigned in the function.
    comprehensions = [node for node in _own(statements) if isinstance(node, ast.comprehension)]
    comprehended = {id(inner) for node in comprehensions for inner in ast.walk(node.target)}
    for node in _own(statements):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) if id(node) not in comprehended:
                names[node.id] = node
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] = ast.Name(name)
            case ast.alias(name=name, asname=asname) if name != "*":
                names[(asname or name).split(".")[0]] = ast.Name((asname or name).split(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names[name] = ast.Name(name)
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                parts[ast.unparse(node)] = cast(ast.expr, node)
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name)))) if name in locals_:
                changed[name] = ast.Name(name)
            case _:
                pass
    steady = {text: part for text, part in parts.items() if _steady(part, names)}
    return dict(sorted((changed | names).items())) | dict(sorted(steady.items()))


def _steady(part: ast.expr, assigned: Any) -> bool:
    """Return True if an entry or attribute can be looked up at any time: `self.x`, `d["a"]`, `d[k].y`."""
    match part:
        case ast.Name():
            return part.id not in assigned
        case ast.Attribute():
            return _steady(part.value, assigned)
        case ast.Subscript():
            index = part.slice.operand if isinstance(part.slice, ast.UnaryOp) else part.slice
            fixed = isinstance(index, ast.Constant) or (isinstance(index, ast.Name) and index.id not in assigned)
            return fixed and _steady(part.value, assigned)
        case _:
            return False


def _restore(fork: str, number: int, target: ast.expr) -> ast.stmt:
    """Return a statement that assigns the fork's value to a name, or deletes the name without a value."""
    n = ast.Constant(number)
    value = ast.Subscript(ast.Name(fork, ast.Load()), n, ast.Load())
    remove = ast.If(_call(_of(fork, "stale"), n), [ast.Delete([_as(target, ast.Del())])], [])
    return ast.If(_call(_of(fork, "has"), n), [ast.Assign([_as(target, ast.Store())], value)], [remove])


def _as(target: ast.expr, context: ast.expr_context) -> ast.expr:
    """Return the target of an assignment in another context."""
    result = cast(Any, ast.parse(ast.unparse(target), mode="eval").body)
    result.ctx = context
    for node in ast.walk(result):  # `_placed` sets the locations
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            node.__dict__.pop(name, None)
    return result


def _comparing(op: ast.cmpop) -> ast.Lambda:
    return _thunk(ast.Compare(ast.Name("a", ast.Load()), [op], [ast.Name("b", ast.Load())]), "a", "b")


def _thunk(expression: ast.expr, *names: str) -> ast.Lambda:
    arguments = [ast.arg(name) for name in names]
    return ast.Lambda(ast.arguments([], arguments, kwonlyargs=[], kw_defaults=[], defaults=[]), expression)


def _within(fork: str, statements: list[ast.stmt]) -> ast.With:
    return ast.With([ast.withitem(ast.Name(fork, ast.Load()))], statements)


def _of(name: str, attribute: str) -> ast.Attribute:
    return ast.Attribute(ast.Name(name, ast.Load()), attribute, ast.Load())


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _activation(method: str, *arguments: ast.expr) -> ast.Call:
    return _call(_of(_ACTIVATION, method), *arguments)


def _hook(name: str, *arguments: ast.expr) -> ast.Call:
    return _call(ast.Attribute(ast.Constant(HOOKS), name, ast.Load()), *arguments)


def _placed(result: Any, where: ast.AST) -> Any:
    """Return a new node at the location of another. The user's nodes in it keep their locations."""
    return ast.fix_missing_locations(ast.copy_location(result, where))
