"""YAML without surprises: PyYAML's composer with the scalar rules of YAML 1.2, and a line for every key.

What PyYAML alone would do, and what happens here:

    rate: 1e-4        a string            the number 0.0001
    source: no        False               the string "no" (Norwegian); only true and false are booleans
    hours: 1:30       90                  the string "1:30", which a number field then refuses
    dim: 256          the last one wins   an error that names both lines
    dim: 512
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import ConfigError

Location = tuple[int | str, ...]

_NULL = re.compile(r"^(~|null|Null|NULL|)$")
_BOOL = re.compile(r"^(true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9][0-9_]*$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL_FLOAT = re.compile(r"^[-+]?(\.inf|\.Inf|\.INF)$|^(\.nan|\.NaN|\.NAN)$")

_LONGEST_NUMBER = 100
"""Longer ones are a slip of the hand, and Python refuses to convert thousands of digits."""
_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "seq", "map")

_OVERRIDE = "--set "


@dataclass
class Document:
    """A recipe as plain data, with the place where each key was written."""

    name: str
    data: dict[str, Any]
    places: dict[Location, str] = field(default_factory=dict)

    def place(self, location: Location) -> str:
        """Return `file:line` of a key, or of the nearest section around it that was written down."""
        for length in range(len(location), -1, -1):
            if location[:length] in self.places:
                return self.places[location[:length]]
        return self.name

    def folder(self, location: Location) -> Path:
        """Return the folder that a relative path at `location` counts from: the recipe's, or the current one."""
        return Path() if self.place(location).startswith(_OVERRIDE) else Path(self.name).parent

    def override(self, assignment: str) -> None:
        """Apply one `section.key=value`; the value is read by the same rules as the file.

        Raises ConfigError if that is not its form, or if there is no such list or list entry.
        """
        path, equals, text = assignment.partition("=")
        parts: Location = tuple(int(part) if part.isdecimal() else part for part in path.strip().split("."))
        origin = _OVERRIDE + assignment
        if not equals or "" in parts:
            raise ConfigError(f"{origin}: expected section.key=value, as in --set train.batch_tokens=2048")
        container: Any = self.data
        for depth, part in enumerate(parts[:-1]):
            container = self._step_into(container, parts[:depth], part, origin)
        # what the file said here, and where, no longer counts
        self.places = {known: place for known, place in self.places.items() if known[: len(parts)] != parts}
        self.places[parts] = origin
        value = _read(text, parts, origin, self.places)
        _assign(container, parts, value, origin)

    def _step_into(self, container: Any, above: Location, part: int | str, origin: str) -> Any:
        """Return the section or list that `part` names, made if the file left it out or left it empty."""
        if isinstance(container, list):
            _check_entry(container, above, part, origin)
            inner = container[int(part)]
        else:
            inner = container.get(part)
            if inner is None:
                inner = container[part] = {}
                self.places.setdefault((*above, part), origin)
        if not isinstance(inner, (dict, list)):
            raise ConfigError(f"{origin}: {_dotted((*above, part))} is a plain value, not a section with keys in it")
        return inner


def read(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping. Raises ConfigError with file and line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the recipe: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 at byte {error.start}; save the recipe as UTF-8") from None
    places: dict[Location, str] = {}
    data = _read(text, (), str(path), places)
    if data is None:
        raise ConfigError(f"{path}: the recipe is empty; it needs at least name, languages, data and run")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: a recipe is a mapping of sections, found {_kind(data)}")
    return Document(str(path), data, places)


def write(data: Any) -> str:
    """Write plain data as YAML that `read` reads back to the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Quotes what this module would read as something else than a string: PyYAML leaves `1e-4` bare."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # not printable: line breaks of all kinds, tabs, control characters
    bare = _plain(text) == text and text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if bare else '"')


_Dumper.add_representer(str, _represent_text)


def _read(text: str, location: Location, origin: str, places: dict[Location, str]) -> Any:
    """Turn YAML text into plain data and note where each key stands."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _construct(node, location, origin, places)
    except yaml.MarkedYAMLError as error:
        place = _place(origin, error.problem_mark) if error.problem_mark else origin
        problem = error.problem or str(error)
        begun, found = error.context_mark, error.problem_mark
        if begun and found and begun.line != found.line and not origin.startswith(_OVERRIDE):
            problem += f", in what begins at line {begun.line + 1}"
        advice = "; indent with spaces, not tabs" if "'\\t'" in problem else ""
        raise ConfigError(f"{place}: not valid YAML: {problem}{advice}") from None
    except yaml.reader.ReaderError as error:
        place = origin if origin.startswith(_OVERRIDE) else f"{origin}:{text.count(chr(10), 0, error.position) + 1}"
        character = f"U+{ord(text[error.position]):04X}"
        raise ConfigError(f"{place}: not valid YAML: it holds the control character {character}") from None
    except RecursionError:
        raise ConfigError(f"{origin}: nested too deeply, or an anchor that holds itself") from None


def _place(origin: str, mark: yaml.Mark) -> str:
    # a value given with --set has no line of its own
    return origin if origin.startswith(_OVERRIDE) else f"{origin}:{mark.line + 1}"


def _construct(node: yaml.Node, location: Location, origin: str, places: dict[Location, str]) -> Any:
    place = places.setdefault(location, _place(origin, node.start_mark))
    if node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
        raise ConfigError(f"{place}: unknown tag {node.tag}; a recipe holds plain values only")
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style else _plain(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*location, i), origin, places) for i, item in enumerate(node.value)]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key_place = _place(origin, key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"{key_place}: a key must be a word, found {_kind(key_node.value)}")
        key: str = key_node.value
        if key in mapping:
            before = places[(*location, key)].removeprefix(f"{origin}:")
            where = f"here and at line {before}" if before.isdecimal() else "twice"
            raise ConfigError(f"{key_place}: the key '{key}' stands {where}; keep one")
        # the line of the key, not of a value that may begin further down
        places[(*location, key)] = key_place
        mapping[key] = _construct(value_node, (*location, key), origin, places)
    return mapping


def _plain(text: str) -> Any:
    """Return what a bare word means."""
    if len(text) > _LONGEST_NUMBER:
        return text
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text) or _SPECIAL_FLOAT.match(text):
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _assign(container: Any, parts: Location, value: Any, origin: str) -> None:
    if isinstance(container, list):
        _check_entry(container, parts[:-1], parts[-1], origin)
        container[int(parts[-1])] = value
    else:
        container[str(parts[-1])] = value


def _check_entry(entries: list[Any], above: Location, part: int | str, origin: str) -> None:
    if not isinstance(part, int) or part >= len(entries):
        numbers = f"0 to {len(entries) - 1}" if len(entries) > 1 else "0"
        raise ConfigError(f"{origin}: {_dotted(above)} is a list; choose an entry by number ({numbers}), not '{part}'")


def _dotted(location: Location) -> str:
    return ".".join(map(str, location))


def _kind(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"the single value {value!r}"
