"""`nmt figures`: the classic figures of the Transformer, drawn from the code that training uses."""

import json
from contextlib import suppress
from pathlib import Path

from nmt.config import load_recipe
from nmt.decoding.alignment import Attention, attention
from nmt.errors import ConfigError, DataError, ModelError
from nmt.model.checkpoint import resolve_model
from nmt.report.corpus_figures import corpus_drawings, pieces_of_masks
from nmt.report.fonts import LabelFonts, fonts_for
from nmt.report.formula_figures import formula_drawings
from nmt.report.model_figures import attention_drawings, training_curves
from nmt.report.plotting import Drawing, drawing_style, write_drawing
from nmt.report.run_records import RunRecords
from nmt.system.console import Console
from nmt.system.files import new_directory
from nmt.text.prepared import PreparedCorpus
from nmt.translation.translator import Translator

_BUDGET = 1024
"""Padded target tokens in a length group, where the recipe leaves them to be measured."""
_WORDS = range(4, 10)
"""Words in the sentence that is chosen for the attention."""


def figures(output: Path, recipe: Path | None, model: Path | None, text: str | None, console: Console) -> None:
    """Write each figure as PNG and SVG, and `figures.json` with their titles and captions.

    `text` is the sentence whose attention is drawn; None for one of the validation text. Raises NMTError.
    """
    if text is not None and model is None:
        raise ConfigError("--text: it is the sentence whose attention a model has; add --model MODEL")
    with new_directory(output) as staging:
        inputs = _Inputs(recipe, model, text)
        fonts = fonts_for(inputs.labels)
        with drawing_style(fonts):
            drawings = inputs.drawings(fonts)
            with console.progress("drawing", len(drawings), "figures") as advance:
                for drawing in drawings:
                    write_drawing(drawing, staging)
                    advance(1)
        content = {
            "figures": [{key: getattr(one, key) for key in ("name", "title", "caption", "code")} for one in drawings],
            "left_out": inputs.left_out,
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (staging / "figures.json").write_text(text, encoding="utf-8")
    console.info(f"wrote {len(drawings)} figures, as PNG and SVG, to {output}")
    for names, reason in inputs.left_out.items():
        console.info(f"left out: {names}: {reason}")
    if (warning := fonts.warning()) is not None:
        console.warn(warning)


class _Inputs:
    """What the options name, as far as it can be drawn. Raises NMTError for a recipe or a model that is no such."""

    def __init__(self, recipe_file: Path | None, model: Path | None, text: str | None) -> None:
        self.left_out: dict[str, str] = {}
        """Why figures cannot be drawn, by their names."""
        if model is not None:
            resolve_model(model)  # an error also where there is no sentence to translate
        run = model if model is not None and (model / "recipe.yaml").is_file() else None
        path = recipe_file or (run and run / "recipe.yaml")
        self.records: RunRecords | None = None
        if run is not None:
            with suppress(ModelError):  # a model directory beside a recipe, or a run without a logged step
                self.records = RunRecords(run)
        self.recipe = None if path is None else load_recipe(path)
        self.corpus = None
        self.attention: Attention | None = None
        if self.recipe is None:
            self.left_out["masks, padding, the schedule of the recipe"] = "no recipe; add --recipe RECIPE"
        else:
            of_run = None if recipe_file is not None or self.records is None else self.records.prepared
            try:
                self.corpus = PreparedCorpus.open(of_run or self.recipe.prepared_directory)
            except DataError as error:
                self.left_out["masks, padding"] = str(error)
        if model is None:
            self.left_out["attention"] = "no model; add --model MODEL"
        elif (sentence := _sentence(self.corpus) if text is None else text) is None:
            self.left_out["attention"] = "no prepared validation text to take a sentence from; add --text SENTENCE"
        elif (found := _attention(model, sentence)) is None:
            self.left_out["attention"] = f"the translation of {sentence!r} is empty; add --text with another one"
        else:
            self.attention = found
        if self.records is None:
            self.left_out["training"] = "no run; add --model RUN"

    @property
    def labels(self) -> list[str]:
        """The texts that figures show."""
        tokens = [] if self.attention is None else [*self.attention.source, *self.attention.target]
        return tokens if self.corpus is None else [*tokens, *pieces_of_masks(self.corpus)]

    def drawings(self, fonts: LabelFonts) -> list[Drawing]:
        """Return all figures that the inputs suffice for."""
        drawings = formula_drawings(self.recipe)
        if self.corpus is not None and self.recipe is not None:
            train = self.recipe.train
            budget = _BUDGET if train.batch_tokens == "auto" else train.group_budget
            drawings += corpus_drawings(self.corpus, budget, fonts)
        if self.attention is not None:
            drawings += attention_drawings(self.attention, fonts)
        if self.records is not None:
            drawings.append(training_curves(self.records.train, self.records.validations))
        return drawings


def _attention(model: Path, text: str) -> Attention | None:
    """Return the attention of a model to a sentence and its translation, into the first of its target languages.

    None if the translation is empty. Raises ConfigError for an empty sentence.
    """
    translator = Translator.load(resolve_model(model))
    options = translator.options(to=translator.languages.target[0])
    translation = translator.translate(text, options)
    if not text.strip():
        raise ConfigError("--text: the sentence is empty; give another one")
    if not translation.text:
        return None
    return attention(translator.models[0], text, translation.text, translator.tag_ids(options))


def _sentence(corpus: PreparedCorpus | None) -> str | None:
    """Return the first sentence of the validation text of a length that fits in a figure, else the shortest one."""
    sources = [] if corpus is None else [line for line in corpus.valid_sources if line.strip()]
    fitting = (line for line in sources if len(line.split()) in _WORDS)
    return next(fitting, min(sources, key=len, default=None))
