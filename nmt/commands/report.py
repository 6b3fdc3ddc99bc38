"""`nmt report`: one HTML page about a run, about several runs, or about files of translations."""

import shlex
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from markupsafe import Markup

from nmt.commands.requests import ReportRequest
from nmt.commands.score import read_parallel, read_text, short_names
from nmt.config import LanguagePair
from nmt.errors import ConfigError, NMTError
from nmt.report import run_sections, translations
from nmt.report.corpus_section import corpus_html
from nmt.report.drawing import drawing_style
from nmt.report.page import render, render_page, warning
from nmt.report.run_records import RunRecords, run_row
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
    paths, reference, source = request.systems, request.reference, request.source
    place = request.output.resolve()
    inputs = [*paths, *filter(None, (reference, source))]
    is_in_run = any(place.is_relative_to(path.resolve()) for path in paths)
    if is_in_run and place.is_file() and not place.suffix.startswith(".htm"):
        inputs.append(place)  # a file of the run, and no earlier page
    check_output(request.output, inputs)
    for first, path in combinations(paths, 2):
        if first.resolve() == path.resolve():
            raise ConfigError(f"{path}: it is the same as {first}; name it once")
    if reference is None and (files := list(filter(Path.is_file, paths))):
        raise ConfigError(f"{files[0]}: it is a file, not a run; a report of translations needs --reference FILE")
    if reference is None and source is not None:
        raise ConfigError("--source: it belongs to files of translations, and a run has its own; leave it out")


def _page_of_run(path: Path, console: Console) -> str:
    run = RunRecords(path)
    with console.status("scoring its translations"):
        systems, missing = systems_of_run(run, run.name)
    for reason in missing:
        console.warn(reason)
    sections = {"Translations": render("samples.html", system=systems[0])} if systems else {}
    with console.status("reading the run and its corpus"):
        sections["Training"] = run_sections.curves_html(run)
        sections["Quality"] = translations.quality_html(systems, missing)
        sections["Data"] = corpus_html(run)
    with console.status("drawing attention and search"):
        sections["Attention"] = _attention_html(run, systems)
    sections["Settings"] = run_sections.settings_html(run)
    return render_page(run.name, sections, run_sections.run_heading(run, systems), run_sections.run_lead(run))


def _page_of_runs(paths: Sequence[Path], console: Console) -> str:
    """Return the page that compares runs."""
    runs = [RunRecords(path) for path in paths]
    names, systems = run_sections.run_names(runs), list[System]()
    with console.status("scoring the translations"):
        for run, name in zip(runs, names, strict=True):
            run_systems, missing = systems_of_run(run, name)
            systems += run_systems
            for reason in missing:
                console.warn(f"{name}: {reason}")
        sections = {
            "Runs": run_sections.runs_html(list(map(run_row, names, paths))),
            "Curves": render("figures.html", drawings=run_sections.comparison_drawings(runs)),
            "Comparison": translations.comparison_html(systems),
        }
    return render_page(" and ".join(names), sections, run_sections.comparison_heading(names, systems))


def _attention_html(run: RunRecords, systems: Sequence[System]) -> Markup:
    """Return figures of attention and search for a sentence of the first text, or a warning why there are none."""
    from nmt.report.sentence_figures import chosen_sentence, sentence_drawings  # needs torch, unlike other pages

    sentence = chosen_sentence(systems[0].text.source or []) if systems else None
    if sentence is None:
        return warning("No sentence is drawn: there is no translated text to take a sentence from.")
    text = systems[0].text
    try:
        drawings = sentence_drawings(run.path, sentence, text.languages.target, with_layers=False)
    except NMTError as error:
        return warning(f"No sentence is drawn: {error}.")
    return render("attention.html", path=shlex.quote(str(run.path)), text=text, sentence=sentence, drawings=drawings)


def _page_of_files(request: ReportRequest, reference: Path) -> str:
    """Return the page of files, which are parallel to the reference. Raises DataError as `nmt score` does."""
    first, *more = request.systems
    text = read_text(first)
    lines = {file: read_parallel(file, first, text) for file in (*more, reference, request.source) if file is not None}
    lines[first] = text
    languages = LanguagePair("", detect_language(lines[reference]).code)
    source = None if request.source is None else lines[request.source]
    common = Text(f"Against {reference.name}", languages, source, lines[reference])
    systems = [System(name, common, lines[file]) for file, name in short_names(request.systems).items()]
    if more:
        sections = {"Comparison": translations.comparison_html(systems)}
    else:
        sections = {"Translations": render("samples.html", system=systems[0])}
    sections["Quality"] = translations.quality_html(systems)
    return render_page(" and ".join(system.name for system in systems), sections)
