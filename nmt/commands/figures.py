"""`nmt figures`: the classic figures of the Transformer, drawn from the code that training uses."""

import warnings
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from nmt.config import load_recipe
from nmt.errors import ConfigError, NMTError
from nmt.model.stored import resolve_model
from nmt.report.concept_figures import MASKED_SENTENCES, MOST_OF_MASKS, corpus_drawings, formula_drawings
from nmt.report.drawing import Drawing, drawing_style, write_drawing
from nmt.report.page import render, render_page
from nmt.report.run_records import RunRecords
from nmt.report.run_sections import comparison_drawings, training_drawings
from nmt.report.sentence_figures import MOST_OF_HEAD, chosen_sentence, sentence_drawings
from nmt.system.console import Console
from nmt.system.files import new_directory
from nmt.text.prepared import PreparedCorpus
from nmt.training.progress import RUN

# The sections of the page, in the order of the paper.
_PARTS = ("attention", "positions", "training", "search")
# Figures that need a short text, each after one that is drawn of any text, and what they need.
_OF_SHORT_TEXTS = (
    ("padding", "masks", f"fewer than {MASKED_SENTENCES} pairs have at most {MOST_OF_MASKS} tokens"),
    ("search-tree", "one-head", f"the sentence has more than {MOST_OF_HEAD} tokens"),
)


def figures(
    output: Path, recipe: Path | None, model: Path | None, compare: Path | None, text: str | None, console: Console
) -> None:
    """Write each figure as PNG and SVG, and `index.html` with all of them and their captions.

    `text` is the sentence whose attention and search are drawn; None for one of the validation text. `compare` is a run
    whose curves are drawn over those of the model. Raises NMTError.
    """
    if text is not None and model is None:
        raise ConfigError("--text: its attention can be drawn only with a model; add --model MODEL")
    with new_directory(output) as staging, drawing_style(), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        with console.status("computing what is drawn"):
            drawings, left_out = drawings_of(recipe, model, compare, text)
        with console.status("drawing the page"):  # before `write_drawing` adds titles, which are text on the page
            (staging / "index.html").write_text(_page(drawings), encoding="utf-8")
        with console.progress("drawing", len(drawings), "figures") as advance:
            for drawing in drawings:
                write_drawing(drawing, staging)
                advance(1)
    console.info(f"wrote {len(drawings)} figures, as PNG, as SVG and in index.html, to {output}")
    for reason in left_out:
        console.info(f"left out: {reason}")
    if any("missing from font" in str(warning.message) for warning in caught):
        fonts = "DejaVu Sans lacks, as in Thai; for Chinese, Japanese and Korean, on Debian: apt install fonts-noto-cjk"
        console.warn(f"boxes stand for characters that {fonts}")


def _page(drawings: list[Drawing]) -> str:
    """Return the page of figures in the order of the parts, with their numbers."""
    ordered = sorted(drawings, key=lambda drawing: _PARTS.index(drawing.part))
    plates = [replace(plate, title=f"Plate {number}. {plate.title}") for number, plate in enumerate(ordered, start=1)]
    parts = groupby(plates, key=lambda plate: plate.part)
    sections = {part.capitalize(): render("figures.html", drawings=list(in_part)) for part, in_part in parts}
    subject = next((drawing.subject for drawing in drawings if drawing.part == "search"), "")
    return render_page("The Transformer in figures", sections, intro=render("subject.html", subject=subject))


def drawings_of(
    recipe: Path | None, model: Path | None, compare: Path | None, text: str | None
) -> tuple[list[Drawing], list[str]]:
    """Return the figures for which the inputs suffice, and why others are left out. Raises NMTError for the inputs."""
    if model is not None:
        resolve_model(model)  # raises an error even if there is no sentence to draw
    run = RunRecords(model) if model is not None and (model / RUN.name).is_file() else None
    if compare is not None and run is None:
        raise ConfigError("--compare: it is a run whose curves are drawn over those of another; add --model RUN")
    settings, prepared = (None, None) if run is None else (run.recipe, run.prepared)
    if recipe is not None:
        settings = load_recipe(recipe)
        prepared = settings.prepared_directory
    drawings, left_out, sources = formula_drawings(settings), list[str](), list[str]()
    try:
        if prepared is None:
            raise ConfigError("no recipe; add --recipe RECIPE")
        corpus = PreparedCorpus.open(prepared)
        drawings += corpus_drawings(corpus)
        sources = [line for lines, _ in corpus.valid_texts for line in lines]
    except NMTError as error:
        left_out.append(f"masks, padding: {error}")
    sentence = chosen_sentence(sources) if text is None else text
    if model is None:
        left_out.append("attention, search: no model; add --model MODEL")
    elif sentence is None:
        left_out.append("attention, search: no prepared validation text to take a sentence from; add --text SENTENCE")
    else:
        drawings += sentence_drawings(model, sentence)
    if run is None:
        left_out.append("training: no run; add --model RUN")
    else:
        drawings += training_drawings(run)
        if compare is not None:
            drawings += comparison_drawings([run, RunRecords(compare)])
    names = {drawing.name for drawing in drawings}
    left_out += [f"{name}: {need}" for of_any, name, need in _OF_SHORT_TEXTS if of_any in names and name not in names]
    return drawings, left_out
