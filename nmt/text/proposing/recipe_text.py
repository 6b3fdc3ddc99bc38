"""The recipe that `nmt init` writes: every setting that it chose, with its reason as a comment."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nmt.text.proposing.direction import Direction
from nmt.text.proposing.profile import TextProfile
from nmt.text.proposing.proposal import Proposal

_WIDTH = 100


@dataclass(frozen=True)
class RecipeContent:
    """What the recipe states; paths are relative to its folder."""

    name: str
    direction: Direction
    parts: Mapping[str, Mapping[str, object]]
    """The settings of `train`, `valid` and `test`."""
    run: str
    accept_any_language: bool
    """Whether the text does not look like the languages that are stated."""
    comments: Sequence[str]
    """Lines about the text, its division and the expected cost."""


def recipe_text(content: RecipeContent, profile: TextProfile, proposal: Proposal) -> str:
    """Return the recipe as YAML."""
    chosen, tokens = proposal.settings, proposal.tokens
    languages = f"{{source: {content.direction.source}, target: {content.direction.target}}}"
    vocabulary = (
        f"about {proposal.vocabulary:,} pieces for this text: the characters and bytes, and 1.8 times the square root "
        f"of {sum(profile.characters):,} characters; little text needs few pieces (Sennrich & Zhang 2019)"
    )
    lines = [
        "# Written by nmt init. docs/recipe.md explains all keys.",
        *(line for comment in content.comments for line in _comment(comment, "")),
        f"name: {json.dumps(content.name, ensure_ascii=False)}",
        f"languages: {languages}",
        "data:",
        f"  train: [{_mapping(content.parts['train'])}]",
        f"  valid: {_mapping(content.parts['valid'])}",
        f"  test: {_mapping(content.parts['test'])}",
        *(["  accept_any_language: true"] if content.accept_any_language else []),
        *_comment(vocabulary, ""),
        "tokenizer: {vocab_size: auto}",
        *_comment(chosen["model"].reason, ""),
        f"model: {chosen['model'].value}",
        "train:",
        *_comment(f"{tokens[1]:,} target tokens are a pass over the text", "  "),
    ]
    for key in ("batch_tokens", "schedule", "stop", "validate_every"):
        lines += [*_comment(chosen[key].reason, "  "), f"  {key}: {chosen[key].value}"]
    lines += ["decode: {beam: 4}", f"run: {json.dumps(content.run, ensure_ascii=False)}"]
    return "\n".join(lines) + "\n"


def _mapping(settings: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(each, ensure_ascii=False)}" for key, each in settings.items()) + "}"


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"{indent}# {line}"
