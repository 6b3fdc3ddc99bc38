"""`nmt init`: a recipe and a division of a text."""

import csv
import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.config import Recipe, load_recipe
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


def parts_of(recipe: Recipe) -> list[tuple[str, str]]:
    corpora = [recipe.data.train[0], *recipe.data.valid, *recipe.data.test]
    assert all(corpus is not None for corpus in corpora)
    return [pair for each in corpora if each for pair in zip(lines(each.source), lines(each.target), strict=True)]


def test_recipe_and_parts_are_written(folder: Path) -> None:
    before = [(path, path.read_bytes()) for path in sorted(folder.iterdir())]
    messages = init("text.en", "text.it", "-o", "mine/recipe.yaml")
    assert "400 sentence pairs" in messages
    assert "360 train, 20 valid, 20 test" in messages
    assert "next: nmt train --config mine/recipe.yaml" in messages
    recipe = load_recipe(Path("mine/recipe.yaml"))
    assert (recipe.name, recipe.languages.source, *recipe.languages.target) == ("mine", "en", "it")
    assert recipe.tokenizer.vocab_size == "auto"
    assert recipe.run == folder / "mine" / "run"
    assert recipe.data.train[0].source == folder / "mine" / "split" / "train.en"
    assert sorted(parts_of(recipe)) == sorted(zip(lines(folder / "text.en"), lines(folder / "text.it"), strict=True))
    assert [(path, path.read_bytes()) for path, _ in before] == before
    assert sorted(path.name for path in (folder / "mine").iterdir()) == ["recipe.yaml", "split"]


def test_comments_state_reasons_division_time_and_memory() -> None:
    init("text.en", "text.it")
    text = " ".join(Path("recipe.yaml").read_text(encoding="utf-8").replace("#", " ").split())
    for part in (
        "text.en and text.it: 400 sentence pairs", "seed 1", "360 train", "minutes on this machine (cpu)", "GiB of RAM",
        "Sennrich & Zhang 2019", "Araabi & Monz 2020", "square root", "passes over the text", "pieces for this text",
        "This is little text",
    ):  # fmt: skip
        assert part in text, part


def test_what_little_text_gives_is_not_printed_for_more_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.init._LITTLE_TEXT", 100)
    assert "little text." not in init("text.en", "text.it")


def test_printed_command_is_quoted_for_a_shell() -> None:
    assert "next: nmt train --config 'my \"recipe\".yaml'" in init("text.en", "text.it", "-o", 'my "recipe".yaml')
    assert load_recipe(Path('my "recipe".yaml')).name == 'my "recipe"'


def test_same_text_gives_the_same_bytes(folder: Path) -> None:
    contents = []
    for _ in range(2):
        init("text.en", "text.it")
        written = [folder / "recipe.yaml", *sorted((folder / "split").iterdir())]
        contents.append([path.read_bytes() for path in written])
        (folder / "recipe.yaml").unlink()  # its folder is replaced
    assert contents[0] == contents[1]


