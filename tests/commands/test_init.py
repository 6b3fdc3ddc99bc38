"""`nmt init`: a recipe, and a validation and a test text."""

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nmt.commands.prepare import dry_run
from nmt.config import load_recipe
from nmt.system.console import Console
from nmt.text.corpus import pairs_of
from tests.builders import run_command, write_lines

ENGLISH = "{0} people were in the house and it was not far from the sea, number {0}."
ITALIAN = "{0} persone erano nella casa, che non era lontana dal mare, numero {0}."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path, 400)
    return tmp_path


@pytest.fixture(autouse=True)
def _fixed_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.cost.matrix_rate", lambda *_: 1e11)


def write_texts(folder: Path, pairs: int) -> None:
    write_lines(folder / "text.en", *(ENGLISH.format(n) for n in range(pairs)))
    write_lines(folder / "text.it", *(ITALIAN.format(n) for n in range(pairs)))


def init(*arguments: str) -> str:
    """Run the command, which must succeed; return its messages."""
    result = run_command("init", *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return result.stderr


def refused(*arguments: str) -> str:
    """Run the command, which must end with an error and write no file; return its message."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    result = run_command("init", *arguments)
    assert result.exit_code == 2, result.output
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return result.stderr


def lines(path: Path | None) -> list[str]:
    assert path is not None
    return path.read_text(encoding="utf-8").splitlines()


def held_out(prefix: str = "") -> dict[str, list[tuple[str, ...]]]:
    """Return the pairs of `valid.tsv` and `test.tsv`."""
    return {
        part: [tuple(line.split("\t")) for line in lines(Path(f"{prefix}{part}.tsv"))] for part in ("valid", "test")
    }


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
    assert [corpus.files for corpus in recipe.data.train] == [
        {"source": folder / "text.en", "target": folder / "text.it"}
    ]
    assert recipe.data.valid[0].file == folder / "mine" / "valid.tsv"
    assert recipe.data.test[0].file == folder / "mine" / "test.tsv"
    chosen = [pair for part in held_out("mine/").values() for pair in part]
    assert len({*chosen}) == 40
    assert {*chosen} <= {*zip(lines(folder / "text.en"), lines(folder / "text.it"), strict=True)}
    assert [(path, path.read_bytes()) for path, _ in before] == before
    assert sorted(path.name for path in (folder / "mine").iterdir()) == ["recipe.yaml", "test.tsv", "valid.tsv"]


def test_held_out_pairs_are_not_trained_on_in_either_direction(folder: Path) -> None:
    """Sentences with several translations in both languages."""
    names = ["".join(chr(97 + int(digit)) for digit in f"{n:03}") for n in range(900)]
    write_lines(folder / "text.en", *(ENGLISH.format(names[n % 700]) for n in range(1000)))
    write_lines(folder / "text.it", *(ITALIAN.format(names[n % 900]) for n in range(1000)))
    init("text.en", "text.it", "-o", "a.yaml")
    init("text.it", "text.en", "-o", "b.yaml")
    assert held_out("a.") == {part: [pair[::-1] for pair in pairs] for part, pairs in held_out("b.").items()}
    for name in ("a", "b"):
        dry_run(load_recipe(Path(f"{name}.yaml")), Console(quiet=True), folder / "removed.tsv")
        removed = {int(row.split("\t")[1].rpartition(":")[2]) for row in lines(folder / "removed.tsv")}
        trained = {
            sentence
            for file in ("text.en", "text.it")
            for number, sentence in enumerate(lines(folder / file), start=1)
            if number not in removed
        }
        assert len(trained) > 1200
        assert not trained & {sentence for part in held_out(f"{name}.").values() for pair in part for sentence in pair}


def test_comments_state_reasons_held_out_pairs_time_and_memory() -> None:
    init("text.en", "text.it")
    text = " ".join(Path("recipe.yaml").read_text(encoding="utf-8").replace("#", " ").split())
    for part in (
        "text.en and text.it: 400 sentence pairs", "(rule leak)", "valid.tsv with 20",
        "minutes on this machine (cpu)",
        "Sennrich & Zhang 2019", "Araabi & Monz 2020", "square root", "passes over the text", "pieces for this text",
        "This is little text",
    ):  # fmt: skip
        assert part in text, part


def test_printed_command_is_quoted_for_a_shell() -> None:
    assert "next: nmt train --config 'my \"recipe\".yaml'" in init("text.en", "text.it", "-o", 'my "recipe".yaml')
    assert load_recipe(Path('my "recipe".yaml')).name == 'my "recipe".run'


def tmx(source: str, target: str, numbers: range) -> str:
    units = (
        f'<tu><tuv xml:lang="{target}"><seg>{ITALIAN.format(n)}</seg></tuv>'
        f'<tuv xml:lang="{source}"><seg>{ENGLISH.format(n)}</seg></tuv></tu>\n'
        for n in numbers
    )
    return f'<tmx version="1.4"><header srclang="{source}"/><body>\n{"".join(units)}</body></tmx>\n'


def write_forms(folder: Path) -> None:
    """Write the text of `text.en` and `text.it` in other formats, with names that show no languages."""
    pairs = [(ENGLISH.format(n), ITALIAN.format(n)) for n in range(400)]
    (folder / "part1.tmx").write_text(tmx("en-US", "it", range(150)))
    (folder / "part2.tmx").write_text(tmx("en-US", "it", range(150, 400)))
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "ita", "ENG"), *((n, *pair[::-1]) for n, pair in enumerate(pairs))])
    (folder / "a.jsonl").write_text("".join(json.dumps({"translation": {"en": s, "it": t}}) + "\n" for s, t in pairs))
    exported = (f"{n}\teng\t{source}\t{n + 900}\tita\t{target}\tCK\n" for n, (source, target) in enumerate(pairs))
    (folder / "links.tsv").write_text("".join(exported))
    for name, part in (("one.tsv", pairs[:200]), ("two.tsv", pairs[200:]), ("ita-eng.tsv", pairs)):
        write_lines(folder / name, *map("\t".join, part))
    with zipfile.ZipFile(folder / "en-it.txt.zip", "w") as archive:
        archive.writestr("README", "x")
        for code in ("en", "it"):
            archive.writestr(f"Corpus.en-it.{code}", (folder / f"text.{code}").read_bytes())


@pytest.mark.parametrize(
    "text",
    [
        ["part1.tmx", "part2.tmx"],
        ["a.csv", "--languages", "en-it"],
        ["links.tsv"],
        ["one.tsv", "two.tsv"],
        ["ita-eng.tsv"],
        ["a.jsonl"],
        ["en-it.txt.zip"],
    ],
    ids=str,
)
def test_other_forms_of_a_text_give_the_same_parts(folder: Path, text: list[str]) -> None:
    write_forms(folder)
    init("text.en", "text.it")
    assert "en → it, by" in init(*text, "-o", "other.yaml")
    assert held_out() == held_out("other.")
    train = load_recipe(Path("other.yaml"))
    trained = [(pair.source, pair.target) for pair in pairs_of(train, train.data.train)]
    assert sorted(trained) == sorted(zip(lines(folder / "text.en"), lines(folder / "text.it"), strict=True))


def test_several_languages_of_a_file_must_be_chosen(folder: Path) -> None:
    content = tmx("en", "it", range(400)) + tmx("fr", "de", range(400))
    content = content.replace('</body></tmx>\n<tmx version="1.4"><header srclang="fr"/><body>', "")
    (folder / "a.tmx").write_text(content)
    message = refused("a.tmx", "-o", "new/recipe.yaml")
    assert "a.tmx: found the languages en, it, de, fr; state two: --languages en-it" in message
    init("a.tmx", "--languages", "en-it", "-o", "new/recipe.yaml")
    assert load_recipe(Path("new/recipe.yaml")).languages.target == ("it",)


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
    ("sources", "targets", "message"),
    [
        (400, 250, "text.en has 400 lines, text.it has 250"),
        (1, 1, "found 1 sentence pair; at least 100 are needed"),
        (["It is the same."] * 300, ["È lo stesso."] * 300, "too few different sentences"),
        (["in the house " * 90 + str(n) for n in range(120)], 120, "too few different sentences of at most 1,000"),
        ([ITALIAN.format(n) for n in range(400)], 400, "text.en: expected en (the file names), found it:"),
    ],
)
def test_unsuitable_text_is_refused(
    folder: Path, sources: int | list[str], targets: int | list[str], message: str
) -> None:
    for name, text, content in (("text.en", ENGLISH, sources), ("text.it", ITALIAN, targets)):
        found = [text.format(n) for n in range(content)] if isinstance(content, int) else content
        write_lines(folder / name, *found)
    assert message in refused("text.en", "text.it", "-o", "new/recipe.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.en"], "text.en:1: found 1 column (no tab)"),
        (["text.en", "gone.it"], "gone.it: no such file"),
        (["text.en", "text.it", "--languages", "english"], "expected two language codes such as en-it"),
        (["text.en", "text.it", "--test", "-"], "found standard input; save it to a file"),
        (["text.en", "text.it", "-o", "text.en"], "ends in .yaml"),
        (["text.en", "text.it", "--valid", "a.tmx", "--valid", "b.tmx"], "--valid: found 2 texts, expected one"),
        (["text.en", "text.it", "--valid", "text.en", "--valid", "text.it"], "too few different sentences"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str) -> None:
    output = [] if "-o" in arguments else ["-o", "new/recipe.yaml"]
    assert message in refused(*arguments, *output)


def test_stated_languages_win_with_a_warning(folder: Path) -> None:
    write_lines(folder / "text.it", *(f"Yes, {ENGLISH.format(n)}" for n in range(400)))
    messages = init("text.en", "text.it", "--languages", "en-it")
    assert "warning: the text is not in its languages" in messages
    recipe = load_recipe(Path("recipe.yaml"))
    assert recipe.languages.source == "en"
    assert recipe.data.filters.keep == ("language",)  # otherwise nmt train would refuse the text


def test_swapped_validation_text_is_refused(folder: Path) -> None:
    write_lines(folder / "v.tsv", *(f"{ITALIAN.format(n)}\t{ENGLISH.format(n)}" for n in range(100)))
    message = refused("text.en", "text.it", "--valid", "v.tsv", "-o", "new/recipe.yaml")
    assert "not in its languages; give a text of en and it, in this order:\n  v.tsv, source: expected en" in message
    messages = init("text.en", "text.it", "--valid", "v.tsv", "--languages", "en-it")
    assert "warning: the text is not in its languages:\n  v.tsv, source: expected en" in messages


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
