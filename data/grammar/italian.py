"""Italian morphology: articles, contractions, agreement and verb conjugation."""

from __future__ import annotations

VOWELS = "aeiouàèéìòù"
DEFINITE_ARTICLES = ("il", "lo", "la", "l'", "i", "gli", "le")
CONTRACTION_STEMS = {"di": "de", "a": "a", "da": "da", "in": "ne", "su": "su"}
CONTRACTION_ENDINGS = {"il": "l", "lo": "llo", "la": "lla", "l'": "ll'", "i": "i", "gli": "gli", "le": "lle"}
SOFT_CO_ADJECTIVES = {"simpatico", "economico"}
INVARIABLE_ADJECTIVES = {"blu", "rosa", "viola"}

PRESENT = {
    "essere": "sono sei è siamo siete sono",
    "avere": "ho hai ha abbiamo avete hanno",
    "andare": "vado vai va andiamo andate vanno",
    "fare": "faccio fai fa facciamo fate fanno",
    "stare": "sto stai sta stiamo state stanno",
    "dare": "do dai dà diamo date danno",
    "sapere": "so sai sa sappiamo sapete sanno",
    "potere": "posso puoi può possiamo potete possono",
    "volere": "voglio vuoi vuole vogliamo volete vogliono",
    "dovere": "devo devi deve dobbiamo dovete devono",
    "venire": "vengo vieni viene veniamo venite vengono",
    "uscire": "esco esci esce usciamo uscite escono",
    "bere": "bevo bevi beve beviamo bevete bevono",
    "dire": "dico dici dice diciamo dite dicono",
    "rimanere": "rimango rimani rimane rimaniamo rimanete rimangono",
    "spegnere": "spengo spegni spegne spegniamo spegnete spengono",
    "scegliere": "scelgo scegli sceglie scegliamo scegliete scelgono",
}
FUTURE_STEMS = {
    "essere": "sar",
    "avere": "avr",
    "andare": "andr",
    "fare": "far",
    "stare": "star",
    "dare": "dar",
    "sapere": "sapr",
    "potere": "potr",
    "volere": "vorr",
    "dovere": "dovr",
    "venire": "verr",
    "bere": "berr",
    "rimanere": "rimarr",
    "vedere": "vedr",
    "vivere": "vivr",
}
PARTICIPLES = {
    "essere": "stato",
    "fare": "fatto",
    "leggere": "letto",
    "scrivere": "scritto",
    "prendere": "preso",
    "chiudere": "chiuso",
    "aprire": "aperto",
    "vedere": "visto",
    "bere": "bevuto",
    "dire": "detto",
    "rimanere": "rimasto",
    "scegliere": "scelto",
    "correre": "corso",
    "dipingere": "dipinto",
    "piangere": "pianto",
    "ridere": "riso",
    "perdere": "perso",
    "venire": "venuto",
    "mettere": "messo",
    "vivere": "vissuto",
    "spendere": "speso",
    "sorridere": "sorriso",
    "vincere": "vinto",
    "rompere": "rotto",
    "spegnere": "spento",
    "accendere": "acceso",
}
STEMS_OF_SHORT_INFINITIVES = {"fare": "fac", "bere": "bev", "dire": "dic"}
ISC_VERBS = {"finire", "pulire", "capire", "preferire", "spedire"}
ESSERE_VERBS = {
    "essere",
    "andare",
    "venire",
    "uscire",
    "arrivare",
    "partire",
    "tornare",
    "restare",
    "rimanere",
    "stare",
}
REFLEXIVE_CLITICS = ("mi", "ti", "si", "ci", "vi", "si")
NUMBERS = [
    "zero",
    "uno",
    "due",
    "tre",
    "quattro",
    "cinque",
    "sei",
    "sette",
    "otto",
    "nove",
    "dieci",
    "undici",
    "dodici",
    "tredici",
    "quattordici",
    "quindici",
    "sedici",
    "diciassette",
    "diciotto",
    "diciannove",
]
TENS = ["venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"]


def join(*parts: str) -> str:
    """Join the non-empty parts with spaces, closing up after an apostrophe."""
    return " ".join(part for part in parts if part).replace("' ", "'")


def starts_with_vowel(phrase: str) -> bool:
    """Tell whether the phrase is pronounced with an initial vowel."""
    return phrase[0].lower() in VOWELS or phrase.split()[0] in ("8", "11")


def takes_lo(phrase: str) -> bool:
    """Tell whether a masculine phrase takes lo/uno/gli because of its first consonants."""
    word = phrase.lower()
    impure_s = word[0] == "s" and word[1] not in VOWELS
    return word[0] in "zxy" or impure_s or word[:2] in ("gn", "ps", "pn")


def definite(phrase: str, gender: str, plural: bool) -> str:
    """Put the right definite article before a phrase."""
    vowel, lo_class = starts_with_vowel(phrase), takes_lo(phrase)
    if plural:
        article = "le" if gender == "f" else ("gli" if vowel or lo_class else "i")
    elif vowel:
        article = "l'"
    elif gender == "f":
        article = "la"
    else:
        article = "lo" if lo_class else "il"
    return join(article, phrase)


def indefinite(phrase: str, gender: str) -> str:
    """Put the right singular indefinite article before a phrase."""
    if gender == "f":
        return join("un'" if starts_with_vowel(phrase) else "una", phrase)
    return join("uno" if takes_lo(phrase) else "un", phrase)


def this(phrase: str, gender: str, plural: bool) -> str:
    """Put questo/questa/quest'/questi/queste before a phrase."""
    if not plural and starts_with_vowel(phrase):
        return join("quest'", phrase)
    return join(adjective("questo", gender, plural), phrase)


