"""`nmt figures`: the classic figures of the Transformer, drawn from the code that training uses."""

import warnings
from pathlib import Path

from nmt.config import load_recipe
from nmt.errors import ConfigError, NMTError
from nmt.model.checkpoint import resolve_model
from nmt.report.concept_figures import corpus_drawings, formula_drawings
from nmt.report.drawing import Drawing, drawing_style, write_drawing
from nmt.report.page import Section, render_page
from nmt.report.page import figures as figures_html
from nmt.report.run_records import RunRecords
from nmt.report.run_section import training_drawings
from nmt.report.sentence_figures import chosen_sentence, sentence_drawings
from nmt.system.console import Console
from nmt.system.files import new_directory
from nmt.text.prepared import PreparedCorpus

# Padded target tokens in a length group, where the recipe leaves them to be measured.
_BUDGET = 1024


def figures(output: Path, recipe: Path | None, model: Path | None, text: str | None, console: Console) -> None:
    """Write each figure as PNG and SVG, and `index.html` with all of them and their captions.

    `text` is the sentence whose attention and search are drawn; None for one of the validation text. Raises NMTError.
    """
    if text is not None and model is None:
        raise ConfigError("--text: it is the sentence whose attention a model has; add --model MODEL")
    with new_directory(output) as staging, drawing_style(), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        with console.status("computing what is drawn"):
            drawings, left_out = drawings_of(recipe, model, text)
        with console.progress("drawing", len(drawings), "figures") as advance:
            for drawing in drawings:
                write_drawing(drawing, staging)
                advance(1)
            page = render_page("Figures", [Section("figures", "Figures", figures_html(drawings))])
        (staging / "index.html").write_text(page, encoding="utf-8")
    console.info(f"wrote {len(drawings)} figures, as PNG, as SVG and in index.html, to {output}")
    for reason in left_out:
        console.info(f"left out: {reason}")
    if any("missing from font" in str(one.message) for one in caught):
        console.warn("boxes stand for characters of which no font was found; on Debian: apt install fonts-noto-cjk")


def drawings_of(recipe: Path | None, model: Path | None, text: str | None) -> tuple[list[Drawing], list[str]]:
    """Return the figures for which the inputs suffice, and why others are left out. Raises NMTError for the inputs."""
    drawings, left_out, corpus = formula_drawings(), list[str](), None
    if model is not None:
        resolve_model(model)  # an error also where there is no sentence to translate
    run = model if model is not None and (model / "run.json").is_file() else None
    records = None if run is None else RunRecords(run)
    chosen = None if records is None else (records.recipe, records.prepared)
    if recipe is not None:
        loaded = load_recipe(recipe)
        chosen = loaded, loaded.prepared_directory
    if chosen is None:
        left_out.append("masks, padding: no recipe; add --recipe RECIPE")
    else:
        try:
            corpus, train = PreparedCorpus.open(chosen[1]), chosen[0].train
            drawings += corpus_drawings(corpus, _BUDGET if train.batch_tokens == "auto" else train.group_budget)
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
    if records is None:
        left_out.append("training: no run; add --model RUN")
    else:
        drawings += training_drawings(records)[:2]
    return drawings, left_out
