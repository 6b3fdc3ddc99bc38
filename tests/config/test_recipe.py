"""The recipe: values, defaults, and the exact error messages."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pydantic
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import LanguagePair, ModelSettings, Recipe, load_recipe, recipe_schema, recipe_to_yaml, strict_yaml
from nmt.config.schedules import Constant, Noam, Schedule, WarmupStableDecay
from nmt.config.section import SettingError
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer

SMALLEST = """\
name: small
languages: {source: en, target: it}
data:
  train: [{tsv: train.tsv}]
run: runs/small
"""

SCHEDULE_NAMES = ", ".join(
    repr(get_args(schedule.model_fields["name"].annotation)[0]) for schedule in get_args(get_args(Schedule)[0])
)
RULE_NAMES = (
    "'damaged', 'copy', 'symbols', 'script', 'length', 'mismatch', 'leak', 'untranslated', 'language' or 'duplicate'"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recipe.yaml"


def load(path: Path, text: str, *overrides: str) -> Recipe:
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, overrides)


def problems(path: Path, text: str, *overrides: str) -> list[str]:
    """Return the lines of the error message of a recipe, without the first one and the file name."""
    with pytest.raises(ConfigError) as caught:
        load(path, text, *overrides)
    head, *lines = str(caught.value).split("\n")
    plural = "" if len(lines) == 1 else "s"
    assert head == f"{path}: {len(lines)} problem{plural} in the recipe"
    return [line.removeprefix("  ").replace(f"{path}:", "line ", 1) for line in lines]


def test_four_keys_are_required(path: Path) -> None:
    recipe = load(path, SMALLEST)
    assert recipe.name == "small"
    assert recipe.data.train[0].columns == (1, 2)
    assert recipe.tokenizer.shared
    assert recipe.train.schedule == Noam()
    assert recipe.decode.beam == 5
    assert recipe.seed == 1


def test_every_section_can_be_set(path: Path) -> None:
    text = """\
name: "2024"
languages: {source: en, target: no}
data:
  train:
    - {tsv: a.tsv.gz, columns: [2, 1], oversample: 2}
    - {source: b.en, target: b.no, tag: web-text}
  valid: {tsv: v.tsv}
  filters: {max_tokens: 100, keep: [duplicate]}
tokenizer: {vocab_size: 2000, shared: false, type: bpe}
model: {dim: 128, heads: 2, tied_embeddings: target}
train:
  schedule: {name: wsd, rate: 1e-3, warmup: 100, decay: 0.7}
  adam_betas: [0.9, 0.999]
  clip_norm: null
  stop: {steps: 1_000, hours: 2, patience: 3}
runtime: {threads: 2}
run: /elsewhere/run
prepared: shared
"""
    recipe = load(path, text)
    assert recipe.name == "2024"
    assert recipe.languages.target == ("no",)
    assert recipe.data.train[0].columns == (2, 1)
    assert recipe.data.train[1].tag == "web-text"
    assert recipe.train.schedule == WarmupStableDecay(name="wsd", rate=0.001, warmup=100, decay=0.7)
    assert recipe.train.adam_betas == (0.9, 0.999)
    assert recipe.train.clip_norm is None
    assert recipe.train.stop.steps == 1000
    assert recipe.run == Path("/elsewhere/run")
    assert recipe.prepared_directory == path.parent / "shared"


def test_recipe_is_immutable(path: Path) -> None:
    recipe = load(path, SMALLEST)
    with pytest.raises(pydantic.ValidationError):
        recipe.seed = 2  # type: ignore[misc]


def test_empty_section_has_default_values(path: Path) -> None:
    text = SMALLEST + "train:\n  # batch_tokens: 100\nmodel:\ndecode: {}\n"
    assert load(path, text) == load(path, SMALLEST)
    assert load(path, SMALLEST + "train:\n", "train.batch_tokens=100").train.batch_tokens == 100


MISTAKES = """\
name: 2024
languages: {source: e, target: no}
data:
  train:
    - {tsv: a.tsv, source: b}
    - {source: b.en}
    - {source: b.en, target: b.it, columns: [2, 1]}
    - {tsv: a.tsv, columns: [2, 2]}
    - {tsv: a.tsv, tag: Web Text}
    - {tsv: a.tsv, oversample: 0}
  valid: v.tsv
  filters: {max_ratio: 0.5, keep: [copies, script, 1]}
tokenizer: {vocab_size: "8000", type: unigramm, vocabsize: 3}
model:
  dim: 500
  norm: Pre
  drop_out: 0.1
  dropout: 10%
  beam: 4
