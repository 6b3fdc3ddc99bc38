"""The sections of runs: training curves and remarks, and settings of one; numbers and curves of several; headings."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.config import Recipe
from nmt.config.model_sections import Schedule
from nmt.config.section import Difference, differences
from nmt.report.drawing import (
    COLOURS,
    LEGEND_LINE,
    QUARTER,
    THIRD,
    Drawing,
    in_legend,
    label_ends,
    legend_below,
    new_chart,
    set_logarithmic,
    short_number,
)
from nmt.report.page import render
from nmt.report.run_records import Record, Row, RunRecords, columns_of, differing_settings, run_row, setting_text
from nmt.report.translations import System
from nmt.system.console import counted
from nmt.text.languages import english_name
from nmt.training.progress import perplexity_text

_MOST_STEPS = 10  # of skipped updates
_MORE = 1.05  # a run that has seen this many times the pairs of another one has seen more text
_LINE_STYLES = ("-", "--", ":")  # the next one when all colours are used
_LABELLED = (0.55, 1.15, 0.42, 0.12)  # inches, with room for labels at the right end of lines
# What runs cost, by the key of the log: name, label, factor, and what to consider.
_COSTS = {
    "step": ("steps", "steps", 1, "A step of larger batches sees more text."),
    "target_tokens": ("tokens", "million target tokens", 1e-6, "Scores are comparable on one text, losses and tokens "
                      "only with one tokenizer."),
    "seconds": ("minutes", "minutes of training", 1 / 60, "Minutes depend on the machine."),
}  # fmt: skip


def curves_html(run: RunRecords) -> Markup:
    """Return the section of a run: remarks and curves."""
    return render("training.html", remarks=list(remarks(run)), drawings=training_drawings(run) + update_drawings(run))


def training_drawings(run: RunRecords) -> list[Drawing]:
    """Return the curves of the loss and of the scores of a run, those for which there are numbers."""
    train, valid, drawings = run.train, run.validations, list[Drawing]()
    if train or valid:
        caption = "Without label smoothing."
        if valid:
            loss = valid[-1]["loss"]
            caption += f" A validation loss of {loss:.3g} is a perplexity of {perplexity_text(loss)}."
        figure = _labelled_curves(run, [("training", "loss", train), ("validation", "loss", valid)])
        set_logarithmic(figure.axes[0], "y")
        drawings.append(Drawing("training-loss", "Loss: nats per target token", caption, figure, subject=run.name))
    if valid:
        caption = "Greedy translations; the star is the best checkpoint."
        if len(valid) > 1:
            before, last = valid[-2:]
            steps, gain = last["step"] - before["step"], last["bleu"] - before["bleu"]
            caption += f" The last {steps:,} steps changed BLEU by {gain:+.1f}."
        title = "BLEU and chrF of the validation text"
        figure = _labelled_curves(run, [("BLEU", "bleu", valid), ("chrF", "chrf", valid)])
        drawings.append(Drawing("training-scores", title, caption, figure, subject=run.name))
    return drawings


def _labelled_curves(run: RunRecords, curves: Sequence[tuple[str, str, list[Record]]]) -> Figure:
    """Draw curves over the steps, each a label, a key and records of the log, with a star at the best checkpoint."""
    figure, (axes,) = new_chart(margins=_LABELLED)
    for (label, key, records), colour, line in zip(curves, COLOURS, ("-", "--"), strict=False):
        if records:
            end = f"{label} {short_number(float(format(records[-1][key], '.3g')))}"
            _plot(axes, _column(records, "step"), _column(records, key), color=colour, linestyle=line, label=end)
        if (best := run.best) is not None and best in records:
            axes.plot(best["step"], best[key], "*", markersize=12, color=colour, label="_best")
    axes.set(xlabel="step", xlim=(0, None))
    label_ends(axes)
    return figure


def update_drawings(run: RunRecords) -> list[Drawing]:
    """Return charts of the updates of a run: rate, speed, padding and gradient norm, with axes that begin at 0."""
    if not run.train:
        return []
    settings, drawings = run.recipe.train, []
    clipped = "not clipped" if settings.clip_norm is None else f"clipped to {settings.clip_norm:g}"
    padding, speed = fmean(_column(run.train, "padding")), _mean_over_time(run.train, "target_tokens_per_second")
    for name, title, key, factor, caption in (
        ("rate", "Learning rate", "rate", 1,
         f"{settings.schedule.name}, {counted(settings.schedule.warmup, 'step')} of warm-up."),
        ("speed", "Tokens per second", "target_tokens_per_second", 1, f"{speed:,.0f} target tokens on average."),
        ("padding", "Padding in %", "padding", 100,
         f"{100 * padding:.1f} % of the target tokens only fill batches up to a round number."),
        ("gradient", "Gradient norm", "gradient_norm", 1,
         f"Before clipping ({clipped}). A steady rise comes before divergence."),
    ):  # fmt: skip
        figure, (axes,) = new_chart(1.6, QUARTER)
        values = _column(run.train, key, factor)
        _plot(axes, _column(run.train, "step"), values)
        axes.set(xlabel="step", xlim=(0, None), ylim=(0, 1.1 * max(values) or 1))
        axes.locator_params(nbins=4)
        drawings.append(Drawing(f"training-{name}", title, caption, figure, subject=run.name))
    return drawings


def _plot(axes: Axes, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    """Draw a curve, with markers if it has few points, since a single point has no line."""
    axes.plot(x, y, marker="o" if len(x) <= 30 else "", markersize=3, **style)


def _column(records: Sequence[Record], key: str, factor: float = 1) -> list[float]:
    return [factor * record[key] for record in records]


def _mean_over_time(records: Sequence[Record], key: str) -> float:
    """Return the mean of logging intervals by their seconds: slow ones take longer, for as many tokens."""
    return fmean(_column(records, key), [1 / max(speed, 0.1) for speed in _column(records, "target_tokens_per_second")])


def run_names(runs: Sequence[RunRecords]) -> list[str]:
    """Return the names of runs; their paths if two have one name."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def comparison_drawings(runs: Sequence[RunRecords]) -> list[Drawing]:
    """Return BLEU and loss of the validation text of several runs over their steps, their target tokens and minutes."""
    drawings, names = [], run_names(runs)
    for cost, (name, label, factor, caption) in _COSTS.items():
        legend = LEGEND_LINE * len(runs)
        figure, panels = new_chart(3.8 + legend, THIRD, (0.5, 0.1, 0.42 + legend, 0.3), rows=2)
        for axes, key, name_of_score in zip(panels, ("bleu", "loss"), ("BLEU", "Loss"), strict=True):
            axes.set_title(f"{name_of_score} of the validation text")
            for number, (run, run_name) in enumerate(zip(runs, names, strict=True)):
                costs, scores = _column(run.validations, cost, factor), _column(run.validations, key)
                cycles, colour = divmod(number, len(COLOURS))
                style = {"color": COLOURS[colour], "linestyle": _LINE_STYLES[cycles % len(_LINE_STYLES)]}
                _plot(axes, costs, scores, label=in_legend(run_name), **style)
        panels[1].set(xlabel=label, xlim=(0, None))
        if any(run.validations for run in runs):
            set_logarithmic(panels[1], "y")
        legend_below(figure, panels[0])
        drawings.append(Drawing(f"runs-by-{name}", f"By {name}", caption, figure, subject=" and ".join(names)))
    return drawings


