"""One parsed text: which function node of it a live code object came from.

Position alone proves nothing (the file may have been edited since), so a node is accepted when the text,
compiled by this very interpreter, gives the live code object again.  A text is parsed once; it is compiled once for its
functions, and once more, with each lambda moved to a line of its own, when a lambda is asked for, which tells
lambdas of one line apart even without column numbers (``-X no_debug_ranges``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Any

from sterna.source.canonical import FunctionNode, digest, prepare
from sterna.source.code import FUTURE_FLAGS, same_code

__all__ = ["ParsedSource"]

_FIRST_MARK = 1 << 24


class ParsedSource:
    """A module's, cell's or string's text with its function nodes.

    Parameters
    ----------
    filename : str
        As code objects name it.
    text : str
        The whole text.
    flags : int
        ``co_flags`` of a code object made from it: its ``__future__`` switches apply again.

    Raises
    ------
    SyntaxError, ValueError
        If the text is no Python.
    """

    def __init__(self, filename: str, text: str, flags: int = 0) -> None:
        self.filename, self.text = filename, text
        self._flags = flags & FUTURE_FLAGS
        self._tree, self._flags = self._parse()
        self._nodes: list[tuple[FunctionNode, str]] = list(_functions(self._tree))
        self._prepared: set[int] = set()
        self._codes: list[CodeType] | None = None
        self._lambdas: list[tuple[FunctionNode, CodeType]] | None = None

    def find(self, code: CodeType) -> tuple[FunctionNode, bool] | None:
        """The node that `code` came from, and whether it compiles to exactly `code`.

        A node that does not is given only if position, name and parameters agree: the mark of an import
        hook that rewrites code, or of an edited file; the caller decides.  None if there is neither.
        """
        node = self._find_lambda(code) if code.co_name == "<lambda>" else self._find_def(code)
        exact = node is not None
        node = node or self._find_similar(code)
        if node is None:
            return None
        if id(node) not in self._prepared:
            self._prepared.add(id(node))
            prepare(node, next(owner for known, owner in self._nodes if known is node))
        return node, exact

    def codes(self) -> list[CodeType]:
        """All code objects that the text compiles to, in order."""
        if self._codes is None:
            self._codes = list(_nested(self._compile()))
        return self._codes

    def _parse(self) -> tuple[ast.Module, int]:
        for flags in (self._flags, self._flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            try:
                tree = compile(self.text, self.filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            except SyntaxError:
                if flags & ast.PyCF_ALLOW_TOP_LEVEL_AWAIT:
                    raise
            else:
                break
        if not isinstance(tree, ast.Module):
            raise ValueError("not a module")
        return tree, flags

    def _compile(self) -> CodeType:
        # from the text, not the tree: `find` prepares nodes of the tree in place
        code = compile(self.text, self.filename, "exec", self._flags, dont_inherit=True)
        if not isinstance(code, CodeType):
            raise ValueError("not a module")
        return code

    def _find_def(self, code: CodeType) -> FunctionNode | None:
        alike = [c for c in self.codes() if c.co_name == code.co_name and same_code(c, code)]
        lines = {c.co_firstlineno for c in alike}
        nodes = [n for n, _ in self._nodes if _name(n) == code.co_name and _first_line(n) in lines]
        here = [n for n in nodes if _first_line(n) == code.co_firstlineno]
        if here:
            return here[0]
        # the file was edited around the function: the same text elsewhere will do, if there is no choice
        return nodes[0] if nodes and len({digest(n) for n in nodes}) == 1 else None

    def _find_lambda(self, code: CodeType) -> FunctionNode | None:
        alike = [(n, c) for n, c in self._marked_lambdas() if same_code(c, code)]
        here = [n for n, _ in alike if n.lineno == code.co_firstlineno]
        if len(here) > 1:
            here = [n for n in here if _encloses(n, code)] or here
        if here:
            return here[0]
        return alike[0][0] if alike and len({digest(n) for n, _ in alike}) == 1 else None

    def _find_similar(self, code: CodeType) -> FunctionNode | None:
        nodes = [n for n, _ in self._nodes if _name(n) == code.co_name and _parameters(n) == _code_parameters(code)]
        here = [n for n in nodes if _first_line(n) == code.co_firstlineno]
        return here[0] if len(here) == 1 else None

    def _marked_lambdas(self) -> list[tuple[FunctionNode, CodeType]]:
        if self._lambdas is None:
            tree = compile(self.text, self.filename, "exec", self._flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            copies = [n for n, _ in _functions(tree)]
            marks: dict[int, FunctionNode] = {}
            for number, (copy, (node, _)) in enumerate(zip(copies, self._nodes, strict=True)):
                if isinstance(copy, ast.Lambda):
                    copy.lineno = copy.end_lineno = _FIRST_MARK + number
                    copy.col_offset, copy.end_col_offset = 0, 1
                    marks[copy.lineno] = node
            codes = _nested(compile(tree, self.filename, "exec", self._flags, dont_inherit=True))
            self._lambdas = [(marks[c.co_firstlineno], c) for c in codes if c.co_firstlineno in marks]
        return self._lambdas


def _functions(tree: ast.AST) -> Iterator[tuple[FunctionNode, str]]:
    """Function nodes in source order, each with the name of the class whose private names it mangles."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, owner = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node, owner
        inner = node.name if isinstance(node, ast.ClassDef) else owner
        stack.extend((child, inner) for child in reversed(list(ast.iter_child_nodes(node))))


def _nested(code: Any) -> Iterator[CodeType]:
    stack = [code]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(c for c in reversed(item.co_consts) if isinstance(c, CodeType))


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: FunctionNode) -> int:
    if isinstance(node, ast.Lambda) or not node.decorator_list:
        return node.lineno
    return node.decorator_list[0].lineno


def _parameters(node: FunctionNode) -> tuple[str, ...]:
    a = node.args
    rest = [x for x in (a.vararg, a.kwarg) if x is not None]
    return tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *rest))


def _code_parameters(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count]


def _encloses(node: FunctionNode, code: CodeType) -> bool:
    """True if the columns of `code` are those of the lambda's expression (False without column numbers)."""
    assert isinstance(node, ast.Lambda)  # only lambdas are ambiguous
    body = node.body
    span = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return span in set(code.co_positions())
