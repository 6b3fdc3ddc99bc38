"""`nmt report`: one HTML page about a run, or about files of translations."""

from collections.abc import Sequence
from pathlib import Path

from nmt.commands.requests import ReportRequest
from nmt.commands.score import read_parallel, read_text, short_names
from nmt.errors import ConfigError, DataError, NMTError
from nmt.report.charts import chart_script
from nmt.report.comparison_section import comparison_section
from nmt.report.corpus_section import corpus_section
from nmt.report.page import Section, render_page
from nmt.report.quality_section import quality_section
from nmt.report.run_records import RunRecords
from nmt.report.run_texts import common_texts, run_texts
from nmt.report.translated_text import METRICS, TranslatedText
from nmt.system.console import Console
from nmt.system.files import check_output, write_output
from nmt.text.glossary import Glossary
from nmt.text.languages import detect_language


def report(request: ReportRequest, console: Console) -> None:
    """Write the page of a run, or of files of translations. Raises NMTError."""
    check(request)
    chart_script()  # raises ConfigError before the work
    glossary = None if request.glossary is None else Glossary.read(request.glossary)
    if request.reference is not None:
        text = _text_of_files(request, request.reference)
        _measure([text], console)
        title = " and ".join(text.systems)
        with console.status("describing the translations"):
            sections = [] if request.compare is None else [comparison_section([text], glossary=glossary)]
            sections.append(quality_section([text]))
    else:
        run = RunRecords(request.run)
        title, sections = run.name, _sections(request, run, glossary, console)
    with console.status("writing the page"):
        write_output(request.output, render_page(title, sections, console.warn))
    console.info(f"wrote {request.output}")


def check(request: ReportRequest) -> None:
    """Raise ConfigError for options that would have no effect, and for an output that must not be replaced."""
    inputs = request.run, request.compare, request.reference, request.source, request.glossary
    check_output(request.output, [path for path in inputs if path is not None])
    if request.glossary is not None and (request.compare is None or (request.reference and not request.source)):
        raise ConfigError("--glossary: terms are counted in a comparison that has a source; add --compare and --source")
    if request.reference is not None:
        if request.lines:
            raise ConfigError("--line: it is for runs, and would have no effect on files; leave it out")
        return
    for path in (request.run, request.compare):
        if path is not None and path.is_file():
            raise ConfigError(f"{path}: it is a file, not a run; a report of translations needs --reference FILE")


def _sections(request: ReportRequest, run: RunRecords, glossary: Glossary | None, console: Console) -> list[Section]:
    other = None if request.compare is None else RunRecords(request.compare)
    if other is not None and other.path.resolve() == run.path.resolve():
        raise ConfigError(f"--compare {request.compare}: it is the same run; name another one")
    with console.status("reading the run and its corpus"):
        from nmt.report.run_section import run_section  # needs torch, which pages of files do not
        from nmt.report.sentences import source_lines

        if request.lines and run.recipe is not None:
            source_lines(run.recipe, request.lines)  # raises an error before anything is translated
        sections = [run_section(run), corpus_section(run)]
    texts, problems = run_texts(run, request.validation_lines, console)
    for problem in problems:
        console.warn(problem)
    _measure(texts, console)
    sections.append(quality_section(texts, problems))
    if other is not None:
        others, more = run_texts(other, request.validation_lines, console)
        names = (run.name, other.name) if run.name != other.name else (str(run.path), str(other.path))
        common, missing = common_texts(texts, others, names)
        _measure(common, console)
        remarks = [*problems, *more, *missing]
        sections.append(comparison_section(common, remarks, glossary))
    with console.status("drawing attention and search"):
        return sections + _sentence_sections(request, run)


def _measure(texts: Sequence[TranslatedText], console: Console) -> None:
    """Compute the scores of all systems, which takes most of the time for texts of many lines."""
    total = sum(len(text.reference) * len(text.systems) * len(METRICS) for text in texts)
    with console.progress("scoring", total, "lines") as advance:
        for text in texts:
            for name in text.systems:
                text.measured(name, advance)


def _sentence_sections(request: ReportRequest, run: RunRecords) -> list[Section]:
    """Return the sections on single sentences. Raises NMTError if chosen lines cannot be drawn."""
    from nmt.report.attention_section import attention_section
    from nmt.report.beam_tree_section import beam_tree_section
    from nmt.report.sentences import drawn_sentences

    try:
        if run.recipe is None:
            raise DataError("the recipe cannot be read")
        sentences, remarks = drawn_sentences(request.run, run.recipe, request.lines or (), run.prepared)
    except NMTError as error:
        if request.lines:
            raise
        sentences, remarks = [], [f"No sentence can be drawn: {error}"]
    return [attention_section(sentences, remarks), beam_tree_section(sentences, remarks)]


def _text_of_files(request: ReportRequest, reference: Path) -> TranslatedText:
    """Read files of translations and the texts that are parallel to them. Raises DataError as `nmt score` does."""
    if request.compare == request.run:
        raise ConfigError(f"--compare {request.compare}: it is the same file as the first one; name another one")
    systems = [file for file in (request.run, request.compare) if file is not None]
    lines = {request.run: read_text(request.run)}
    for file in (request.compare, reference, request.source):
        if file is not None:
            lines[file] = read_parallel(file, request.run, lines[request.run])
    language = detect_language(lines[reference])
    named = {name: lines[file] for file, name in short_names(systems).items()}
    source = None if request.source is None else lines[request.source]
    title = f"Against {reference.name}"
    return TranslatedText("text", title, ("", language.code), language, lines[reference], named, source)
