"""The command line and its options. Each command calls the module of the same name in `commands`.

Commands with many options define them in `commands.requests`. The other modules of `commands` are imported inside the
functions, so that `--help` does not import torch.
"""

import os
from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from nmt import __version__
from nmt.commands.requests import InitRequest, ReportRequest, ScoreOptions, ServeRequest, TranslateRequest, file
from nmt.errors import ConfigError, check_installed
from nmt.system.command_process import errors_explained, quick_imports, run_to_exit

if TYPE_CHECKING:
    from nmt.system.console import Console


class Commands(TyperGroup):
    """The help page of all commands, in plain text: the import of rich would double its time."""

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the page of `nmt --help`."""
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="nmt",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

Config = Annotated[Path | None, Option("--config", "-c", metavar="RECIPE", help="The recipe, a YAML file.")]
RecipeFile = Annotated[Path | None, Argument(metavar="RECIPE", help="The recipe, in place of --config.")]
Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key of the recipe; can be repeated."),
]
Model = Annotated[Path, Argument(metavar="MODEL", help="A run or a model directory.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only warnings and errors.", rich_help_panel="General")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel="General")]


def command(epilog: str) -> Callable[[Callable[..., None]], None]:
    """Return a decorator that makes a function a command; its first parameter receives the console.

    The other parameters are arguments and options; a parameter of a NamedTuple type stands for the fields of that type.
    """

    def add(function: Callable[..., None]) -> None:
        parameters = list(signature(function).parameters.values())[1:]
        types = {parameter.name: parameter.annotation for parameter in parameters}
        requests = {name: request for name, request in types.items() if hasattr(request, "_fields")}

        def run(quiet: Quiet = False, debug: Debug = False, **values: Any) -> None:
            with errors_explained(debug, quiet) as console:
                for name, request in requests.items():
                    values[name] = request(*[values.pop(field) for field in request._fields])
                function(console, **values)

        options: list[Parameter] = []
        for parameter in parameters:
            request = requests.get(parameter.name)
            options += signature(request).parameters.values() if request else [parameter]
        options += list(signature(run).parameters.values())[:2]
        by_name = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
        run.__signature__ = Signature(by_name)  # type: ignore[attr-defined]  # Typer reads this attribute
        paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
        texts = [" ".join(paragraph.split()) for paragraph in paragraphs]
        name = function.__name__.rstrip("_")
        app.command(name, help="\n\n".join(texts), short_help=texts[0], epilog=epilog)(run)

    return add


def given_recipe(*files: Path | None) -> Path:
    """Return the one recipe that is given, as an argument or an option. Raises ConfigError."""
    if len(given := list(filter(None, files))) != 1:
        raise ConfigError(f"expected one recipe, found {len(given)}; give its file, as in --config RECIPE")
    return given[0]


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False
) -> None:
    """Train a translator on your own text, translate with it, and measure how good it is."""
    if version or context.invoked_subcommand is None:
        print(__version__ if version else context.get_help())
        raise typer.Exit(0 if version else 2)


@command(epilog="Example: nmt init text.en text.it -o mine/recipe.yaml")
def init(console: "Console", request: InitRequest) -> None:
    """Write a recipe with settings that fit your text.

    The text is two files whose lines correspond, or files with both languages: TSV, CSV, JSON lines, TMX, XLIFF or PO.
    Pairs for the validation and the test text, unless these are given, are copied to files beside the recipe; the text
    itself is not changed.
    """
    from nmt.commands import init as module

    module.init(request, console)


@command(epilog="Example: nmt prepare --config mine/recipe.yaml")
def prepare(
    console: "Console",
    recipe_file: RecipeFile = None,
    config: Config = None,
    overrides: Overrides = None,
    force: Annotated[bool, Option("--force", help="Prepare again even if nothing has changed.")] = False,
    dry: Annotated[bool, Option("--dry-run", help="Show what the rules remove; write no corpus.")] = False,
    rejected: Annotated[Path | None, file(help="Write the removed pairs: rule, file, line, both sides.")] = None,
) -> None:
    """Filter and tokenize the texts of the recipe for training."""
    with quick_imports():
        from nmt.commands import prepare as module
        from nmt.config import load_recipe
        from nmt.system.files import check_output

    file_of_recipe = given_recipe(recipe_file, config)
    if rejected is not None:
        check_output(rejected, [file_of_recipe])
    recipe = load_recipe(file_of_recipe, overrides or ())
    if dry:
        module.dry_run(recipe, console, rejected)
    else:
        module.prepare(recipe, console, force, rejected=rejected)


@command(epilog="Example: nmt train --config mine/recipe.yaml --set train.stop.hours=1")
def train(
    console: "Console",
    recipe_file: RecipeFile = None,
    config: Config = None,
    overrides: Overrides = None,
    restart: Annotated[bool, Option("--restart", help="Delete the run's checkpoints and start from step 0.")] = False,
    dry: Annotated[bool, Option("--dry-run", help="Prepare, then estimate memory and time; train nothing.")] = False,
) -> None:
    """Train the model of the recipe. Prepares the corpus if needed; resumes the run if it exists."""
    from nmt.config import Recipe, load_recipe

    def check(recipe: Recipe) -> None:  # called after the checks of the recipe itself, since torch loads slowly
        with console.status("loading torch"):
            from nmt.commands.train import check_settings
        check_settings(recipe)

    recipe = load_recipe(given_recipe(recipe_file, config), overrides or (), check)
    if restart and "RANK" in os.environ:
        raise ConfigError(
            "--restart: not with torchrun, which starts these processes again when one ends or a machine joins, and "
            f"so would remove the training again; remove {recipe.run} before, and leave --restart out"
        )
    from nmt.commands import train as module
    from nmt.kernels.device import choose_device
    from nmt.system.distributed import connect

    with connect(choose_device(recipe.runtime)):
        if dry:
            print(module.dry_run(recipe, console, restart), end="")
            return
        _, signal = module.train(recipe, console, restart)
    if signal is not None:
        raise typer.Exit(128 + signal)


@command(epilog="Example: nmt translate --model mine/run < text.en > text.it")
def translate(console: "Console", request: TranslateRequest) -> None:
    """Translate line by line, by default from stdin to stdout.

    Each line of input gives exactly one line of output. With --output, the same command resumes an interrupted
    translation. Several models, each with --model, are averaged. In subtitles, tables, HTML, Markdown and localization
    files, only the texts are translated, unless --format text is given: nmt translate -i film.srt -o it.srt
    """
    if request.text:
        given = quote(" ".join(request.text))
        is_file = os.path.isfile(request.text[0])  # False for a text that is no name
        advice = f"nmt translate --input {given}" if is_file else f"echo {given} | nmt translate"
        raise ConfigError(f"text is read from standard input, or from --input FILE: {advice}")
    with quick_imports():
        from nmt.commands import translate as module

    module.translate(request, console)


@command(epilog="Example: nmt serve --model mine/run")
def serve(console: "Console", request: ServeRequest) -> None:
    """Serve translations to clients of LibreTranslate, and a web page.

    Only programs on this machine can connect, unless --host gives another address. Ctrl-C ends the server after it has
    answered the accepted requests.
    """
    for package in ("starlette", "uvicorn", "python_multipart"):
        check_installed(package, ", which the server needs (the extra `serve`),")
    with quick_imports():
        from nmt.commands import serve as module

    module.serve(request, console)


@command(epilog="Example: nmt score out.it test.it --baseline other.it --target-lang it")
def score(
    console: "Console",
    hypothesis: Annotated[Path, Argument(metavar="HYP", help="The translations; - reads standard input.")],
    options: ScoreOptions,
    references: Annotated[
        list[Path] | None, Argument(metavar="REF", help="References; none, with --source, to search for faults only.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score translations against references: BLEU, chrF and TER.

    The scores and their signatures are those of sacreBLEU. Options for metrics and systems can be repeated.
    """
    from nmt.commands import score as module
    from nmt.system.console import printable

    report = module.score(hypothesis, references or [], options, console)
    for warning in report.warnings:
        console.warn(warning)
    if report.language.notice and report.systems[0].scores:
        console.info(report.language.notice)
    print(printable(report.as_json() if json else report.as_text()))


