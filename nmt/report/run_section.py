"""The section Run: charts of the training, what in its log needs attention, its recipe, and how to repeat it."""

import json
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from nmt.config import Recipe
from nmt.config.recorded import Difference, differences
from nmt.config.schedules import Schedule
from nmt.report.charts import Chart, Series, line_chart, sentence, short
from nmt.report.page import Section, bullets, chart_places, definitions, paragraphs, table
from nmt.report.run_records import Record, RunRecords, mean, number
from nmt.system.console import counted
from nmt.text.corpus import text_files
from nmt.training.display import format_seconds

_MOST_SKIPPED_SHOWN = 20


def run_section(run: RunRecords) -> Section:
    """Return the section of a run."""
    charts = run_charts(run)
    html = (
        f"{paragraphs(run.problems, 'warning')}{_overview(run)}{_remarks(run)}<h3>Course</h3>{chart_places(charts)}"
        f"{_interventions(run)}{_recipe(run)}{_environment(run)}{_repetition(run)}"
    )
    return Section("run", "Run", html, charts)


def run_charts(run: RunRecords) -> dict[str, Chart]:
    """Return the charts for which the log has numbers, by name."""
    note = " Both are without label smoothing; only the training loss is computed with dropout."
    charts = {
        "loss": _curves(run, "Loss", "loss", "nats per target token", ".3f", note),
        "scores": _scores(run),
        "perplexity": _curves(run, "Perplexity", "perplexity", "perplexity", ".2f"),
        "rate": _single(run, "rate", "Learning rate", "learning rate"),
        "speed": _single(run, "target_tokens_per_second", "Speed", "target tokens per second"),
        "shares": _shares(run),
        "gradient": _single(run, "gradient_norm", "Gradient norm before clipping", "mean norm"),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _curves(run: RunRecords, title: str, key: str, label: str, form: str, note: str = "") -> Chart | None:
    """Return the values of training and validation under a key."""
    lines = [_series("training", run.train, key), _series("validation", run.validations, key)]
    return _with_best(run, title, f"{_from_to(lines, form)}{note}", label, lines, key)


def _scores(run: RunRecords) -> Chart | None:
    lines = [_series("BLEU", run.validations, "bleu"), _series("chrF", run.validations, "chrf")]
    summary = f"{_from_to(lines, '.2f')} Greedy translations of the validation text."
    if (best := run.best) is not None:
        summary = f"Best at step {best['step']:,}: BLEU {best['bleu']:.2f}, chrF {best['chrf']:.2f}. {summary}"
    key = "chrf" if run.recipe is not None and run.recipe.train.best_metric == "chrf" else "bleu"
    return _with_best(run, "BLEU and chrF on the validation text", summary, "score", lines, key)


def _shares(run: RunRecords) -> Chart | None:
    names = {"padding": "padding", "loader_wait": "waiting for batches"}
    lines = _drawn([_series(name, run.train, key, 100) for key, name in names.items()])
    means = ", ".join(f"{name} {mean(run.train, key):.1%}" for key, name in names.items())
    title = "Padding and waiting"
    return line_chart(title, f"Means: {means}.", ("step", "%"), lines) if lines else None


def _single(run: RunRecords, key: str, title: str, label: str) -> Chart | None:
    line = _series(label, run.train, key)
    values = [value for value in line.y if value is not None]
    if not values:
        return None
    lowest, highest, last = map(short, (min(values), max(values), values[-1]))
    summary = f"{label[0].upper()}{label[1:]}: between {lowest} and {highest}; {last} at the end."
    return line_chart(title, summary, ("step", label), [line])


def _series(name: str, records: Sequence[Record], key: str, factor: int = 1) -> Series:
    """Return the numbers that records have under a key, times a factor."""
    values = [number(record, key) for record in records]
    return Series(name, [record["step"] for record in records], [value and factor * value for value in values])


def _drawn(lines: Sequence[Series]) -> list[Series]:
    """Return the lines that have points."""
    return [line for line in lines if any(value is not None for value in line.y)]


def _with_best(
    run: RunRecords, title: str, summary: str, label: str, lines: Sequence[Series], key: str
) -> Chart | None:
    """Return a chart of the lines that have points, with a star at the best validation."""
    drawn, best = _drawn(lines), run.best
    if best is not None and number(best, key) is not None:
        drawn.append(Series(f"best (step {best['step']:,})", [best["step"]], [number(best, key)], is_best=True))
    return line_chart(title, summary, ("step", label), drawn, key == "perplexity") if drawn else None


def _from_to(lines: Sequence[Series], form: str) -> str:
    parts = []
    for line in lines:
        values = [value for value in line.y if value is not None]
        if len(values) == 1:
            parts.append(f"{line.name} {values[0]:{form}}")
        elif values:
            parts.append(f"{line.name} from {values[0]:{form}} to {values[-1]:{form}}")
    return sentence(parts)


def _overview(run: RunRecords) -> str:
    last = max([{}, *run.train, *run.validations], key=lambda record: number(record, "seconds") or 0)
    seconds, best = number(last, "seconds"), run.best
    items = [("State", *run.state), ("Step", f"{run.last_step:,}", f"epoch {number(last, 'epoch') or 0:.2f}")]
    if seconds is not None:
        items.append(("Training time", format_seconds(seconds), "without pauses"))
    if best is not None:
        items.append(("Best validation", f"BLEU {best['bleu']:.2f}", f"chrF {best['chrf']:.2f}, step {best['step']:,}"))
    items += [(f"Test {score['name']}", f"{score['value']:.2f}", "best checkpoint") for score in run.test_scores]
    return definitions(items)


def _remarks(run: RunRecords) -> str:
    """Return what in the log needs attention, as a list."""
    found = [*_stability(run), *_fit(run), *_speed(run)]
    return bullets(map(escape, found)) or "<p>Nothing in the log is unusual.</p>"


def _stability(run: RunRecords) -> Iterator[str]:
    if run.skipped:
        yield f"{counted(len(run.skipped), 'update')} skipped, because the loss or gradient was not finite."
    losses = [loss for record in run.train if (loss := number(record, "loss")) is not None]
    if losses and losses[-1] > 1.2 * min(losses) + 0.1:
        yield f"The training loss rose from {min(losses):.3f} to {losses[-1]:.3f} at the end: it diverges."


def _fit(run: RunRecords) -> Iterator[str]:
    if not run.validations:
        yield "There is no validation, so the log does not show how well the model translates other text."
        return
    best, last = run.best, run.validations[-1]
    losses = [(record["loss"], record["step"]) for record in run.validations]
    lowest, step = min(losses)
    latest, _ = min(losses[-3:])  # of three, since one may be chance
    if latest > 1.02 * lowest + 0.01:
        yield (
            f"The validation loss is lowest at step {step:,} ({lowest:.3f}) and rises to {losses[-1][0]:.3f}: the "
            "model overfits; more text, more dropout or fewer steps help."
        )
    elif best is not None and best["step"] == last["step"] and len(run.validations) > 1:
        yield "The last validation is the best one: with more steps the model may still improve."


def _speed(run: RunRecords) -> Iterator[str]:
    padding, waiting = (mean(run.train, key) for key in ("padding", "loader_wait"))
    if padding > 0.3:
        yield f"{padding:.0%} of the target tokens in batches are padding; more length groups have less."
    if waiting > 0.1:
        yield f"In {waiting:.0%} of the time no batch was ready: reading the corpus is slower than the model."


def _interventions(run: RunRecords) -> str:
    """Return the skipped updates."""
    head = "<h3>Skipped updates</h3>"
    if not run.skipped:
        return f"{head}<p>None.</p>"
    rows = [(one["step"], str(one.get("loss", "")), str(one.get("gradient_norm", ""))) for one in run.skipped]
    left_out = f"{_MOST_SKIPPED_SHOWN} of {len(rows):,}" if len(rows) > _MOST_SKIPPED_SHOWN else ""
    return f"{head}{table(('step', 'loss', 'gradient norm'), rows[:_MOST_SKIPPED_SHOWN], left_out)}"


def _recipe(run: RunRecords) -> str:
    head, full = "<h3>Recipe</h3>", ""
    if run.recipe_text:
        text = f'<pre tabindex="0">{escape(run.recipe_text)}</pre>'
        full = f'<details class="screen-only"><summary>The whole recipe</summary>{text}</details>'
    if run.recipe is None:
        return f"{head}{full}"
    rows = [(change.key, _as_text(change.now), _as_text(change.before)) for change in changed_settings(run.recipe)]
    return f"{head}<p>Settings that differ from the defaults.</p>{table(('key', 'value', 'default'), rows)}{full}"


def changed_settings(recipe: Recipe) -> list[Difference]:
    """Return the settings that are not the defaults; `before` is the default."""
    now = recipe.model_dump(mode="json")
    required = {"languages": recipe.languages, "run": recipe.run}
    # the texts have no default, so that each one is a difference
    default = Recipe.model_validate({**required, "data": {"train": recipe.data.train}}).model_dump(mode="json")
    schedule = recipe.train.schedule
    name = default["train"]["schedule"]["name"]
    default["train"]["schedule"] = {**Schedule(name=schedule.name).model_dump(mode="json"), "name": name}
    default.update(languages=None, run=None)
    default["data"]["train"] = None
    return [change for change in differences(default, now) if not change.key.endswith(".oversample") or change.now != 1]


def _as_text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _environment(run: RunRecords) -> str:
    """Return versions and device, the signatures of the scores, and the digests of corpus and model."""
    rows = [(name, _as_text(value)) for name, value in run.environment.items()]
    rows += [(f"signature of {score['name']}", str(score.get("signature", ""))) for score in run.test_scores]
    if run.progress is not None:
        rows.append(("fingerprint of the corpus", run.progress.corpus))
    if run.model_digest:
        rows.append(("digest of the best model", run.model_digest))
    return f"<h3>Environment and signatures</h3>{table(('item', 'value'), rows)}"


def _repetition(run: RunRecords) -> str:
    recipe, again = str(run.path / "recipe.yaml"), f"run={run.path}-again"
    command = f"nmt train --config {shlex.quote(recipe)} --set {shlex.quote(again)}"
    note = "On the same machine, with the same versions and number of threads, it gives the same model."
    missing = [] if run.recipe is None else [path for path in texts_of(run.recipe) if not path.exists()]
    lost = paragraphs([f"No longer there: {', '.join(map(str, missing))}"] if missing else [], "warning")
    return f'<h3>To train it again</h3><pre tabindex="0">{escape(command)}</pre><p>{note}</p>{lost}'


def texts_of(recipe: Recipe) -> list[Path]:
    """Return the files that the recipe reads."""
    corpora = (*recipe.data.train, *recipe.data.valid, *recipe.data.test)
    return [path for corpus in corpora for path in text_files(corpus).values()]
