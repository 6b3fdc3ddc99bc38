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
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import ConfigError

Location = tuple[int | str, ...]
OVERRIDDEN = sys.maxsize  # the line number of a key that an override has set

# Scalars without quotes that are not text.
_TYPES = {
    "null": r"(~|null|Null|NULL|)\Z",
    "bool": r"(true|True|TRUE|false|False|FALSE)\Z",
    "int": r"[-+]?[0-9][0-9_]{0,99}\Z",
    "float": r"([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
}
_RESOLVERS = {None: [(f"tag:yaml.org,2002:{name}", re.compile(pattern)) for name, pattern in _TYPES.items()]}


_DEEPEST = 50  # levels, far above those of any recipe; nodes are composed by recursion


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
    """Quotes text that `_Loader` would read as another type, and repeats equal values instead of writing aliases."""

    yaml_implicit_resolvers: Any = _RESOLVERS

    def ignore_aliases(self, data: object) -> bool:
        """Write no alias."""
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote text with line ends other than `\\n`, which PyYAML reads back as spaces otherwise."""
        style = '"' if re.search("[\x85\u2028\u2029]", data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


@dataclass
class Document:
    """A recipe as plain data, and where each key was written: in which line, or by which override."""

    name: str
    data: dict[str, Any]
    places: dict[Location, tuple[int, str]]

    def place(self, location: Location) -> tuple[int, str]:
        """Return the line of a key, or of the nearest section around it, and the place as text.

        An override comes after all lines. An entry that is written without a list, as in `valid: {file: …}`, has no
        number.
        """
        known: Location = ()
        for part in location:
            if (*known, part) in self.places:
                known = (*known, part)
            elif isinstance(part, str):
                break
        return self.places.get(known, (OVERRIDDEN, self.name))

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
            is_section = isinstance(container, dict)
            if isinstance(container, list):
                has_place, kind = part in range(len(container)), f"a list of length {len(container)}, numbered from 0"
            elif is_section:
                has_place, kind = isinstance(part, str), "a section, not a list"
            else:
                has_place, kind = False, "a plain value, not a section"
            if not has_place:
                raise ConfigError(f"{origin}: {'.'.join(map(str, location[:depth]))} is {kind}")
            if depth == len(location) - 1:
                container[part] = _parse(text, lambda line: origin)[0]
            elif is_section and container.get(part) is None:
                container[part] = {}
            container = container[part]
        self.places = {key: place for key, place in self.places.items() if key[: len(location)] != location}
        for depth in range(1, len(location)):
            self.places.setdefault(location[:depth], (OVERRIDDEN, origin))
        self.places[location] = OVERRIDDEN, origin


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
    data, lines = _parse(text, lambda line: f"{path}:{line}")
    if not isinstance(data, dict):
        content = "nothing" if data is None else "a list" if isinstance(data, list) else shown(data)
        raise ConfigError(
            f"{path}: a recipe is a mapping of sections, at least languages, data and run; found {content}"
        )
    return Document(str(path), data, {location: (line, f"{path}:{line}") for location, line in lines.items()})


def write(data: Any) -> str:
    """Write plain data as YAML that `read` reads back to the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _parse(text: str, place_of: Callable[[int], str]) -> tuple[Any, dict[Location, int]]:
    """Return YAML text as plain data, and the line of each key. Raises ConfigError with the place of a line."""
    try:
        depth = 0
        event: Any
        for event in yaml.parse(text, _Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            problem = ""
            if isinstance(event, yaml.AliasEvent):  # a few of them, one inside the other, can fill the RAM
                problem = f"found the alias *{event.anchor}, expected none; write the value out"
            elif (tag := getattr(event, "tag", None)) is not None:
                problem = f"found the tag {tag}, expected none; write the value without it"
            elif depth > _DEEPEST:
                problem = f"found more than {_DEEPEST} nested lists or sections; a recipe needs a few"
            if problem:
                raise yaml.composer.ComposerError(problem=problem, problem_mark=event.start_mark)
        loader = _Loader(text)
        if (node := loader.get_single_node()) is None:
            return None, {}
        return loader.construct_document(node), {(): 1, **_lines(node, ())}
    except yaml.YAMLError as caught:
        error: Any = caught
        if isinstance(error, yaml.reader.ReaderError):  # of a character, without a mark
            line, problem = text.count("\n", 0, error.position), str(error).partition("\n")[0]
        else:
            line, problem = error.problem_mark.line, error.problem
        advice = "; indent with spaces, not tabs" if "'\\t'" in problem else ""
        raise ConfigError(f"{place_of(line + 1)}: not valid YAML: {problem}{advice}") from None


def _lines(node: yaml.Node, above: Location) -> dict[Location, int]:
    """Return the line of each key and of each entry of a list."""
    entries: list[tuple[int | str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        entries = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        entries = [(number, value, value) for number, value in enumerate(node.value)]
    lines: dict[Location, int] = {}
    for name, key, value in entries:
        lines[*above, name] = key.start_mark.line + 1
        lines |= _lines(value, (*above, name))
    return lines


def shown(value: Any) -> str:
    """Return a value as in Python, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
