"""The command line: the options. Each command calls the module of its name in `commands`.

Those are imported inside the functions, so that `--help` does not import torch.
"""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer import Argument, Option

from nmt import __version__
from nmt.system.command_process import errors_explained, quick_imports, run_to_exit
from nmt.system.help_pages import GENERAL, HelpPage, HelpPages

app = typer.Typer(
    name="nmt",
    help="Train a translator on your own text, translate with it, and measure how good it is.",
    no_args_is_help=True,
    cls=HelpPages,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

Function = TypeVar("Function", bound=Callable[..., Any])

file = partial(Option, metavar="FILE")

Config = Annotated[Path, Option("--config", "-c", help="The recipe, a YAML file.", metavar="RECIPE")]
Overrides = Annotated[
    list[str] | None,
    Option("--set", help="Change one key of the recipe; can be repeated.", metavar="SECTION.KEY=VALUE"),
]
Model = Annotated[Path, Argument(metavar="MODEL", help="A run or a model directory.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only warnings and errors.", rich_help_panel=GENERAL)]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel=GENERAL)]


def command(example: str) -> Callable[[Function], Function]:
    """Return a decorator that makes a function a command; its help page ends with the example."""
    return app.command(cls=HelpPage, epilog=f"Example: {example}")


@app.callback(invoke_without_command=True)
def main_options(
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train a translator on your own text, translate with it, and measure how good it is."""
    if version:
        print(__version__)
        raise typer.Exit()


@command("nmt init text.en text.it -o mine/recipe.yaml")
def init(
    text: Annotated[
        list[Path],
        Argument(
            metavar="SOURCE TARGET",
            help="Two files whose lines correspond, or files with both languages: TSV, CSV, TMX, XLIFF, PO or JSON "
            "lines; - reads TSV from standard input.",
        ),
    ],
    languages: Annotated[
        str | None,
        Option(metavar="en-it", help="Source and target language; default: by the names of the files, or by the text."),
    ] = None,
    output: Annotated[Path, Option("--output", "-o", metavar="RECIPE", help="The recipe to write.")] = Path(
        "recipe.yaml"
    ),
    valid: Annotated[
        list[Path] | None, file(help="Validation text, instead of a part of the text; twice for two files.")
    ] = None,
    test: Annotated[
        list[Path] | None, file(help="Test text, instead of a part of the text; twice for two files.")
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a recipe with settings that fit your text.

    Validation and test text are set aside in a folder beside the recipe; the files themselves are not changed.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import init as module

        module.init(module.InitRequest(text, languages, output, valid or (), test or ()), console)


@command("nmt prepare --config recipes/demo-en-it.yaml")
def prepare(
    config: Config,
    overrides: Overrides = None,
    force: Annotated[bool, Option("--force", help="Prepare again even if nothing has changed.")] = False,
    shard: Annotated[str | None, Option(metavar="I/N", help="Do only part I of N, on one of N machines.")] = None,
    dry: Annotated[bool, Option("--dry-run", help="Show what the rules remove; write no corpus.")] = False,
    rejected: Annotated[Path | None, file(help="Write the removed pairs: rule, file, line, both sides.")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Filter and tokenize the texts of the recipe for training."""
    with errors_explained(debug, quiet) as console:
        from nmt.commands import prepare as module
        from nmt.config import load_recipe
        from nmt.text.preparing.stages import Shard

        module.check_options(config, force, shard, dry, rejected)
        recipe = load_recipe(config, overrides or ())
        if dry:
            module.dry_run(recipe, console, rejected)
        elif shard is not None:
            module.prepare_shard(recipe, console, Shard.parse(shard))
        else:
            module.prepare(recipe, console, force, rejected=rejected)


@command("nmt train --config recipes/demo-en-it.yaml --set train.stop.hours=1")
def train(
    config: Config,
    overrides: Overrides = None,
    restart: Annotated[bool, Option("--restart", help="Delete the run's checkpoints and start from step 0.")] = False,
    dry: Annotated[bool, Option("--dry-run", help="Estimate memory and time; train nothing.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train the model of the recipe. Prepares the corpus if needed; resumes the run if it exists."""
    with errors_explained(debug, quiet) as console:
        with console.status("loading torch"):
            from nmt.commands import train as module
            from nmt.config import load_recipe
            from nmt.system.distributed import connect, is_restarted

        signal.signal(signal.SIGUSR1, lambda *_: None)  # ignored until there is something to save
        recipe = load_recipe(config, overrides or (), module.check_settings)
        with connect(recipe.runtime):
            if dry:
                if report := module.dry_run(recipe, console):
                    print(report)
                return
            outcome = module.train(recipe, console, restart and not is_restarted())
    if outcome.signal is not None:
        raise typer.Exit(128 + outcome.signal)


# options of `nmt translate`, by the headings of its help page
io = partial(Option, rich_help_panel="Input and output")
search = partial(Option, rich_help_panel="Search")
computation = partial(Option, rich_help_panel="Computation")
instead = partial(Option, rich_help_panel="In place of translating")

Models = Annotated[
    list[Path] | None,
    io("--model", "-m", metavar="DIR", help="A run or a model directory; default: $NMT_MODEL, else runs/latest. Repeat "
       "it to translate with several models together."),
]  # fmt: skip
Input = Annotated[Path | None, io("--input", "-i", metavar="FILE", help="Read this file instead of stdin.")]
Output = Annotated[Path | None, io("--output", "-o", metavar="FILE", help="Write this file instead of stdout.")]
To = Annotated[
    str | None, io(metavar="CODE", help="Target language, such as zh; required for a model that has several.")
]
NBest = Annotated[int, io(min=1, metavar="K", help="Translations of each line, as rows of line, rank, log_prob, text.")]
Alignment = Annotated[bool, io("--alignment", help="Add the word alignment, as 0-0 1-2, source word first.")]
Json = Annotated[bool, io("--json", help="Write one JSON object for each line.")]
DocumentFormat = Annotated[
    str | None,
    io("--format", metavar="NAME", help="text, or a file whose texts are translated in place: srt, vtt, json, jsonl, "
       "csv, tsv, po or xliff; default: by the name of --input."),
]  # fmt: skip
Column = Annotated[
    str | None, io(metavar="NAME|N", help="Column of a table to translate, by name or number, or key of JSON.")
]
Into = Annotated[
    str | None,
    io(metavar="NAME|N", help="Column or key for the translation, which is added if it does not exist; default: that "
       "of --column."),
]  # fmt: skip
Beam = Annotated[int | None, search(min=1, metavar="K", help="Hypotheses kept for each sentence; 1 is greedy search.")]
DecodeOverrides = Annotated[
    list[str] | None,
    search("--set", metavar="decode.KEY=VALUE", help="Change a setting of the model, such as "
           "decode.length_penalty=0.6; can be repeated."),
]  # fmt: skip
GlossaryFile = Annotated[
    Path | None,
    search(metavar="TSV", help="Required translations of terms; a line is source term, tab, target term."),
]
Prefixes = Annotated[
    Path | None,
    search(metavar="FILE", help="Required starts of the translations, one for each input line; a start may be empty."),
]
Device = Annotated[str, computation(metavar="DEVICE", help="auto, cuda, mps or cpu.")]
Threads = Annotated[
    int | None, computation(min=1, max=1024, metavar="N", help="CPU threads; default: one for each core.")
]
Precision = Annotated[str, computation(metavar="TYPE", help="auto, fp32, bf16, or on CPUs int8.")]
Engine = Annotated[
    Literal["torch", "ct2"] | None,
    computation(metavar="torch|ct2", help="The program that translates; default: the one that the model was exported "
                "for, else torch."),
]  # fmt: skip
Reference = Annotated[
    Path | None,
    instead(metavar="FILE", help="Score these translations, one for each input line, instead of translating."),
]
Verify = Annotated[
    bool, instead("--verify", help="Only check that a line's translation does not depend on the other lines.")
]


@command("nmt translate --model runs/demo-en-it < text.en > text.it")
def translate(
    model: Models = None,
    source: Input = None,
    output: Output = None,
    to: To = None,
    beam: Beam = None,
    n_best: NBest = 1,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "auto",
    engine: Engine = None,
    overrides: DecodeOverrides = None,
    glossary: GlossaryFile = None,
    alignment: Alignment = False,
    reference: Reference = None,
    prefixes: Prefixes = None,
    json: Json = False,
    verify: Verify = False,
    document_format: DocumentFormat = None,
    column: Column = None,
    into: Into = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate line by line, by default from stdin to stdout.

    Each line of input gives exactly one line of output. With --output, the same command resumes an interrupted one.
    Subtitles, tables and files of localization are translated in place: nmt translate -i film.srt -o film.it.srt
    """
    with errors_explained(debug, quiet) as console:
        with quick_imports():
            from nmt.commands import translate as module
            from nmt.system.device import runtime_settings

        request = module.TranslateRequest(
            model or (), source, output, beam, n_best, overrides or (), glossary, alignment, reference, prefixes, json,
            verify, document_format, column, into, to,
        )  # fmt: skip
        module.translate(request, runtime_settings(device, threads, precision), engine, console)


@command("nmt score out.it test.it --baseline other.it --target-lang it")
def score(
    hypothesis: Annotated[Path, Argument(metavar="HYP", help="The translations; - reads standard input.")],
    references: Annotated[list[Path], Argument(metavar="REF", help="One or more reference translations.")],
    source: Annotated[Path | None, file(help="The source text of the translations; needed by comet.")] = None,
    target_lang: Annotated[str | None, Option(help="Language of the translations, such as zh.", metavar="CODE")] = None,
    metric: Annotated[
        list[str] | None,
        Option(
            help="bleu, chrf, chrf++, ter, comet or comet:MODEL; can be repeated; default: bleu and chrf.",
            metavar="NAME",
        ),
    ] = None,
    system: Annotated[
        list[Path] | None, file(help="Translations by another system, scored in the same table; can be repeated.")
    ] = None,
    baseline: Annotated[Path | None, file(help="Translations to test the others against for significance.")] = None,
    confidence: Annotated[bool, Option("--confidence", help="Add 95 % confidence intervals.")] = False,
    by: Annotated[
        Literal["length"] | None,
        Option(metavar="length", help="Also score groups of lines, by the length of the source or reference."),
    ] = None,
    sentences: Annotated[Path | None, file(help="Write the scores of each line, as TSV or .json.")] = None,
    diagnose: Annotated[Path | None, file(help="Write the faults that are counted on stderr, as TSV or .json.")] = None,
    table: Annotated[
        Literal["text", "markdown", "tsv", "json"],
        Option("--format", metavar="NAME", help="text, markdown, tsv or json."),
    ] = "text",
    json: Annotated[bool, Option("--json", help="The same as --format json.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Score translations against references: BLEU, chrF, TER and COMET.

    The scores and their signatures are those of sacreBLEU and of COMET's own package.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import score as module
        from nmt.system.console import printable

        metrics = tuple(metric or module.ScoreOptions().metrics)
        options = module.ScoreOptions(
            metrics, target_lang, confidence, source, tuple(system or ()), baseline, by is not None, sentences, diagnose
        )
        report = module.score(hypothesis, references, options, console)
        for warning in report.warnings:
            console.warn(warning)
        if report.language.notice:
            console.info(report.language.notice)
        print(printable(report.formatted("json" if json else table)))


@command("nmt average runs/demo-en-it --best 3 -o averaged")
def average(
    models: Annotated[list[Path], Argument(metavar="RUN", help="A run, or several models.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="The model directory to write.")],
    last: Annotated[int | None, Option(min=1, help="Average the last K checkpoints of the run.", metavar="K")] = None,
    best: Annotated[
        int | None, Option(min=1, help="Average the best K checkpoints; default: all that the run keeps.", metavar="K")
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Average the weights of several checkpoints.

    The resulting model often translates better than each of them.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import average as module

        module.average(models, output, console, last, best)


@command("nmt export runs/demo-en-it exported --to ctranslate2")
def export(
    model: Model,
    output: Annotated[Path, Argument(metavar="DIR", help="The directory to write.")],
    to: Annotated[
        Literal["ctranslate2", "hf"], Option(metavar="NAME", help="ctranslate2, or hf for Hugging Face transformers.")
    ],
    quantization: Annotated[
        str, Option(metavar="TYPE", help="Type of the weights for ctranslate2: float32, int8, int8_float32, …")
    ] = "float32",
    lines: Annotated[Path | None, file(help="Compare the translations of these lines.")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Convert a model for CTranslate2 or Hugging Face transformers.

    The translations of both are compared first; if they differ too much, nothing is written.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import export as module

        module.export(model, output, to, quantization, lines, console)


of_run = partial(Option, rich_help_panel="For runs")
beside_files = partial(file, rich_help_panel="For files of translations")


@command("nmt report runs/demo-en-it -o report.html")
def report(
    run: Annotated[
        Path, Argument(metavar="RUN", help="The run to describe, or with --reference a file of translations.")
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path("report.html"),
    compare: Annotated[
        Path | None,
        Option(metavar="RUN", help="Another run to compare with, or with --reference another file of translations."),
    ] = None,
    reference: Annotated[
        Path | None, beside_files(help="Reference translations for files of translations of any system.")
    ] = None,
    source: Annotated[Path | None, beside_files(help="The source text of the files; only with --reference.")] = None,
    glossary: Annotated[
        Path | None, file(help="Terms (source, tab, target) whose translations are counted; with --compare.")
    ] = None,
    validation_lines: Annotated[
        int | None,
        of_run(min=0, metavar="COUNT", help="How many lines of the validation text to translate; default: 200."),
    ] = None,
    line: Annotated[
        list[int] | None,
        of_run(min=1, metavar="N", help="Draw attention and search of line N of the test text; can be repeated."),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one HTML page about a run: its course, data, quality and attention; or compare two systems."""
    with errors_explained(debug, quiet) as console:
        from nmt.commands import report as module

        texts = reference, source, glossary
        module.report(module.ReportRequest(run, output, compare, line or (), validation_lines, *texts), console)


@command("nmt figures figures --model runs/demo-en-it")
def figures(
    directory: Annotated[Path, Argument(metavar="DIR", help="The folder to write.")],
    recipe: Annotated[
        Path | None, Option("--recipe", "-c", metavar="RECIPE", help="Draw masks and padding of its prepared corpus.")
    ] = None,
    model: Annotated[
        Path | None,
        Option(
            "--model", "-m", metavar="DIR", help="Draw the attention of a model; of a run also its curves and text."
        ),
    ] = None,
    text: Annotated[str | None, Option(help="The sentence whose attention is drawn.", metavar="SENTENCE")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw the classic figures of the Transformer, as PNG and SVG.

    Position encodings, schedules, label smoothing, masks, padding, attention and training curves.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.report import check_matplotlib

        check_matplotlib()
        from nmt.commands import figures as module

        module.figures(module.FigureRequest(directory, recipe, model, text), console)


@command("nmt inspect runs/demo-en-it --neighbours station")
def inspect(
    model: Model,
    neighbours: Annotated[
        str | None, Option(help="Show the pieces whose embeddings are nearest to that of a word.", metavar="WORD")
    ] = None,
    pieces: Annotated[str | None, Option(help="Show how a text is cut into pieces.", metavar="TEXT")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what a model contains: parameters, tokenizer, limits, training, memory."""
    with errors_explained(debug, quiet):
        from json import dumps

        from nmt.commands import inspect as module
        from nmt.system.console import printable, with_relative_paths

        found = module.inspect(model, neighbours, pieces)
        text = dumps(found.content, ensure_ascii=False, indent=2) if json else with_relative_paths(found.as_text())
        print(text if json else printable(text))


def main() -> None:
    """Run the command line and end the process."""
    run_to_exit(app)


if __name__ == "__main__":
    main()
