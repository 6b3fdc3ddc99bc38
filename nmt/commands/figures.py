"""`nmt figures`: the classic figures of the Transformer, drawn from the code that training uses."""

import warnings
from dataclasses import replace
from pathlib import Path

from nmt.config import load_recipe
from nmt.errors import ConfigError, NMTError
from nmt.model.checkpoint import resolve_model
from nmt.report.concept_figures import corpus_drawings, formula_drawings
from nmt.report.curves_section import comparison_drawings, training_drawings
from nmt.report.drawing import Drawing, drawing_style, write_drawing
from nmt.report.page import Section, element, joined, render_page
from nmt.report.page import figures as figures_html
from nmt.report.run_records import RunRecords
from nmt.report.sentence_figures import chosen_sentence, sentence_drawings
from nmt.system.console import Console
from nmt.system.files import new_directory
from nmt.text.prepared import PreparedCorpus

# The sections of the page, in the order of the paper.
_PARTS = {"attention": "Attention", "positions": "Positions", "training": "Training", "search": "Search"}


def figures(
    output: Path, recipe: Path | None, model: Path | None, compare: Path | None, text: str | None, console: Console
) -> None:
    """Write each figure as PNG and SVG, and `index.html` with all of them and their captions.

    `text` is the sentence whose attention and search are drawn; None for one of the validation text. `compare` is a run
    whose curves are drawn over those of the model's. Raises NMTError.
    """
    if text is not None and model is None:
        raise ConfigError("--text: it is the sentence whose attention a model has; add --model MODEL")
    with new_directory(output) as staging, drawing_style(), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        with console.status("computing what is drawn"):
            drawings, left_out = drawings_of(recipe, model, compare, text)
            drawings.sort(key=lambda drawing: list(_PARTS).index(drawing.part))
        with console.status("drawing the page"):  # first: figures have no title there, since it is beside them
            (staging / "index.html").write_text(_page(drawings), encoding="utf-8")
        with console.progress("drawing", len(drawings), "figures") as advance:
            for drawing in drawings:
                write_drawing(drawing, staging)
                advance(1)
    console.info(f"wrote {len(drawings)} figures, as PNG, as SVG and in index.html, to {output}")
    for reason in left_out:
        console.info(f"left out: {reason}")
    if any("missing from font" in str(one.message) for one in caught):
        console.warn("boxes stand for characters of which no font was found; on Debian: apt install fonts-noto-cjk")


def _page(drawings: list[Drawing]) -> str:
    """Return the page of figures in the order of the parts, with their numbers."""
    plates = [replace(one, title=f"Plate {number}. {one.title}") for number, one in enumerate(drawings, start=1)]
    of_parts = ((part, title, [plate for plate in plates if plate.part == part]) for part, title in _PARTS.items())
    sections = [Section(part, title, figures_html(of_part)) for part, title, of_part in of_parts if of_part]
    subject = next((drawing.subject for drawing in drawings if drawing.part == "search"), "")
    note = "Drawn by the functions that train the model and translate with it."
    intro = [element("p", "Model and sentence: ", element("strong", subject))] if subject else []
    return render_page("The Transformer in figures", sections, joined([*intro, element("p", note)]))


def drawings_of(
    recipe: Path | None, model: Path | None, compare: Path | None, text: str | None
) -> tuple[list[Drawing], list[str]]:
    """Return the figures for which the inputs suffice, and why others are left out. Raises NMTError for the inputs."""
    left_out, corpus = list[str](), None
    if model is not None:
        resolve_model(model)  # an error also where there is no sentence to translate
    records = None if model is None or not (model / "run.json").is_file() else RunRecords(model)
    curves = _curves(records, compare)
    chosen = None if records is None else (records.recipe, records.prepared)
    if recipe is not None:
        loaded = load_recipe(recipe)
        chosen = loaded, loaded.prepared_directory
    drawings = formula_drawings(None if chosen is None else chosen[0])
    if chosen is None:
        left_out.append("masks, padding: no recipe; add --recipe RECIPE")
    else:
        try:
            corpus = PreparedCorpus.open(chosen[1])
            drawings += corpus_drawings(corpus)
        except NMTError as error:
            left_out.append(f"masks, padding: {error}")
    sentence = text
    if text is None and corpus is not None:
        sentence = chosen_sentence([line for sources, _ in corpus.valid_texts for line in sources])
    if model is None:
        left_out.append("attention, search: no model; add --model MODEL")
    elif sentence is None:
        left_out.append("attention, search: no prepared validation text to take a sentence from; add --text SENTENCE")
    else:
        drawings += sentence_drawings(model, sentence)
    if not curves:
        left_out.append("training: no run; add --model RUN")
    return [*drawings, *curves], left_out


def _curves(records: RunRecords | None, compare: Path | None) -> list[Drawing]:
    """Return the curves of a run, and those of another over them."""
    if records is None:
        if compare is not None:
            raise ConfigError("--compare: it is a run whose curves are drawn over those of another; add --model RUN")
        return []
    drawings = training_drawings(records)[:2]
    return drawings if compare is None else [*drawings, *comparison_drawings([records, RunRecords(compare)])]