def remarks(run: RunRecords) -> Iterator[str]:
    """Yield what needs attention in the log of a run."""
    if run.skipped:
        first = ", ".join(f"{record['step']:,}" for record in run.skipped[:_MOST_STEPS])
        more = ", …" if len(run.skipped) > _MOST_STEPS else ""
        skipped = f"{counted(len(run.skipped), 'update')} skipped"
        yield f"{skipped}, because the loss or gradient was not finite: steps {first}{more}."
    losses = [record["loss"] for record in run.train]
    if losses and losses[-1] > 1.2 * min(losses) + 0.1:
        yield f"The training loss rose from {min(losses):.3f} to {losses[-1]:.3f} at the end: it diverges."
    validations = [(record["loss"], record["step"]) for record in run.validations]
    if not validations:
        yield "There is no validation, so the log does not show how well the model translates other text."
    elif min(validations[-3:])[0] > 1.02 * min(validations)[0] + 0.01:  # of three, since one may be chance
        lowest, step = min(validations)
        yield (
            f"The validation loss is lowest at step {step:,} ({lowest:.3f}) and rises to {validations[-1][0]:.3f}: the "
            "model overfits; more text, more dropout or fewer steps help."
        )
    elif run.best is run.validations[-1] and len(validations) > 1:
        yield "The last validation is the best one: with more steps the model may still improve."
    padding = fmean(_column(run.train, "padding") or [0])
    waiting = _mean_over_time(run.train, "loader_wait") if run.train else 0.0
    if padding > 0.3:
        advice = "there are fewer with larger train.batch_tokens or fewer train.length_groups"
        yield f"{padding:.0%} of the target tokens only fill batches up to their size; {advice}."
    if waiting > 0.1:
        yield f"In {waiting:.0%} of the time no batch was ready: reading the corpus is slower than the model."


