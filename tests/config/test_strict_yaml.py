"""Strict YAML: types of values, error messages, and reading inverts writing."""

import math
import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import strict_yaml
from nmt.errors import ConfigError


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tmp_path / "recipe.yaml"


def value_of(path: Path, text: str) -> Any:
    path.write_text(f"key: {text}\n", encoding="utf-8")
    return strict_yaml.read(path).data["key"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # what PyYAML reads as text
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("2.5e+3", 2500.0),
        # what PyYAML reads as a boolean
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        # what PyYAML reads in base 60, 8, 16, as a date
        ("1:30", "1:30"),
        ("010", 10),
        ("0x10", "0x10"),
        ("0o10", "0o10"),
        ("2024-01-31", "2024-01-31"),
        ("=", "="),
        ("'<<'", "<<"),
        # values with unambiguous types
        ("12", 12),
        ("-3", -3),
        ("1_000", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("'12'", "12"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("~", None),
        ("null", None),
        ("", None),
        ("[1, a, null]", [1, "a", None]),
        ("{a: 1, b: {c: no}}", {"a": 1, "b": {"c": "no"}}),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_types_of_unquoted_words(recipe: Path, text: str, expected: Any) -> None:
    value = value_of(recipe, text)
    assert value == expected
    assert type(value) is type(expected)


def test_nan_is_read(recipe: Path) -> None:
    assert math.isnan(value_of(recipe, ".nan"))


def test_block_text_and_anchors_are_read(recipe: Path) -> None:
    recipe.write_text("a: |\n  1\n  2\nb: &there {x: 1}\nc: *there\n")
    assert strict_yaml.read(recipe).data == {"a": "1\n2\n", "b": {"x": 1}, "c": {"x": 1}}


def test_byte_order_mark_and_crlf_are_accepted(recipe: Path) -> None:
    recipe.write_bytes("\ufeffa: 1\r\nb: no\r\n".encode())
    assert strict_yaml.read(recipe).data == {"a": 1, "b": "no"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "{}:3: the key 'a' is given twice, first in line 1; keep one"),
        ("s:\n  x: 1\n  y: 2\n  x:\n    z: 1\n", "{}:4: the key 'x' is given twice, first in line 2; keep one"),
        ("a: {b: 1, b: 2}\n", "{}:1: the key 'b' is given twice, first in line 1; keep one"),
        ("", "{}: the recipe is empty; it needs at least name, languages, data and run"),
        ("# nothing\n", "{}: the recipe is empty"),
        ("- a\n- b\n", "{}:1: a recipe is a mapping of sections, found a list"),
        ("hello\n", "{}:1: a recipe is a mapping of sections, found the single value 'hello'"),
        (
            "a text\n" * 100,
            "{}:1: a recipe is a mapping of sections, found the single value '" + "a text " * 8 + "a t…",
        ),
        (
            "a: [1, 2\nb: 3\n",
            "{}:2: not valid YAML: expected ',' or ']', but got ':', in the value that begins at line 1",
        ),
        ("a: 1\n\tb: 2\n", "{}:2: not valid YAML: found character '\\t' that cannot start any token; indent"),
        ("a: 1\n---\nb: 2\n", "{}:2: not valid YAML: "),
        ("a: b: c\n", "{}:1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\nb: \x00\n", "{}:2: not valid YAML: it contains the control character U+0000"),
        ("a: *nowhere\n", "{}:1: not valid YAML: found undefined alias"),
        ("a: &a [*a]\n", "{}:1: nested too deeply, or an anchor inside itself"),
        ("a: " + "[" * 5000, "{}:1: nested too deeply"),
        ("a: 1\nb: !!python/name:os.system x\n", "{}:2: unknown tag tag:yaml.org,2002:python/name:os.system"),
        ("b: !mine 3\n", "{}:1: unknown tag !mine; a recipe holds plain values only"),
        ("a: !!set {x: 1}\n", "{}:1: unknown tag tag:yaml.org,2002:set"),
        ('a: 1\n"\\e[31m": 1\n', "{}:2: a key must be a word, found the single value '\\x1b[31m'"),
        ("? [a, b]\n: 1\n", "{}:1: a key must be a word, found a list"),
    ],
)
def test_syntax_errors_name_file_and_line(recipe: Path, text: str, message: str) -> None:
    recipe.write_bytes(text.encode())
    with pytest.raises(ConfigError) as caught:
        strict_yaml.read(recipe)
    assert str(caught.value).startswith(message.format(recipe))


def test_unreadable_files_are_refused(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the recipe: No such file or directory"):
        strict_yaml.read(recipe)
    with pytest.raises(ConfigError, match="cannot read the recipe: Is a directory"):
        strict_yaml.read(tmp_path)
    recipe.write_bytes("name: però\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r":1: not UTF-8 at byte 9; save the recipe as UTF-8"):
        strict_yaml.read(recipe)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in pairwise("abcdefghi")
)


def test_too_many_values_of_aliases_are_refused(recipe: Path) -> None:
    recipe.write_text(BOMB)
    with pytest.raises(
        ConfigError, match=r"recipe\.yaml:1: more than 10,000 values, with each use of an alias counted"
    ):
        strict_yaml.read(recipe)
    recipe.write_text("a: 1\n")
    with pytest.raises(ConfigError, match=r"--set b=.*: more than 10,000 values"):
        strict_yaml.read(recipe).override("b={" + ", ".join(BOMB.splitlines()) + "}")


def test_large_files_and_devices_are_refused(recipe: Path) -> None:
    recipe.write_bytes(b"a: 1\n#" + bytes(strict_yaml.LARGEST_FILE))
    with pytest.raises(ConfigError, match=r"recipe\.yaml: cannot read the recipe: larger than 1 MiB"):
        strict_yaml.read(recipe)
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(
            ConfigError, match=f"{device}: cannot read the recipe: expected a file or a pipe, found a device"
        ):
            strict_yaml.read(Path(device))


def test_pipe_is_read_only_if_a_process_writes_into_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"pipe: cannot read the recipe: a pipe into which no process writes"):
        strict_yaml.read(pipe)
    reading, writing = os.pipe()
    os.write(writing, b"name: piped\n")
    os.close(writing)
    assert strict_yaml.read(Path(f"/dev/fd/{reading}")).data == {"name": "piped"}
    os.close(reading)


def test_pipe_is_read(recipe: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a: 1\n")
    os.close(writing)
    try:
        assert strict_yaml.read(Path(f"/dev/fd/{reading}")).data == {"a": 1}
    finally:
        os.close(reading)


DOCUMENT = """\
name: x
model:
  dim: 256
  # a comment
  heads: 4
data:
  train:
    - tsv: a.tsv
      weight: 2
    - {tsv: b.tsv}
empty:
"""


@pytest.fixture
def document(recipe: Path) -> strict_yaml.Document:
    recipe.write_text(DOCUMENT)
    return strict_yaml.read(recipe)


def test_line_numbers_are_those_of_the_keys(document: strict_yaml.Document) -> None:
    assert document.places == {
        (): 1,
        ("name",): 1,
        ("model",): 2,
        ("model", "dim"): 3,
        ("model", "heads"): 5,
        ("data",): 6,
        ("data", "train"): 7,
        ("data", "train", 0): 8,
        ("data", "train", 0, "tsv"): 8,
        ("data", "train", 0, "weight"): 9,
        ("data", "train", 1): 10,
        ("data", "train", 1, "tsv"): 10,
        ("empty",): 11,
    }
    assert document.place(("model", "dropout")) == f"{document.name}:2"
    assert document.place(("nothing", "here")) == f"{document.name}:1"


@pytest.mark.parametrize(
    ("assignment", "changed"),
    [
        ("model.dim=512", {("model", "dim"): 512}),
        (" model.dim = 1e-4 ", {("model", "dim"): 1e-4}),
        ("name=a=b", {("name",): "a=b"}),
        ("name=no", {("name",): "no"}),
        ("name=", {("name",): None}),
        ("name='12'", {("name",): "12"}),
        ("model={dim: 8, heads: 2}", {("model",): {"dim": 8, "heads": 2}}),
        ("model.schedule.name=noam", {("model", "schedule"): {"name": "noam"}}),
        ("new.section.key=1", {("new",): {"section": {"key": 1}}}),
        ("empty.key=1", {("empty",): {"key": 1}}),
        ("data.train.0.weight=3", {("data", "train", 0, "weight"): 3}),
        ("data.train.1=null", {("data", "train", 1): None}),
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
    dotted = assignment.partition("=")[0].strip().split(".")
    location = tuple(int(part) if part.isdecimal() else part for part in dotted)
    assert document.place((*location, "anything")) == f"--set {assignment}"


def test_last_override_has_priority(document: strict_yaml.Document) -> None:
    document.override("model.dim=512")
    document.override("model.dim=1024")
    assert document.data["model"]["dim"] == 1024
    assert document.place(("model", "dim")) == "--set model.dim=1024"
    assert document.place(("model", "heads")).endswith("recipe.yaml:5")


def test_overridden_sections_have_no_line_numbers(document: strict_yaml.Document) -> None:
    document.override("model={dim: 8}")
    assert document.place(("model", "heads")) == "--set model={dim: 8}"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.dim", "--set model.dim: expected section.key=value, as in --set train.batch_tokens=2048"),
        ("=3", "--set =3: expected section.key=value"),
        ("model..dim=3", "--set model..dim=3: expected section.key=value"),
        ("model.dim.x=3", "--set model.dim.x=3: model.dim is a plain value, not a section with keys in it"),
        ("data.train.2.weight=3", "data.train is a list of length 2, numbered from 0; found '2'"),
        ("data.train.tsv=3", "data.train is a list of length 2, numbered from 0; found 'tsv'"),
        ("data.train.-1=3", "data.train is a list of length 2, numbered from 0; found '-1'"),
        ("model.dim=[1", "--set model.dim=[1: not valid YAML: "),
        (
            "model={dim: 1, dim: 2}",
            "--set model={dim: 1, dim: 2}: the key 'dim' is given twice, first in line 1; keep one",
        ),
    ],
)
def test_invalid_overrides_are_refused(document: strict_yaml.Document, assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        document.override(assignment)
    assert message in str(caught.value)


def test_relative_paths_are_relative_to_file_or_current_directory(document: strict_yaml.Document) -> None:
    document.override("data.train.1={tsv: c.tsv}")
    assert document.folder(("data", "train", 0, "tsv")) == Path(document.name).parent
    assert document.folder(("data", "train", 1, "tsv")) == Path()


words = st.text().filter(str.isprintable)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yaml") / "recipe.yaml"


@given(data=st.dictionaries(words, plain, min_size=1))
def test_read_inverts_write(file: Path, data: dict[str, Any]) -> None:
    file.write_text(strict_yaml.write(data), encoding="utf-8", newline="")
    assert strict_yaml.read(file).data == data


@given(text=st.text(alphabet=st.sampled_from("ab12.e-+_:~[]{}#&*!|>'\"\n \t,?")))
def test_any_text_is_read_or_raises_config_error(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="")
    with suppress(ConfigError):
        assert isinstance(strict_yaml.read(file).data, dict)