def test_tsv_and_gzip_give_the_same_parts(folder: Path) -> None:
    init("text.en", "text.it")
    rows = [f"{ENGLISH.format(n)}\t{ITALIAN.format(n)}\tlicence" for n in range(400)]
    (folder / "eng-ita.txt.gz").write_bytes(gzip.compress("\n".join(rows).encode() + b"\n"))
    init("eng-ita.txt.gz", "-o", "other.yaml")
    for name in ("train.en", "valid.it", "test.en"):
        assert (folder / "split" / name).read_text() == (folder / "other.split" / name).read_text()
    assert load_recipe(Path("other.yaml")).run == folder / "other.run"


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
    (folder / "a.tmx").write_text(tmx("en-GB", "it-IT", range(400)))
    (folder / "part1.tmx").write_text(tmx("en-US", "it", range(150)))
    (folder / "part2.tmx").write_text(tmx("en-US", "it", range(150, 400)))
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "en", "it"), *((n, *pair) for n, pair in enumerate(pairs))])
    (folder / "a.jsonl").write_text("".join(json.dumps({"translation": {"en": s, "it": t}}) + "\n" for s, t in pairs))
    (folder / "a.po").write_text("".join(f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in pairs))
    with (folder / "b.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("ITALIAN", "English"), *((target, source) for source, target in pairs)])
    exported = (f"{n}\teng\t{source}\t{n + 900}\tita\t{target}\tCK\n" for n, (source, target) in enumerate(pairs))
    (folder / "links.tsv").write_text("".join(exported))
    with zipfile.ZipFile(folder / "en-it.txt.zip", "w") as archive:
        archive.writestr("README", "x")
        for code in ("en", "it"):
            archive.writestr(f"Corpus.en-it.{code}", (folder / f"text.{code}").read_bytes())
    with zipfile.ZipFile(folder / "many.zip", "w") as archive:
        archive.writestr("_about.txt", "x")
        archive.writestr("ita.txt", "".join(f"{s}\t{t}\tCC-BY 2.0 (France)\n" for s, t in pairs))


@pytest.mark.parametrize(
    "text",
    [
        ["a.tmx"],
        ["part1.tmx", "part2.tmx"],
        ["part*.tmx"],
        ["a.csv"],
        ["b.csv", "--languages", "en-it"],
        ["links.tsv"],
        ["a.jsonl"],
        ["a.po"],
        ["en-it.txt.zip"],
        ["many.zip"],
        ["many.zip/ita.txt"],
    ],
    ids=str,
)
def test_other_forms_of_a_text_give_the_same_parts(folder: Path, text: list[str]) -> None:
    write_forms(folder)
    init("text.en", "text.it")
    assert "en → it, by" in init(*text, "-o", "other.yaml")
    for name in ("train.en", "train.it", "valid.it", "test.en"):
        assert (folder / "split" / name).read_text() == (folder / "other.split" / name).read_text()


def test_standard_input_is_read_once() -> None:
    rows = "".join(f"{ENGLISH.format(n)}\t{ITALIAN.format(n)}\n" for n in range(400))
    result = run_command("init", "-", "-o", "new/recipe.yaml", stdin=rows)
    assert result.exit_code == 0, result.output
    assert "standard input: 400 sentence pairs" in result.stderr
    assert len(parts_of(load_recipe(Path("new/recipe.yaml")))) == 400
    message = refused("text.en", "text.it", "--test", "-", "-o", "other/recipe.yaml")
    assert "--test: expected one text that the recipe can name, found standard input; save it to a file" in message


def test_several_languages_of_a_file_must_be_chosen(folder: Path) -> None:
    content = tmx("en", "it", range(400)) + tmx("fr", "de", range(400))
    content = content.replace('</body></tmx>\n<tmx version="1.4"><header srclang="fr"/><body>', "")
    (folder / "a.tmx").write_text(content)
    message = refused("a.tmx", "-o", "new/recipe.yaml")
    assert "a.tmx: found the languages en, it, de, fr; state two: --languages en-it" in message
    init("a.tmx", "--languages", "en-it", "-o", "new/recipe.yaml")
    assert len(parts_of(load_recipe(Path("new/recipe.yaml")))) == 400


def test_given_validation_and_test_text_are_used_and_kept_out_of_training(folder: Path) -> None:
    write_lines(folder / "v.en", ENGLISH.format(3), "Another one that is new.")
    write_lines(folder / "v.it", ITALIAN.format(3), "Un altro che è nuovo.")
    write_lines(folder / "t.tsv", f"1\t{ENGLISH.format(4)}\tx")
    messages = init("text.en", "text.it", "--valid", "v.en", "--valid", "v.it", "--test", "t.tsv", "-o", "a/b.yaml")
    assert "398 train; 2 pairs of the given texts are left out" in messages
    data = load_recipe(Path("a/b.yaml")).data
    assert [corpus.source for corpus in data.valid] == [folder / "v.en"]
    assert [(corpus.file, corpus.columns) for corpus in data.test] == [(folder / "t.tsv", (2, 3))]
    assert sorted(path.name for path in (folder / "a" / "b.split").iterdir()) == ["split.json", "train.en", "train.it"]


@pytest.mark.parametrize("options", [["--valid"], ["--valid", "--test"]], ids=len)
def test_given_texts_that_hold_the_whole_text_are_refused(folder: Path, options: list[str]) -> None:
    given = [word for option in options for file in ("text.en", "text.it") for word in (option, file)]
    message = refused("text.en", "text.it", *given, "-o", "new/recipe.yaml")
    assert (
        "nothing is left to train on: all 400 pairs have source sentences of the texts of --valid or --test" in message
    )


def test_existing_recipe_is_refused(folder: Path) -> None:
    write_lines(folder / "recipe.yaml", "# mine")
    assert "recipe.yaml: exists already and is not changed; give another name with -o" in refused("text.en", "text.it")
    (folder / "link.yaml").symlink_to("nowhere")
    assert "exists already" in refused("text.en", "text.it", "-o", "link.yaml")


def test_recipe_that_the_user_writes_meanwhile_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rate(*_: object) -> float:
        write_lines(folder / "recipe.yaml", "# mine")
        return 1e11

    monkeypatch.setattr("nmt.training.cost.matrix_rate", rate)
    result = run_command("init", "text.en", "text.it")
    assert result.exit_code == 2
    assert "recipe.yaml: exists already and is not changed" in result.stderr
    assert (folder / "recipe.yaml").read_text() == "# mine\n"
    assert "ends in .yaml" in refused("text.en", "text.it", "-o", "text.en")


def unequal(folder: Path) -> None:
    write_lines(folder / "text.it", *(ITALIAN.format(n) for n in range(250)))


def one_line(folder: Path) -> None:
    write_texts(folder, 1)


def no_line(folder: Path) -> None:
    write_texts(folder, 0)


def duplicates(folder: Path) -> None:
    write_lines(folder / "text.en", *["It is the same."] * 300)
    write_lines(folder / "text.it", *["È lo stesso."] * 300)


def binary(folder: Path) -> None:
    (folder / "text.en").write_bytes(bytes(range(256)) * 100)


def long_lines(folder: Path) -> None:
    write_lines(folder / "text.en", *(f"{n} in the house " * 7000 for n in range(120)))
    write_lines(folder / "text.it", *(ITALIAN.format(n) for n in range(120)))


def swapped(folder: Path) -> None:
    (folder / "text.en").rename(folder / "x")
    (folder / "text.it").rename(folder / "text.en")
    (folder / "x").rename(folder / "text.it")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (unequal, "text.en has 400 lines, text.it has 250"),
        (one_line, "found 1 sentence pair; at least 100 are needed"),
        (no_line, "found 0 sentence pairs; at least 100 are needed"),
        (duplicates, "too few different sources"),
        (binary, "text.en: expected text in UTF-8, found binary data"),
        (long_lines, "too few different sources of at most 1,000 characters"),
        (swapped, "text.en: expected en (the file names), found it:"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_unsuitable_text_is_refused(folder: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(folder)
    assert message in refused("text.en", "text.it", "-o", "new/recipe.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.en", "text.it", "text.en"], "the text: expected one file with both languages, or a file of"),
        (["text.en", "text.en"], "found one file twice"),
        (["text.en"], "text.en:1: found 1 column (no tab)"),
        (["text.en", "gone.it"], "gone.it: no such file"),
        (["."], "the text: expected a file, found the folder .; name the files in it"),
        (
            ["text.en", "text.it", "--languages", "en-en"],
            "source and target are both en; the text looks like en and it",
        ),
        (["text.en", "text.it", "--languages", "english"], "expected two language codes such as en-it"),
        (["text.en", "text.it", "--valid", "a", "--valid", "b", "--valid", "c"], "--valid: expected one file with"),
        (["text.en", "a\nb"], "expected text without control characters"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments, "-o", "new/recipe.yaml")


def test_unknown_languages_are_used_with_a_warning(folder: Path) -> None:
    messages = init("text.en", "text.it", "--languages", "xx-yy")
    assert "warning: --languages: nmt has no words and no script of xx and yy, so the text is not compared" in messages
    assert "xx → yy, by --languages" in messages
    assert "no words and no script" not in init("text.en", "text.it", "--languages", "en-it", "-o", "known.yaml")


def test_stated_languages_win_with_a_warning(folder: Path) -> None:
    swapped(folder)
    messages = init("text.en", "text.it", "--languages", "en-it")
    assert "warning: the text is not in its languages" in messages
    recipe = load_recipe(Path("recipe.yaml"))
    assert recipe.languages.source == "en"
    assert recipe.data.accept_any_language  # otherwise nmt train would refuse the text


def test_changed_parts_are_not_replaced(folder: Path) -> None:
    init("text.en", "text.it")
    (folder / "recipe.yaml").unlink()
    with (folder / "split" / "train.en").open("a") as file:
        file.write("my own line\n")
    message = refused("text.en", "text.it")
    assert "split: expected a new or an empty folder, but it holds" in message


def test_errors_do_not_wait_for_torch(folder: Path) -> None:
    program = (
        "import sys, nmt.cli\ntry: nmt.cli.main()\nexcept SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "init", "text.en", "gone.it"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.stdout.split() == ["2", "False"], done.stderr


def test_digests_are_recorded(folder: Path) -> None:
    init("text.en", "text.it")
    marker = json.loads((folder / "split" / "split.json").read_text())
    assert marker["pairs"] == {"train": 360, "valid": 20, "test": 20}
    assert marker["files"].keys() == {f"{part}.{side}" for part in ("train", "valid", "test") for side in ("en", "it")}
