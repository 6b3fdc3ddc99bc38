"""The section Data: what the filters dropped, and the lengths and pieces of the prepared corpus."""

from pathlib import Path

from nmt.report.page import Section, escape


def data_section(run: Path) -> Section:
    """Return the section of the corpus of a run."""
    return Section("data", "Data", f"<p>{escape(str(run))}</p>")
