"""The section Quality: scores of translated texts, faults, worst and best sentences."""

from collections.abc import Sequence

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES
from nmt.report.page import Html, Section, bullets, element, facts, figures, folded, joined, paragraphs, table
from nmt.report.translations import System, length_drawing, lines_html
from nmt.system.console import counted

_SHOWN = 10
"""Best and worst sentences."""
_EXAMPLES = 5
"""Sentences of each kind of fault."""


def quality_section(systems: Sequence[System], missing: Sequence[str] = ()) -> Section:
    """Return the section of the systems, each with its text; what is missing is shown first."""
    if not systems and not missing:
        missing = ["This run has no translated text: the recipe names neither a test nor a validation text."]
    html = joined([paragraphs(missing, "warning"), *map(_system, systems)])
    return Section("quality", "Quality", html)


def _system(system: System) -> Html:
    scores = [one.score(RESAMPLES) for one in (system.bleu, system.chrf)]
    lines = len(system.lines)
    faulty = len({one.line for one in system.findings})
    items = [("lines", f"{lines:,}", system.text.note)]
    items += [(score.name, score.text, "95 % interval") for score in scores]
    items.append(("lines with faults", f"{faulty:,}", f"{faulty / lines:.1%}"))
    order = sorted(range(lines), key=lambda index: system.line_scores[index])
    worst, best = order[:_SHOWN], order[_SHOWN:][-_SHOWN:][::-1]
    legend = [
        f"The {counted(len(worst), 'line')} with the lowest chrF. In the output, ",
        element("del", "words that the reference lacks"), "; in the reference, ",
        element("ins", "words that the output lacks"), ". In Chinese and Japanese, single characters are compared.",
    ]  # fmt: skip
    parts = [
        element("h3", f"{system.text.title}: {system.name}"),
        facts(items),
        bullets(joined([f"{score.name}: ", element("code", score.signature)]) for score in scores),
        figures([length_drawing([system])]),
        element("h4", "Faults"),
        _faults(system),
        element("h4", "Worst sentences"),
        element("p", *legend, class_="muted"),
        lines_html([system], worst),
        folded(f"Best sentences ({len(best)})", lines_html([system], best)) if best else Html(),
    ]
    return joined(parts)


def _faults(system: System) -> Html:
    """Return the counts of faults, and the sentences of each kind with the lowest scores."""
    if not system.findings:
        return element("p", "No line has a fault of those that are searched for.")
    rows, examples = [], []
    for kind, meaning in KINDS.items():
        lines = [one.line - 1 for one in system.findings if one.kind == kind]
        if lines:
            rows.append((kind, len(lines), meaning))
            chosen = sorted(lines, key=lambda index: system.line_scores[index])[:_EXAMPLES]
            examples.append(folded(f"{kind}: {len(chosen)} of {len(lines):,}", lines_html([system], chosen, kind)))
    return joined([table(("kind", "lines", "the line has"), rows), *examples])
