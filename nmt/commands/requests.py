"""The options of commands that have many: a class for each command, whose fields are arguments and options.

Typer reads them as it reads the parameters of a function (`nmt.cli.command`). An input or output that is None is
standard input or output.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from typer import Argument, Option

file = partial(Option, metavar="FILE")
size = partial(Option, min=1, metavar="N")


class InitRequest(NamedTuple):
    """The options of `nmt init`. A text is a file of sources and a file of targets, or files with both languages."""

    text: Annotated[list[Path], Argument(metavar="SOURCE TARGET", help="The text.")]
    languages: Annotated[
        str | None, Option(metavar="en-it", help="Source and target; default: by the file names, or by the text.")
    ] = None
    output: Annotated[Path, Option("--output", "-o", metavar="RECIPE", help="The recipe.")] = Path("recipe.yaml")
    valid: Annotated[list[Path] | None, file(help="Use this validation text; twice for two files.")] = None
    test: Annotated[list[Path] | None, file(help="Use this test text; twice for two files.")] = None
    valid_size: Annotated[int | None, size(help="Pairs to hold out for validation; default: by the text.")] = None
    test_size: Annotated[int | None, size(help="Pairs to hold out for the test; default: by the text.")] = None
    minutes: Annotated[
        float | None,
        Option(min=0.1, max=1e8, metavar="N", help="Time of training on this machine; default: by the text."),
    ] = None

    initial: Annotated[
        Path | None, Option("--from", metavar="MODEL", help="Fine-tune this model or run, with its tokenizer.")
    ] = None
    new_pieces: Annotated[int | None, size(help="Add at most N pieces of the text to its vocabulary.")] = None

    @property
    def prefix(self) -> str:
        """Return the start of the names beside the recipe: none for `recipe.yaml`."""
        return "" if self.output.stem == "recipe" else f"{self.output.stem}."

    @property
    def held_out(self) -> dict[str, Path]:
        """The files to write for the validation and the test text, by `valid` and `test`, unless these are given."""
        parts = [part for part, given in (("valid", self.valid), ("test", self.test)) if not given]
        return {part: self.output.with_name(f"{self.prefix}{part}.tsv") for part in parts}


# the headings of the help page of `nmt translate`
io = partial(Option, rich_help_panel="Input and output")
search = partial(Option, rich_help_panel="Search")
computation = partial(Option, rich_help_panel="Computation")
instead = partial(Option, rich_help_panel="In place of translating")
Device = Annotated[
    Literal["auto", "cuda", "mps", "cpu"], computation("--device", metavar="DEVICE", help="auto, cuda, mps or cpu.")
]
Threads = Annotated[
    int | None, computation("--threads", min=1, max=1024, metavar="N", help="CPU threads; default: one for each core.")
]
Precision = Annotated[
    Literal["auto", "fp32", "bf16", "int8"],
    computation("--precision", metavar="TYPE", help="auto, fp32, bf16, or on CPUs int8."),
]


class TranslateRequest(NamedTuple):
    """The options of `nmt translate`."""

    models: Annotated[
        list[Path] | None,
        io("--model", "-m", metavar="DIR", help="A run or a model directory; default: $NMT_MODEL, else runs/latest."),
    ] = None
    source: Annotated[Path | None, io("--input", "-i", metavar="FILE", help="Read this file, not stdin.")] = None
    output: Annotated[Path | None, io("--output", "-o", metavar="FILE", help="Write this file, not stdout.")] = None
    to: Annotated[str | None, io(metavar="CODE", help="Target language; required for a model that has several.")] = None
    tag: Annotated[str | None, io(metavar="NAME", help="Translate as the training text with this tag.")] = None
    n_best: Annotated[
        int, io(min=1, metavar="K", help="Translations of each line, as rows of line, rank, log_prob, text.")
    ] = 1
    alignment: Annotated[bool, io("--alignment", help="Add the word alignment, as 0-0 1-2, source word first.")] = False
    as_json: Annotated[bool, io("--json", help="Write one JSON object for each line.")] = False
    format: Annotated[
        str | None,
        io(
            "--format",
            metavar="NAME",
            help="text, srt, vtt, json, jsonl, csv, tsv, po, xliff, html, markdown, properties, "
            "android, strings or docx; default: by the content and the name of the input.",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        io("--column", metavar="NAME|N", help="Column of a table, or key of JSON, to translate; can be repeated."),
    ] = None
    exclude: Annotated[
        list[str] | None, io("--exclude", metavar="KEY", help="Key of JSON to leave as it is; can be repeated.")
    ] = None
    into: Annotated[
        str | None, io(metavar="NAME|N", help="Column or key of the translation; default: that of --column.")
    ] = None
    beam: Annotated[
        int | None, search(min=1, metavar="K", help="Hypotheses kept for each sentence; 1 is greedy search.")
    ] = None
    overrides: Annotated[
        list[str] | None,
        search("--set", metavar="decode.KEY=VALUE", help="Change a setting of the model; can be repeated."),
    ] = None
    glossary: Annotated[
        Path | None, search(metavar="TSV", help="Required translations of terms: source term, tab, target term.")
    ] = None
    prefixes: Annotated[
        Path | None, search(metavar="FILE", help="Required starts of the translations, line by line.")
    ] = None
    device: Device = "auto"
    threads: Threads = None
    precision: Precision = "auto"
    reference: Annotated[
        Path | None, instead(metavar="FILE", help="Print the log_prob of these translations of the input lines.")
    ] = None
    text: Annotated[list[str] | None, Argument(hidden=True, metavar="< FILE")] = None  # reported as an error


class ServeRequest(NamedTuple):
    """The options of `nmt serve`."""

    models: Annotated[
        list[Path] | None,
        Option(
            "--model", "-m", metavar="DIR", help="A run or a model directory; can be repeated. Default: as translate."
        ),
    ] = None
    host: Annotated[str, Option(metavar="NAME", help="Accept connections to this address; 0.0.0.0 is all.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Option(min=0, max=65535, metavar="N", help="Port; 0 selects a free one.")] = 8000
    url: Annotated[
        str, Option(metavar="URL", help="The address of the server for clients, behind a reverse proxy.")
    ] = ""
    api_keys: Annotated[Path | None, file(help="Require one of these keys, one a line.")] = None
    origins: Annotated[
        list[str] | None, Option("--cors", metavar="ORIGIN", help="Let pages of this origin use it; can be repeated.")
    ] = None
    characters: Annotated[
        int, Option("--max-characters", min=1, metavar="N", help="The most characters of the texts of a request.")
    ] = 50_000
    megabytes: Annotated[int, Option("--max-megabytes", min=1, max=1000, metavar="N", help="The largest document.")] = (
        10
    )
    waiting: Annotated[
        int, Option("--max-waiting", min=1, max=1000, metavar="N", help="The most requests that wait.")
    ] = 128
    timeout: Annotated[
        float, Option(min=0.1, max=86_400, metavar="SECONDS", help="The longest time until a request is answered.")
    ] = 60
    device: Device = "auto"
    threads: Threads = None
    precision: Precision = "auto"


class ScoreOptions(NamedTuple):
    """What `nmt score` computes and writes."""

    source: Annotated[Path | None, file(help="The source text of the translations.")] = None
    test_set: Annotated[
        str | None, Option(metavar="NAME/PAIR", help="References and source of sacreBLEU, such as wmt22/en-zh.")
    ] = None
    target_language: Annotated[
        str | None, Option("--target-lang", metavar="CODE", help="Language of the translations, such as zh.")
    ] = None
    metrics: Annotated[
        list[str] | None,
        Option("--metric", metavar="NAME", help="bleu, chrf, chrf++ or ter, can be repeated; default: bleu and chrf."),
    ] = None
    systems: Annotated[
        list[Path] | None, file("--system", help="Translations by another system, in the same table; can be repeated.")
    ] = None
    baseline: Annotated[Path | None, file(help="Translations to test the others against for significance.")] = None
    confidence: Annotated[bool, Option("--confidence", help="Add 95 % confidence intervals.")] = False
    by_length: Annotated[bool, Option("--by-length", help="Also score groups of lines of similar length.")] = False
    sentences: Annotated[Path | None, file(help="Write the scores and faults of each line, as TSV.")] = None

    @property
    def others(self) -> list[Path]:
        """The translations besides the first ones: those of other systems, then the baseline."""
        baseline = [] if self.baseline is None else [self.baseline]
        return [*(system for system in self.systems or () if system != self.baseline), *baseline]


class ReportRequest(NamedTuple):
    """The options of `nmt report`."""

    systems: Annotated[
        list[Path], Argument(metavar="RUN", help="A run, runs to compare, or with --reference files of translations.")
    ]
    output: Annotated[Path, file("--output", "-o", help="The page to write.")] = Path("report.html")
    reference: Annotated[Path | None, file(help="Reference translations, for files of any system.")] = None
    source: Annotated[Path | None, file(help="The source text of the files; only with --reference.")] = None
