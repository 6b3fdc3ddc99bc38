"""Whether the texts of a recipe are in its languages: training on swapped sides would go unnoticed until the end."""

from itertools import islice

from nmt.config import CorpusFile, Recipe
from nmt.errors import DataError
from nmt.text.corpus import read_pairs, way_of_reading
from nmt.text.proposing.direction import Direction, Mismatch, mismatch, places_of
from nmt.text.proposing.profile import TextProfile

_FIRST_PAIRS = 5_000
_SEED = 1


def check_languages(recipe: Recipe) -> None:
    """Raise DataError, with lines of the text, if a text is certainly not in the languages of the recipe.

    A text whose first pairs are wrong is read as a whole: its start may be unlike the rest. Texts of fewer than some
    hundred words, and languages that nmt has no words of, are not checked.
    """
    if recipe.data.accept_any_language:
        return
    for key, corpus in {**recipe.data.prepared_texts, **recipe.data.test_texts}.items():
        problem = _problem(recipe, corpus, _FIRST_PAIRS)
        problem = problem and _problem(recipe, corpus, None)
        if problem is not None:
            raise DataError(
                f"{key}: the text is not in its languages:\n{problem.evidence}\n{_advice(corpus, problem)}; or, if the "
                "text is right, set data.accept_any_language: true"
            )


def _problem(recipe: Recipe, corpus: CorpusFile, most: int | None) -> Mismatch | None:
    languages = recipe.languages_of(corpus)
    profile = TextProfile(_SEED)
    for pair in islice(read_pairs(corpus, languages), most):
        profile.add(pair)
    return mismatch(
        Direction(languages.source, languages.target, "`languages`"), places_of(list(corpus.files.values())), profile
    )


def _advice(corpus: CorpusFile, problem: Mismatch) -> str:
    if not problem.swapped:
        columns = "set its `columns`, " if way_of_reading(corpus).split()[0] in ("tsv", "csv") else ""
        return f"Name other files, {columns}or change `languages`"
    exchange = "`source` and `target` of this text" if corpus.source is not None else "the two `columns` of this text"
    return f"The sides are swapped: exchange {exchange}, or source and target of `languages`"