@command(epilog="Example: nmt average mine/run --best 3 -o averaged")
def average(
    console: "Console",
    models: Annotated[list[Path], Argument(metavar="RUN", help="A run, or several models.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="The model directory to write.")],
    last: Annotated[int | None, Option(min=1, metavar="K", help="Average the last K checkpoints of the run.")] = None,
    best: Annotated[int | None, Option(min=1, metavar="K", help="Average the best K checkpoints of the run.")] = None,
) -> None:
    """Average the weights of several checkpoints.

    By default, all best checkpoints that a run keeps are averaged; --last or --best selects some of them. Compare the
    scores of the averaged model with those of the checkpoints.
    """
    from nmt.commands import average as module

    module.average(models, output, console, last, best)


@command(epilog="Example: nmt export mine/run exported --to ctranslate2")
def export(
    console: "Console",
    model: Model,
    output: Annotated[Path, Argument(metavar="DIR", help="The directory to write.")],
    to: Annotated[
        Literal["ctranslate2", "hf"], Option(metavar="NAME", help="ctranslate2, or hf for Hugging Face transformers.")
    ],
    quantization: Annotated[
        str, Option(metavar="TYPE", help="Type of the weights for ctranslate2: float32, int8, int8_float32, …")
    ] = "float32",
    lines: Annotated[Path | None, file(help="Compare log-probabilities on these lines.")] = None,
) -> None:
    """Convert a model for CTranslate2 or Hugging Face transformers.

    The log-probabilities of both models are compared first; if they differ too much, nothing is written.
    """
    check_installed("transformers" if to == "hf" else to)
    from nmt.commands import conversion as module

    module.export(model, output, to, quantization, lines, console)


@command(epilog="Example: nmt import opus-mt-en-it -o models/opus-en-it")
def import_(
    console: "Console",
    model: Annotated[Path, Argument(metavar="DIR", help="A Marian model of Hugging Face or OPUS, perhaps a zip.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="The model directory to write.")],
    languages: Annotated[
        str | None, Option(metavar="SOURCE-TARGET", help="As in en-it, if the model does not state the languages.")
    ] = None,
) -> None:
    """Convert a pretrained Marian model, such as one of OPUS-MT, to translate with it or to train it further.

    The result computes the same function as the original. No code in the original is executed.
    """
    from nmt.commands import conversion as module

    module.import_model(model, output, languages, console)


@command(epilog="Example: nmt runs --sort test")
def runs(
    console: "Console",
    folders: Annotated[list[Path] | None, Argument(metavar="DIR", help="Folders of runs; default: runs.")] = None,
    sort: Annotated[
        Literal["validation", "test", "name", "minutes"], Option(help="The order of the runs.")
    ] = "validation",
    json: Annotated[bool, Option("--json", help="Print all that is known about each run as JSON.")] = False,
) -> None:
    """Show a table of runs: the settings that differ, what each run costs, and its scores."""
    from json import dumps

    from nmt.commands import runs as module

    rows = module.runs(folders or [Path("runs")], sort)
    if json:
        print(dumps(rows, ensure_ascii=False, indent=2))
    else:
        module.print_rows(rows)


@command(epilog="Example: nmt report mine/run -o report.html")
def report(console: "Console", request: ReportRequest) -> None:
    """Write one HTML page about a run: translations, curves, data and attention; or compare several runs or systems."""
    check_installed("matplotlib", ", which draws the figures,")
    from nmt.commands import report as module

    module.report(request, console)


@command(epilog="Example: nmt figures figures --model mine/run")
def figures(
    console: "Console",
    directory: Annotated[Path, Argument(metavar="DIR", help="The folder to write.")],
    recipe: Annotated[
        Path | None, Option("--recipe", "-c", metavar="RECIPE", help="Draw its schedule; of its corpus masks, padding.")
    ] = None,
    model: Annotated[
        Path | None, Option("--model", "-m", metavar="DIR", help="Draw its attention; of a run also curves and text.")
    ] = None,
    compare: Annotated[Path | None, Option(metavar="RUN2", help="Draw its curves over those of --model.")] = None,
    text: Annotated[
        str | None, Option(metavar="SENTENCE", help="The sentence whose attention and search are drawn.")
    ] = None,
) -> None:
    """Draw the classic figures of the Transformer, as PNG and SVG.

    Attention, masks, position encodings, schedules, label smoothing, padding, training curves and search.
    """
    check_installed("matplotlib", ", which draws the figures,")
    from nmt.commands import figures as module

    module.figures(directory, recipe, model, compare, text, console)


@command(epilog="Example: nmt inspect mine/run")
def inspect(
    console: "Console",
    model: Model,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a model contains: parameters, tokenizer, limits, training, memory."""
    from json import dumps

    from nmt.commands import inspect as module

    content = module.inspect(model)
    print(dumps(content, ensure_ascii=False, indent=2) if json else module.as_text(content))


def main() -> None:
    """Run the command line and end the process."""
    run_to_exit(app)
