"""The charts of a training: loss, scores, learning rate, speed."""

from collections.abc import Callable, Sequence

from nmt.report.charts import Chart, Series, line_chart, short
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
    train = _series("training", run.train, unsmoothed_loss)
    lines = [train, _series("validation", run.validations, lambda record: number(record, "loss"))]
    summary = _from_to(lines, ".3f")
    summary += " Both are without label smoothing; only the training loss is computed with dropout."
    return _with_best(run, "Loss", summary, "nats per target token", lines, "loss")


def _perplexity(run: RunRecords) -> Chart | None:
    lines = [
        _series(name, records, lambda record: number(record, "perplexity"))
        for name, records in (("training", run.train), ("validation", run.validations))
    ]
    return _with_best(run, "Perplexity", _from_to(lines, ".2f"), "perplexity", lines, "perplexity")


def _scores(run: RunRecords) -> Chart | None:
    lines = [
        _series(name, run.validations, lambda record, key=key: number(record, key))  # type: ignore[misc]
        for name, key in (("BLEU", "bleu"), ("chrF", "chrf"))
    ]
    best = run.best
    summary = _from_to(lines, ".2f") + " Greedy translations of the validation text."
    if best is not None:
        summary = f"Best at step {best['step']:,}: BLEU {best['bleu']:.2f}, chrF {best['chrf']:.2f}. {summary}"
    metric = "bleu" if run.recipe is None else run.recipe.train.best_metric
    return _with_best(
        run, "BLEU and chrF on the validation text", summary, "score", lines, {"loss": "bleu"}.get(metric, metric)
    )


def _shares(run: RunRecords) -> Chart | None:
    names = {"padding": "padding", "loader_wait": "waiting for batches", "utilization": "model FLOP utilization"}

    def percent(key: str) -> Callable[[Record], float | None]:
        return lambda record: None if (value := number(record, key)) is None else 100 * value

    lines = [_series(name, run.train, percent(key)) for key, name in names.items()]
    lines = [line for line in lines if any(value is not None for value in line.y)]
    if not lines:
        return None
    means = ", ".join(f"{names[key]} {mean(run.train, key):.1%}" for key in names)
    summary = f"Means: {means}."
    return line_chart("Padding, waiting and utilization", summary, ("step", "%"), lines)


def _single(run: RunRecords, key: str, title: str, label: str) -> Chart | None:
    line = _series(label, run.train, lambda record: number(record, key))
    values = [value for value in line.y if value is not None]
    if not values:
        return None
    lowest, highest, last = map(short, (min(values), max(values), values[-1]))
    summary = f"{label[0].upper()}{label[1:]}: between {lowest} and {highest}; {last} at the end."
    return line_chart(title, summary, ("step", label), [line])


def _series(name: str, records: Sequence[Record], value: Callable[[Record], float | None]) -> Series:
    return Series(name, [record["step"] for record in records], [value(record) for record in records])


def _with_best(
    run: RunRecords, title: str, summary: str, label: str, lines: Sequence[Series], key: str
) -> Chart | None:
    """Return a chart of the lines that have points, with a star at the best validation."""
    drawn = [line for line in lines if any(value is not None for value in line.y)]
    best = run.best
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
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
