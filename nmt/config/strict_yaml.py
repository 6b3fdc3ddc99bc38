"""YAML without surprises: PyYAML's composer with the scalar rules of YAML 1.2, and the line of every key.

What PyYAML alone returns, and what this module returns:

    rate: 1e-4        a string            the number 0.0001
    source: no        False               the string "no" (Norwegian); only true and false are booleans
    hours: 1:30       90                  the string "1:30", which a number field then refuses
    dim: 256          the last one wins   an error that names both lines
    dim: 512

Reading ends soon, in little RAM, whatever the file holds: its size and the number of its values are limited.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import ConfigError

Location = tuple[int | str, ...]

LARGEST_FILE = 2**20  # bytes; a recipe of a thousand corpora has a tenth of it
MOST_VALUES = 10_000  # values in a recipe, with each use of an alias counted: aliases of aliases grow exponentially
_LONGEST_NUMBER = 100  # digits; Python refuses to convert thousands of them
_LONGEST_SHOWN = 60  # characters

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "seq", "map")


@dataclass
class Document:
    """A recipe as plain data, with the place where each key was written."""

    name: str
    data: dict[str, Any]
    places: dict[Location, int | str] = field(default_factory=dict)
    """The line of each key in the file, or the override that set it."""

    def place(self, location: Location) -> str:
        """Return the place of a key, or of the nearest section around it: `file:line`, or the override."""
        found = self._find(location)
        return f"{self.name}:{found}" if isinstance(found, int) else found

    def line(self, location: Location) -> int:
        """Return the line of a key, for sorting: overrides come after all lines."""
        found = self._find(location)
        return found if isinstance(found, int) else sys.maxsize

    def folder(self, location: Location) -> Path:
        """Return the folder of relative paths at `location`: the recipe's, or the current one for an override."""
        return Path() if isinstance(self._find(location), str) else Path(self.name).parent

    def written(self, location: Location) -> Location:
        """Return a location without the indices of lists whose only entry is written alone, as in `valid: {tsv: …}`."""
        container: Any = self.data
        parts = []
        for part in location:
            if isinstance(part, str) or isinstance(container, list):
                parts.append(part)
                entries = dict(enumerate(container)) if isinstance(container, list) else container
                container = entries.get(part) if isinstance(entries, dict) else None
        return tuple(parts)

    def _find(self, location: Location) -> int | str:
        location = self.written(location)
        nearest = (location[:length] for length in range(len(location), -1, -1))
        return next((self.places[written] for written in nearest if written in self.places), self.name)

    def override(self, assignment: str) -> None:
        """Apply one `section.key=value`; the value is read by the same rules as the file.

        Raises ConfigError for another form, and for a list entry that does not exist.
        """
        path, equals, text = assignment.partition("=")
        names = path.strip().split(".")
        parts: Location = tuple(int(name) if name.isdecimal() and len(name) < 9 else name for name in names)
        origin = f"--set {assignment}"
        if not equals or "" in parts:
            raise ConfigError(f"{origin}: expected section.key=value, as in --set train.batch_tokens=2048")
        container: Any = self.data
        for depth in range(1, len(parts)):
            key = _key_in(container, parts[:depth], origin)
            if isinstance(container, dict) and container.get(key) is None:
                container[key] = {}
                self.places.setdefault(parts[:depth], origin)
            container = container[key]
        key = _key_in(container, parts, origin)
        self.places = {written: place for written, place in self.places.items() if written[: len(parts)] != parts}
        self.places[parts] = origin
        container[key], _ = _parse(text, lambda line: origin)


def _key_in(container: Any, location: Location, origin: str) -> int | str:
    """Return the last part of a location as a key of its container. Raises ConfigError if the container has none."""
    *above, part = location
    dotted = ".".join(map(str, above))
    if isinstance(container, dict):
        return str(part)
    if not isinstance(container, list):
        raise ConfigError(f"{origin}: {dotted} is a plain value, not a section with keys in it")
    if isinstance(part, str) or part >= len(container):
        raise ConfigError(f"{origin}: {dotted} is a list of length {len(container)}, numbered from 0; found '{part}'")
    return part


