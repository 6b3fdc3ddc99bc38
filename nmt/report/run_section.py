"""The section Run: curves of the training, what in its log needs attention, its recipe, and how to repeat it."""

import json
import shlex
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from nmt.config import Recipe
from nmt.config.model_sections import Schedule
from nmt.config.section import Difference, differences
from nmt.report.drawing import COLOURS, WIDE, Drawing, new_figure
from nmt.report.page import Html, Section, bullets, element, facts, figures, folded, joined, shown, table
from nmt.report.run_records import Record, RunRecords
from nmt.system.console import counted
from nmt.training.display import format_seconds

_MOST_SKIPPED_SHOWN = 20


def run_section(run: RunRecords) -> Section:
    """Return the section of a run."""
    remarks = [*_stability(run), *_fit(run), *_speed(run)]
    parts = [
        _overview(run),
        bullets(remarks) if remarks else element("p", "Nothing in the log is unusual."),
        element("h3", "Course"),
        figures(training_drawings(run)),
        _skipped(run),
        element("h3", "Recipe"),
        _recipe(run),
        element("h3", "Environment and signatures"),
        _environment(run),
        element("h3", "To train it again"),
        _repetition(run),
    ]
    return Section("run", "Run", joined(parts))


class Curve(NamedTuple):
    """The numbers that records have under a key, times a factor."""

    label: str
    records: Sequence[Record]
    key: str
    factor: float = 1

    @property
    def values(self) -> list[float]:
        """The numbers in the order of steps."""
        return [self.factor * record[self.key] for record in self.records]

    @property
    def course(self) -> str:
        """What the numbers do, in words."""
        values = self.values
        first, last, lowest, highest = map(shown, (values[0], values[-1], min(values), max(values)))
        return f"{self.label} from {first} to {last}, between {lowest} and {highest}"


def training_drawings(run: RunRecords) -> list[Drawing]:
    """Return the curves of a run for which there are numbers: first loss and scores."""
    train, valid = run.train, run.validations
    loss = [Curve("training", train, "loss"), Curve("validation", valid, "loss")]
    scores = [Curve("BLEU", valid, "bleu"), Curve("chrF", valid, "chrf")]
    rate, norm = Curve("rate", train, "rate"), Curve("norm", train, "gradient_norm")
    speed = Curve("speed", train, "target_tokens_per_second")
    waste = [Curve("padding", train, "padding", 100), Curve("waiting for batches", train, "loader_wait", 100)]
    charts = (
        ("loss", "Loss", "nats per target token", loss, "Both without label smoothing; only the one of training has "
         "dropout. When that of validation rises while that of training falls, the model overfits"),
        ("scores", "BLEU and chrF of the validation text", "score", scores, "Greedy translations"),
        ("rate", "Learning rate", "learning rate", [rate], ""),
        ("speed", "Speed", "target tokens per second", [speed], ""),
        ("waste", "Padding and waiting", "%", waste, "In percent of the positions of batches and of the time"),
        ("gradient", "Gradient norm before clipping", "mean norm", [norm], "A steady rise comes before divergence"),
    )  # fmt: skip
    drawings = []
    for name, title, label, curves, note in charts:
        curves = [curve for curve in curves if curve.records]
        if curves:
            words = [*(curve.course for curve in curves), note]
            caption = ". ".join(text[0].upper() + text[1:] for text in words if text) + "."
            drawings.append(Drawing(f"training-{name}", title, caption, new_figure(), subject=run.name))
            _plot(drawings[-1], label, curves, run.best)
    return drawings


