"""Strict YAML: types of values, error messages, places of keys, and reading inverts writing."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.config import strict_yaml
from nmt.errors import ConfigError
from tests.time_limit import seconds_of_the_processor


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tmp_path / "recipe.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # what PyYAML reads as text
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        # what PyYAML reads as a boolean
        ("no", "no"),
        ("yes", "yes"),
        ("Off", "Off"),
        ("true", True),
        ("False", False),
        # what PyYAML reads in base 60, 8, 16, as a date
        ("1:30", "1:30"),
        ("010", 10),
        ("0x10", "0x10"),
        ("2024-01-31", "2024-01-31"),
        ("'<<'", "<<"),
        # values with unambiguous types
        ("-3", -3),
        ("1_000", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("'12'", "12"),
        ('"true"', "true"),
        ("~", None),
        ("null", None),
        ("", None),
        ("[1, a, null]", [1, "a", None]),
        ("{a: 1, b: {c: no}}", {"a": 1, "b": {"c": "no"}}),
    ],
)
def test_types_of_unquoted_words(recipe: Path, text: str, expected: Any) -> None:
    recipe.write_text(f"key: {text}\n", encoding="utf-8")
    value = strict_yaml.read(recipe).data["key"]
    assert value == expected
    assert type(value) is type(expected)


def test_block_text_byte_order_mark_and_crlf_are_read(recipe: Path) -> None:
    recipe.write_bytes("\ufeffa: |\r\n  1\r\n  2\r\nb: {x: 1}\r\n".encode())
    assert strict_yaml.read(recipe).data == {"a": "1\n2\n", "b": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "s:\n  x: 1\n  y: 2\n  x:\n    z: 1\n",
            "{}:4: not valid YAML: the key 'x' is given twice, first in line 2; keep",
        ),
        ("a: {b: 1, b: 2}\n", "{}:1: not valid YAML: the key 'b' is given twice, first in line 1; keep one"),
        ("", "{}: a recipe is a mapping of sections, at least languages, data and run; found nothing"),
        ("- a\n- b\n", "{}: a recipe is a mapping of sections, at least languages, data and run; found a list"),
        ("a text\n" * 100, "{}: a recipe is a mapping of sections, at least languages, data and run; found 'a text a"),
        (
            "a: [1, 2\nb: 3\n",
            "{}:2: not valid YAML: expected ',' or ']', but got ':'",
        ),
        ("a: 1\n\tb: 2\n", "{}:2: not valid YAML: found character '\\t' that cannot start any token; indent"),
        ("a: b: c\n", "{}:1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\nb: \x00\n", "{}:2: not valid YAML: unacceptable character #x0000: special characters are not allowed"),
        ("a: *nowhere\n", "{}:1: not valid YAML: found the alias *nowhere, expected none; write the value out"),
        (
            "a: 1\nb: !!python/name:os.system x\n",
            "{}:2: not valid YAML: found the tag tag:yaml.org,2002:python/name:os.system, expected none",
        ),
        ("seed: !!int x\n", "{}:1: not valid YAML: found the tag tag:yaml.org,2002:int, expected none"),
        ("? [a, b]\n: 1\n", "{}:1: not valid YAML: found unhashable key"),
        ("a: 1\nb: &b [*b]\n", "{}:2: not valid YAML: found the alias *b"),
        ("a: 1\nb: " + "[" * 5000 + "]" * 5000, "{}:2: not valid YAML: found more than 50 nested lists or sections"),
    ],
)
def test_syntax_errors_name_file_and_line(recipe: Path, text: str, message: str) -> None:
    recipe.write_bytes(text.encode())
    with seconds_of_the_processor(1), pytest.raises(ConfigError) as caught:
        strict_yaml.read(recipe)
    assert str(caught.value).startswith(message.format(recipe))


def test_unreadable_files_are_refused(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the recipe: No such file or directory"):
        strict_yaml.read(recipe)
    with pytest.raises(ConfigError, match="cannot read the recipe: Is a directory"):
        strict_yaml.read(tmp_path)
    recipe.write_bytes("run: però\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r":1: not UTF-8 at byte 8; save the recipe as UTF-8"):
        strict_yaml.read(recipe)


DOCUMENT = """\
run: x
model:
  dim: 256
  # a comment
  heads: 4
