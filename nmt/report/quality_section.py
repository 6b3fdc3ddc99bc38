"""The sections Translations, a sample of those of a system, and Quality: its scores and faults."""

from collections.abc import Sequence

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES, measure
from nmt.report.page import Html, Section, bullets, element, facts, figures, folded, joined, paragraphs, table
from nmt.report.translations import System, length_drawings, lines_html, samples_html
from nmt.system.console import counted

NO_FAULTS = "No line has a fault of those that are searched for."
# Worst sentences.
_SHOWN = 10
# Sentences of each kind of fault.
_EXAMPLES = 5


def quality_section(systems: Sequence[System], missing: Sequence[str] = ()) -> Section:
    """Return the section of the systems, each with its text; what is missing is shown first."""
    if not systems and not missing:
        missing = ["This run has no translated text: the recipe names neither a test nor a validation text."]
    first, more = map(_system, systems[:1]), (folded(system.text.title, _system(system)) for system in systems[1:])
    html = joined([paragraphs(missing, "warning"), *first, *more])
    return Section("quality", "Quality", html)


def translations_section(system: System) -> Section:
    """Return the section that shows what the system translates well and badly."""
    legend = [
        f"{system.text.title} {system.text.note}. In the output, ", element("del", "words that the reference lacks"),
        "; in the reference, ", element("ins", "words that the output lacks"), ".",
    ]  # fmt: skip
    return Section(
        "translations", "Translations", joined([element("p", *legend, class_="muted"), samples_html(system)])
    )


def _system(system: System) -> Html:
    scores = [one.score(RESAMPLES) for one in (system.bleu, system.chrf)]
    lines = len(system.lines)
    items = [("lines", f"{lines:,}", system.text.note)]
    items += [(score.name, score.text, "95 % interval") for score in scores]
    if system.text.source is not None:
        copied = measure("bleu", system.text.source, [system.text.reference], system.text.language).score()
        items.append(("BLEU of the source", f"{copied.value:.2f}", "as if it were the translation"))
    order = sorted(range(lines), key=lambda index: system.line_scores[index])
    signatures = bullets(joined([f"{score.name}: ", element("code", score.signature)]) for score in scores)
    parts = [
        element("h3", f"{system.text.title}: {system.name}"),
        facts(items),
        figures(length_drawings([system]), _faults(system)),
        folded("Worst sentences", lines_html([system], order[:_SHOWN])),
        folded("Signatures", signatures),
    ]
    return joined(parts)


def _faults(system: System) -> Html:
    """Return the counts of faults, and the sentences of each kind with the lowest scores."""
    if not system.findings:
        return element("p", NO_FAULTS)
    faulty = len({one.line for one in system.findings})
    head = f"Faults in {counted(faulty, 'line')} ({faulty / len(system.lines):.1%})"
    rows, examples = [], []
    for kind, meaning in KINDS.items():
        lines = [one.line - 1 for one in system.findings if one.kind == kind]
        if lines:
            rows.append((kind, len(lines), meaning))
            chosen = sorted(lines, key=lambda index: system.line_scores[index])[:_EXAMPLES]
            examples.append(folded(f"{kind}: {len(chosen)} of {len(lines):,}", lines_html([system], chosen, kind)))
    return joined([element("strong", head), table(("kind", "lines", "the line has"), rows), *examples])
