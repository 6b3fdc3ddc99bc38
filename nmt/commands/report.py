"""`nmt report`: one HTML page about a run, about several runs, or about files of translations."""

from collections.abc import Sequence
from pathlib import Path

from nmt.commands.requests import ReportRequest
from nmt.commands.score import read_parallel, read_text, short_names
from nmt.errors import ConfigError, NMTError
from nmt.report.comparison_section import comparison_section, runs_section
from nmt.report.corpus_section import corpus_section
from nmt.report.drawing import drawing_style
from nmt.report.page import Section, element, figures, joined, paragraphs, render_page
from nmt.report.quality_section import quality_section, translations_section
from nmt.report.run_records import RunRecords
from nmt.report.run_table import run_row
from nmt.report.summary import comparison_heading, run_summary
from nmt.report.translations import System, Text, systems_of_run
from nmt.system.console import Console
from nmt.system.files import check_output, write_output
from nmt.text.languages import detect_language


def report(request: ReportRequest, console: Console) -> None:
    """Write the page of runs, or of files of translations. Raises NMTError."""
    check(request)
    with drawing_style():
        if request.reference is not None:
            with console.status("describing the translations"):
                page = _page_of_files(request, request.reference)
        elif len(request.systems) == 1:
            page = _page_of_run(request.systems[0], console)
        else:
            page = _page_of_runs(request.systems, console)
    write_output(request.output, page)
    console.info(f"wrote {request.output}")


def check(request: ReportRequest) -> None:
    """Raise ConfigError for options that would have no effect, and for an output that must not be replaced."""
    given = [path for path in (request.reference, request.source) if path is not None]
    check_output(request.output, [*request.systems, *given])
    places = [path.resolve() for path in request.systems]
    for number, path in enumerate(request.systems):
        if places[number] in places[:number]:
            raise ConfigError(
                f"{path}: it is the same as {request.systems[places.index(places[number])]}; name it once"
            )
    if request.reference is not None:
        return
    if request.source is not None:
        raise ConfigError("--source: it belongs to files of translations, and a run has its own; leave it out")
    for path in request.systems:
        if path.is_file():
            raise ConfigError(f"{path}: it is a file, not a run; a report of translations needs --reference FILE")


def _page_of_run(path: Path, console: Console) -> str:
    run = RunRecords(path)
    with console.status("scoring its translations"):
        systems, missing = systems_of_run(run, run.name)
    with console.status("reading the run and its corpus"):
        from nmt.report.curves_section import curves_section  # needs torch, which pages of files do not
        from nmt.report.settings_section import settings_section

        sections = [translations_section(systems[0])] if systems else []
        sections += [curves_section(run), quality_section(systems, missing), corpus_section(run)]
    for reason in missing:
        console.warn(reason)
    with console.status("drawing attention and search"):
        sections += [_attention_section(run, systems), settings_section(run)]
    heading, lead = run_summary(run, systems)
    return render_page(run.name, sections, element("p", lead, class_="lead"), heading)


def _page_of_runs(paths: Sequence[Path], console: Console) -> str:
    """Return the page that compares runs."""
    from nmt.report.curves_section import comparison_drawings, run_names

    runs = [RunRecords(path) for path in paths]
    names, systems = run_names(runs), list[System]()
    with console.status("scoring the translations"):
        for run, name in zip(runs, names, strict=True):
            found, missing = systems_of_run(run, name)
            systems += found
            for reason in missing:
                console.warn(f"{name}: {reason}")
        rows = [run_row(name, run.path) for name, run in zip(names, runs, strict=True)]
        curves = Section("curves", "Curves", figures(comparison_drawings(runs)))
        sections = [runs_section(rows), curves, comparison_section(systems)]
    return render_page(" and ".join(names), sections, heading=comparison_heading(names, systems))


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
    # the sheets show the heads of all layers
    drawings = [one for one in drawings if "-layer-" not in one.name]
    where = f"{systems[0].text.title}, line {(sources or []).index(sentence) + 1}: "
    more = f"nmt figures DIR --model {run.path} --text SENTENCE"
    note = element("p", "Draw another sentence with ", element("code", more), ".")
    intro = element("p", where, element("strong", sentence))
    return Section("attention", "Attention", joined([intro, note, figures(drawings)]))


def _page_of_files(request: ReportRequest, reference: Path) -> str:
    """Return the page of files, which are parallel to the reference. Raises DataError as `nmt score` does."""
    first, *more = request.systems
    text = read_text(first)
    given = [path for path in (*more, reference, request.source) if path is not None]
    lines = {file: read_parallel(file, first, text) for file in given} | {first: text}
    language = detect_language(lines[reference])
    source = None if request.source is None else lines[request.source]
    common = Text(f"Against {reference.name}", ("", language.code), language, source, lines[reference])
    systems = [System(name, common, lines[file]) for file, name in short_names(request.systems).items()]
    sections = [comparison_section(systems)] if more else [translations_section(systems[0])]
    return render_page(" and ".join(system.name for system in systems), [*sections, quality_section(systems)])
