"""The first sentences of a page: what was trained on what, and the result."""

from collections.abc import Sequence
from datetime import datetime

from nmt.evaluation.metrics import RESAMPLES
from nmt.report.run_records import RunRecords
from nmt.report.run_table import run_row
from nmt.report.translations import System
from nmt.system.console import counted
from nmt.text.languages import english_name


def run_summary(run: RunRecords, systems: Sequence[System]) -> tuple[str, str]:
    """Return the heading of a run, with its languages and result, and a sentence on model, text, time and date."""
    row, languages, model = run_row(run.name, run.path), run.recipe.languages, run.recipe.model
    heading = f"{english_name(languages.source)} to {', '.join(map(english_name, languages.target))}"
    if systems:
        first = systems[0]
        result = f"BLEU {first.bleu.score(RESAMPLES).text} on {counted(len(first.lines), 'sentence')}"
        heading += f": {result} of the {first.text.title[:1].lower()}{first.text.title[1:]}"
    layers = f"{model.encoder_layers} + {model.decoder_layers} layers of width {model.dim}"
    weights = f" and {row['parameters'] / 1e6:.2f} million parameters" if row["parameters"] else ""
    files = ", ".join(dict.fromkeys(path.name for text in run.recipe.data.train for path in text.files.values()))
    pairs = f"{row['pairs']:,} sentence pairs of " if row["pairs"] else ""
    steps = f"{counted(row['steps'], 'step')} in {row['minutes']:.1f} minutes on {row['device'] or 'an unknown device'}"
    date = datetime.fromtimestamp((run.path / "metrics.jsonl").stat().st_mtime).astimezone()
    lead = f"{run.name}: a Transformer of {layers}{weights}, trained on {pairs}{files} for {steps}, {date:%d %B %Y}."
    state, reason = run.state
    return heading, lead if state == "complete" else f"{lead} Its training is {state}: {reason}."


def comparison_heading(names: Sequence[str], systems: Sequence[System]) -> str:
    """Return the heading of a comparison: the best run, if all of them have translated the same test text."""
    tests = [system for system in systems if system.text.title == "Test text"]
    if len(tests) < len(names) or any(one.text.pairs != tests[0].text.pairs for one in tests):
        return f"{counted(len(names), 'run')} compared"
    best = max(tests, key=lambda system: system.bleu.score().value)
    languages = " to ".join(map(english_name, best.text.codes))
    score = f"BLEU {best.bleu.score(RESAMPLES).text} on {counted(len(best.lines), 'sentence')}"
    return f"{counted(len(names), 'run')}, {languages}: {best.name} has the highest score, {score} of the test text"
