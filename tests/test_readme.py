"""Every command, recipe and Python example of the README and of docs/ runs; files, keys and names in them exist."""

import operator
import os
import pkgutil
import random
import re
import runpy
import shlex
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from typer.main import get_command

from nmt.cli import app
from nmt.config import load_recipe
from nmt.report.concept_figures import formula_drawings
from nmt.text.tokenizer import EOS
from tests.model.reference_transformer import page as transformer_page

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8")
    for path in (REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md")))
    if path.name != "recipe.md"  # which is generated, and tested with the recipe
}
WRITTEN_BY_EXAMPLES = {"recipe.yaml", "manifest.json", "recipes/mine.yaml", "mine/recipe.yaml"}
SMALL_RECIPE = {
    r"vocab_size: \d+": "vocab_size: 1200",
    "encoder_layers: 2, decoder_layers: 2": "encoder_layers: 1, decoder_layers: 1",
    "batch_tokens: 1024": "batch_tokens: 512",
    "rate: 4e-3, warmup: 50": "rate: 5e-3, warmup: 40",
    r"steps: \d+": "steps: 140",
    r"validate_every: \d+": "validate_every: 140",
}


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], flags=re.MULTILINE | re.DOTALL)


def inline_code(page: str) -> set[str]:
    """Return the inline code of a page."""
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return {code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", prose)}


def run(script: str, folder: Path) -> str:
    """Run a shell script in a folder and return its stdout."""
    environment = {
        **os.environ,
        "PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHON_EXEC": str(folder / ".venv" / "bin" / "python"),  # for the processes of torchrun
    }
    environment.pop("NMT_MODEL", None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def free_port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def shortened(block: str) -> str:
    """Return the commands of a block as commands that take seconds: few steps, few processes, two local machines."""
    lines = []
    for line in block.splitlines():
        if line in ("make demo", "make setup") or line.startswith(". "):
            continue  # the first one runs for the fixture, the others build the environment of this test
        if line.startswith("nmt figures") and "--compare" not in line:
            continue  # the one of another page draws the same figures and more
        line = line.replace("--nproc-per-node 8", "--nproc-per-node 2")
        if "nmt train" in line:
            line += " --set train.stop.steps=3 --set train.validate_every=3 --set data.test=null"
        if "mine/recipe.yaml" in line and "nmt train" in line:
            line += " --set model.dim=32 --set model.feed_forward=64 --set model.encoder_layers=1"
        if "--nnodes 2" in line:
            line = line.replace("--nproc-per-node 2", "--nproc-per-node 1")
            assert "first-machine:29400" in line
            line = line.replace("first-machine:29400", f"localhost:{free_port()}")
            line = f"{line} & {line}; wait $!"
        lines.append(line)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def checkout(warm_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the repository with less text and smaller demo recipes, after `make demo`."""
    folder = tmp_path_factory.mktemp("checkout") / "nmt"
    for name in ("recipes", "data/demo", "Makefile", "pyproject.toml", "constraints.txt", "README.md"):
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for part, count in (("train", 2000), ("valid", 20), ("test", 40)):
        file = folder / "data" / "demo" / f"{part}.tsv"
        file.write_text("".join(file.read_text(encoding="utf-8").splitlines(True)[:count]), encoding="utf-8")
    for recipe in (folder / "recipes").glob("demo-*.yaml"):
        text = recipe.read_text(encoding="utf-8")
        for shipped, small in SMALL_RECIPE.items():
            text, found = re.subn(shipped, small, text)
            assert found == 1, shipped
        recipe.write_text(text, encoding="utf-8")
    programs = folder / ".venv" / "bin"
    programs.parent.mkdir()
    programs.symlink_to(warm_programs)
    # newer than the files that it depends on: nothing is installed
    (folder / ".venv" / ".ready").touch()
    (folder / "demo.out").write_text(run("make --no-print-directory demo", folder), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_make_demo_trains_and_scores_both_directions_and_shows_them_again(checkout: Path) -> None:
    """The models are smaller here; benchmarks/RESULTS.md has the scores of the shipped recipes."""
    printed = (checkout / "demo.out").read_text(encoding="utf-8")
    scores = [float(value) for value in re.findall(r"^BLEU +([\d.]+)", printed, flags=re.MULTILINE)]
    assert len(scores) == 2
    assert min(scores) >= 10, scores
    assert "tok:zh" in printed
    assert "tok:13a" in printed
    assert printed.startswith(run("make --no-print-directory demo-en-it", checkout))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run_in_order(checkout: Path, page: str) -> None:
    for block in blocks(page, "sh"):
        run(shortened(block), checkout)


@pytest.mark.skipif(not (REPOSITORY / "runs/demo-en-it/best").exists(), reason="needs runs/demo-en-it of make demo")
def test_outputs_on_the_pages_are_those_of_the_demo() -> None:
    """Their sentences were right with three seeds, in fp32 and bf16: so they are on every processor."""
    from nmt.text.glossary import Glossary
    from nmt.translation.translator import Translator

    translator = Translator.load(REPOSITORY / "runs" / "demo-en-it")
    options = replace(translator.options(), glossary=Glossary({"book": "libretto"}))
    shown = re.findall(r"echo '(.*)' \| nmt translate.*\n```\n\nThe output is `(.*?)`", PAGES["docs/translating.md"])
    shown += re.findall(r"echo '(.*)' \| nmt translate .*\n(.*)\n```", PAGES["README.md"])
    assert len(shown) == 3
    for source, text in shown:
        assert translator.translate(source, options).text == text
    questions = {sentence for page in PAGES.values() for sentence in re.findall(r"echo '([^']*\?)' \| nmt", page)}
    assert questions == {"Is there a hospital near the station?"}
    assert translator.translate(questions.pop()).text == "C'è un ospedale vicino alla stazione?"


@pytest.mark.slow
def test_python_examples_run(checkout: Path) -> None:
    first, *others = blocks("docs/python.md", "python")
    assert len(run(f"python -c {shlex.quote(first)}", checkout).splitlines()) == 3
    for example in others:
        assert run(f"python -c {shlex.quote(example)}", checkout)


@pytest.mark.slow
def test_reference_translates_with_a_model_of_the_checkout(checkout: Path) -> None:
    (program,) = [block for block in blocks("docs/transformer.md", "python") if "import" in block]
    expected = run("nmt translate --model runs/demo-en-it --beam 1 <<< 'Marco has an umbrella.'", checkout)
    assert run(f"PYTHONPATH={shlex.quote(str(REPOSITORY))} python -c {shlex.quote(program)}", checkout) == expected


def test_commands_for_text_that_is_not_here_are_valid() -> None:
    """They are parsed: those of two pages, those in the recipes, and one whose figures another page draws too."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    pages = PAGES["docs/wmt-en-zh.md"] + PAGES["docs/pretrained.md"]
    shown = re.findall(r"^nmt (.+)$", pages, flags=re.MULTILINE)
    assert len(shown) == 14
    shown += re.findall(r"^nmt (figures .+)$", PAGES["docs/transformer.md"], flags=re.MULTILINE)
    for recipe in (REPOSITORY / "recipes").glob("*.yaml"):
        own = re.findall(r"^#   nmt (.+)$", recipe.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert any(f"recipes/{recipe.name}" in line for line in own), recipe
        shown += own
    for name, *arguments in map(shlex.split, shown):
        parsed = commands[name].make_context(name, arguments).params
        for file in filter(None, [parsed.get("config")]):
            if str(file) != "software.yaml":  # which another command of the page writes
                load_recipe(REPOSITORY / file, parsed.get("overrides") or ())


def test_recipe_in_the_documentation_is_the_shipped_recipe(tmp_path: Path) -> None:
    shown, part = blocks("docs/training.md", "yaml")
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "shown.yaml").write_text(shown, encoding="utf-8")
    shutil.copy(REPOSITORY / "recipes" / "demo-en-it.yaml", recipes / "shipped.yaml")
    assert load_recipe(recipes / "shown.yaml") == load_recipe(recipes / "shipped.yaml")
    assert part in (REPOSITORY / "recipes" / "multi-demo-en-itzh.yaml").read_text(encoding="utf-8")


def test_data_section_in_the_documentation_is_valid(tmp_path: Path) -> None:
    shown = blocks("docs/data.md", "yaml")[0]
    content = {"languages": {"source": "en", "target": "it"}, "run": "run", **yaml.safe_load(shown)}
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert len(load_recipe(tmp_path / "shown.yaml").data.train) == 2


@pytest.mark.parametrize("page", PAGES)
def test_files_named_on_a_page_exist(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link}
    missing = {link for link in links if link and not (REPOSITORY / page).parent.joinpath(link).exists()}
    paths = {
        path for code in inline_code(page) for path in re.findall(r"^(?:[\w-]+/)*[\w.-]+\.(?:yaml|md|py|json)$", code)
    }
    for path in paths - WRITTEN_BY_EXAMPLES:
        if not any((REPOSITORY / folder / path).exists() for folder in ("", "recipes")):
            missing.add(path)
    assert missing - {"config.json", "metrics.jsonl", "progress.json", "test.json"} == set()


@pytest.mark.parametrize("page", PAGES)
def test_rows_of_a_table_have_as_many_cells_as_its_head(page: str) -> None:
    """A | in a cell ends it, also within inline code."""
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", prose, flags=re.MULTILINE):
        head, *rows = (len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines())
        assert rows == [head] * len(rows), table.splitlines()[0]


def test_modules_named_in_contributing_exist() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py)`", text)) - {"utils.py"}
    assert len(named) > 30
    assert {path for path in named if not any((REPOSITORY / folder / path).exists() for folder in ("", "nmt"))} == set()


@pytest.mark.parametrize("page", PAGES)
def test_recipe_keys_named_on_a_page_exist(page: str) -> None:
    reference = (REPOSITORY / "docs" / "recipe.md").read_text(encoding="utf-8")
    known: set[str] = set()
    for section in reference.split("\n## ")[1:]:
        names = re.findall(r"`([\w.]+)`", section.partition("\n")[0]) or [""]
        keys = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
        known |= {f"{names[0]}.{key}".removeprefix(".") for key in keys} | set(names)
    sections = "data|tokenizer|model|train|decode|runtime"
    named = {key for code in inline_code(page) for key in re.findall(rf"^((?:{sections})\.[a-z_.]+)", code)}
    assert {key for key in named - known if not key.endswith((".model", ".safetensors"))} == set()


@pytest.mark.parametrize("page", PAGES)
def test_python_names_on_a_page_exist(page: str) -> None:
    for code in inline_code(page):
        if re.fullmatch(r"nmt(\.\w+){2,}", code):
            pkgutil.resolve_name(code)


def test_map_of_the_paper_has_each_section_and_the_code_of_each_figure() -> None:
    page = PAGES["docs/transformer.md"]
    sections = re.findall(r"^## ([\d.]+) ", page, flags=re.MULTILINE)
    assert sections == ["3.1", "3.2", "3.3", "3.4", "3.5", "4", "5.1", "5.2", "5.3", "5.4", "6.1"]
    named = inline_code("docs/transformer.md")
    assert {drawing.code for drawing in formula_drawings()} <= named
    assert len([code for code in named if code.startswith("nmt.")]) > 25


def test_images_are_small_and_each_is_shown() -> None:
    images = {path.name: path.stat().st_size for path in (REPOSITORY / "docs" / "images").iterdir()}
    assert sum(images.values()) <= 1_500_000
    shown = {Path(link).name for text in PAGES.values() for link in re.findall(r"images/([^)\"]+)", text)}
    assert set(images) == shown


def test_code_of_the_page_on_the_transformer_is_that_of_its_file() -> None:
    page = PAGES["docs/transformer.md"]
    assert runpy.run_path(str(REPOSITORY / "docs" / "generate_code.py"))["with_code"](page) == page, "run: make schema"
    assert page.count("<!-- code: ") >= 15


@pytest.mark.slow
def test_the_page_on_the_transformer_learns_to_copy_and_runs_on_text(tmp_path: Path) -> None:
    generator = random.Random(1)
    sentences = [[generator.randint(4, 11) for _ in range(generator.randint(1, 4))] for _ in range(2000)]
    torch.manual_seed(1)
    random.seed(1)  # the order of the batches: of ten, one ends with a model that is still wrong
    settings = transformer_page.Settings(layers=1, dim=64, feed_forward=128, dropout=0.0, norm="pre")
    model = transformer_page.Transformer(settings, 12)
    transformer_page.train(model, [(ids, ids) for ids in sentences], updates=400, warmup=200, tokens=400)
    unseen = [[generator.randint(4, 11) for _ in range(4)] for _ in range(50)]
    source = torch.tensor([[*ids, EOS] for ids in unseen])
    greedy = transformer_page.greedy_search(model, source, longest=10)
    assert sum(map(operator.eq, greedy, unseen)) >= 0.95 * len(unseen)
    best = [transformer_page.beam_search(model, row.unsqueeze(0), beam=3, longest=10) for row in source]
    assert sum(map(operator.eq, best, unseen)) >= 0.95 * len(unseen)

    for name, lines in (("train.tsv", 3000), ("test.tsv", 3)):
        rows = (REPOSITORY / "data" / "demo" / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(rows[:lines]), encoding="utf-8")
    assert 0 <= transformer_page.main(tmp_path, updates=3) <= 100
