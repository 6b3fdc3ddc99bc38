"""The section Training: the curves of a run, and what in its log needs attention; the curves of several runs."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from statistics import fmean
from typing import Any

from nmt.report.drawing import COLOURS, QUARTER, THIRD, Drawing, label_ends, new_chart, set_logarithmic
from nmt.report.page import Section, bullets, element, figures, joined, shown
from nmt.report.run_records import Record, RunRecords
from nmt.system.console import counted
from nmt.training.progress import perplexity

_MOST_STEPS = 10  # of skipped updates
_LABELLED = (0.5, 1.15, 0.42, 0.12)  # inches, with room for labels at the right end of lines
# What runs cost, by the key of the log: name, label, factor, and what to consider.
_COSTS = {
    "step": ("steps", "steps", 1, "A step of larger batches sees more text."),
    "target_tokens": ("tokens", "million target tokens", 1e-6, "Scores are comparable on one text, losses and tokens "
                      "only with one tokenizer."),
    "seconds": ("minutes", "minutes of training", 1 / 60, "Minutes depend on the machine."),
}  # fmt: skip


def curves_section(run: RunRecords) -> Section:
    """Return the section of a run: remarks and curves."""
    remarks = bullets([*_stability(run), *_fit(run), *_speed(run)])
    parts = [remarks or element("p", "Nothing in the log is unusual."), figures(training_drawings(run))]
    return Section("training", "Training", joined(parts))


def training_drawings(run: RunRecords) -> list[Drawing]:
    """Return the curves of a run for which there are numbers: loss, scores, then rate, speed, padding and gradient."""
    train, valid, drawings = run.train, run.validations, list[Drawing]()
    loss = [("training", "loss", train), ("validation", "loss", valid)]
    scores = [("BLEU", "bleu", valid), ("chrF", "chrf", valid)]
    of_loss, of_scores = "Without label smoothing.", "Greedy translations; the star is the best checkpoint."
    if valid:
        last, before = valid[-1], valid[max(0, len(valid) - 2)]
        of_loss += f" A validation loss of {last['loss']:.3g} is a perplexity of {shown(perplexity(last['loss']))}."
        steps, gain = last["step"] - before["step"], last["bleu"] - before["bleu"]
        of_scores += f" The last {steps:,} steps changed BLEU by {gain:+.1f}." if steps else ""
    for name, title, caption, curves in (
        ("loss", "Loss: nats per target token", of_loss, loss),
        ("scores", "BLEU and chrF of the validation text", of_scores, scores),
    ):
        if any(records for *_, records in curves):
            figure, (axes,) = new_chart(margins=_LABELLED)
            for (label, key, records), style in zip(curves, ("-C0", "--C1"), strict=True):
                if records:
                    end = f"{label} {shown(float(format(records[-1][key], '.3g')))}"
                    axes.plot(*_points(records, "step", key), style, marker=_marker(records), markersize=3, label=end)
                if (best := run.best) is not None and best in records:
                    axes.plot(best["step"], best[key], "*", markersize=12, color=style[-2:], label="_best")
            axes.set(xlabel="step", xlim=(0, None))
            if name == "loss":
                set_logarithmic(axes, "y")
            label_ends(axes)
            drawings.append(Drawing(f"training-{name}", title, caption, figure, subject=run.name))
    return drawings + (_small_drawings(run) if train else [])


def _small_drawings(run: RunRecords) -> list[Drawing]:
    """Return rate, speed, padding and gradient norm of a run, from 0."""
    settings = run.recipe.train
    clipped = "not clipped" if settings.clip_norm is None else f"clipped to {settings.clip_norm:g}"
    rates, speed, padding, norm = (
        _points(run.train, "step", key) for key in ("rate", "target_tokens_per_second", "padding", "gradient_norm")
    )
    padding = padding[0], [100 * share for share in padding[1]]
    drawings = []
    for name, title, caption, points in (
        ("rate", "Learning rate", f"{settings.schedule.name}, {counted(settings.schedule.warmup, 'step')} of warm-up.",
         rates),
        ("speed", "Tokens per second", f"{fmean(speed[1]):,.0f} target tokens on average.", speed),
        ("padding", "Padding in %", f"{fmean(padding[1]):.1f} % of the positions on average.", padding),
        ("gradient", "Gradient norm", f"Before clipping ({clipped}). A steady rise comes before divergence.", norm),
    ):  # fmt: skip
        figure, (axes,) = new_chart(1.6, QUARTER)
        axes.plot(*points, marker=_marker(points[0]), markersize=3)
        axes.set(xlabel="step", xlim=(0, None), ylim=(0, 1.1 * max(points[1]) or 1))
        axes.locator_params(nbins=4)
        axes.yaxis.set_major_formatter(lambda value, _: shown(value) if value < 1000 else f"{value / 1000:,g}k")
        drawings.append(Drawing(f"training-{name}", title, caption, figure, subject=run.name))
    return drawings


def run_names(runs: Sequence[RunRecords]) -> list[str]:
    """Return the names of runs; their paths if two have one name."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def comparison_drawings(runs: Sequence[RunRecords]) -> list[Drawing]:
    """Return BLEU and loss of the validation text of several runs over their steps, their target tokens and minutes."""
    drawings, names = [], run_names(runs)
    for cost, (name, label, factor, caption) in _COSTS.items():
        figure, (bleu, loss) = new_chart(3.8, THIRD, (0.5, 0.1, 0.42, 0.3), rows=2)
        for run, run_name, colour in zip(runs, names, cycle(COLOURS), strict=False):
            style: Any = {"color": colour, "marker": _marker(run.validations), "markersize": 3, "label": run_name}
            bleu.plot(*_points(run.validations, cost, "bleu", factor), **style)
            loss.plot(*_points(run.validations, cost, "loss", factor), **style)
        bleu.set_title("BLEU of the validation text")
        loss.set_title("Loss of the validation text")
        loss.set(xlabel=label, xlim=(0, None))
        if any(run.validations for run in runs):
            set_logarithmic(loss, "y")
        bleu.legend(fontsize=8)
        drawings.append(Drawing(f"runs-by-{name}", f"By {name}", caption, figure, subject=" and ".join(names)))
    return drawings


def _points(records: Sequence[Record], x: str, y: str, factor: float = 1) -> tuple[list[float], list[float]]:
    return [factor * record[x] for record in records], [record[y] for record in records]


def _marker(points: Sequence[object]) -> str:
    return "o" if len(points) <= 30 else ""  # a single point has no line


def _stability(run: RunRecords) -> Iterator[str]:
    if run.skipped:
        first = ", ".join(f"{record['step']:,}" for record in run.skipped[:_MOST_STEPS])
        more = ", …" if len(run.skipped) > _MOST_STEPS else ""
        text = f"{counted(len(run.skipped), 'update')} skipped, because the loss or gradient was not finite"
        yield f"{text}: steps {first}{more}."
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
