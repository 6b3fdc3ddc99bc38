"""The recipe: values, defaults, and the exact error messages."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import (
    LanguagePair,
    Languages,
    ModelSettings,
    Recipe,
    load_recipe,
    recipe_schema,
    recipe_to_yaml,
    strict_yaml,
)
from nmt.config.model_sections import Schedule
from nmt.config.section import SettingError
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer

SMALLEST = """\
languages: {source: en, target: it}
data:
  train: [{file: train.tsv}]
run: runs/small
"""

RULE_NAMES = "'damaged', 'copy', 'symbols', 'script', 'length', 'leak', 'language' or 'duplicate'"


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


def test_three_keys_are_required(path: Path) -> None:
    recipe = load(path, SMALLEST)
    assert (recipe.name, recipe.prepared_directory) == ("small", path.parent / "runs" / "small" / "prepared")
    assert recipe.data.train[0].columns == (1, 2)
    assert recipe.tokenizer.shared
    assert recipe.train.schedule.model_dump() == {"name": "noam", "factor": 2.0, "warmup": 4000}
    assert recipe.decode.beam == 5
    assert recipe.seed == 1


def test_every_section_can_be_set(path: Path) -> None:
    text = """\
languages: {source: en, target: no}
data:
  train:
    - {file: a.tsv.gz, columns: [2, 1], oversample: 2}
    - {source: b.en, target: b.no, tag: web-text}
  valid: {file: v.tsv}
  filters: {max_tokens: 100, keep: [duplicate]}
tokenizer: {vocab_size: 2000, shared: false, type: bpe}
model: {dim: 128, heads: 2, tied_embeddings: target}
train:
  schedule: {name: wsd, rate: 1e-3, warmup: 100, decay: 0.7}
  freeze: [encoder.*]
  clip_norm: null
  stop: {steps: 1_000, hours: 2, patience: 3}
runtime: {threads: 2}
run: /elsewhere/run
prepared: shared
"""
    recipe = load(path, text)
    assert recipe.languages.target == ("no",)
    assert recipe.data.train[0].columns == (2, 1)
    assert recipe.data.train[1].tag == "web-text"
    assert recipe.train.schedule == Schedule(name="wsd", rate=0.001, warmup=100, decay=0.7)
    assert recipe.train.freeze == ("encoder.*",)
    assert recipe.train.clip_norm is None
    assert recipe.train.stop.steps == 1000
    assert recipe.run == Path("/elsewhere/run")
    assert recipe.prepared_directory == path.parent / "shared"


def test_empty_section_has_default_values(path: Path) -> None:
    text = SMALLEST + "train:\n  # batch_tokens: 100\nmodel:\ndecode: {}\n"
    assert load(path, text) == load(path, SMALLEST)
    assert load(path, SMALLEST + "train:\n", "train.batch_tokens=100").train.batch_tokens == 100


MISTAKES = """\
languages: {source: e, target: no}
data:
  train:
    - {file: a.tsv, source: b}
    - {source: b.en}
    - {source: b.en, target: b.it, columns: [2, 1]}
    - {file: a.tsv, columns: [2, 2]}
    - {file: a.tsv, tag: Web Text}
    - {file: a.tsv, oversample: 0}
  valid: v.tsv
  filters: {keep: [copies, script, 1]}
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
  freeze: 0.9
  label_smoothing: 1.0
  clip_norm: .inf