def that(phrase: str, gender: str, plural: bool) -> str:
    """Put quel/quello/quella/quell'/quei/quegli/quelle before a phrase."""
    return join(_article_like("que", phrase, gender, plural), phrase)


def beautiful(phrase: str, gender: str, plural: bool) -> str:
    """Put the right form of prenominal bello before a phrase."""
    return join(_article_like("be", phrase, gender, plural), phrase)


def good(phrase: str, gender: str, plural: bool) -> str:
    """Put the right form of prenominal buono before a phrase."""
    if plural:
        return join("buone" if gender == "f" else "buoni", phrase)
    if gender == "f":
        return join("buona", phrase)
    return join("buono" if takes_lo(phrase) else "buon", phrase)


def _article_like(stem: str, phrase: str, gender: str, plural: bool) -> str:
    """Inflect a word such as quello or bello, which follows the definite article."""
    if starts_with_vowel(phrase) and not plural:
        return stem + "ll'"
    article = definite(phrase, gender, plural).split()[0]
    return stem + CONTRACTION_ENDINGS[article]


def contract(preposition: str, phrase: str) -> str:
    """Put a preposition before a phrase, merging it with a definite article."""
    head, _, rest = phrase.partition(" ")
    if phrase.startswith("l'"):
        head, rest = "l'", phrase[2:]
    if head in DEFINITE_ARTICLES and preposition in CONTRACTION_STEMS:
        return join(CONTRACTION_STEMS[preposition] + CONTRACTION_ENDINGS[head], rest)
    if preposition == "a" and phrase[0] in "Aa":
        return "ad " + phrase
    return f"{preposition} {phrase}"


def and_(first: str, second: str) -> str:
    """Coordinate two phrases with e, or ed before another e."""
    return f"{first} {'ed' if second[0] in 'Ee' else 'e'} {second}"


def adjective(lemma: str, gender: str, plural: bool) -> str:
    """Inflect an adjective or a participle for gender and number."""
    if lemma in INVARIABLE_ADJECTIVES:
        return lemma
    if lemma.endswith("e"):
        return lemma[:-1] + ("i" if plural else "e")
    stem = lemma[:-1]
    if not plural:
        return stem + ("a" if gender == "f" else "o")
    if gender == "f":
        return stem + ("he" if stem[-1] in "cg" else "e")
    if stem.endswith("i"):
        return stem
    return stem + ("hi" if stem[-1] in "cg" and lemma not in SOFT_CO_ADJECTIVES else "i")


def present(infinitive: str, person: int) -> str:
    """Conjugate in the present indicative; persons run from 0 (io) to 5 (loro)."""
    if infinitive in PRESENT:
        return PRESENT[infinitive].split()[person]
    stem, group = infinitive[:-3], infinitive[-3:]
    if group == "are":
        ending = ("o", "i", "a", "iamo", "ate", "ano")[person]
        if ending[0] == "i" and stem[-1] in "cg":
            return f"{stem}h{ending}"
        return stem[:-1] + ending if ending[0] == "i" and stem[-1] == "i" else stem + ending
    if infinitive in ISC_VERBS:
        return stem + ("isco", "isci", "isce", "iamo", "ite", "iscono")[person]
    return stem + ("o", "i", "e", "iamo", "ete" if group == "ere" else "ite", "ono")[person]


def future(infinitive: str, person: int) -> str:
    """Conjugate in the simple future."""
    stem = infinitive[:-3]
    if infinitive in FUTURE_STEMS:
        base = FUTURE_STEMS[infinitive]
    elif infinitive.endswith("are"):
        if stem[-1] in "cg":
            stem += "h"
        elif stem[-2:] in ("ci", "gi"):
            stem = stem[:-1]
        base = stem + "er"
    else:
        base = infinitive[:-1]
    return base + ("ò", "ai", "à", "emo", "ete", "anno")[person]


def imperfect(infinitive: str, person: int) -> str:
    """Conjugate in the imperfect indicative."""
    if infinitive == "essere":
        return ["ero", "eri", "era", "eravamo", "eravate", "erano"][person]
    if infinitive in STEMS_OF_SHORT_INFINITIVES:
        base = STEMS_OF_SHORT_INFINITIVES[infinitive] + "ev"
    else:
        base = infinitive[:-2] + "v"
    return base + ("o", "i", "a", "amo", "ate", "ano")[person]


def gerund(infinitive: str) -> str:
    """Form the gerund."""
    if infinitive in STEMS_OF_SHORT_INFINITIVES:
        return STEMS_OF_SHORT_INFINITIVES[infinitive] + "endo"
    return infinitive[:-3] + ("ando" if infinitive.endswith("are") else "endo")


def participle(infinitive: str) -> str:
    """Form the masculine singular past participle."""
    if infinitive in PARTICIPLES:
        return PARTICIPLES[infinitive]
    return infinitive[:-3] + {"are": "ato", "ere": "uto", "ire": "ito"}[infinitive[-3:]]


def imperative(infinitive: str) -> str:
    """Form the affirmative imperative for tu."""
    regular_are = infinitive.endswith("are") and infinitive not in PRESENT
    return present(infinitive, 2 if regular_are else 1)


def number(value: int) -> str:
    """Write a number from 0 to 99, 100 or a multiple of 100 in letters."""
    if value >= 100:
        return ("" if value == 100 else NUMBERS[value // 100]) + "cento"
    if value < 20:
        return NUMBERS[value]
    tens, unit = TENS[value // 10 - 2], value % 10
    if unit == 0:
        return tens
    if unit in (1, 8):
        tens = tens[:-1]
    return tens + ("tré" if unit == 3 else NUMBERS[unit])