train:
  batch_tokens: 4k
  schedule: {name: noamm}
  stop: {hours: 1:30, steps: 1e5, epochs: 0, patience: "1,000"}
  adam_betas: 0.9
  label_smoothing: 1.0
  clip_norm: .inf
  weight_decay: 1,5
decode: 5
runtime: {device: gpu, threads: 2.5}
seed: -1
colour: blue
"""


def test_error_names_line_and_key_of_each_mistake(path: Path) -> None:
    assert problems(path, MISTAKES) == [
        'line 1: name: found 2024, expected text; put it in quotes: "2024"',
        "line 1: run: missing, and it has no default",
        "line 2: languages.source: found 'e', expected an ISO code such as zh, zh-Hant or pt_BR",
        "line 5: data.train.0: give either file: FILE, or both source: FILE and target: FILE; found tsv and source",
        "line 6: data.train.1: give either file: FILE, or both source: FILE and target: FILE; found source",
        "line 7: data.train.2.columns: belongs to a file with both languages, not to a pair of files",
        "line 8: data.train.3.columns: must name two different columns, found 2 twice",
        "line 9: data.train.4.tag: found the text 'Web Text', expected small letters, digits and hyphens",
        "line 10: data.train.5.oversample: found 0, expected 0.001 or more",
        "line 11: data.valid: found the text 'v.tsv', expected a section, that is, keys with values",
        "line 12: data.filters.max_ratio: found 0.5, expected more than 1",
        f"line 12: data.filters.keep.0: found the text 'copies', expected {RULE_NAMES}",
        f"line 12: data.filters.keep.2: found 1, expected {RULE_NAMES}",
        "line 13: tokenizer.vocab_size: found the text '8000', expected a whole number; take it out of its quotes",
        "line 13: tokenizer.type: found the text 'unigramm', expected 'unigram' or 'bpe'",
        "line 13: tokenizer.vocabsize: unknown key; did you mean 'vocab_size'?",
        "line 16: model.norm: found the text 'Pre', expected 'pre' or 'post'",
        "line 17: model.drop_out: unknown key; did you mean 'dropout'?",
        "line 18: model.dropout: found the text '10%', expected a number",
        "line 19: model.beam: unknown key; did you mean decode.beam?",
        "line 21: train.batch_tokens: found the text '4k', expected a whole number",
        f"line 22: train.schedule.name: found 'noamm', expected one of {SCHEDULE_NAMES}",
        "line 23: train.stop.steps: found 100000.0, expected a whole number; write 100000",
        "line 23: train.stop.epochs: found 0, expected 1 or more",
        "line 23: train.stop.hours: found the text '1:30', expected a number; for hours and minutes write 1.5",
        "line 23: train.stop.patience: found the text '1,000', expected a whole number",
        "line 24: train.adam_betas: found 0.9, expected a list; put it in brackets, as in [1, 2]",
        "line 25: train.label_smoothing: found 1.0, expected less than 1",
        "line 26: train.clip_norm: found inf, expected a finite number",
        "line 27: train.weight_decay: found the text '1,5', expected a number",
        "line 28: decode: found 5, expected a section, that is, keys with values",
        "line 29: runtime.device: found the text 'gpu', expected 'auto', 'cuda', 'mps' or 'cpu'",
        "line 29: runtime.threads: found 2.5, expected a whole number",
        "line 30: seed: found -1, expected 0 or more",
        "line 31: colour: unknown key; known keys here: name, languages, data, tokenizer, model, train, decode, "
        "runtime, seed, run, prepared",
    ]


@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("model: {dim: 100, heads: 8}", "model.dim: must be even and a multiple of heads, found dim 100 and heads 8"),
        ("model: {heads: 7}", "model.dim: must be even and a multiple of heads, found dim 512 and heads 7"),
        (
            "model: {positions: rotary, dim: 90, heads: 6}",
            "model.positions: rotary rotates pairs of numbers, so dim / heads must be even, found 90 / 6",
        ),
        ("model: {normalization: batch}", "model.normalization: found the text 'batch', expected 'layer' or 'rms'"),
        (
            "tokenizer: {shared: false}",
            "model.tied_embeddings: all needs tokenizer.shared: true; set it to target or none",
        ),
        ("train: {stop: {patience: 3}}", "train.stop.patience: needs data.valid, the text to validate on"),
        ("train: {stop: {steps: null}}", "train.stop: training would never end; give steps, epochs, hours or patience"),
        (
            "train: {schedule: {rate: 1}}",
            "train.schedule.name: missing; it names the schedule",
        ),
        (
            "train: {schedule: {name: noam, warmup: 0}}",
            "train.schedule.warmup: found 0, expected 1 or more",
        ),
        (
            "train: {schedule: {name: noam, rate: 1}}",
            "train.schedule.rate: unknown key; known keys here: name, factor, warmup",
        ),
        ("train: {schedule: {name: constant, rat: 1}}", "train.schedule.rat: unknown key; did you mean 'rate'?"),
        (
            "train: {schedule: noam}",
            "train.schedule: found the text 'noam', expected a section, that is, keys with values",
        ),
        ("train: {adam_betas: [0.9]}", "train.adam_betas.1: missing, and it has no default"),
        ("train: {adam_betas: [0.9, 0.98, 1]}", "train.adam_betas: found [0.9, 0.98, 1], expected at most 2 items"),
        ("train: {adam_betas: [0.9, 1.5]}", "train.adam_betas.1: found 1.5, expected less than 1"),
        ("train: {batch_tokens: null}", "train.batch_tokens: found nothing, expected a whole number"),
        ("train: {batch_tokens: 4096.0}", "train.batch_tokens: found 4096.0, expected a whole number; write 4096"),
        ("train: {batch_tokens: true}", "train.batch_tokens: found true, expected a whole number"),
        (
            "train: {stop: {steps: '10,000'}}",
            "train.stop.steps: found the text '10,000', expected a whole number",
        ),
        ("train: {clip_norm: '1,5'}", "train.clip_norm: found the text '1,5', expected a number"),
        ("train: {clip_norm: .nan}", "train.clip_norm: found nan, expected a finite number"),
        ("warmup: 3", "warmup: unknown key; did you mean train.schedule.warmup?"),
        ("prepared: 5", "prepared: found 5, expected the path of a file or folder"),
        (
            "runtime: {device: cpus}",
            "runtime.device: found the text 'cpus', expected 'auto', 'cuda', 'mps' or 'cpu'",
        ),
        (f"decode: {{beam: {'x' * 100}}}", f"decode.beam: found the text '{'x' * 59}…, expected a whole number"),
        (
            "tokenizer: {vocab_size: 999_999_999_999}",
            "tokenizer.vocab_size: found 999999999999, expected 1000000 or less",
        ),
        ("decode: {beam: 9999}", "decode.beam: found 9999, expected 1000 or less"),
        ("runtime: {threads: 100_000}", "runtime.threads: found 100000, expected 1024 or less"),
        (
            "prepared: runs/small",
            "prepared: is the folder of the run, or contains it, and would be replaced; name another folder",
        ),
        (
            "prepared: runs",
            "prepared: is the folder of the run, or contains it, and would be replaced; name another folder",
        ),
        ("decode: {max_length: {factor: 1e300}}", "decode.max_length.factor: found 1e+300, expected 100 or less"),
        (
            "model: {positions: learned, max_positions: 256, tied_embeddings: none}",
            "model.max_positions: 256 learned positions are too few for data.filters.max_tokens: 256 and the end "
            "symbol; set it to 257 or more",
        ),
        (
            "train: {stop: {steps: null, epochs: 3}, schedule: {name: linear}}",
            "train.schedule: linear needs train.stop.steps, the step at which the decay ends",
        ),
        (
            "train: {subword_sampling: 1}\ntokenizer: {type: bpe}",
            "train.subword_sampling: for a bpe tokenizer it is a fraction, less than 1; found 1.0",
        ),
        ("train: {subword_sampling: 0}", "train.subword_sampling: found 0, expected more than 0"),
        ("train: {batch_tokens: most}", "train.batch_tokens: found the text 'most', expected a whole number"),
        ("train: {batch_tokens: 8}", "train.batch_tokens: found 8, expected 16 or more"),
        (
            "train: {stop: {steps: null, epochs: 3}, schedule: {name: cosine}}",
            "train.schedule: cosine needs train.stop.steps, the step at which the decay ends",
        ),
        (
            "train: {stop: {steps: null, epochs: 3}, schedule: {name: wsd, decay: 0.1}}",
            "train.schedule: wsd needs train.stop.steps, the step at which the decay ends",
        ),
        (
            "train: {schedule: {name: linear, decay: 0.1}}",
            "train.schedule.decay: unknown key; known keys here: rate, warmup, floor, name",
        ),
    ],
)
def test_mistakes_are_reported_with_their_line(path: Path, addition: str, problem: str) -> None:
    assert problems(path, SMALLEST + addition + "\n") == [f"line 6: {problem}"]


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        ("[]", "data.train: found [], expected at least 1 item"),
        ("null", "data.train: found nothing, expected a list"),
        ("{tsv: a.tsv}", "data.train: found a section, expected a list; begin each entry with a hyphen"),
        ("a.tsv", "data.train: found the text 'a.tsv', expected a list; put it in brackets, as in [1, 2]"),
        ("[a.tsv]", "data.train.0: found the text 'a.tsv', expected a section, that is, keys with values"),
        ("[{tvs: a.tsv}]", "data.train.0.tvs: unknown key; did you mean 'tsv'?"),
        (
            "[{tsv: a.tsv, tag: unk}]",
            "data.train.0.tag: <unk> is a special symbol of the tokenizer; choose another name",
        ),
        ("[{tsv: 1}]", "data.train.0.tsv: found 1, expected the path of a file or folder"),
    ],
)
def test_messages_of_mistakes_in_data_train(path: Path, train: str, problem: str) -> None:
    text = SMALLEST.replace("[{tsv: train.tsv}]", train)
    assert problems(path, text) == [f"line 4: {problem}"]


def test_error_of_an_override_names_it(path: Path) -> None:
    assert problems(path, SMALLEST, "train.batch_tokens=4k", "decode.bean=3", "seed=-1") == [
        "--set train.batch_tokens=4k: train.batch_tokens: found the text '4k', expected a whole number",
        "--set decode.bean=3: decode.bean: unknown key; did you mean 'beam'?",
        "--set seed=-1: seed: found -1, expected 0 or more",
    ]


def test_overrides_equal_values_in_the_file(path: Path) -> None:
    recipe = load(path, SMALLEST, "train.batch_tokens=2048", "train.schedule={name: constant, rate: 1e-4}", "name='7'")
    assert recipe.train.batch_tokens == 2048
    assert recipe.train.schedule.model_dump() == {"name": "constant", "rate": 1e-4, "warmup": 0}
    assert recipe.name == "7"
    assert load(path, SMALLEST, "data.train.0.oversample=3").data.train[0].oversample == 3


def test_paths_are_relative_to_the_recipe_or_to_the_current_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = path.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", "/home/me")
    text = SMALLEST.replace("train.tsv", "../texts/train.tsv") + "prepared: ~/prepared\n"
    recipe = load(path, text, "data.valid={tsv: v.tsv}", "data.test.tsv=../t.tsv")
    assert recipe.data.train[0].tsv == path.parent.parent / "texts" / "train.tsv"
    assert [corpus.tsv for corpus in recipe.data.valid] == [here / "v.tsv"]
    assert [corpus.tsv for corpus in recipe.data.test] == [path.parent / "t.tsv"]
    assert recipe.run == path.parent / "runs" / "small"
    assert recipe.prepared == Path("/home/me/prepared")


def test_paths_of_a_relative_recipe_are_absolute(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(SMALLEST)
    monkeypatch.chdir(path.parent)
    assert load_recipe(Path("recipe.yaml")).run == path.parent / "runs" / "small"


def test_the_prepared_corpus_is_in_the_run_by_default(path: Path) -> None:
    assert load(path, SMALLEST).prepared_directory == path.parent / "runs" / "small" / "prepared"


def test_every_key_is_described_in_the_schema() -> None:
    schema = json.loads(recipe_schema())
    for name, section in {"Recipe": schema, **schema["$defs"]}.items():
        assert section["additionalProperties"] is False, name
        assert section["description"], name
        for key, entry in section["properties"].items():
            assert entry.get("description"), f"{name}.{key}"


def test_the_schema_in_the_repository_is_up_to_date(repository: Path) -> None:
    written = (repository / "recipes" / "recipe.schema.json").read_text(encoding="utf-8")
    assert written == recipe_schema(), "run: make schema"


def test_every_shipped_recipe_loads(repository: Path) -> None:
    recipes = sorted((repository / "recipes").glob("*.yaml"))
    assert len(recipes) >= 2
    for file in recipes:
        assert file.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=recipe.schema.json\n"), file
        recipe = load_recipe(file)
        assert recipe.run == repository / "runs" / file.stem, file
        assert recipe.name == file.stem, file


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=2, max_size=8)
codes = st.sampled_from(["en", "it", "zh-Hant", "pt_BR", "yue"])
rates = st.floats(min_value=1e-12, max_value=1)
shares = st.floats(min_value=0, max_value=1, exclude_max=True)
files = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
files = files.filter(lambda name: Path(name) != Path())
corpora = st.fixed_dictionaries(
    {"tsv": files}, optional={"oversample": st.floats(0.001, 1000), "columns": st.sampled_from([[2, 1], [1, 3]])}
)
recipes = st.fixed_dictionaries(
    {
        "name": texts,
        "languages": st.fixed_dictionaries({"source": codes, "target": codes}),
        "data": st.fixed_dictionaries(
            {"train": st.lists(corpora, min_size=1, max_size=3)}, optional={"valid": corpora}
        ),
        "run": files,
    },
    optional={
        "seed": st.integers(min_value=0, max_value=2**31 - 1),
        "decode": st.fixed_dictionaries(
            {}, optional={"beam": st.integers(min_value=1, max_value=1000), "length_penalty": shares}
        ),
        "train": st.fixed_dictionaries(
            {},
            optional={
                "weight_decay": rates,
                "adam_betas": st.lists(shares, min_size=2, max_size=2),
                "clip_norm": st.none() | rates,
                "schedule": st.fixed_dictionaries(
                    {"name": st.sampled_from(["inverse_sqrt", "constant"]), "rate": rates}
                ),
            },
        ),
    },
)


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipes") / "recipe.yaml"


@given(data=recipes)
@settings(max_examples=50)
def test_a_recipe_written_as_yaml_reads_back_equal(shared_path: Path, data: dict[str, Any]) -> None:
    recipe = load(shared_path, strict_yaml.write(data))
    assert load(shared_path, recipe_to_yaml(recipe, shared_path.parent)) == recipe
    elsewhere = shared_path.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    assert load(elsewhere / "recipe.yaml", recipe_to_yaml(recipe, elsewhere)) == recipe


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["noam", "linear", "1:30", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "noam", "tsv", "train", "x", "schedule", "warmup"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def keys_of(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the locations of all values in a document."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [above, *(location for key, value in entries for location in keys_of(value, (*above, key)))]


@given(choice=st.data())
@settings(max_examples=50)
def test_damaged_recipe_raises_config_error_with_a_line(shared_path: Path, choice: st.DataObject) -> None:
    document = copy.deepcopy(
        yaml.safe_load(SMALLEST + "train: {schedule: {name: noam, factor: 1}, stop: {steps: 5}}\n")
    )
    *above, key = choice.draw(st.sampled_from([location for location in keys_of(document) if location]))
    container = document
    for part in above:
        container = container[part]
    container[key] = choice.draw(junk)
    try:
        load(shared_path, strict_yaml.write(document))
    except ConfigError as error:
        for line in str(error).split("\n")[1:]:
            assert line.startswith(f"  {shared_path}:"), line
            assert "Input should" not in line


def test_a_tag_without_training_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(
        "name: x\nlanguages: {source: en, target: it}\nrun: r\n"
        "data:\n  train: [{tsv: a, tag: bt}, {tsv: b}]\n  valid: {tsv: c, tag: bt}\n  test: {tsv: d, tag: news}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=r"r\.yaml:7: data\.test\.tag: no training text has the tag news"):
        load_recipe(file)
    assert load_recipe(file, ["data.test.tag=bt"]).data.test[0].tag == "bt"


# fine-tuning: the model's settings come with the model


START = {"dim": 128, "heads": 2, "tied_embeddings": "target", "dropout": 0.3}


@pytest.fixture
def start(path: Path) -> Path:
    """Return the part of a trained run that the recipe loader reads."""
    best = path.parent / "base" / "best"
    best.mkdir(parents=True)
    (best / "config.json").write_text(json.dumps({"format_version": 1, "model": START}))
    return best


def test_fine_tuning_takes_the_settings_of_the_initial_model(path: Path, start: Path) -> None:
    recipe = load(path, SMALLEST + "train: {init_from: base}\nmodel: {dropout: 0.5}\n")
    assert recipe.train.init_from == start
    assert (recipe.model.dim, recipe.model.heads, recipe.model.dropout) == (128, 2, 0.5)
    assert recipe.model.encoder_layers == 6
    assert load(path, SMALLEST + "train: {init_from: base}\n").model.dropout == 0.3


def test_unset_tokenizer_keys_are_not_set(path: Path, start: Path) -> None:
    for section in ("", "tokenizer: {vocab_size: 4000, shared: false}\n"):
        recipe = load(path, SMALLEST + "train: {init_from: base}\n" + section)
        again = path.with_name("again.yaml")
        again.write_text(recipe_to_yaml(recipe, again.parent))
        assert load_recipe(again) == recipe
        assert load_recipe(again).tokenizer.model_fields_set == recipe.tokenizer.model_fields_set


def test_other_model_settings_than_the_initial_model_has_are_refused(path: Path, start: Path) -> None:
    text = SMALLEST + "train: {init_from: base}\nmodel:\n  dim: 256\n  heads: 2\n  norm: post\n"
    with pytest.raises(ConfigError) as caught:
        load(path, text)
    assert str(caught.value).split("\n") == [
        f"{path}:8: model.dim: found 256, but the model of train.init_from has 128; leave it out: it comes with "
        f"{start}",
        f"{path}:10: model.norm: found post, but the model of train.init_from has pre; leave it out: it comes "
        f"with {start}",
    ]


def test_an_initial_model_that_contradicts_the_recipe_is_refused(path: Path, start: Path) -> None:
    content = {"model": {**START, "positions": "learned", "max_positions": 64}}
    (start / "config.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"model.max_positions: 64 learned positions are too few"):
        load(path, SMALLEST + "train: {init_from: base}\n")


@pytest.mark.parametrize("content", ["{", "[" * 100_000, " " * 2**21, "[]", '{"model": {"dim": "x"}}', '{"model": 7}'])
def test_an_initial_model_that_cannot_be_read_is_refused(path: Path, start: Path, content: str) -> None:
    (start / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"recipe\.yaml:6: train\.init_from: .*config\.json: cannot read it: "):
        load(path, SMALLEST + "train: {init_from: base}\n")
    (start / "config.json").write_text('{"model_type": "pegasus"}')
    with pytest.raises(ConfigError, match=r"found a model of Hugging Face .* \(pegasus\), expected one of nmt: a run"):
        load(path, SMALLEST + "train: {init_from: base}\n")
    (start / "config.json").unlink()
    with pytest.raises(
        ConfigError, match=r"recipe\.yaml:6: train\.init_from: .*base: no model here; expected a model directory"
    ):
        load(path, SMALLEST + "train: {init_from: base}\n")


@pytest.mark.parametrize("name", ["chinese", "??", "z", "zh Hant"])
def test_language_that_is_not_a_code_is_refused(path: Path, name: str) -> None:
    (problem,) = problems(path, SMALLEST.replace("target: it", f"target: '{name}'"))
    assert problem.startswith("line 2: languages.target: found ")


@pytest.mark.parametrize("name", ["zh", "zh-Hant", "pt_BR", "yue"])
def test_language_codes_are_accepted(path: Path, name: str) -> None:
    assert load(path, SMALLEST.replace("target: it", f"target: {name}")).languages.target == (name,)


# sizes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": "post", "activation": "swiglu", "tied_embeddings": "none"},
        {"normalization": "rms", "positions": "learned", "tied_embeddings": "target"},
        {"positions": "relative", "max_distance": 3, "norm": "post"},
        {"positions": "rotary", "activation": "gelu", "max_positions": 7},
    ],
    ids=str,
)
def test_the_size_of_a_model_is_computed_without_building_it(settings: dict[str, Any]) -> None:
    shape = {"encoder_layers": 3, "decoder_layers": 2, "dim": 16, "feed_forward": 24, "heads": 2, **settings}
    chosen = ModelSettings.model_validate(shape)
    model = Transformer(chosen, 11, 11)
    assert chosen.size(11) == sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("{encoder_layers: 1000, dim: 8192}", "306 billion parameters, 1,139 GiB"),
        ("{dim: 2_000_000}", "288,167 billion parameters"),
        ("{feed_forward: 2_000_000_000}", "24,600 billion parameters"),
        ("{positions: learned, max_positions: 2_000_000_000}", "2,048 billion parameters"),
        ("{positions: relative, max_distance: 2_000_000_000}", "4,608 billion parameters"),
        ("{encoder_layers: 1000, dim: 2_000_000_000}", "billion parameters"),
    ],
)
def test_impossible_sizes_are_refused_with_the_computed_size(path: Path, model: str, found: str) -> None:
    [problem] = problems(path, SMALLEST + f"model: {model}\n")
    assert problem.startswith("line 6: model: these sizes give ")
    assert found in problem
    assert problem.endswith("possible: reduce encoder_layers, decoder_layers, dim or feed_forward")


def test_more_layers_than_any_model_has_are_refused(path: Path) -> None:
    """However narrow the model is: so many small modules take minutes to build."""
    [problem] = problems(path, SMALLEST + "model: {encoder_layers: 100_000, dim: 16, heads: 2}\n")
    assert problem == "line 6: model.encoder_layers: found 100000, expected 1000 or less"


def test_error_of_a_command_names_the_line_of_the_key(path: Path) -> None:
    def check(recipe: Recipe) -> None:
        raise SettingError("runtime.device", f"{recipe.runtime.device} is not available here")

    path.write_text(SMALLEST + "runtime:\n  threads: 1\n  device: cuda\n")
    with pytest.raises(ConfigError, match=r"recipe\.yaml:8: runtime\.device: cuda is not available here$"):
        load_recipe(path, check=check)
    with pytest.raises(ConfigError, match=r"^--set runtime.device=mps: runtime\.device: mps is not available here$"):
        load_recipe(path, ["runtime.device=mps"], check=check)


# extreme values


def keys_in(entry: dict[str, Any], sections: dict[str, Any], path: str) -> Iterator[str]:
    """Return the dotted keys of a schema."""
    for branch in (entry, entry.get("items", {}), *entry.get("anyOf", ()), *entry.get("oneOf", ())):
        if "$ref" in branch:
            inner = sections[branch["$ref"].rpartition("/")[2]]["properties"]
            for key, value in inner.items():
                yield from keys_in(value, sections, f"{path}.0.{key}" if entry.get("items") else f"{path}.{key}")
    yield path


SCHEMA = json.loads(recipe_schema())
KEYS = sorted({key for name, entry in SCHEMA["properties"].items() for key in keys_in(entry, SCHEMA["$defs"], name)})
NUMBERS = [0, -1, 1, 2**31, 2**63, 10**99, 1e308, 5e-324, -0.0, float("inf"), float("nan")]
TEXTS = ["", "~", "no", ".", "..", "/", "a" * 5000, "\x1b[31m", "\ud800", "\0", "\u2028", "{", "*", "1" * 5000, "auto"]
SHAPES = [[], {}, [[]], {"name": []}, {"name": "noam", "x": {}}, [{}] * 50, {"a" * 500: None}, [1] * 5000, None, True]


@given(
    key=st.sampled_from(KEYS),
    value=st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.sampled_from(SHAPES) | st.floats() | st.integers(),
)
@example(key="train.init_from", value="a" * 5000)
@example(key="train.schedule.name", value=[])
@settings(max_examples=200, deadline=None)
def test_extreme_values_are_refused_or_accepted(shared_path: Path, key: str, value: Any) -> None:
    text = json.dumps(value)  # which YAML reads, with escapes
    shared_path.write_text(SMALLEST, encoding="utf-8")
    with suppress(ConfigError):
        recipe = load_recipe(shared_path, [f"{key}={text}"])
        shared_path.write_text(recipe_to_yaml(recipe, shared_path.parent), encoding="utf-8")
        assert load_recipe(shared_path) == recipe


# several target languages, settings of the tokenizer

SEVERAL = """\
name: several
languages: {source: en, target: [it, zh]}
data:
  train:
    - {tsv: a.tsv, target_language: it, tag: bt}
    - {tsv: b.tsv, target_language: zh}
  valid:
    - {tsv: v.it.tsv, target_language: it}
    - {tsv: v.zh.tsv, target_language: zh, tag: bt}