decode: 5
runtime: {device: gpu, threads: 2.5}
seed: -1
colour: blue
"""


def test_error_names_line_and_key_of_each_mistake(path: Path) -> None:
    assert problems(path, MISTAKES) == [
        "line 1: languages.source: found 'e', expected an ISO code such as zh, zh-Hant or pt_BR",
        "line 1: run: missing, and it has no default",
        "line 4: data.train.0: give either file: FILE, or both source: FILE and target: FILE; found file and source",
        "line 5: data.train.1: give either file: FILE, or both source: FILE and target: FILE; found source",
        "line 6: data.train.2.columns: belongs to a file with both languages, not to a pair of files",
        "line 7: data.train.3.columns: must name two different columns, found 2 twice",
        "line 8: data.train.4.tag: found the text 'Web Text', expected small letters, digits and hyphens",
        "line 9: data.train.5.oversample: found 0, expected 0.001 or more",
        "line 10: data.valid.0: found the text 'v.tsv', expected a section, that is, keys with values",
        f"line 11: data.filters.keep.0: found the text 'copies', expected {RULE_NAMES}",
        f"line 11: data.filters.keep.2: found 1, expected {RULE_NAMES}",
        "line 12: tokenizer.vocab_size: found the text '8000', expected a whole number, or 'auto'",
        "line 12: tokenizer.type: found the text 'unigramm', expected 'unigram', 'bpe', 'word' or 'char'",
        "line 12: tokenizer.vocabsize: unknown key; did you mean 'vocab_size'?",
        "line 15: model.norm: found the text 'Pre', expected 'pre' or 'post'",
        "line 16: model.drop_out: unknown key; did you mean 'dropout'?",
        "line 17: model.dropout: found the text '10%', expected a number",
        "line 18: model.beam: unknown key; did you mean decode.beam?",
        "line 20: train.batch_tokens: found the text '4k', expected a whole number, or 'auto'",
        "line 21: train.schedule.name: found the text 'noamm', expected 'noam', 'inverse_sqrt', 'constant', 'linear', "
        "'cosine' or 'wsd'",
        "line 22: train.stop.steps: found 100000.0, expected a whole number",
        "line 22: train.stop.epochs: found 0, expected 1 or more",
        "line 22: train.stop.hours: found the text '1:30', expected a number",
        "line 22: train.stop.patience: found the text '1,000', expected a whole number",
        "line 23: train.freeze: found 0.9, expected a list",
        "line 24: train.label_smoothing: found 1.0, expected less than 1",
        "line 25: train.clip_norm: found inf, expected a finite number",
        "line 26: decode: found 5, expected a section, that is, keys with values",
        "line 27: runtime.device: found the text 'gpu', expected 'auto', 'cuda', 'mps' or 'cpu'",
        "line 27: runtime.threads: found 2.5, expected a whole number",
        "line 28: seed: found -1, expected 0 or more",
        "line 29: colour: unknown key; known keys here: languages, data, tokenizer, model, train, decode, "
        "runtime, seed, run, prepared",
    ]


@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("model: {dim: 100, heads: 8}", "model.dim: must be even and a multiple of heads, found dim 100 and heads 8"),
        (
            "model: {positions: rotary, dim: 90, heads: 6}",
            "model.positions: rotary rotates pairs of numbers, so dim / heads must be even, found 90 / 6",
        ),
        (
            "model: {positions: absolute}",
            "model.positions: found the text 'absolute', expected 'sinusoidal', 'learned', 'relative' or 'rotary'",
        ),
        (
            "model: {positions: learned, max_positions: 258}",
            "model.max_positions: expected 259 or more, for data.filters.max_tokens, tags and end symbol; "
            "change one of them",
        ),
        (
            "tokenizer: {type: word, symbols: [x]}",
            "tokenizer.symbols: type: word has no pieces inside words; leave them out, or use another type",
        ),
        (
            "tokenizer: {min_frequency: 2}",
            "tokenizer.min_frequency: it counts words, and type is unigram; set type: word",
        ),
        (
            "tokenizer: {shared: false}",
            "tokenizer.shared: false needs model.tied_embeddings: target or none",
        ),
        ("train: {stop: {patience: 3}}", "train.stop.patience: needs data.valid, the text to validate on"),
        (
            "train: {stop: {steps: null}}",
            "train.stop: training would never end; give steps, epochs, minutes, hours or patience",
        ),
        (
            "train: {schedule: {rate: 1}}",
            "train.schedule.rate: the schedule noam has no such key; it has factor and warmup",
        ),
        ("train: {schedule: {name: constant, rat: 1}}", "train.schedule.rat: unknown key; did you mean 'rate'?"),
        (
            "train: {schedule: noam}",
            "train.schedule: found the text 'noam', expected a section, that is, keys with values",
        ),
        ("train: {stop: {steps: true}}", "train.stop.steps: found true, expected a whole number"),
        ("train: {batch_tokens: null}", "train.batch_tokens: found nothing, expected a whole number, or 'auto'"),
        ("train: {clip_norm: .nan}", "train.clip_norm: found nan, expected a finite number"),
        ("warmup: 3", "warmup: unknown key; did you mean train.schedule.warmup?"),
        ("prepared: 5", "prepared: found 5, expected the path of a file or folder"),
        ("prepared: ./runs/small", "prepared: is the folder of the run; name another one"),
        (f"decode: {{beam: {'x' * 100}}}", f"decode.beam: found the text '{'x' * 59}…, expected a whole number"),
        (
            "train: {stop: {steps: null, patience: 3}, schedule: {name: linear}}",
            "train.schedule: linear needs train.stop.steps, epochs, minutes or hours, where the decay ends",
        ),
        ("train: {batch_tokens: 8}", "train.batch_tokens: found 8, expected 16 or more, or 'auto'"),
        (
            "train: {validate_every: epochs}",
            "train.validate_every: found the text 'epochs', expected a whole number, or 'epoch'",
        ),
        ("train: {keep_best: 0}", "train.keep_best: found 0, expected 1 or more, or 'all'"),
        ("train: {tensorboard: yes}", "train.tensorboard: found the text 'yes', expected true or false, or 'all'"),
        (
            "train: {schedule: {name: linear, decay: 0.1}}",
            "train.schedule.decay: the schedule linear has no such key; it has rate and warmup and floor",
        ),
    ],
)
def test_mistakes_are_reported_with_their_line(path: Path, addition: str, problem: str) -> None:
    assert problems(path, SMALLEST + addition + "\n") == [f"line 5: {problem}"]


def test_name_of_a_file_with_nul_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match=r":3: data\.train\.0\.file: found the name 'a\\x00b', expected none"):
        load(path, SMALLEST.replace("train.tsv", '"a\\0b"'))


def test_error_of_an_override_names_it(path: Path) -> None:
    assert problems(path, SMALLEST, "train.batch_tokens=4k", "decode.bean=3", "seed=-1") == [
        "--set train.batch_tokens=4k: train.batch_tokens: found the text '4k', expected a whole number, or 'auto'",
        "--set decode.bean=3: decode.bean: unknown key; did you mean 'beam'?",
        "--set seed=-1: seed: found -1, expected 0 or more",
    ]


def test_overrides_equal_values_in_the_file(path: Path) -> None:
    recipe = load(path, SMALLEST, "train.batch_tokens=2048", "train.schedule={name: constant, rate: 1e-4}", "run='7'")
    assert recipe.train.batch_tokens == 2048
    assert recipe.train.schedule.model_dump() == {"name": "constant", "rate": 1e-4, "warmup": 0}
    assert recipe.run == Path("7").absolute()
    assert load(path, SMALLEST, "data.train.0.oversample=3").data.train[0].oversample == 3


def test_paths_are_relative_to_the_recipe_or_to_the_current_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = path.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", "/home/me")
    text = SMALLEST.replace("train.tsv", "../texts/train.tsv") + "prepared: ~/prepared\n"
    recipe = load(path, text, "data.valid={file: v.tsv}", "data.test.file=../t.tsv")
    assert recipe.data.train[0].file == path.parent.parent / "texts" / "train.tsv"
    assert [corpus.file for corpus in recipe.data.valid] == [here / "v.tsv"]
    assert [corpus.file for corpus in recipe.data.test] == [path.parent / "t.tsv"]
    assert recipe.run == path.parent / "runs" / "small"
    assert recipe.prepared == Path("/home/me/prepared")


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


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=2, max_size=8)
codes = st.sampled_from(["en", "it", "zh-Hant", "pt_BR", "yue"])
shares = st.floats(min_value=0, max_value=1, exclude_max=True)
files = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
files = files.filter(lambda name: Path(name) != Path())
corpora = st.fixed_dictionaries(
    {"file": files}, optional={"oversample": st.floats(0.001, 1000), "columns": st.sampled_from([[2, 1], [1, 3]])}
)
recipes = st.fixed_dictionaries(
    {
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
                "label_smoothing": shares,
                "clip_norm": st.none() | st.floats(min_value=1e-12, max_value=1),
                "schedule": st.fixed_dictionaries(
                    {"name": st.sampled_from(["inverse_sqrt", "constant"])}, optional={"warmup": st.integers(0, 9)}
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
            st.sampled_from(["name", "noam", "file", "train", "x", "schedule", "warmup"]), inner, max_size=3
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


def test_texts_must_fit_the_positions_of_the_initial_model(path: Path, start: Path) -> None:
    positions = {"positions": "learned", "max_positions": 64}
    (start / "config.json").write_text(json.dumps({"model": START | positions}))
    with pytest.raises(ConfigError, match=r"data\.filters\.max_tokens: .*has 64 positions; set it to 61 or less"):
        load(path, SMALLEST + "train: {init_from: base}\n")


def test_other_model_settings_than_the_initial_model_has_are_refused(path: Path, start: Path) -> None:
    text = SMALLEST + "train: {init_from: base}\nmodel:\n  dim: 256\n  heads: 2\n  norm: post\n"
    with pytest.raises(ConfigError) as caught:
        load(path, text)
    assert str(caught.value).split("\n") == [
        f"{path}:7: model.dim: found 256, but the model of train.init_from has 128; leave it out: it comes with "
        f"{start}",
        f"{path}:9: model.norm: found post, but the model of train.init_from has pre; leave it out: it comes "
        f"with {start}",
    ]


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {"dim": "x"}}', '{"model_type": "pegasus"}'])
def test_an_initial_model_that_cannot_be_read_is_refused(path: Path, start: Path, content: str) -> None:
    (start / "config.json").write_text(content)
    with pytest.raises(
        ConfigError, match=r"recipe\.yaml:5: train\.init_from: .*config\.json: not the settings of a model of nmt"
    ):
        load(path, SMALLEST + "train: {init_from: base}\n")
    (start / "config.json").unlink()
    with pytest.raises(
        ConfigError, match=r"recipe\.yaml:5: train\.init_from: .*base: no model here; expected a model directory"
    ):
        load(path, SMALLEST + "train: {init_from: base}\n")


@pytest.mark.parametrize("name", ["chinese", "??", "z", "zh Hant"])
def test_language_that_is_not_a_code_is_refused(path: Path, name: str) -> None:
    (problem,) = problems(path, SMALLEST.replace("target: it", f"target: '{name}'"))
    assert problem.startswith("line 1: languages.target.0: found ")


# sizes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": "post", "activation": "swiglu", "tied_embeddings": "none"},
        {"tied_embeddings": "target"},
        {"positions": "relative", "norm": "post"},
        {"positions": "rotary", "activation": "gelu"},
        {"positions": "relative", "max_distance": 3},
        {"positions": "learned", "max_positions": 20},
        {"attention_score": "bilinear"},
        {"attention_score": "additive"},
    ],
    ids=str,
)
def test_the_size_of_a_model_is_computed_without_building_it(settings: dict[str, Any]) -> None:
    shape = {"encoder_layers": 3, "decoder_layers": 2, "dim": 16, "feed_forward": 24, "heads": 2, **settings}
    chosen = ModelSettings.model_validate(shape)
    model = Transformer(chosen, 11, 11)
    count = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    assert chosen.weight_count(11, 11) == count == model.parameter_count()


def test_error_of_a_command_names_the_line_of_the_key(path: Path) -> None:
    def check(recipe: Recipe) -> None:
        raise SettingError("runtime.device", f"{recipe.runtime.device} is not available here")

    path.write_text(SMALLEST + "runtime:\n  threads: 1\n  device: cuda\n")
    with pytest.raises(ConfigError, match=r"recipe\.yaml:7: runtime\.device: cuda is not available here$"):
        load_recipe(path, check=check)
    with pytest.raises(ConfigError, match=r"^--set runtime.device=mps: runtime\.device: mps is not available here$"):
        load_recipe(path, ["runtime.device=mps"], check=check)


# several target languages, settings of the tokenizer

SEVERAL = """\
languages: {source: en, target: [it, zh]}
data:
  train:
    - {file: a.tsv, target_language: it, tag: bt}
    - {file: b.tsv, target_language: zh}
  valid:
    - {file: v.it.tsv, target_language: it}
    - {file: v.zh.tsv, target_language: zh, tag: bt}
