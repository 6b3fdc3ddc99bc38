"""Which language a text is in."""

import pytest

from nmt.text.languages import found_instead, identify, language_of

TEXTS = {
    "en": "The men were in the house, and it was not far from here. What do you think about that? They have to go.",
    "it": "Gli uomini erano nella casa e non era lontano da qui. Che cosa ne pensi? Non so che cosa ha detto a Maria.",
    "fr": "Les hommes étaient dans la maison et ce n'est pas loin. Je ne sais pas ce que vous pensez de cela.",
    "de": "Die Männer waren in dem Haus, und es ist nicht weit von hier. Ich weiß nicht, was du über sie denkst.",
    "pt": "Os homens estavam em uma casa e não é longe daqui. Eu não sei o que você pensa do que ele disse para mim.",
    "ru": "Я не знаю, что он сказал тебе вчера, но это было не так важно для меня, как ты думаешь. Он был из города.",
    "uk": "Я не знаю, що він сказав тобі вчора, але це було не так важливо для мене, як ти думаєш. Він був із міста.",
    "zh": "我不知道他昨天对你说了什么，但是这对我来说并不像你想的那么重要。",
    "ja": "彼が昨日あなたに何を言ったのか私は知りませんが、それはあまり重要ではありません。",
    "ko": "그가 어제 너에게 무슨 말을 했는지 모르지만 나에게는 그렇게 중요하지 않다.",
    "el": "Δεν ξέρω τι σου είπε χθες, αλλά δεν ήταν τόσο σημαντικό για μένα.",
    "ar": "لا أعرف ما قاله لك أمس، لكن هذا لم يكن مهما إلى هذا الحد في رأيي.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_text_is_confirmed_in_its_language_and_in_no_other(language: str) -> None:
    lines = [TEXTS[language]] * 100
    assert identify(TEXTS[language])[0] == language
    assert language_of(lines) == language
    assert found_instead(lines, language) is None
    for other in TEXTS.keys() - {language}:
        assert found_instead(lines, other) == language, other


@pytest.mark.parametrize(
    ("language", "code"),
    [("it", "xx"), ("it", "sc"), ("it", "ita_Latn"), ("zh", "zh-CN"), ("zh", "yue"), ("pt", "gl"), ("uk", "sr")],
)
def test_only_languages_that_can_be_told_apart_are_contradicted(language: str, code: str) -> None:
    """By py3langid or by the script; Serbian is written in two, but Ukrainian is none of it."""
    assert found_instead([TEXTS[language]] * 100, code) == ("uk" if code == "sr" else None)


def test_chinese_with_many_english_terms_is_chinese() -> None:
    lines = ["调用 str.format() 方法时 object 会被转换为 string；see PEP 3101 for details。"] * 100
    assert found_instead(lines, "zh") is None


@pytest.mark.parametrize("text", ["", "12345 67"])
def test_text_without_letters_and_few_lines_show_nothing(text: str) -> None:
    assert found_instead([text] * 200, "en") is None
    assert found_instead([TEXTS["it"]] * 99 + [text], "en") is None


def test_text_in_two_languages_is_in_none_for_certain() -> None:
    lines = [TEXTS["it"]] * 100 + [TEXTS["fr"]] * 100
    assert language_of(lines) is None
    assert found_instead(lines, "en") is None