run: run
"""


@pytest.mark.parametrize(
    ("settings", "patience"),
    [
        ([], None),
        (["data.valid.tsv=v"], 10),
        (["data.valid.tsv=v", "train.stop.steps=5"], None),
        (["data.valid.tsv=v", "train.schedule.name=cosine"], None),
    ],
    ids=["no validation text", "no stop", "stop", "falling schedule"],
)
def test_training_without_stop_ends_by_patience(path: Path, settings: list[str], patience: int | None) -> None:
    path.write_text(SMALLEST, encoding="utf-8")
    recipe = load_recipe(path, settings)
    assert recipe.train.stop.patience == patience
    path.write_text(recipe_to_yaml(recipe, path.parent), encoding="utf-8")
    assert load_recipe(path) == recipe


def test_another_schedule_by_an_override_leaves_out_keys_of_the_one_in_the_file(path: Path) -> None:
    schedule = "train: {schedule: {name: wsd, rate: 1e-3, warmup: 5, decay: 0.5}, stop: {steps: 9}}\n"
    path.write_text(SMALLEST + schedule, encoding="utf-8")
    loaded = load_recipe(path, ["train.schedule.name=constant"]).train.schedule
    assert loaded == Constant(name="constant", rate=1e-3, warmup=5)
    with pytest.raises(ConfigError, match=r"train\.schedule\.decay: .*unknown key"):
        load_recipe(path, ["train.schedule.name=constant", "train.schedule.decay=0.5"])
    with pytest.raises(ConfigError, match=r"train\.schedule\.name: found 'constan', expected one of"):
        load_recipe(path, ["train.schedule.name=constan"])
    assert load_recipe(path, ["train.schedule.name=wsd"]).train.schedule == load_recipe(path).train.schedule


def test_several_target_languages_are_read_and_written(path: Path) -> None:
    recipe = load(path, SEVERAL)
    assert recipe.languages.target == ("it", "zh")
    assert recipe.languages.names == "en → it, zh"
    assert recipe.tags == ["2it", "2zh", "bt"]
    assert [recipe.tags_of(corpus) for corpus in recipe.data.train] == [["2it", "bt"], ["2zh"]]
    assert [recipe.languages_of(corpus) for corpus in recipe.data.valid] == [
        LanguagePair("en", "it"),
        LanguagePair("en", "zh"),
    ]
    assert list(recipe.data.prepared_texts) == ["data.train.0", "data.train.1", "data.valid.0", "data.valid.1"]
    path.write_text(recipe_to_yaml(recipe, path.parent), encoding="utf-8")
    assert load_recipe(path) == recipe


def test_one_target_language_has_no_tag_and_is_written_as_before(path: Path) -> None:
    recipe = load(path, SMALLEST)
    assert (recipe.tags, recipe.tags_of(recipe.data.train[0])) == ([], [])
    assert recipe.model_dump(mode="json")["languages"] == {"source": "en", "target": "it"}
    listed = load(path, SMALLEST.replace("target: it", "target: [it]"), "data.valid=[{tsv: v.tsv}]")
    assert (listed.languages, len(listed.data.valid)) == (recipe.languages, 1)
    dumped = listed.model_dump(mode="json")["data"]
    assert (dumped["valid"]["tag"], dumped["test"]) == (None, None)
    assert list(listed.data.prepared_texts) == ["data.train.0", "data.valid"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[it, zh]", "[it, it, zh]", "line 2: languages.target: it is in the list twice"),
        ("[it, zh]", "[]", "line 2: languages.target: found nothing, expected a language, or a list of languages"),
        ("[it, zh]", "[it, 3]", 'line 2: languages.target.1: found 3, expected text; put it in quotes: "3"'),
        ("[it, zh]", "[it, zh, fr]", "line 2: languages.target: no text of data.train has the target language fr"),
        ("[it, zh]", "it", "line 6: data.train.1.target_language: found zh, expected it, the target language"),
        (
            ", target_language: zh}\n  valid",
            "}\n  valid",
            "line 6: data.train.1.target_language: is not set, expected it or zh, the target languages",
        ),
        (
            "v.it.tsv, target_language: it",
            "v.it.tsv, target_language: zh",
            "line 7: data.valid: two texts have the same",
        ),
        ("zh, tag: bt", "zh, tag: news", "line 9: data.valid.1.tag: no training text has the tag news"),
        ("zh}\n  valid", "zh, tag: 2zh}\n  valid", "data.train: the tag 2zh is that of a target language"),
        ("v.zh.tsv,", "v.zh.tsv, typo: 1,", "line 9: data.valid.1.typo: unknown key"),
        ("run: run", "run: run\ndata.x: 1", "unknown key"),
    ],
)
def test_errors_about_target_languages_name_their_place(path: Path, before: str, after: str, message: str) -> None:
    assert before in SEVERAL
    assert any(message in problem for problem in problems(path, SEVERAL.replace(before, after)))


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("['{0}', '<b>']", None),
        ("['a b']", "tokenizer.symbols.0: found 'a b', expected characters in form NFC without spaces"),
        ("['']", "tokenizer.symbols.0: found ''"),
        ('["e\\u0301"]', "expected characters in form NFC"),
        ("['▁x']", "tokenizer.symbols.0: found '▁x'"),
        ("['<s>']", "tokenizer.symbols.0: found '<s>', which is a special symbol of the tokenizer"),
        ("['<2zh>']", "tokenizer.symbols: <2zh> is the symbol of a tag"),
        ("'{0}'", "tokenizer.symbols: found the text '{0}', expected a list"),
    ],
)
def test_protected_symbols_are_checked(path: Path, symbols: str, message: str | None) -> None:
    text = f"{SEVERAL}tokenizer: {{symbols: {symbols}}}\n"
    if message is None:
        assert load(path, text).tokenizer.symbols == ("{0}", "<b>")
    else:
        assert any(message in problem for problem in problems(path, text))


def test_learned_positions_include_tags(path: Path) -> None:
    """An English sentence of 256 tokens begins with the tags of its language and of its text."""
    text = f"{SEVERAL}model: {{positions: learned, max_positions: 258}}\n"
    (problem,) = problems(path, text)
    assert "256, 2 tags and the end symbol; set it to 259 or more" in problem
    assert load(path, text.replace("258", "259")).model.max_positions == 259
