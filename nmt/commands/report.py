"""`nmt report`: one HTML page about a run, or about files of translations."""

from collections.abc import Sequence
from pathlib import Path

from nmt.commands.requests import ReportRequest
from nmt.commands.score import read_parallel, read_text, short_names
from nmt.errors import ConfigError, NMTError
from nmt.report.corpus_section import corpus_section
from nmt.report.drawing import drawing_style
from nmt.report.page import Section, element, figures, joined, paragraphs, render_page
from nmt.report.quality_section import comparison_section, quality_section
from nmt.report.run_records import RunRecords
from nmt.report.translations import System, Text, systems_of_run
from nmt.system.console import Console
from nmt.system.files import check_output, write_output
from nmt.text.languages import detect_language


def report(request: ReportRequest, console: Console) -> None:
    """Write the page of a run, or of files of translations. Raises NMTError."""
    check(request)
    with drawing_style():
        if request.reference is not None:
            with console.status("describing the translations"):
                systems = _systems_of_files(request, request.reference)
                sections = [quality_section(systems)]
                if request.compare is not None:
                    sections.insert(0, comparison_section(systems[:1], systems[1:]))
            title = " and ".join(system.name for system in systems)
        else:
            title, sections = _sections_of_run(request, console)
    write_output(request.output, render_page(title, sections))
    console.info(f"wrote {request.output}")


def check(request: ReportRequest) -> None:
    """Raise ConfigError for options that would have no effect, and for an output that must not be replaced."""
    inputs = [request.run, request.compare, request.reference, request.source]
    check_output(request.output, [path for path in inputs if path is not None])
    if request.compare is not None and request.compare.resolve() == request.run.resolve():
        raise ConfigError(f"--compare {request.compare}: it is the same as {request.run}; name another one")
    if request.reference is not None:
        return
    if request.source is not None:
        raise ConfigError("--source: it belongs to files of translations, and a run has its own; leave it out")
    for path in (request.run, request.compare):
        if path is not None and path.is_file():
            raise ConfigError(f"{path}: it is a file, not a run; a report of translations needs --reference FILE")


def _sections_of_run(request: ReportRequest, console: Console) -> tuple[str, list[Section]]:
    """Return the name of the run and its sections, with a comparison if another run is given."""
    run = RunRecords(request.run)
    other = None if request.compare is None else RunRecords(request.compare)
    names = [one.name for one in (run, other) if one is not None]
    if len(set(names)) < len(names):
        names = [str(request.run), str(request.compare)]
    with console.status("reading the run and its corpus"):
        from nmt.report.run_section import run_section  # needs torch, which pages of files do not

        sections = [run_section(run), corpus_section(run)]
    with console.status("scoring its translations"):
        systems, missing = systems_of_run(run, names[0])
        sections.append(quality_section(systems, missing))
        if other is not None:
            others, more = systems_of_run(other, names[1])
            missing += more
            sections.append(comparison_section(systems, others))
    for reason in missing:
        console.warn(reason)
    with console.status("drawing attention and search"):
        sections.append(_attention_section(run, systems))
    return run.name, sections


def _attention_section(run: RunRecords, systems: Sequence[System]) -> Section:
    """Return attention and search for one sentence of the first text; why there are none, if they cannot be drawn."""
    from nmt.report.sentence_figures import chosen_sentence, sentence_drawings

    sources = systems[0].text.source if systems else None
    sentence = chosen_sentence(sources or [])
    try:
        if sentence is None:
            raise ConfigError("there is no translated text to take a sentence from")
        drawings = sentence_drawings(run.path, sentence, systems[0].text.codes[1])
    except NMTError as error:
        return Section("attention", "Attention", paragraphs([f"No sentence is drawn: {error}."], "warning"))
    where = f"{systems[0].text.title}, line {(sources or []).index(sentence) + 1}: "
    more = f"nmt figures DIR --model {run.path} --text SENTENCE"
    note = element("p", "Draw another sentence with ", element("code", more), ".")
    intro = element("p", where, element("strong", sentence))
    return Section("attention", "Attention", joined([intro, note, figures(drawings)]))


def _systems_of_files(request: ReportRequest, reference: Path) -> list[System]:
    """Read files of translations and the texts that are parallel to them. Raises DataError as `nmt score` does."""
    first = read_text(request.run)
    others = {
        file: read_parallel(file, request.run, first)
        for file in (request.compare, reference, request.source)
        if file is not None
    }
    language = detect_language(others[reference])
    source = None if request.source is None else others[request.source]
    text = Text(f"Against {reference.name}", ("", language.code), language, source, others[reference])
    translations = {**others, request.run: first}
    files = [file for file in (request.run, request.compare) if file is not None]
    return [System(name, text, translations[file]) for file, name in short_names(files).items()]
