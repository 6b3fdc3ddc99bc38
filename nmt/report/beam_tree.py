"""The tree of a beam search: every hypothesis that was considered, recorded while the search runs.

B sentences, K beam, N rows, as in `nmt.decoding.beam`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from nmt.decoding.beam import ActiveBeams, Candidates, Hypothesis
from nmt.decoding.engine import search
from nmt.decoding.models import StepModel
from nmt.decoding.options import SearchOptions
from nmt.text.tokenizer import EOS

Outcome = Literal["active", "finished", "pruned", "dropped"]
"""What became of a candidate: extended in the next step; ended by `</s>`; not among the best; among them, but
dropped, because no extension of it can be among the n best or because it is improbable."""


@dataclass(frozen=True)
class Node:
    """A candidate of a step: a hypothesis of the step before and one more token."""

    parent: int
    """The number of the node that it extends; -1 for `<s>`."""
    step: int
    """From 1: the length of the hypothesis, with `</s>`."""
    token: int
    log_prob: float
    """Log-probability of the token after its prefix."""
    total: float
    """Log-probability of the whole hypothesis: the sum of `log_prob` from `<s>` to here."""
    outcome: Outcome


@dataclass
class BeamTree:
    """The tree of one sentence, which `record` extends at each step; nodes in the order of steps, the best first."""

    beam: int
    nodes: list[Node] = field(default_factory=list)
    _row_nodes: list[int] = field(default_factory=lambda: [-1])  # the node of each active hypothesis

    def record(self, active: ActiveBeams, candidates: Candidates, extended: ActiveBeams, rows: Tensor) -> None:
        """Add the candidates of a step."""
        step = active.prefixes.size(1)
        before = active.log_probs.tolist()
        chosen = list(zip(rows.tolist(), extended.prefixes[:, -1].tolist(), strict=True))
        new_nodes, unfinished = {}, 0
        columns = (candidates.log_probs[0].tolist(), candidates.rows[0].tolist(), candidates.tokens[0].tolist())
        for rank, (total, row, token) in enumerate(zip(*columns, strict=True)):
            if total == float("-inf"):
                continue
            outcome: Outcome = "pruned"
            if (row, token) in chosen:
                outcome = "active"
                new_nodes[row, token] = len(self.nodes)
            elif token == EOS and rank < self.beam:
                outcome = "finished"
            elif token != EOS and unfinished < self.beam:  # the K best that do not end are extended, unless dropped
                outcome = "dropped"
            unfinished += token != EOS
            self.nodes.append(Node(self._row_nodes[row], step, token, total - before[row], total, outcome))
        self._row_nodes = [new_nodes[one] for one in chosen]

    def path(self, number: int) -> list[int]:
        """Return the numbers of the nodes from the first token to a node."""
        path: list[int] = []
        while number >= 0:
            path.append(number)
            number = self.nodes[number].parent
        return path[::-1]


def search_tree(model: StepModel, ids: Sequence[int], options: SearchOptions) -> tuple[BeamTree, list[Hypothesis]]:
    """Search the translation of one sentence, ids without `</s>`, and return the tree and the n best hypotheses."""
    tree = BeamTree(options.beam)
    source = torch.tensor([[*ids, EOS]], device=model.device)
    (found,) = search(model, source, None, options, observer=tree.record)
    return tree, found
