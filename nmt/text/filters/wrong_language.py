"""Lines in another language than the stated one: untranslated targets, and others by py3langid (the extra `filters`).

py3langid is langid.py (Lui & Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool") with a newer
model, which it contains. It takes some 50 µs for a sentence, so it reads only lines without frequent words of the
language, or with more of another one.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any

from nmt.text.languages import SOLE_LANGUAGES, primary_code, script_of

_FREQUENT = {
    "ca": "el la els les de que i no a en un una és amb per es del al va ha més com però què ho",
    "cs": "a se v na je že to s z do o i jsem ve jsi ale jak co tak by si jeho za není byl pro",
    "da": "og i at det en er på til jeg af de ikke den for som med har du et var han vi hvad fra sig",
    "de": "der die und das ist nicht ich du sie es ein zu in den mit er wir auf eine für dem was von sich hat",
    "en": "the to of and a i you is in it that he was for on are with have my this we she do not be they at",
    "es": "de la que el en y no a los se un por una lo es con las me su del para te está al qué más",
    "et": "ja on ei et ma ta see oli kui mis ka sa mida tema aga seda oma meie nad siis mu olen",
    "fi": "on ja ei se hän minä että en oli ole hän mutta niin kun mitä olen tämä kuin nyt minun hänen",
    "fr": "de la le et les je à est que un il pas en une ne vous ce tu des qui elle pour dans nous du a au",
    "hr": "je i u se da na ne to sam za što su od nije kako sa li bi ali ti mi samo već",
    "hu": "a az és nem hogy is egy van ez meg ha csak de volt már azt mi még ezt ki mint nekem",
    "id": "yang dan di tidak ini itu dengan untuk dari saya dia ke akan aku kamu ada pada adalah anda bisa",
    "it": "di che è la il non un a per in una sono mi ho ha si le con i lo ma da del tu della questo al era anche gli",
    "lt": "ir yra kad aš tai ne į jis su mano ar kaip tu buvo bet ką ji iš man nuo dar už turi",
    "nb": "og i jeg det er på en å ikke til som av for at med har du den de et han var vi kan meg fra om hva",
    "nl": "de het een van en ik is dat je niet in te zijn op hij voor met die heb we er aan wat ze naar mijn",
    "pl": "nie i w się na to z że jest do jak co o mi tak ja czy ale po dla jestem za ma tego był",
    "pt": "de que o a e não um é do da em uma para eu os com se você no na por ele as mais foi está isso",
    "ro": "de și în nu a la cu o că este pe să un se din ce am mai eu ai pentru care sunt tu el lui",
    "sk": "a sa je na to v že nie som si s z do ako o čo ale tak by bol pre ma ten keď aj som má",
    "sl": "je in se v da na ne to za sem so pa ki kaj ni si z tudi ali bi še mi kako sva me",
    "sv": "och att det är jag i på en inte som han av du för med har den var vi till ett de om hon kan mig",
    "tr": "bir ve bu ben için ne o da de çok mi sen değil var ama her ki benim daha onu olarak gibi",
    "vi": "là tôi không có của và một được cho người anh đã này trong với đến rất những các nó cô làm",
    "bg": "на и да не се в е че за от си с той ми това ще аз са ли по съм как то ме го",
    "mk": "на и да не се во е дека за од си со тој ми ова ќе јас се ли по сум како тоа ме го",
    "ru": "и в не на я что он с это как а у мне по тебя меня за вы мы ты она к но то так из было",
    "uk": "не в і я на що це він у та як з до мене за ти мені але вона ми так його про мій є",
    "ar": "في من على لا أن هذا ما هو إلى لم هل كان أنا لقد مع كل عن ذلك التي هذه هي قد إن",
    "fa": "و در به از که این را با است آن من برای یک تو او بود می ما نیست هم تا چه شما",
    "ur": "کے میں کی ہے کا اور سے کو نے یہ کہ نہیں پر وہ ہیں ایک ہوں کیا بھی تھا اس تم",
}
FREQUENT_WORDS = {code: frozenset(words.split()) for code, words in _FREQUENT.items()}

_LEAST_CHARACTERS, LEAST_SPACES = 20, 3
"""Of a source that a target may not contain; a shorter one may be a name."""
LEAST_FREQUENT = 2
_LEAST_COMMON = 0.8

LIBRARY = "py3langid"
LEAST_LETTERS = 20
_LEAST_CONFIDENCE = 0.8
"""With these, none of 12,000 English and Italian lines of Tatoeba and FLORES was taken for another language."""
MANY_WORDS = 8
"""A line of so many words nearly always has a frequent one of its language."""
_LEARNED_WORDS, _LEAST_LINES = 100, 1_000
"""So many words of a text are taken for frequent ones of its language if they are from at least so many lines."""
_LONGEST_WORD = 15  # bytes
_RELATED = ({"nn", "no", "da"}, {"hr", "bs", "sr", "sh", "cnr"}, {"id", "ms"}, {"fa", "prs", "tg"}, {"pt", "gl"})
"""Languages that the library does not distinguish reliably."""
_LIBRARY_CODES = {"nb": "no"}
_NO_LANGUAGE = "zxx"


@dataclass(frozen=True)
class UntranslatedCheck:
    """The frequent words of the source language that the target language does not have, and those of the target."""

    source_words: frozenset[str]
    target_words: frozenset[str]

    @classmethod
    def of(cls, source: str, target: str) -> "UntranslatedCheck":
        """Return the check of a pair of languages; without lists of both, no word is evidence."""
        words, own = (FREQUENT_WORDS.get(listed_code(code), frozenset()) for code in (source, target))
        return cls(words - own if own else frozenset(), own)

    def found(self, source: str, target: str) -> str | None:
        """Return what of a normalized source is in its target; None if it is translated."""
        if len(source) <= len(target) and len(source) >= _LEAST_CHARACTERS and source.count(" ") >= LEAST_SPACES:
            passage = source.rstrip(".?!:;")
            if passage.lower() in target.lower():
                return "contains the source"
        words = target.lower().split()
        frequent = self.source_words.intersection(words)
        if len(frequent) < LEAST_FREQUENT or not self.target_words.isdisjoint(words):
            return None
        in_source = set(source.lower().split())
        if sum(word in in_source for word in words) < _LEAST_COMMON * len(words):
            return None
        return f"words of the source language: {', '.join(sorted(frequent))}"


def copy(source: str, target: str) -> str | None:
    """Return a word for it if a target is the source, apart from case."""
    if len(source) != len(target) or source.casefold() != target.casefold():
        return None
    return "identical" if source == target else "identical apart from case"


def is_available() -> bool:
    """Whether the library is installed."""
    return find_spec(LIBRARY) is not None


@dataclass(frozen=True)
class LanguageCheck:
    """Which language a line should be in, and the words by which most lines show that they are."""

    language: str
    own_words: frozenset[str]
    other_words: frozenset[str]

    @classmethod
    def of(cls, language: str, sample: Sequence[str] = ()) -> "LanguageCheck | None":
        """Return the check of a language; None if its script shows it, or if the library does not have it.

        `sample` are normalized lines of a text in that language: its frequent words are added to those of the list.
        """
        code, script = primary_code(language), script_of(language)
        code = _LIBRARY_CODES.get(code, code)
        if script in ("Han", "Japanese") or script in SOLE_LANGUAGES or not is_available():
            return None
        own = FREQUENT_WORDS.get(listed_code(language), frozenset())
        if not own and code not in _identifier().labels:  # otherwise the model is loaded when a line is suspicious
            return None
        others = frozenset().union(*FREQUENT_WORDS.values()) - own
        return cls(code, own | _frequent_words(sample, own, others), others)

    def wrong(self, text: str) -> str | None:
        """Return the language that a normalized text is in, with its probability, if that is another one."""
        if len(text) < LEAST_LETTERS or not self._is_suspicious(text.lower().split()):
            return None
        if sum(map(str.isalpha, text)) < LEAST_LETTERS:
            return None
        found, confidence = _identifier().classify(text)
        if confidence < _LEAST_CONFIDENCE or found in (self.language, _NO_LANGUAGE):
            return None
        if any({found, self.language} <= group for group in _RELATED):
            return None
        return f"language {found}, probability {confidence:.2f}"

    def _is_suspicious(self, words: list[str]) -> bool:
        """Return whether a line has no frequent word of its language, or more of another one."""
        own = _count(words, self.own_words)
        if own == 0 and len(words) >= MANY_WORDS:
            return True
        others = [word for word in words if word in self.other_words]
        return len(others) > own and max(_count(others, listed) for listed in FREQUENT_WORDS.values()) > own


def _frequent_words(lines: Sequence[str], own: Collection[str], others: Collection[str]) -> frozenset[str]:
    """Return the most frequent words of lines that are written in lower case, without those of other languages.

    Names would not show the language. Lines with more words of other languages than of the `own` ones, where these are
    listed, do not count: many lines in another language would make its words frequent.
    """
    divided = [line.split() for line in lines]
    if own:
        divided = [words for words in divided if _count(words, others) <= _count(words, own)]
    if len(divided) < _LEAST_LINES:
        return frozenset()
    counts = Counter(chain.from_iterable(divided))
    words = (word for word, _ in counts.most_common() if word.isalpha() and word.islower() and word not in others)
    return frozenset(islice((word for word in words if len(word.encode()) <= _LONGEST_WORD), _LEARNED_WORDS))


def _count(words: Sequence[str], listed: Collection[str]) -> int:
    """Return how many words of a line are listed."""
    return sum(map(listed.__contains__, words))


@cache
def _identifier() -> Any:
    """Return the model, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def listed_code(code: str) -> str:
    """Return the code under which the words of a language are listed."""
    primary = primary_code(code)
    return {"no": "nb", "nn": "nb", "ms": "id", "bs": "hr"}.get(primary, primary)