def compared_drawing(runs: Sequence[RunRecords]) -> Drawing:
    """Draw loss and BLEU of several runs over each other, a colour for each."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    figure = new_figure(3.6, WIDE)
    loss, bleu = figure.subplots(1, 2)
    results = []
    for run, name, colour in zip(runs, names, COLOURS, strict=False):
        style: Any = {"color": colour, "marker": "o", "markersize": 3}
        loss.plot(*_points(run.train, "loss"), "--", color=colour, linewidth=1, label=f"{name}: training")
        loss.plot(*_points(run.validations, "loss"), **style, label=f"{name}: validation")
        bleu.plot(*_points(run.validations, "bleu"), **style, label=name)
        if run.best is not None:
            bleu.plot(run.best["step"], run.best["bleu"], "*", markersize=13, color=colour)
            results.append(f"{name} reaches a BLEU of {run.best['bleu']:.1f} at step {run.best['step']:,}")
    loss.set(xlabel="step (updates)", title="loss (nats per target token)", xlim=(0, None), ylim=(0, None))
    bleu.set(xlabel="step (updates)", title="BLEU of the validation text", xlim=(0, None), ylim=(0, None))
    loss.legend()
    bleu.legend()
    caption = (
        f"{'; '.join(results)}. Losses are comparable only between runs with one tokenizer and text, BLEU between "
        "runs with one text; a star marks the best checkpoint."
    )
    return Drawing("two-runs", "Two trainings", caption, figure, subject=" and ".join(names))


def _points(records: Sequence[Record], key: str) -> tuple[list[int], list[float]]:
    return [record["step"] for record in records], [record[key] for record in records]


def _plot(drawing: Drawing, label: str, curves: Sequence[Curve], best: Record | None) -> None:
    """Draw curves over the steps; those that have the best validation, with a star at it."""
    axes = drawing.figure.subplots()
    for curve, colour, line in zip(curves, COLOURS, ("-", "--"), strict=False):
        steps = [record["step"] for record in curve.records]
        marker = "o" if len(steps) <= 30 else ""  # a single point has no line
        axes.plot(steps, curve.values, line, marker=marker, markersize=3, color=colour, label=curve.label)
        if best is not None and best in curve.records:
            star = f"best (step {best['step']:,})" if curve is curves[-1] else None
            axes.plot(best["step"], best[curve.key], "*", markersize=13, color=colour, label=star)
    axes.set(xlabel="step (updates)", ylabel=label, xlim=(0, None))
    if len(axes.lines) > 1:
        axes.legend()


def _overview(run: RunRecords) -> Html:
    """Return state, step, time and scores."""
    last = max([*run.train, *run.validations], key=lambda record: float(record["seconds"]), default={})
    step = max(last.get("step", 0), 0 if run.progress is None else run.progress.step)
    items = [("State", *run.state), ("Step", f"{step:,}", f"epoch {last.get('epoch', 0):.2f}")]
    items.append(("Training time", format_seconds(last.get("seconds", 0)), "without pauses"))
    if (best := run.best) is not None:
        items.append(("Best validation", f"BLEU {best['bleu']:.2f}", f"chrF {best['chrf']:.2f}, step {best['step']:,}"))
    for score in run.test_scores:
        items.append((f"Test {score['name']}", f"{score['value']:.2f}", score.get("language", "best checkpoint")))
    return facts(items)


def _stability(run: RunRecords) -> Iterator[str]:
    if run.skipped:
        yield f"{counted(len(run.skipped), 'update')} skipped, because the loss or gradient was not finite."
    losses = [record["loss"] for record in run.train]
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
    elif best is last and len(run.validations) > 1:
        yield "The last validation is the best one: with more steps the model may still improve."


def _speed(run: RunRecords) -> Iterator[str]:
    if not run.train:
        return
    padding, waiting = (fmean(record[key] for record in run.train) for key in ("padding", "loader_wait"))
    if padding > 0.3:
        yield f"{padding:.0%} of the target tokens in batches are padding; more length groups have less."
    if waiting > 0.1:
        yield f"In {waiting:.0%} of the time no batch was ready: reading the corpus is slower than the model."


def _skipped(run: RunRecords) -> Html:
    """Return a table of the skipped updates, nothing if there are none."""
    if not run.skipped:
        return Html()
    rows = [(one["step"], one["loss"], one["gradient_norm"]) for one in run.skipped]
    note = f"the first {_MOST_SKIPPED_SHOWN} of {len(rows):,}" if len(rows) > _MOST_SKIPPED_SHOWN else ""
    content = table(("step", "loss", "gradient norm"), rows[:_MOST_SKIPPED_SHOWN], note)
    return joined([element("h3", "Skipped updates"), content])


def _recipe(run: RunRecords) -> Html:
    rows = [(change.key, _as_text(change.now), _as_text(change.before)) for change in changed_settings(run.recipe)]
    text = (run.path / "recipe.yaml").read_text(encoding="utf-8")
    changed = table(("key", "value", "default"), rows, "Settings that differ from the defaults.")
    return joined([changed, folded("The whole recipe", element("pre", text))])


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


def _environment(run: RunRecords) -> Html:
    """Return versions and device, the signatures of the scores, and the fingerprint of the corpus."""
    rows = [(name, _as_text(value)) for name, value in run.environment.items()]
    rows += [(f"signature of {score['name']}", element("code", score.get("signature"))) for score in run.test_scores]
    if run.progress is not None:
        rows.append(("fingerprint of the corpus", element("code", run.progress.corpus)))
    return table(("item", "value"), rows)


def _repetition(run: RunRecords) -> Html:
    recipe, again = str(run.path / "recipe.yaml"), f"run={run.path}-again"
    command = f"nmt train --config {shlex.quote(recipe)} --set {shlex.quote(again)}"
    note = "On the same machine, with the same versions and number of threads, it gives the same model."
    return joined([element("pre", command), element("p", note)])
