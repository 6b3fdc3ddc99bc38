"""The command line: the options. Each command calls the module of its name in `commands`.

Those are imported inside the functions, so that `--help` does not import torch.
"""

import signal
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from nmt import __version__
from nmt.system.command_process import errors_explained, quick_imports, run_to_exit
from nmt.system.help_pages import GENERAL, HelpPage, HelpPages

app = typer.Typer(
    name="nmt",
    no_args_is_help=True,
    cls=HelpPages,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
command = partial(app.command, cls=HelpPage)
file = partial(Option, metavar="FILE")

Config = Annotated[Path, Option("--config", "-c", metavar="RECIPE", help="The recipe, a YAML file.")]
Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key of the recipe; can be repeated."),
]
Model = Annotated[Path, Argument(metavar="MODEL", help="A run or a model directory.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only warnings and errors.", rich_help_panel=GENERAL)]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel=GENERAL)]


@app.callback(invoke_without_command=True)
def main_options(version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False) -> None:
    """Train a translator on your own text, translate with it, and measure how good it is."""
    if version:
        print(__version__)
        raise typer.Exit()


@command(epilog="Example: nmt init text.en text.it -o mine/recipe.yaml")
def init(
    text: Annotated[list[Path], Argument(metavar="SOURCE TARGET", help="The text; - reads TSV from standard input.")],
    languages: Annotated[
        str | None, Option(metavar="en-it", help="Source and target; default: by the file names, or by the text.")
    ] = None,
    output: Annotated[Path, Option("--output", "-o", metavar="RECIPE", help="The recipe.")] = Path("recipe.yaml"),
    valid: Annotated[list[Path] | None, file(help="Use this validation text; twice for two files.")] = None,
    test: Annotated[list[Path] | None, file(help="Use this test text; twice for two files.")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a recipe with settings that fit your text.

    The text is two files whose lines correspond, or files with both languages: TSV, CSV, TMX, XLIFF, PO or JSON lines.
    Validation and test text that is not given is set aside in a folder beside the recipe; the files themselves are not
    changed.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import init as module

        module.init(module.InitRequest(text, languages, output, valid or (), test or ()), console)


@command(epilog="Example: nmt prepare --config recipes/demo-en-it.yaml")
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


@command(epilog="Example: nmt train --config recipes/demo-en-it.yaml --set train.stop.hours=1")
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
                print(module.dry_run(recipe, console), end="")
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
    io("--model", "-m", metavar="DIR", help="A run or a model directory; default: $NMT_MODEL, else runs/latest."),
]
Input = Annotated[Path | None, io("--input", "-i", metavar="FILE", help="Read this file instead of stdin.")]
Output = Annotated[Path | None, io("--output", "-o", metavar="FILE", help="Write this file instead of stdout.")]
To = Annotated[str | None, io(metavar="CODE", help="Target language; required for a model that has several.")]
NBest = Annotated[int, io(min=1, metavar="K", help="Translations of each line, as rows of line, rank, log_prob, text.")]
Alignment = Annotated[bool, io("--alignment", help="Add the word alignment, as 0-0 1-2, source word first.")]
JsonLines = Annotated[bool, io("--json", help="Write one JSON object for each line.")]
DocumentFormat = Annotated[
    str | None,
    io("--format", metavar="NAME", help="text, srt, vtt, json, jsonl, csv, tsv, po or xliff; default: by --input."),
]
Column = Annotated[str | None, io(metavar="NAME|N", help="Column of a table, or key of JSON, to translate.")]
Into = Annotated[str | None, io(metavar="NAME|N", help="Column or key of the translation; default: that of --column.")]
Beam = Annotated[int | None, search(min=1, metavar="K", help="Hypotheses kept for each sentence; 1 is greedy search.")]
DecodeOverrides = Annotated[
    list[str] | None,
    search("--set", metavar="decode.KEY=VALUE", help="Change a setting of the model; can be repeated."),
]
GlossaryFile = Annotated[
    Path | None, search(metavar="TSV", help="Required translations of terms: source term, tab, target term.")
]
Prefixes = Annotated[Path | None, search(metavar="FILE", help="Required starts of the translations, line by line.")]
Device = Annotated[str, computation(metavar="DEVICE", help="auto, cuda, mps or cpu.")]
Threads = Annotated[
    int | None, computation(min=1, max=1024, metavar="N", help="CPU threads; default: one for each core.")
]
Precision = Annotated[str, computation(metavar="TYPE", help="auto, fp32, bf16, or on CPUs int8.")]
Engine = Annotated[
    Literal["torch", "ct2"] | None,
    computation(metavar="torch|ct2", help="Default: the one that the model was exported for, else torch."),
]
Reference = Annotated[
    Path | None, instead(metavar="FILE", help="Print the log_prob of these translations of the input lines.")
]
Verify = Annotated[bool, instead("--verify", help="Check that no translation depends on the other lines.")]


@command(epilog="Example: nmt translate --model runs/demo-en-it < text.en > text.it")
def translate(
    models: Models = None,
    source: Input = None,
    output: Output = None,
    to: To = None,
    n_best: NBest = 1,
    alignment: Alignment = False,
    json: JsonLines = False,
    document_format: DocumentFormat = None,
    column: Column = None,
    into: Into = None,
    beam: Beam = None,
    overrides: DecodeOverrides = None,
    glossary: GlossaryFile = None,
    prefixes: Prefixes = None,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "auto",
    engine: Engine = None,
    reference: Reference = None,
    verify: Verify = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate line by line, by default from stdin to stdout.

    Each line of input gives exactly one line of output. With --output, the same command resumes an interrupted one.
    Several models, each with --model, translate together. Subtitles, tables and files of localization are translated
    in place, unless --format text is given: nmt translate -i film.srt -o film.it.srt
    """
    with errors_explained(debug, quiet) as console:
        with quick_imports():
            from nmt.commands import translate as module
            from nmt.system.device import runtime_settings

        output = None if output == Path("-") else output
        request = module.TranslateRequest(
            models or (), source, output, beam, n_best, overrides or (), glossary, alignment, reference, prefixes, json,
            verify, document_format, column, into, to,
        )  # fmt: skip
        module.translate(request, runtime_settings(device, threads, precision), engine, console)


@command(epilog="Example: nmt score out.it test.it --baseline other.it --target-lang it")
def score(
    hypothesis: Annotated[Path, Argument(metavar="HYP", help="The translations; - reads standard input.")],
    references: Annotated[list[Path], Argument(metavar="REF", help="One or more reference translations.")],
    source: Annotated[Path | None, file(help="The source text of the translations; needed by comet.")] = None,
    target_lang: Annotated[str | None, Option(metavar="CODE", help="Language of the translations, such as zh.")] = None,
    metrics: Annotated[
        list[str] | None,
        Option("--metric", metavar="NAME", help="bleu, chrf, chrf++, ter, comet, comet:MODEL; default: bleu and chrf."),
    ] = None,
    systems: Annotated[
        list[Path] | None, file("--system", help="Translations by another system, in the same table; can be repeated.")
    ] = None,
    baseline: Annotated[Path | None, file(help="Translations to test the others against for significance.")] = None,
    confidence: Annotated[bool, Option("--confidence", help="Add 95 % confidence intervals.")] = False,
    by: Annotated[
        Literal["length"] | None, Option(metavar="length", help="Also score groups of lines of similar length.")
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

    The scores and their signatures are those of sacreBLEU and of COMET's own package. Options for metrics and systems
    can be repeated.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import score as module
        from nmt.system.console import printable

        options = module.ScoreOptions(
            metrics or module.ScoreOptions().metrics, target_lang, confidence, source, systems or (), baseline,
            by is not None, sentences, diagnose,
        )  # fmt: skip
        report = module.score(hypothesis, references, options, console)
        for warning in report.warnings:
            console.warn(warning)
        if report.language.notice:
            console.info(report.language.notice)
        print(printable(report.formatted("json" if json else table)))


@command(epilog="Example: nmt average runs/demo-en-it --best 3 -o averaged")
def average(
    models: Annotated[list[Path], Argument(metavar="RUN", help="A run, or several models.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="The model directory to write.")],
    last: Annotated[int | None, Option(min=1, metavar="K", help="Average the last K checkpoints of the run.")] = None,
    best: Annotated[int | None, Option(min=1, metavar="K", help="Average the best K checkpoints of the run.")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Average the weights of several checkpoints.

    The resulting model often translates better than each of them. Of a run, all of the best checkpoints that it keeps
    are averaged, unless --last or --best chooses some.
    """
    with errors_explained(debug, quiet) as console:
        from nmt.commands import average as module

        module.average(models, output, console, last, best)


@command(epilog="Example: nmt export runs/demo-en-it exported --to ctranslate2")
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


@command(epilog="Example: nmt report runs/demo-en-it -o report.html")
def report(
    run: Annotated[Path, Argument(metavar="RUN", help="A run, or with --reference a file of translations.")],
    output: Annotated[Path, file("--output", "-o", help="The page to write.")] = Path("report.html"),
    compare: Annotated[Path | None, Option(metavar="RUN", help="Another run or file to compare with.")] = None,
    reference: Annotated[Path | None, beside_files(help="Reference translations, for files of any system.")] = None,
    source: Annotated[Path | None, beside_files(help="The source text of the files; only with --reference.")] = None,
    glossary: Annotated[
        Path | None, file(help="Terms (source, tab, target) whose translations are counted; with --compare.")
    ] = None,
    validation_lines: Annotated[
        int | None, of_run(min=0, metavar="COUNT", help="Lines of the validation text to translate; default: 200.")
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


@command(epilog="Example: nmt figures figures --model runs/demo-en-it")
def figures(
    directory: Annotated[Path, Argument(metavar="DIR", help="The folder to write.")],
    recipe: Annotated[
        Path | None, Option("--recipe", "-c", metavar="RECIPE", help="Draw masks and padding of its prepared corpus.")
    ] = None,
    model: Annotated[
        Path | None, Option("--model", "-m", metavar="DIR", help="Draw its attention; of a run also curves and text.")
    ] = None,
    text: Annotated[str | None, Option(metavar="SENTENCE", help="The sentence whose attention is drawn.")] = None,
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

        module.figures(directory, recipe, model, text, console)


@command(epilog="Example: nmt inspect runs/demo-en-it --neighbours station")
def inspect(
    model: Model,
    neighbours: Annotated[
        str | None, Option(metavar="WORD", help="Show the pieces whose embeddings are nearest to that of a word.")
    ] = None,
    pieces: Annotated[str | None, Option(metavar="TEXT", help="Show how a text is cut into pieces.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what a model contains: parameters, tokenizer, limits, training, memory."""
    with errors_explained(debug, quiet):
        from json import dumps

        from nmt.commands import inspect as module

        content = module.inspect(model, neighbours, pieces)
        print(dumps(content, ensure_ascii=False, indent=2) if json else module.as_text(content))


def main() -> None:
    """Run the command line and end the process."""
    run_to_exit(app)
