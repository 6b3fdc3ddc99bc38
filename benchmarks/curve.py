"""Print the validation curve and the test scores of runs as Markdown: python benchmarks/curve.py runs/NAME…"""

import json
import sys
from pathlib import Path
from statistics import fmean, median

COLUMNS = ("time", "step", "target tokens", "valid loss", "valid BLEU", "valid chrF", "train loss", "tokens/s")


def curve(run: Path) -> list[tuple[str, ...]]:
    """Return a row for each validation; training loss (not smoothed) and speed cover the steps since the last."""
    rows = []
    intervals: list[dict[str, float]] = []
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n"):
        record = json.loads(line) if line else {"type": "end"}
        if record["type"] == "train":
            intervals.append(record)
        elif record["type"] == "validation":
            losses = [interval["loss"] for interval in intervals]
            speeds = [interval["target_tokens_per_second"] for interval in intervals]
            rows.append(
                (
                    f"{record['seconds'] / 60:.1f} min",
                    f"{record['step']:,}",
                    f"{record['target_tokens'] / 1e6:.2f} M",
                    f"{record['loss']:.3f}",
                    f"{record['bleu']:.2f}",
                    f"{record['chrf']:.2f}",
                    f"{fmean(losses):.2f}" if losses else "",  # none if it validates more often than it logs
                    f"{median(speeds):,.0f}" if speeds else "",
                )
            )
            intervals = []
    return rows


def main() -> None:
    """Print a table for each run named on the command line."""
    for run in map(Path, sys.argv[1:]):
        print(f"### {run.name}\n\n| {' | '.join(COLUMNS)} |\n|{'--:|' * len(COLUMNS)}")
        for row in curve(run):
            print(f"| {' | '.join(row)} |")
        if (run / "test.json").exists():
            for score in json.loads((run / "test.json").read_text(encoding="utf-8")):
                print(f"\ntest {score['name']} **{score['value']:.2f}** `{score['signature']}`")
        print()


if __name__ == "__main__":
    main()