def run_lead(run: RunRecords) -> Markup:
    """Return a sentence on model, text, time and date of a run."""
    files = dict.fromkeys(path.name for text in run.recipe.data.train for path in text.files.values())
    date = datetime.fromtimestamp((run.path / "metrics.jsonl").stat().st_mtime).astimezone()
    return render("lead.html", run=run, row=run_row(run.name, run.path), files=files, date=f"{date:%d %B %Y}")


def run_heading(run: RunRecords, systems: Sequence[System]) -> str:
    """Return the heading of a run: its languages and its result."""
    languages = run.recipe.languages
    heading = f"{english_name(languages.source)} to {', '.join(map(english_name, languages.target))}"
    return f"{heading}: {_result(systems[0])}" if systems else heading


def comparison_heading(names: Sequence[str], systems: Sequence[System]) -> str:
    """Return the heading of a comparison: the best run, if all of them have translated the same test text."""
    tests, heading = [system for system in systems if system.text.title == "Test text"], counted(len(names), "run")
    if len(tests) < len(names) or any(test.text != tests[0].text for test in tests):
        return f"{heading} compared"
    best, languages = max(tests, key=lambda test: test.scores[0].value), tests[0].text.languages
    heading += f", {english_name(languages.source)} to {english_name(languages.target)}"
    return f"{heading}: {best.name} has the highest score, {_result(best)}"


def _result(system: System) -> str:
    title = system.text.title
    sentences = counted(len(system.lines), "sentence")
    return f"BLEU {system.scores[0].text} on {sentences} of the {title[:1].lower()}{title[1:]}"


def settings_html(run: RunRecords) -> Markup:
    """Return the section of a run: recipe, versions, commands, and, folded, the whole recipe."""
    file = run.path / "recipe.yaml"
    path, recipe, again = map(shlex.quote, (str(run.path), str(file), f"run={run.path}-again"))
    return render(
        "settings.html",
        changes=[(key, setting_text(now), setting_text(before)) for key, before, now in changed_settings(run.recipe)],
        environment=[(name, setting_text(value)) for name, value in run.environment.items()],
        commands=f"nmt translate --model {path} < FILE\nnmt train --config {recipe} --set {again}",
        recipe=file.read_text(encoding="utf-8"),
    )


def changed_settings(recipe: Recipe) -> list[Difference]:
    """Return the settings that are not the defaults; `before` is the default."""
    now = recipe.model_dump(mode="json")
    required = {"languages": now["languages"], "run": now["run"], "data": {"train": now["data"]["train"]}}
    schedule = {"name": now["train"]["schedule"]["name"]}  # on which its other defaults depend
    default = Recipe.model_validate({**required, "train": {"schedule": schedule}}).model_dump(mode="json")
    default["train"]["schedule"]["name"] = Schedule().name
    # what is required has no default, so that each key of it is a difference
    default.update(languages=None, run=None)
    default["data"]["train"] = None
    return [change for change in differences(default, now) if not change.key.endswith(".oversample") or change.now != 1]


def runs_html(rows: Sequence[Row]) -> Markup:
    """Return the section of runs: costs and scores, the settings that differ, and which ones have seen more text."""
    columns, differing = columns_of(rows), differing_settings(rows)
    settings = [(key, *(setting_text(value, is_short=False) for value in values)) for key, values in differing.items()]
    known = [row for row in rows if row["epochs"] and row["pairs_per_epoch"]]
    seen = {row["name"]: row["epochs"] * row["pairs_per_epoch"] for row in known}
    least = min(seen, key=lambda name: seen[name], default="")
    more = [
        f"{name} has seen {count / seen[least]:.1f} times the text of {least} ({count:,.0f} sentence pairs against "
        f"{seen[least]:,.0f}, repetitions included): a better score may be due to that."
        for name, count in seen.items()
        if count > _MORE * seen[least]
    ]
    return render("runs.html", columns=columns, settings=settings, remarks=more)
