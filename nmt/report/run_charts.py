"""The charts of a training: loss, scores, learning rate, speed."""

from collections.abc import Sequence

from nmt.report.charts import Chart, Series, line_chart, sentence, short
from nmt.report.run_records import Record, RunRecords, mean, number, unsmoothed_loss


def run_charts(run: RunRecords) -> dict[str, Chart]:
    """Return the charts for which the log has numbers, by name."""
    charts = {
        "loss": _loss(run),
        "scores": _scores(run),
        "perplexity": _perplexity(run),
        "rate": _single(run, "rate", "Learning rate", "learning rate"),
        "speed": _single(run, "target_tokens_per_second", "Speed", "target tokens per second"),
        "shares": _shares(run),
        "gradient": _single(run, "gradient_norm", "Gradient norm before clipping", "mean norm"),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _loss(run: RunRecords) -> Chart | None:
    train = Series("training", [record["step"] for record in run.train], list(map(unsmoothed_loss, run.train)))
    lines = [train, _series("validation", run.validations, "loss")]
    summary = (
        f"{_from_to(lines, '.3f')} Both are without label smoothing; only the training loss is computed with dropout."
    )
    return _with_best(run, "Loss", summary, "nats per target token", lines, "loss")


def _perplexity(run: RunRecords) -> Chart | None:
    lines = [_series("training", run.train, "perplexity"), _series("validation", run.validations, "perplexity")]
    return _with_best(run, "Perplexity", _from_to(lines, ".2f"), "perplexity", lines, "perplexity")


def _scores(run: RunRecords) -> Chart | None:
    lines = [_series("BLEU", run.validations, "bleu"), _series("chrF", run.validations, "chrf")]
    summary = f"{_from_to(lines, '.2f')} Greedy translations of the validation text."
    if (best := run.best) is not None:
        summary = f"Best at step {best['step']:,}: BLEU {best['bleu']:.2f}, chrF {best['chrf']:.2f}. {summary}"
    key = "chrf" if run.recipe is not None and run.recipe.train.best_metric == "chrf" else "bleu"
    return _with_best(run, "BLEU and chrF on the validation text", summary, "score", lines, key)


def _shares(run: RunRecords) -> Chart | None:
    names = {"padding": "padding", "loader_wait": "waiting for batches", "utilization": "model FLOP utilization"}
    lines = _drawn([_series(name, run.train, key, 100) for key, name in names.items()])
    means = ", ".join(f"{name} {mean(run.train, key):.1%}" for key, name in names.items())
    title = "Padding, waiting and utilization"
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
        drawn.append(Series(f"best (step {best['step']:,})", [best["step"]], [number(best, key)], "best"))
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