data:
  train:
    - file: a.tsv
      weight: 2
    - {file: b.tsv}
  valid: {file: v.tsv}
empty:
"""


@pytest.fixture
def document(recipe: Path) -> strict_yaml.Document:
    recipe.write_text(DOCUMENT)
    return strict_yaml.read(recipe)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("model.dim", 3),
        ("model.heads", 5),
        ("data.train.0.weight", 9),
        ("data.train.1.file", 10),
        ("data.valid.0.file", 11),  # written alone, without a list
        ("empty", 12),
        ("model.dropout", 2),  # the nearest section
        ("data.train.1.tag", 10),
        ("nothing.here", 1),
    ],
)
def test_place_is_the_line_of_the_key_or_of_the_nearest_section(
    document: strict_yaml.Document, key: str, line: int
) -> None:
    assert document.place(strict_yaml.location_of(key)) == (line, f"{document.name}:{line}")


@pytest.mark.parametrize(
    ("assignment", "changed"),
    [
        (" model.dim = 1e-4 ", {("model", "dim"): 1e-4}),
        ("run=a=b", {("run",): "a=b"}),
        ("run=no", {("run",): "no"}),
        ("run=", {("run",): None}),
        ("model={dim: 8, heads: 2}", {("model",): {"dim": 8, "heads": 2}}),
        ("new.section.key=1", {("new",): {"section": {"key": 1}}}),
        ("empty.key=1", {("empty",): {"key": 1}}),
        ("data.train.0.weight=3", {("data", "train", 0, "weight"): 3}),
        ("data.train=[]", {("data", "train"): []}),
    ],
)
def test_overrides_set_values(
    document: strict_yaml.Document, assignment: str, changed: dict[tuple[Any, ...], Any]
) -> None:
    expected = yaml.safe_load(DOCUMENT)
    for location, value in changed.items():
        container = expected
        for part in location[:-1]:
            container = container[part]
        container[location[-1]] = value
    document.override(assignment)
    assert document.data == expected
    location = strict_yaml.location_of(assignment.partition("=")[0].strip())
    assert document.place((*location, "anything"))[1] == f"--set {assignment}"


def test_last_override_has_priority(document: strict_yaml.Document) -> None:
    document.override("model.dim=512")
    assert document.place(("model", "heads"))[1].endswith("recipe.yaml:5")
    document.override("model={dim: 1024}")
    assert document.data["model"] == {"dim": 1024}
    assert document.place(("model", "dim"))[1] == "--set model={dim: 1024}"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.dim", "--set model.dim: expected section.key=value, as in --set train.batch_tokens=2048"),
        ("=3", "--set =3: expected section.key=value"),
        ("data.valid.0.file=x", "--set data.valid.0.file=x: data.valid is a section, not a list"),
        ("model.dim.x=3", "--set model.dim.x=3: model.dim is a plain value, not a section"),
        ("data.train.2.weight=3", "data.train is a list of length 2, numbered from 0"),
        ("data.train.file=3", "data.train is a list of length 2, numbered from 0"),
        ("model.dim=[1", "--set model.dim=[1: not valid YAML: "),
        ("model={dim: 1, dim: 2}", "--set model={dim: 1, dim: 2}: not valid YAML: the key 'dim' is given twice"),
    ],
)
def test_invalid_overrides_are_refused(document: strict_yaml.Document, assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        document.override(assignment)
    assert message in str(caught.value)


words = st.text().filter(str.isprintable)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yaml") / "recipe.yaml"


@example({"next line": "\x85", "separators": "a\u2028b\u2029"})
@given(data=st.dictionaries(words, plain, min_size=1))
def test_read_inverts_write(file: Path, data: dict[str, Any]) -> None:
    file.write_text(strict_yaml.write(data), encoding="utf-8", newline="")
    assert strict_yaml.read(file).data == data


@given(text=st.text(alphabet=st.sampled_from("ab12.e-+_:~[]{}#&*!|>'\"\n \t,?")))
def test_any_text_is_read_or_raises_config_error(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="")
    with suppress(ConfigError):
        assert isinstance(strict_yaml.read(file).data, dict)
