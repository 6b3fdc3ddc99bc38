"""The sections Quality, on the translations of one system, and Comparison, on those of two on the same text."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES, compare
from nmt.report.page import Html, Section, bullets, element, facts, figures, folded, joined, paragraphs, table
from nmt.report.translations import System, length_drawing, lines_html
from nmt.system.console import counted

# Best and worst sentences, and sentences that differ most.
_SHOWN = 10
# Sentences of each kind of fault.
_EXAMPLES = 5


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


# Points of chrF: a line of a smaller difference is equally good.
_EQUAL = 0.5


def comparison_section(first: Sequence[System], second: Sequence[System]) -> Section:
    """Return the section of the texts that two systems have in common."""
    parts, missing = [], []
    for one in first:
        same = (other for other in second if other.text.pairs == one.text.pairs)
        if (other := next(same, None)) is None:
            missing.append(f"{one.text.title}: the other system has no translations of the same text.")
        else:
            parts.append(_comparison(one, other))
    return Section("comparison", "Comparison", joined([paragraphs(missing, "warning"), *parts]))


def _comparison(first: System, second: System) -> Html:
    """Return significance, lines won, faults, scores by length, and the sentences that differ most."""
    differences = np.array(first.line_scores) - np.array(second.line_scores)
    won, lost = (int((sign * differences > _EQUAL).sum()) for sign in (1, -1))
    count = len(differences)
    items = [
        ("lines", f"{count:,}", first.text.note),
        (f"{first.name} is better", f"{won:,}", f"{won / count:.1%} of the lines"),
        (f"{second.name} is better", f"{lost:,}", f"{lost / count:.1%} of the lines"),
        ("equal lines", f"{count - won - lost:,}", f"within {_EQUAL} chrF"),
    ]
    order = np.argsort(-differences, kind="stable").tolist()
    better = [index for index in order if differences[index] > _EQUAL]
    worse = [index for index in order[::-1] if differences[index] < -_EQUAL]
    legend = [
        element("del", f"Words of {first.name} that {second.name} lacks"), ", and ", element("ins", "the reverse"), ".",
    ]  # fmt: skip
    parts = [element("h3", first.text.title), _significance(first, second), facts(items)]
    parts += [figures([length_drawing([first, second])]), element("h4", "Sentences that differ most")]
    parts.append(element("p", *legend, class_="muted") if better or worse else element("p", "All are equally good."))
    for name, indices in ((first.name, better), (second.name, worse)):
        if indices:
            title = f"{name} is better ({min(_SHOWN, len(indices))} of {len(indices):,})"
            parts.append(folded(title, lines_html([first, second], indices[:_SHOWN])))
    return joined(parts)


def _significance(first: System, second: System) -> Html:
    """Return which system is better, in words and numbers, and the faults of both."""
    rows, verdicts, signatures = [], [], []
    for one, other in ((first.bleu, second.bleu), (first.chrf, second.chrf)):
        found = compare(one, other)
        texts = (each.score(RESAMPLES).text for each in (one, other))
        rows.append((found.name, *texts, f"{found.difference:+.2f}", f"{found.p_value:.3f}"))
        better = first.name if found.difference > 0 else second.name
        verdict = f"{better} is significantly better" if found.significant else "no significant difference"
        verdicts.append(f"{found.name}: {verdict}.")
        signatures.append(joined([f"{found.name}: ", element("code", found.signature)]))
    caption = "95 % intervals by bootstrap resampling; p by paired bootstrap resampling, below 0.05 significant."
    faults = [Counter(one.kind for one in system.findings) for system in (first, second)]
    kinds = [(kind, *(one[kind] for one in faults), KINDS[kind]) for kind in KINDS if any(one[kind] for one in faults)]
    columns = (first.name, second.name)
    parts = [element("p", element("strong", " ".join(verdicts)))]
    parts += [table(("metric", *columns, "difference", "p"), rows, caption), bullets(signatures)]
    parts += [table(("fault", *columns, "the line has"), kinds, "Lines with faults.")] if kinds else []
    return joined(parts)
