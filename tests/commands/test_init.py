"""`nmt init`: a recipe, and a validation and a test text."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.commands.prepare import dry_run
from nmt.config import Languages, TokenizerSettings, load_recipe
from nmt.model.checkpoint import load_model
from nmt.system.console import Console
from nmt.text.corpus import pairs_of
from nmt.text.direction import check_languages
from nmt.text.tokenizer import Tokenizer, Tokenizers
from tests.builders import (
    run_command,
    save_model,
    snapshot,
    tiny_loaded_model,
    tiny_tokenizers,
    write_lines,
    write_tsv,
)

ENGLISH = "{0} people were in the house and it was not far from the sea, number {0}."
ITALIAN = "{0} persone erano nella casa, che non era lontana dal mare, numero {0}."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nmt.training.trial.matrix_rate", lambda *_: 1e11)
    write_lines(tmp_path / "text.en", *(ENGLISH.format(n) for n in range(400)))
    write_lines(tmp_path / "text.it", *(ITALIAN.format(n) for n in range(400)))
    return tmp_path


def init(*arguments: str) -> str:
    """Run the command, which must succeed; return its messages."""
    result = run_command("init", *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return result.stderr


def refused(*arguments: str) -> str:
    """Run the command, which must end with an error and write no file; return its message."""
    before = snapshot(Path())
    result = run_command("init", *arguments)
    assert result.exit_code == 2, result.output
    assert snapshot(Path()) == before
    return result.stderr


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def held_out(prefix: str = "") -> dict[str, list[tuple[str, ...]]]:
    """Return the pairs of `valid.tsv` and `test.tsv`."""
    return {
        part: [tuple(line.split("\t")) for line in lines(Path(f"{prefix}{part}.tsv"))] for part in ("valid", "test")
    }


def test_repeated_pairs_count_once(folder: Path) -> None:
    write_tsv(folder / "en-it.tsv", [(ENGLISH.format(n), ITALIAN.format(n)) for n in [*range(400)] * 8])
    messages = " ".join(init("en-it.tsv").split())
    assert "3,200 sentence pairs, about 2,800 that repeat others (exact repetitions are not trained on)" in messages
    assert {part: len(pairs) for part, pairs in held_out().items()} == {"valid": 20, "test": 20}


@pytest.mark.parametrize("name", ["a\x7f.tsv", "a\x85b.tsv", "a\u2028b.tsv", 'a"b: #.tsv', "a\ufeffb.tsv"])
def test_any_name_of_a_text_can_be_read_from_the_recipe(folder: Path, name: str) -> None:
    write_tsv(folder / name, [(ENGLISH.format(n), ITALIAN.format(n)) for n in range(200)])
    init(name)
    assert load_recipe(Path("recipe.yaml")).data.train[0].file == folder / name


def test_names_that_are_not_utf8_are_refused(folder: Path) -> None:
    write_tsv(folder / "caf\udce9.tsv", [(ENGLISH, ITALIAN)] * 200)
    assert "its name is not UTF-8, and so cannot be in a recipe; rename it" in refused("caf\udce9.tsv")


def test_recipe_and_held_out_texts_are_written(folder: Path) -> None:
    before = [(path, path.read_bytes()) for path in sorted(folder.iterdir())]
    messages = init("text.en", "text.it", "-o", "mine/recipe.yaml")
    assert "400 sentence pairs" in messages
    assert "Pairs of it are held out: valid.tsv with 20 and test.tsv with 20." in messages
    assert "wrote mine/recipe.yaml and mine/valid.tsv and mine/test.tsv" in messages
    assert "next: nmt train --config mine/recipe.yaml" in messages
    recipe = load_recipe(Path("mine/recipe.yaml"))
    assert (recipe.languages.source, *recipe.languages.target) == ("en", "it")
    assert recipe.tokenizer.vocab_size == "auto"
    assert recipe.run == folder / "mine" / "run"
    assert recipe.data.train[0].files == {"source": folder / "text.en", "target": folder / "text.it"}
    assert recipe.data.valid[0].file == folder / "mine" / "valid.tsv"
    assert recipe.data.test[0].file == folder / "mine" / "test.tsv"
    chosen = [pair for part in held_out("mine/").values() for pair in part]
    assert len({*chosen}) == 40
    assert {*chosen} <= {*zip(lines(folder / "text.en"), lines(folder / "text.it"), strict=True)}
    assert dry_run(recipe, Console(quiet=True)).corpora[0].removed == {"leak": 40}
    assert [(path, path.read_bytes()) for path, _ in before] == before
    assert sorted(path.name for path in (folder / "mine").iterdir()) == ["recipe.yaml", "test.tsv", "valid.tsv"]


@pytest.mark.parametrize("minutes", ["2.5", "0.2"])
def test_minutes_limit_the_training(minutes: str) -> None:
    messages = init("text.en", "text.it", "--minutes", minutes)
    assert f"The training ends after {minutes} minutes. About " in messages
    assert re.search(r" steps take [1-9]\d* to [1-9]\d* (seconds|minutes)", messages)
    assert load_recipe(Path("recipe.yaml")).train.stop.seconds == pytest.approx(60 * float(minutes))


@pytest.mark.parametrize("sizes", [(30, 10), (7, 31), (20, 20)])
def test_sizes_are_those_requested_and_both_directions_hold_out_the_same_pairs(sizes: tuple[int, int]) -> None:
    options = ("--valid-size", str(sizes[0]), "--test-size", str(sizes[1]))
    init("text.en", "text.it", "-o", "there.yaml", *options)
    init("text.it", "text.en", "-o", "back.yaml", *options)
    there, back = held_out("there."), held_out("back.")
    assert {part: len(pairs) for part, pairs in there.items()} == dict(zip(("valid", "test"), sizes, strict=True))
    assert len({pair for pairs in there.values() for pair in pairs}) == sum(sizes)
    assert back == {part: [pair[::-1] for pair in pairs] for part, pairs in there.items()}
    if sizes == (20, 20):  # the default of 400 pairs
        init("text.en", "text.it")
        assert held_out() == there


def test_sizes_that_are_impossible_are_refused() -> None:
    assert "too few different sentences" in refused("text.en", "text.it", "--test-size", "190")
    sides = (Path(f"text.{code}").read_text(encoding="utf-8").splitlines() for code in ("en", "it"))
    write_tsv(Path("all.tsv"), list(zip(*sides, strict=True)))
    assert "not in a text of --valid or --test" in refused("text.en", "text.it", "--valid", "all.tsv")
    write_tsv(Path("given.tsv"), [("One house.", "Una casa.")])
    options = ("--valid", "given.tsv", "--valid-size", "5")
    assert "--valid-size: this text is given with --valid" in refused("text.en", "text.it", *options)


def test_comments_state_reasons_held_out_pairs_time_and_memory() -> None:
    recipe = Path('my "recipe".yaml')
    assert "next: nmt train --config 'my \"recipe\".yaml'" in init("text.en", "text.it", "-o", str(recipe))
    assert load_recipe(recipe).name == 'my "recipe".run'
    text = " ".join(recipe.read_text(encoding="utf-8").replace("#", " ").split())
    for part in (
        "text.en and text.it: 400 sentence pairs", "(rule leak)", "valid.tsv with 20",
        "minutes on this machine (cpu)",
        "Sennrich & Zhang 2019", "Araabi & Monz 2020", "square root", "passes over the text", "pieces for this text",
        "This is little text",
    ):  # fmt: skip
        assert part in text, part


def tmx(pairs: list[tuple[str, str]]) -> str:
    units = (
        f'<tu><tuv xml:lang="it"><seg>{it}</seg></tuv><tuv xml:lang="en-US"><seg>{en}</seg></tuv></tu>\n'
        for en, it in pairs
    )
    return f'<tmx version="1.4"><header srclang="en-US"/><body>\n{"".join(units)}</body></tmx>\n'


def write_forms(folder: Path) -> list[tuple[str, str]]:
    """Write the text in other forms, and return its pairs."""
    pairs = [(ENGLISH.format(n), ITALIAN.format(n)) for n in range(400)]
    (folder / "part1.tmx").write_text(tmx(pairs[:150]))
    (folder / "part2.tmx").write_text(tmx(pairs[150:]))
    write_lines(folder / "part1.po", *(f'msgid "{en}"\nmsgstr "{it}"' for en, it in pairs[:150]))
    units = "".join(f"<trans-unit><source>{en}</source><target>{it}</target></trans-unit>" for en, it in pairs[150:])
    header = '<file source-language="en" target-language="it"><body>'
    (folder / "part2.xlf").write_text(f"<xliff>{header}{units}</body></file></xliff>")
    write_lines(folder / "a.csv", "id,ita,fr,ENG", *(f'{n},"{it}",x,"{en}"' for n, (en, it) in enumerate(pairs)))
    write_lines(folder / "b.csv", *(f'"{en}";"{it}"' for en, it in pairs))
    write_lines(folder / "links.tsv", *(f"{n}\teng\t{en}\t{n}\tita\t{it}\tCK" for n, (en, it) in enumerate(pairs)))
    for name, part in (("one.tsv", pairs[:200]), ("two.tsv", pairs[200:]), ("ita-eng.tsv", pairs)):
        write_tsv(folder / name, part)
    return pairs


@pytest.mark.parametrize(
    "text",
    [
        ["part1.tmx", "part2.tmx"], ["part1.po", "part2.xlf"], ["a.csv", "--languages", "en-it"], ["links.tsv"],
        ["one.tsv", "two.tsv"], ["ita-eng.tsv"],
    ],
    ids=str,
)  # fmt: skip
def test_other_forms_of_a_text_give_the_same_parts(folder: Path, text: list[str]) -> None:
    pairs = write_forms(folder)
    init("text.en", "text.it")
    assert "en → it, by" in init(*text, "-o", "other.yaml")
    assert held_out() == held_out("other.")
    recipe = load_recipe(Path("other.yaml"))
    assert sorted(pair[:2] for pair in pairs_of(recipe, recipe.data.train)) == sorted(pairs)


def test_several_languages_of_a_file_must_be_chosen(folder: Path) -> None:
    write_lines(folder / "a.csv", "id,it,en,fr", "1,uno,one,un")
    message = refused("a.csv", "-o", "new/recipe.yaml")
    assert "a.csv: found the languages it, en, fr; state two: --languages en-it" in message


def test_given_validation_and_test_text_are_used_and_kept_out_of_training(folder: Path) -> None:
    write_lines(folder / "v.en", ENGLISH.format(3), "Another one that is new.")
    write_lines(folder / "v.it", ITALIAN.format(3), "Un altro che è nuovo.")
    write_lines(folder / "t.tsv", f"1\t{ENGLISH.format(4)}\tUn testo")
    messages = init("text.en", "text.it", "--valid", "v.en", "--valid", "v.it", "--test", "t.tsv", "-o", "a/b.yaml")
    assert "Pairs of it are held out" not in messages
    data = load_recipe(Path("a/b.yaml")).data
    assert [corpus.source for corpus in data.valid] == [folder / "v.en"]
    assert [(corpus.file, corpus.columns) for corpus in data.test] == [(folder / "t.tsv", (2, 3))]
    assert [path.name for path in (folder / "a").iterdir()] == ["b.yaml"]
    init("text.en", "text.it", "--test", "t.tsv", "-o", "c.yaml")
    assert len(lines(folder / "c.valid.tsv")) == 20
    assert not (folder / "c.test.tsv").exists()


def test_existing_files_are_refused(folder: Path) -> None:
    for name in ("valid.tsv", "test.tsv", "recipe.yaml"):
        write_lines(folder / name, "mine")
        assert f"{name}: exists already and is not changed; give another name" in refused("text.en", "text.it")
        (folder / name).unlink()
    (folder / "link.yaml").symlink_to("nowhere")
    assert "exists already" in refused("text.en", "text.it", "-o", "link.yaml")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([ENGLISH], "found 1 different sentence pair; at least 100 are needed"),
        (["It is the same."] * 300, "too few different sentences"),
        (["in the house " * 90 + str(n) for n in range(120)], "too few different sentences of at most 1,000"),
    ],
)
def test_unsuitable_text_is_refused(folder: Path, sources: list[str], message: str) -> None:
    write_tsv(folder / "en-it.tsv", [(source, f"Una frase {n}.") for n, source in enumerate(sources)])
    assert message in refused("en-it.tsv", "-o", "new/recipe.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--test", "-"], "found standard input; save it to a file"),
        (["-o", "text.en"], "ends in .yaml"),
        (["--valid", "a.tmx", "--valid", "b.tmx"], "--valid: found 2 texts, expected one"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str) -> None:
    output = [] if "-o" in arguments else ["-o", "new/recipe.yaml"]
    assert message in refused("text.en", "text.it", *arguments, *output)


def test_stated_languages_win_with_a_warning(folder: Path) -> None:
    write_lines(folder / "text.it", *(f"Yes, {ENGLISH.format(n)}" for n in range(400)))
    messages = init("text.en", "text.it", "--languages", "en-it")
    assert "warning: the text is not in its languages" in messages
    assert "in another language" not in messages  # the same remark, which nmt prepare does not print either
    recipe = load_recipe(Path("recipe.yaml"))
    assert recipe.languages.source == "en"
    assert recipe.data.filters.keep == ("language",)  # otherwise nmt train would refuse the text


def test_swapped_validation_text_is_refused(folder: Path) -> None:
    write_lines(folder / "v.tsv", *(f"{ITALIAN.format(n)}\t{ENGLISH.format(n)}" for n in range(100)))
    message = refused("text.en", "text.it", "--valid", "v.tsv", "-o", "new/recipe.yaml")
    assert "the text is not in its languages:\n  v.tsv, source: expected en" in message


@pytest.mark.parametrize("names", [["ita-eng.tsv"], ["text.en", "text.it"], ["b.csv"], ["links.tsv"]], ids=str)
def test_stated_languages_exchange_the_sides_of_a_text(folder: Path, names: list[str]) -> None:
    """A recipe for the other direction, with texts that `nmt train` accepts."""
    pairs = write_forms(folder)
    write_tsv(folder / "v.tsv", pairs[:100])
    messages = init(*names, "--valid", "v.tsv", "--languages", "it-en")
    assert "it → en, by --languages" in messages
    assert "not in its languages" not in messages
    recipe = load_recipe(Path("recipe.yaml"))
    assert [pair[:2] for pair in pairs_of(recipe, recipe.data.train)] == [(it, en) for en, it in pairs]
    assert [pair[:2] for pair in pairs_of(recipe, recipe.data.valid)] == [(it, en) for en, it in pairs[:100]]
    assert {tuple(line.split("\t")) for line in lines(folder / "test.tsv")} <= {(it, en) for en, it in pairs}
    check_languages(recipe)


def test_text_whose_sides_are_not_exchanged_with_those_of_others_is_a_warning(folder: Path) -> None:
    """It may be too short for its language to be certain."""
    pairs = [(ENGLISH.format(n), ITALIAN.format(n)) for n in range(400)]
    write_tsv(folder / "all.tsv", pairs)
    write_tsv(folder / "few.tsv", pairs[:40])
    arguments = ("all.tsv", "--valid", "few.tsv", "-o")
    assert "not exchanged" not in init(*arguments, "a.yaml", "--languages", "en-it")
    messages = init(*arguments, "b.yaml", "--languages", "it-en")
    assert "warning: few.tsv: its sides are not exchanged, those of another text are" in messages


def test_stated_languages_do_not_exchange_sides_that_a_file_names(folder: Path) -> None:
    write_lines(folder / "a.csv", "it,en", *(f'"{ENGLISH.format(n)}","{ITALIAN.format(n)}"' for n in range(400)))
    assert "warning: the text is not in its languages" in init("a.csv", "--languages", "it-en")
    assert load_recipe(Path("recipe.yaml")).data.train[0].columns == (1, 2)


def test_errors_do_not_wait_for_torch(folder: Path) -> None:
    program = (
        "import sys, nmt.cli\ntry: nmt.cli.main()\nexcept SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "init", "text.en", "gone.it"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.stdout.split() == ["2", "False"], done.stderr


def test_unusual_text_is_reported_with_its_own_lines(folder: Path) -> None:
    """As `nmt prepare` reports it."""
    target = lines(folder / "text.it")
    target[6] = target[6].replace("è", "e").replace("era", "Ã¨ra")
    write_lines(folder / "text.it", *target)
    write_lines(folder / "v.tsv", "Why?\tPerchÃ©?")
    messages = init("text.en", "text.it", "--valid", "v.tsv")
    assert "warning: text.en and text.it: the target (it) is decoded wrongly in 1 of 400 lines" in messages
    assert f"\n    line 7: {target[6]}" in messages
    assert "warning: v.tsv: the target (it) is decoded wrongly in 1 of 1 line: convert the file again" in messages
    assert "\n    line 1: PerchÃ©?" in messages
    assert "Ã" not in (folder / "test.tsv").read_text()


def test_recipe_from_a_model_trains_it_further(folder: Path) -> None:
    english = [ENGLISH.format(n) for n in range(400)]
    loaded = tiny_loaded_model(tiny_tokenizers([*english[:50], *(ITALIAN.format(n) for n in range(50))], 320))
    save_model(folder / "model", loaded)
    write_lines(folder / "text.en", *english[:-1], "Łódź was not far from the sea, number 400.")
    messages = init("text.en", "text.it", "--from", "model")
    assert re.search("which lacks . characters of the text: .*Ł", messages), messages
    recipe = load_recipe(Path("recipe.yaml"))
    assert recipe.train.init_from == folder / "model"
    assert recipe.model == loaded.model.settings
    assert recipe.train.stop.steps == 100
    result = run_command("train", "recipe.yaml", "--set", "train.stop.steps=2", "--set", "train.schedule.warmup=1")
    assert result.exit_code == 0, result.output
    messages = init("text.en", "text.it", "--from", "model", "--new-pieces", "15", "-o", "more.yaml")
    pattern = "about (.*) source and (.*) target tokens of .* more.initial, .* there are (.*) and (.*) tokens"
    found = re.search(pattern, messages)
    assert found, messages
    after, before = (
        [int(count.replace(",", "")) for count in part] for part in (found.groups()[:2], found.groups()[2:])
    )
    assert sum(after) < sum(before)
    assert load_recipe(Path("more.yaml")).train.init_from == folder / "more.initial"
    result = run_command("train", "more.yaml", "--set", "train.stop.steps=2", "--set", "train.schedule.warmup=1")
    assert result.exit_code == 0, result.output
    pieces = load_model(folder / "more.run" / "last", torch.device("cpu")).tokenizers.source.symbols
    assert 320 < len(pieces) <= 335
    assert pieces[:320] == loaded.tokenizers.source.symbols
    message = refused("text.en", "text.it", "--new-pieces", "15", "-o", "other.yaml")
    assert "--new-pieces: they are added to a trained model; name it with --from MODEL" in message
    message = refused("text.it", "text.en", "--from", "model", "--languages", "it-en", "-o", "other.yaml")
    assert "--from model: it translates en → it, but the text is it → en" in message


def test_recipe_from_a_model_keeps_its_target_languages_and_fits_its_positions(folder: Path) -> None:
    lines = [form.format(n) for form in (ENGLISH, ITALIAN) for n in range(50)]
    pieces = Tokenizer.train(lines * 4, TokenizerSettings(vocab_size=340), ["2it", "2zh"])
    loaded = tiny_loaded_model(Tokenizers(pieces, pieces), positions="learned", max_positions=80)
    save_model(folder / "model", replace(loaded, languages=Languages(source="en", target=("it", "zh"))))
    init("text.en", "text.it", "--from", "model")
    recipe = load_recipe(Path("recipe.yaml"))
    assert recipe.languages.target == ("it", "zh")
    corpora = (*recipe.data.train, *recipe.data.valid, *recipe.data.test)
    assert [corpus.target_language for corpus in corpora] == ["it"] * 3
    assert recipe.data.filters.max_tokens == 77
    result = run_command("train", "recipe.yaml", "--set", "train.stop.steps=2", "--set", "train.schedule.warmup=1")
    assert result.exit_code == 0, result.output
    for target, problem in (
        ("[it, fr, zh]", "has another target language, or others"),
        ("zh", "languages.target: it is missing, a target language of"),
    ):
        Path("wrong.yaml").write_text(Path("recipe.yaml").read_text().replace("[it, zh]", target).replace("it}", "zh}"))
        result = run_command("prepare", "wrong.yaml", "--set", "prepared=other")
        assert result.exit_code == 2
        assert problem in result.stderr
