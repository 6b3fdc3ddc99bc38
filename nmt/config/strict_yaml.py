"""YAML without surprises: PyYAML with the scalar rules of YAML 1.2, and the line of a key that is wrong.

What PyYAML alone returns, and what this module returns:

    rate: 1e-4        a string            the number 0.0001
    source: no        False               the string "no" (Norwegian); only true and false are booleans
    hours: 1:30       90                  the string "1:30", which a number field then refuses
    dim: 256          the last one wins   an error that names both lines
    dim: 512
"""

import re
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import ConfigError

Location = tuple[int | str, ...]

_TYPES = {
    "null": r"(~|null|Null|NULL|)\Z",
    "bool": r"(true|True|TRUE|false|False|FALSE)\Z",
    "int": r"[-+]?[0-9][0-9_]{0,99}\Z",
    "float": r"([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
}
"""The words without quotes that are no text."""
_RESOLVERS = {None: [(f"tag:yaml.org,2002:{name}", re.compile(pattern)) for name, pattern in _TYPES.items()]}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: Any = _RESOLVERS

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if (name := str(key.value)) in lines:
                problem = f"the key '{name}' is given twice, first in line {lines[name]}; keep one"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value.replace("_", "")))
_Loader.add_constructor(
    "tag:yaml.org,2002:float",
    lambda _, node: float(re.sub(r"_|\.(?=[iInN])", "", node.value)),  # .inf, .nan
)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_Loader` would read as another type."""

    yaml_implicit_resolvers: Any = _RESOLVERS


@dataclass
class Document:
    """A recipe as plain data, and where it was written."""

    name: str
    text: str
    data: dict[str, Any]
    overrides: dict[Location, str] = field(default_factory=dict)
    """The override that set a key."""

    def written(self, location: Location) -> Location:
        """Return a location as it is written: without the number of an entry without a list, as in `valid: {file: …}`.

        What pydantic adds below a plain value, the names of its possible types, is left out, too.
        """
        container: Any = self.data
        parts = list[int | str]()
        for part in location:
            if isinstance(container, list) and isinstance(part, int):
                container = container[part] if part < len(container) else None
            elif isinstance(container, dict) and isinstance(part, str):
                container = container.get(part)
            elif isinstance(container, dict):
                continue
            else:
                break
            parts.append(part)
        return tuple(parts)

    def override_of(self, location: Location) -> str | None:
        """Return the override that set a key, or a section around it; None for a key of the file."""
        written = self.written(location)
        return next(
            (self.overrides[key] for n in range(len(written) + 1) if (key := written[:n]) in self.overrides), None
        )

    def place(self, location: Location) -> tuple[int, str]:
        """Return the line of a key, or of the nearest section around it, and its place as text.

        That is `file:line`, or the override that set it, which comes after all lines.
        """
        if (override := self.override_of(location)) is not None:
            return sys.maxsize, override
        node, line = yaml.compose(self.text, _Loader), 1
        for part in self.written(location):
            if isinstance(node, yaml.MappingNode):
                entries = {key.value: (key, value) for key, value in node.value}
            elif isinstance(node, yaml.SequenceNode):
                entries = {number: (value, value) for number, value in enumerate(node.value)}
            else:
                break
            if part not in entries:
                break
            key, node = entries[part]
            line = key.start_mark.line + 1
        return line, f"{self.name}:{line}"

    def override(self, assignment: str) -> None:
        """Apply one `section.key=value`; the value is read by the same rules as the file.

        Raises ConfigError for another form, and for a list entry that does not exist.
        """
        dotted, equals, text = assignment.partition("=")
        location, origin = location_of(dotted.strip()), f"--set {assignment}"
        if not equals or "" in location:
            raise ConfigError(f"{origin}: expected section.key=value, as in --set train.batch_tokens=2048")
        container: Any = self.data
        for depth, part in enumerate(location):
            above = ".".join(map(str, location[:depth]))
            if not isinstance(container, (dict, list)):
                raise ConfigError(f"{origin}: {above} is a plain value, not a section with keys in it")
            if isinstance(container, list) and part not in range(len(container)):
                raise ConfigError(f"{origin}: {above} is a list of length {len(container)}, numbered from 0")
            inner: Any = container
            if depth == len(location) - 1:
                inner[part] = _parse(text, origin)
            elif isinstance(container, dict) and container.get(part) is None:
                inner[part] = {}
            container = inner[part]
        self.overrides = {key: value for key, value in self.overrides.items() if key[: len(location)] != location}
        self.overrides[location] = origin


def location_of(key: str) -> Location:
    """Return the location that a dotted key such as `data.train.0.file` names."""
    return tuple(int(part) if part.isdecimal() else part for part in key.split("."))


def read(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping. Raises ConfigError with file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the recipe: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 at byte {error.start}; save the recipe as UTF-8") from None
    data = _parse(text, str(path))
    if not isinstance(data, dict):
        found = "nothing" if data is None else "a list" if isinstance(data, list) else shown(data)
        raise ConfigError(f"{path}: a recipe is a mapping of sections, at least languages, data and run; found {found}")
    return Document(str(path), text, data)


def write(data: Any) -> str:
    """Write plain data as YAML that `read` reads back to the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _parse(text: str, name: str) -> Any:
    """Return YAML text as plain data. Raises ConfigError with a line if the name is that of a file."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        problem, begin, end = str(error.problem), error.context_mark, error.problem_mark
        if begin and end and begin.line != end.line:
            problem += f", in the value that begins at line {begin.line + 1}"
        if "'\\t'" in problem:
            problem += "; indent with spaces, not tabs"
        line = end.line + 1 if end else 1
    except yaml.reader.ReaderError as error:
        problem, line = (
            f"it contains the control character U+{error.character:04X}",
            text.count("\n", 0, error.position) + 1,
        )
    except RecursionError:
        problem, line = "nested too deeply", 1
    place = name if name.startswith("--set ") else f"{name}:{line}"
    raise ConfigError(f"{place}: not valid YAML: {problem}")


def shown(value: Any) -> str:
    """Return a value as in Python, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
