"""`nmt report`: one HTML page about a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.report.data_section import data_section
from nmt.report.page import Section, render_page
from nmt.report.run_records import RunRecords, read_run
from nmt.report.run_section import run_section
from nmt.system.console import Console
from nmt.system.ownership import check_file, write_output


@dataclass(frozen=True)
class ReportRequest:
    """The command line."""

    run: Path
    output: Path
    compare: Path | None = None
    """Another run."""
    lines: Sequence[int] = ()
    """Lines of the test text whose attention and search are drawn, counted from 1."""


def report(request: ReportRequest, console: Console) -> None:
    """Write the page of a run. Raises NMTError."""
    check_file(request.output)  # before the work
    run = read_run(request.run)
    page = render_page(run.name, _sections(request, run))
    write_output(request.output, page)
    console.info(f"wrote {request.output}")


def _sections(request: ReportRequest, run: RunRecords) -> list[Section]:
    return [run_section(run), data_section(run)]
