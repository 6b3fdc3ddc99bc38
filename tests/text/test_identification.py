"""Which language a text is in."""

import pytest

from nmt.text.identification import Line, detected, examples, found_instead

TEXTS = {
    "en": "The men were in the house, and it was not far from here. What do you think about that? They have to go.",
    "it": "Gli uomini erano nella casa e non era lontano da qui. Che cosa ne pensi? Non so che cosa ha detto a Maria.",
    "fr": "Les hommes étaient dans la maison et ce n'est pas loin. Je ne sais pas ce que vous pensez de cela.",
    "de": "Die Männer waren in dem Haus, und es ist nicht weit von hier. Ich weiß nicht, was du über sie denkst.",
    "es": "Los hombres estaban en la casa y no está lejos de aquí. No sé qué es lo que piensas de la historia.",
    "pt": "Os homens estavam em uma casa e não é longe daqui. Eu não sei o que você pensa do que ele disse para mim.",
    "nl": "De mannen waren in het huis en het is niet ver van hier. Ik weet niet wat je van de dag met hem denkt.",
    "ru": "Я не знаю, что он сказал тебе вчера, но это было не так важно для меня, как ты думаешь. Он был из города.",
    "uk": "Я не знаю, що він сказав тобі вчора, але це було не так важливо для мене, як ти думаєш. Він був із міста.",
    "zh": "我不知道他昨天对你说了什么，但是这对我来说并不像你想的那么重要。",
    "ja": "彼が昨日あなたに何を言ったのか私は知りませんが、それはあまり重要ではありません。",
    "ko": "그가 어제 너에게 무슨 말을 했는지 모르지만 나에게는 그렇게 중요하지 않다.",
    "el": "Δεν ξέρω τι σου είπε χθες, αλλά δεν ήταν τόσο σημαντικό για μένα.",
    "ar": "لا أعرف ما قاله لك أمس، لكن هذا لم يكن مهما إلى هذا الحد في رأيي.",
}


def sample(language: str) -> list[Line]:
    return [Line(number, TEXTS[language]) for number in range(1, 21)]


@pytest.mark.parametrize("language", TEXTS)
def test_text_is_confirmed_in_its_language_and_in_no_other(language: str) -> None:
    assert detected(sample(language)) == language
    assert found_instead(sample(language), language) is None
    for other in TEXTS.keys() - {language}:
        assert found_instead(sample(language), other) == language, other


@pytest.mark.parametrize("code", ["is", "sr", "xx"])
def test_languages_without_a_list_are_not_contradicted_within_their_script(code: str) -> None:
    assert found_instead(sample("it"), code) is None


@pytest.mark.parametrize(("code", "language"), [("ita_Latn", "it"), ("zh-CN", "zh"), ("zho_Hant", "zh"), ("no", "nb")])
def test_codes_may_be_written_in_any_way(code: str, language: str) -> None:
    text = TEXTS.get(language, "Jeg vet ikke hva han har sagt til deg, men det er ikke så viktig for meg som du tror.")
    assert found_instead([Line(1, text)] * 20, code) is None


def test_chinese_with_many_english_terms_is_chinese() -> None:
    lines = [Line(1, "调用 str.format() 方法时 object 会被转换为 string；see PEP 3101 for details。")] * 50
    assert found_instead(lines, "zh") is None


@pytest.mark.parametrize("text", ["", "12345 67", "Tom", "Hmm hmm hmm"])
def test_too_little_text_shows_nothing(text: str) -> None:
    assert found_instead([Line(1, text)], "en") is None


def test_examples_are_lines_of_the_other_language() -> None:
    lines = [*sample("en")[:5], *(Line(number, TEXTS["it"][:60]) for number in range(6, 20))]
    assert [line.number for line in examples(lines, "en")] == [6, 7, 8]
    assert [line.number for line in examples([*sample("zh")[:2], *sample("en")], "zh")] == [1, 2, 3]
