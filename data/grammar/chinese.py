"""Simplified Chinese: numbers, measure words and aspect."""

from __future__ import annotations

DIGITS = "零一二三四五六七八九"
QUANTIFIED_STARTS = ("一", "两", "三", "四", "五", "六", "几", "这", "那", "我的", "很多")
VERBS_BEFORE_LE = ("参观", "打开", "关上")


def number(value: int) -> str:
    """Write a number from 0 to 99, 100 or a multiple of 100 in characters."""
    if value >= 100:
        return DIGITS[value // 100] + "百"
    tens, unit = divmod(value, 10)
    if tens == 0:
        return DIGITS[unit]
    return ("" if tens == 1 else DIGITS[tens]) + "十" + ("" if unit == 0 else DIGITS[unit])


def count(value: int, measure: str) -> str:
    """Write a number with its measure word, with 两 for two."""
    return ("两" if value == 2 else number(value)) + measure


def completed(verb: str, rest: str) -> str:
    """Mark a predicate as completed: 了 after the verb of a quantified or visited object, else at the end."""
    if rest.startswith(QUANTIFIED_STARTS) or verb in VERBS_BEFORE_LE:
        return f"{verb}了{rest}"
    return f"{verb}{rest}了"
