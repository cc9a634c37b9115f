"""Lines of all message templates of errors and warnings in the source, with ``{}`` for placeholders.

A name is replaced by the texts that its function or module assigns to it; ``(a|b)`` stands for one of several texts.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Functions, besides classes of errors, that receive messages: makers of errors, click's error, and warnings.
_MAKERS = ("damaged", "BadParameter", "warn", "warning")

Texts = Mapping[str, Sequence[ast.expr]]


def message_lines() -> Iterator[str]:
    lines: set[str] = set()
    for folder in ("edge_embed", "exporters"):
        for file in (ROOT / folder).rglob("*.py"):
            _Messages(lines).visit(ast.parse(file.read_text("utf-8")))
    yield from sorted(lines)


class _Messages(ast.NodeVisitor):
    """Visitor that collects the templates of a file."""

    def __init__(self, lines: set[str]) -> None:
        self._lines, self._scopes = lines, [dict[str, Sequence[ast.expr]]()]

    def visit_Module(self, node: ast.Module) -> None:
        self._scopes.append(_assigned(node.body))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._scopes.append({**self._scopes[-1], **_assigned(list(ast.walk(node)))})
        self.generic_visit(node)
        self._scopes.pop()

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name = name.lstrip("_")
        if name.endswith("Error") or name in _MAKERS:
            for template in (_template(argument, self._scopes[-1]) for argument in node.args):
                if any(letter.isalpha() for letter in template):
                    self._lines.add(f"{name}: {template}")
        self.generic_visit(node)


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, Sequence[ast.expr]]:
    """Return the expressions assigned to each name, in the order of the source."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return dict(found)


def _template(node: ast.expr, known: Texts, depth: int = 0) -> str:
    """Return the text of an expression, with ``{}`` for parts that are known only at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("\n", "\\n")
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part, known, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _template(node.value, known, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left, known, depth) + _template(node.right, known, depth)
    if isinstance(node, ast.IfExp):
        return _one_of([node.body, node.orelse], known, depth)
    if isinstance(node, ast.Name) and node.id in known and depth < 3:  # a name may be assigned from itself
        return _one_of(known[node.id], known, depth + 1)
    return "{}"


def _one_of(nodes: Sequence[ast.expr], known: Texts, depth: int) -> str:
    texts = list(dict.fromkeys(_template(node, known, depth) for node in nodes))
    return texts[0] if len(texts) == 1 else f"({'|'.join(texts)})"
