"""Characters of Simplified and of Traditional Chinese, against FLORES-200 in both."""

from nmt.text.languages import other_variant


def simplified_only(text: str) -> str:
    return other_variant(text, "Traditional")


def traditional_only(text: str) -> str:
    return other_variant(text, "Simplified")


def test_characters_of_one_variant_are_returned() -> None:
    assert simplified_only("这个国家说话時間學") == "这个国说话"
    assert traditional_only("這個國家说话時間學") == "這個國時間學"


def test_shared_characters_belong_to_neither() -> None:
    assert simplified_only("我和他在台北的后面，人大中文") == ""
    assert traditional_only("我和他在台北的后面，人大中文") == ""
    assert simplified_only("Il gatto, ねこ") == traditional_only("Il gatto, ねこ") == ""


def test_variants_of_flores_are_separated(shared_data) -> None:
    folder = shared_data / "flores200-dev"
    hans, hant = (
        (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for name in ("zho_Hans.dev", "zho_Hant.dev")
    )
    assert sum(map(bool, map(simplified_only, hans))) >= 0.99 * len(hans)
    assert sum(map(bool, map(traditional_only, hant))) >= 0.99 * len(hant)
    assert sum(map(bool, map(traditional_only, hans))) <= 0.01 * len(hans)
    assert sum(map(bool, map(simplified_only, hant))) <= 0.01 * len(hant)
