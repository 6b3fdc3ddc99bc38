"""Fill the code blocks of docs/transformer.md with functions and classes of docs/transformer.py: `make schema`.

A block follows a comment that names what it holds: `<!-- code: attention -->`.
"""

import ast
import re
from pathlib import Path

_DOCS = Path(__file__).parent
_BLOCK = re.compile(r"(<!-- code: (\w+) -->\n```python\n).*?(```\n)", re.DOTALL)


def with_code(page: str) -> str:
    """Return a page whose blocks hold the code of today. Raises KeyError for a name that does not exist."""
    source = (_DOCS / "transformer.py").read_text(encoding="utf-8")
    definitions = {
        node.name: "\n".join(source.splitlines()[_first_line(node) - 1 : node.end_lineno]) + "\n"
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return _BLOCK.sub(lambda block: f"{block[1]}{definitions[block[2]]}{block[3]}", page)


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


if __name__ == "__main__":
    file = _DOCS / "transformer.md"
    file.write_text(with_code(file.read_text(encoding="utf-8")), encoding="utf-8")
