"""The section on the search for translations."""

from typing import Annotated

from pydantic import Field

from nmt.config.section import PositiveInt, Section


class MaxLength(Section):
    """The longest translation: factor × source tokens + extra, in tokens, with the end symbol on both sides."""

    factor: float = Field(default=2.0, ge=0, le=100)
    """Target tokens per source token."""
    extra: Annotated[int, Field(ge=1, le=1000)] = 10
    """Target tokens in addition."""


class Sampling(Section):
    """Random translations drawn from the model's distribution. A sentence has the same ones in any text."""

    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Divisor of the logits: below 1 the distribution is sharper, above 1 flatter."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the fewest tokens whose total probability is at least this (Holtzman et al. 2020)."""


class DecodeSettings(Section):
    """The search for translations, by `nmt translate` and of the test text; validations search greedily.

    `nmt translate --set decode.key=value` changes it for one command.
    """

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    """Number of hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """Exponent α of the length normalization: log-probabilities are divided by ((5+L)/6)^α (Wu et al. 2016); 0 favours
    short translations."""
    exact: bool = False
    """Search until no other hypothesis of the beam can become the best; `false` also drops those that hardly ever do,
    which takes less time for the same quality."""
    max_length: Annotated[MaxLength | None, Field(examples=[{"factor": 1.5, "extra": 10}])] = None
    """The longest translation; null uses the limit that `nmt prepare` measures on the training text."""
    no_repeat_ngram: Annotated[PositiveInt | None, Field(examples=[3])] = None
    """Exclude translations in which a sequence of this many tokens occurs twice; null allows them."""
    sampling: Annotated[Sampling | None, Field(examples=[{"temperature": 0.7}])] = None
    """Draw random translations instead of searching for the best; `{}` draws from the unchanged distribution."""
    protect: bool = True
    """Copy URLs, e-mail addresses, placeholders and tags unchanged: where one is missing, the line is translated
    without them, and each is placed by the word alignment."""
    typography: bool = True
    """Correct Chinese punctuation to full width."""
    batch_tokens: Annotated[PositiveInt | None, Field(examples=[8192])] = None
    """Padded source tokens × beam in a batch; null for 8,192 on a CPU, where a batch also has at most a few
    hundred hypotheses, and 131,072 on a GPU."""
