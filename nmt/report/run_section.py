"""The section Run: the course of the training, its recipe and its environment."""

from pathlib import Path

from nmt.report.page import Section, escape


def run_section(run: Path) -> Section:
    """Return the section of a run directory."""
    return Section("run", "Run", f"<p>{escape(str(run))}</p>")
