"""Whether a text is in its stated language, and which language it is in instead.

Two kinds of evidence: the scripts of the letters, and, among languages of one script, the share of the words that are
among the most frequent ones of a language (Ingle 1976). These words make up a quarter to a half of any running text, so
a few hundred words suffice. Languages without a list are distinguished by their script only.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.text.languages import SCRIPTS, SOLE_LANGUAGES, detect_language, primary_code, script_of

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
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 100  # of the sample; with fewer there is no conclusion
_LEAST_SHARE = 0.15  # of frequent words; less is no running text in any of the languages
_CLEAR = 0.6  # a share below this part of another language's is a mismatch
_ALONE = 0.75  # a language is detected if the shares of all others are below this part of its share
_OWN_SCRIPT, _LATIN_SCRIPT = 0.2, 0.5  # least share of letters; text in other scripts has many Latin names and terms
_EXAMPLES = 3


@dataclass(frozen=True)
class Line:
    """A line of a text with its number, from 1."""

    number: int
    text: str


def found_instead(lines: Sequence[Line], code: str) -> str | None:
    """Return the language or script that a sample of a text is in, if that is certainly not the language `code`.

    >>> found_instead([Line(1, "Non so che cosa sia il tempo, ma non mi piace.")] * 20, "en")
    'it'
    """
    text = "\n".join(line.text for line in lines)
    expected, share = script_of(code), script_shares(text)
    if not share:
        return None
    if expected is not None and share.get(expected, 0) < (_LATIN_SCRIPT if expected == "Latin" else _OWN_SCRIPT):
        return detected(lines) or max(share, key=lambda script: share[script])
    if primary_code(code) in ("zh", "ja") and (east_asian := detect_language([text]).code) != primary_code(code):
        return east_asian or None
    shares = _frequent_words(text, expected)
    own = shares.get(listed_code(code))
    if own is None or not shares or max(shares.values()) < _LEAST_SHARE:
        return None
    best = max(shares, key=lambda language: shares[language])
    return best if own < _CLEAR * shares[best] and detected(lines) == best else None


def detected(lines: Sequence[Line]) -> str | None:
    """Return the language of a sample of a text, None if it is not certain."""
    text = "\n".join(line.text for line in lines)
    share = script_shares(text)
    if not share:
        return None
    if east_asian := detect_language([text]).code:
        return east_asian
    script = max(share, key=lambda script: share[script])
    if script in SOLE_LANGUAGES:
        return SOLE_LANGUAGES[script]
    shares = _frequent_words(text, script)
    if not shares or max(shares.values()) < _LEAST_SHARE:
        return None
    best, *others = sorted(shares, key=lambda language: -shares[language])
    return best if all(shares[other] < _ALONE * shares[best] for other in others) else None


def examples(lines: Sequence[Line], code: str) -> list[Line]:
    """Return a few lines of a sample that are not in the language `code`: short ones, without its letters or words."""
    script, words = script_of(code), FREQUENT_WORDS.get(listed_code(code), frozenset[str]())
    foreign = [line for line in lines if _is_foreign(line.text, script, words)] or list(lines)
    readable = [line for line in foreign if 20 <= len(line.text) <= 100] or foreign
    return readable[:_EXAMPLES]


def _is_foreign(text: str, script: str | None, words: frozenset[str]) -> bool:
    if script not in (None, "Latin") and not re.search(f"[{SCRIPTS[script]}]", text):
        return True
    found = _WORD.findall(text.lower())
    return len(found) > 2 and not words.intersection(found)


def script_shares(text: str) -> dict[str, float]:
    """Return the share of the letters of a text that are in each script."""
    counts = Counter(text)
    distinct = "".join(counts)
    letters = sum(counts[character] for character in distinct if character.isalpha())
    in_script = {
        script: sum(counts[letter] for letter in re.findall(f"[{inside}]", distinct))
        for script, inside in SCRIPTS.items()
    }
    return {script: count / letters for script, count in in_script.items() if count and letters}


def _frequent_words(text: str, script: str | None) -> dict[str, float]:
    """Return for each listed language of a script the share of the words that are among its frequent ones."""
    counts = Counter(_WORD.findall(text.lower()))
    total = counts.total()
    if total < _LEAST_WORDS:
        return {}
    return {
        code: sum(counts[word] for word in words) / total
        for code, words in FREQUENT_WORDS.items()
        if script is None or script_of(code) == script
    }


def listed_code(code: str) -> str:
    """Return the code under which the words of a language are listed."""
    primary = primary_code(code)
    return {"no": "nb", "nn": "nb", "ms": "id", "bs": "hr"}.get(primary, primary)