def read(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping. Raises ConfigError with file and line."""
    try:
        text = read_limited(path).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the recipe: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 at byte {error.start}; save the recipe as UTF-8") from None
    data, places = _parse(text, lambda line: f"{path}:{line}")
    if data is None:
        raise ConfigError(f"{path}: the recipe is empty; it needs at least name, languages, data and run")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: a recipe is a mapping of sections, found {_kind(data)}")
    return Document(str(path), data, places)


def read_limited(path: Path) -> bytes:
    """Return the content of a small file or pipe.

    Raises OSError, also for a device, for a pipe into which no process writes, and for too many bytes.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "expected a file or a pipe, found a device")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for a process that writes
    os.set_blocking(descriptor, True)
    with open(descriptor, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if stat.S_ISFIFO(mode) and not content:
        raise OSError(errno.EPIPE, "a pipe into which no process writes")
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"larger than {LARGEST_FILE >> 20} MiB")
    return content


def write(data: Any) -> str:
    """Write plain data as YAML that `read` reads back to the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_plain` would read as another type; PyYAML does not quote `1e-4`."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # not printable: line breaks of all kinds, tabs, control characters
    bare = _plain(text) == text and text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if bare else '"')


_Dumper.add_representer(str, _represent_text)


def _parse(text: str, at: Callable[[int], str]) -> tuple[Any, dict[Location, int | str]]:
    """Return YAML text as plain data, and the line of each key; `at` names the place of a line for messages."""
    try:
        builder, node = _Builder(at), yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else builder.build(node, ()), builder.lines
    except yaml.MarkedYAMLError as error:
        problem, begin, end = error.problem or str(error), error.context_mark, error.problem_mark
        if begin and end and begin.line != end.line:
            problem += f", in the value that begins at line {begin.line + 1}"
        advice = "; indent with spaces, not tabs" if "'\\t'" in problem else ""
        raise ConfigError(f"{at(end.line + 1 if end else 1)}: not valid YAML: {problem}{advice}") from None
    except yaml.reader.ReaderError as error:
        place, character = at(text.count("\n", 0, error.position) + 1), f"U+{ord(text[error.position]):04X}"
        raise ConfigError(f"{place}: not valid YAML: it contains the control character {character}") from None
    except RecursionError:
        raise ConfigError(f"{at(1)}: nested too deeply, or an anchor inside itself") from None


@dataclass
class _Builder:
    """Builds plain data from the nodes of one YAML text."""

    at: Callable[[int], str]
    lines: dict[Location, int | str] = field(default_factory=dict)
    count: int = 0

    def build(self, node: yaml.Node, location: Location) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(location, line)
        self.count += 1
        if self.count > MOST_VALUES:
            raise ConfigError(f"{self.at(line)}: more than {MOST_VALUES:,} values, with each use of an alias counted")
        if node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            raise ConfigError(f"{self.at(line)}: unknown tag {node.tag}; a recipe holds plain values only")
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else _plain(node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*location, number)) for number, item in enumerate(node.value)]
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if not isinstance(key, str) or not key.isprintable():
                raise ConfigError(f"{self.at(line)}: a key must be a word, found {_kind(key)}")
            if key in mapping:
                first = self.lines[*location, key]
                raise ConfigError(f"{self.at(line)}: the key '{key}' is given twice, first in line {first}; keep one")
            self.lines[*location, key] = line  # the value may begin on a later line
            mapping[key] = self.build(value_node, (*location, key))
        return mapping


def _plain(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST_NUMBER and _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text):
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _kind(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"the single value {shown(value)}"  # long if the file is a text and not a recipe


def shown(value: Any) -> str:
    """Return a value as in Python, shortened for a message."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
