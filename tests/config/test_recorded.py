"""Differences between recorded settings and present ones."""

from typing import Any

import pytest

from nmt.config.section import differences


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1}, []),
        ({"a": 1, "b": {"c": True}}, {"a": 2, "b": {"c": False}}, ["a: was 1, now 2", "b.c: was true, now false"]),
        ({"columns": [1, 2]}, {"columns": [2, 1]}, ["columns: was [1, 2], now [2, 1]"]),
        ({"train": [{"tag": None}]}, {"train": [{"tag": "bt"}]}, ['train.0.tag: was null, now "bt"']),
        ({"train": [{"w": 1}]}, {"train": [{"w": 1}, {"w": 2}]}, ["train.1.w: was null, now 2"]),
        ({"train": {"0": {"w": 1}}}, {"train": [{"w": 2}]}, ["train.0.w: was 1, now 2"]),
        ({"valid": None}, {"valid": {"file": "a"}}, ['valid.file: was null, now "a"']),
        ({"valid": {"file": "a"}}, {"valid": None}, ['valid.file: was "a", now null']),
        ({"sampling": None}, {"sampling": {}}, ["sampling: was null, now {}"]),
        ({"tokenizer": ["a.model"]}, {"tokenizer": {"size": 8}}, ['tokenizer: was ["a.model"], now {"size": 8}']),
        ({"names": []}, {"names": ["città"]}, ['names: was [], now ["città"]']),
        ({}, {"beam": 4}, ["beam: was null, now 4"]),
        (None, {}, [": was null, now {}"]),
    ],
)
def test_differences_name_the_key_and_both_values(before: Any, now: Any, expected: list[str]) -> None:
    assert [str(difference) for difference in differences(before, now)] == expected