run: run
"""


@pytest.mark.parametrize(
    ("stop", "steps"),
    [("{hours: 3}", None), ("{epochs: 3}", None), ("{hours: 3, steps: 9}", 9), ("{patience: 3}", 100_000)],
)
def test_steps_have_no_limit_by_default_where_another_one_ends_a_training(
    path: Path, stop: str, steps: int | None
) -> None:
    recipe = load(path, SMALLEST + f"train: {{stop: {stop}}}\n", "data.valid.file=v")
    assert recipe.train.stop.steps == steps


@pytest.mark.parametrize(
    ("settings", "patience"),
    [
        ([], None),
        (["data.valid.file=v"], 10),
        (["data.valid.file=v", "train.stop.steps=5"], None),
        (["data.valid.file=v", "train.schedule={name: cosine}"], None),
    ],
    ids=["no validation text", "no stop", "stop", "falling schedule"],
)
def test_training_without_stop_ends_by_patience(path: Path, settings: list[str], patience: int | None) -> None:
    path.write_text(SMALLEST, encoding="utf-8")
    recipe = load_recipe(path, settings)
    assert recipe.train.stop.patience == patience
    path.write_text(recipe_to_yaml(recipe, path.parent), encoding="utf-8")
    assert load_recipe(path) == recipe


def test_several_target_languages_are_read_and_written(path: Path) -> None:
    recipe = load(path, SEVERAL)
    assert recipe.languages.target == ("it", "zh")
    assert recipe.languages.names == "en → it, zh"
    assert Languages(source="en", target=("pt_BR", "zh-Hant")).chosen_target("pt-br", "to") == "pt_BR"
    assert recipe.tags == ["2it", "2zh", "bt"]
    assert [recipe.target_of(corpus) for corpus in recipe.data.train] == ["it", "zh"]
    assert [recipe.languages_of(corpus) for corpus in recipe.data.valid] == [
        LanguagePair("en", "it"),
        LanguagePair("en", "zh"),
    ]
    assert list(recipe.data.texts) == ["data.train.0", "data.train.1", "data.valid.0", "data.valid.1"]
    path.write_text(recipe_to_yaml(recipe, path.parent), encoding="utf-8")
    assert load_recipe(path) == recipe


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[it, zh]", "[it, it, zh]", "line 1: languages.target: it is in the list twice"),
        ("[it, zh]", "[pt_BR, zh, pt-br]", "line 1: languages.target: pt_BR is in the list twice"),
        ("[it, zh]", "[]", "line 1: languages.target: found nothing, expected a language, or a list of languages"),
        ("[it, zh]", "[it, 3]", "line 1: languages.target.1: found 3, expected text"),
        ("[it, zh]", "[it, zh, fr]", "line 1: languages.target: no text of data.train has the target language fr"),
        ("[it, zh]", "it", "line 5: data.train.1.target_language: found zh, expected it, the target language"),
        (
            ", target_language: zh}\n  valid",
            "}\n  valid",
            "line 5: data.train.1.target_language: is not set, expected it or zh, the target language",
        ),
        (
            "v.it.tsv, target_language: it",
            "v.it.tsv, target_language: zh",
            "line 6: data.valid: two texts have the same",
        ),
        (
            "it, tag: bt",
            "it, tag: bt}\n    - {file: c.tsv, target_language: it, tag: pad",
            "line 3: data.train: <pad> has two meanings",
        ),
        (
            "it, tag: bt",
            "it, tag: bt}\n    - {file: c.tsv, target_language: it, tag: 2zh",
            "line 3: data.train: <2zh> has two meanings",
        ),
        ("run: run", "run: run\ntokenizer: {symbols: [<bt>]}", "line 3: data.train: <bt> has two meanings"),
        ("zh, tag: bt", "zh, tag: news", "line 8: data.valid.1.tag: no training text has the tag news"),
        ("v.zh.tsv,", "v.zh.tsv, typo: 1,", "line 8: data.valid.1.typo: unknown key"),
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
        ("'{0}'", "tokenizer.symbols: found the text '{0}', expected a list"),
    ],
)
def test_protected_symbols_are_checked(path: Path, symbols: str, message: str | None) -> None:
    text = f"{SEVERAL}tokenizer: {{symbols: {symbols}}}\n"
    if message is None:
        assert load(path, text).tokenizer.symbols == ("{0}", "<b>")
    else:
        assert any(message in problem for problem in problems(path, text))
