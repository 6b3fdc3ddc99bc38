"""Help pages with options below headings, and advice where an argument is given that a command does not take.

typer can also draw boxes with rich, but importing what that needs takes several times as long as all else that `--help`
does.
"""

import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer import BadParameter, echo
from typer.core import TyperCommand, TyperGroup

GENERAL = "General"
"""The heading of the options that all commands have."""
_HELP = {"-h", "--help"}
_RANGE = re.compile(r"; (\d+<=)?x[<>]=\d+(?=\])|\s+\[(\d+<=)?x[<>]=\d+\]")
"""The limits of a number, such as `[x>=1]`, which the metavar and the text already suggest."""
_UsageError: Any = BadParameter.__base__  # typer has no public name for it


class HelpPage(TyperCommand):
    """A command whose options are listed below the heading `rich_help_panel` that each of them names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; exit with the help page, or with advice for one that the command does not take."""
        if not ctx.resilient_parsing:
            if _HELP & set(args):
                echo(ctx.get_help())
                ctx.exit()
            surplus = self.make_parser(ctx).parse_args(args=list(args))[1]
            if surplus and all(param.param_type_name == "option" for param in self.params):
                ctx.fail(advice(str(self.name), surplus))
        return super().parse_args(ctx, args)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence, whole."""
        return super().get_short_help_str(limit=1000)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options of each heading, the general ones last."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                is_argument = param.param_type_name == "argument"
                name = record[0].partition(" <")[0] if is_argument else record[0]  # without the type in Python
                general = GENERAL if param.name == "help" else "Options"
                heading = "Arguments" if is_argument else getattr(param, "rich_help_panel", None) or general
                rows.setdefault(heading, []).append((name, _RANGE.sub("", record[1])))
        for heading in sorted(rows, key=lambda heading: (heading != "Arguments", heading == GENERAL)):
            with formatter.section(heading):
                formatter.write_dl(rows[heading])


class HelpPages(TyperGroup):
    """The commands, each with its own help page."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; of `COMMAND --help` no others, as typer imports pydantic to convert their values."""
        if args and args[0] in self.commands and _HELP & set(args) and not ctx.resilient_parsing:
            self.commands[args[0]].make_context(args[0], args[1:], parent=ctx)
        with _whole_words():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, which parses its own arguments here."""
        with _whole_words():
            return super().invoke(ctx)


@contextmanager
def _whole_words() -> Iterator[None]:
    """Break the message of an error in the arguments between words, where stderr is a terminal."""
    try:
        yield
    except _UsageError as error:
        if type(error).show is not _UsageError.show:  # the help page, where there are no arguments
            raise
        text = error.format_message().replace(": Value error, ", ": ")  # which pydantic adds
        if sys.stderr is not None and sys.stderr.isatty():
            width, start = shutil.get_terminal_size().columns, " " * len("Error: ")
            lines = textwrap.wrap(text, width, initial_indent=start, break_long_words=False, break_on_hyphens=False)
            text = "\n".join(lines)[len(start) :]
        raise _UsageError(text, error.ctx) from None


def advice(command: str, arguments: list[str]) -> str:
    """Return what to do in place of passing these arguments to a command that has only options."""
    first = arguments[0]
    text = f"{first!r} is not an option"
    if command != "translate":
        form = "give it as --set" if "=" in first else "give the recipe as --config"
        return f"{text}; {form} {shlex.quote(first)}"
    if Path(first).is_dir():
        return f"{text}; give the model as --model {shlex.quote(first)}"
    if Path(first).is_file():
        return f"{text}; give the text as --input {shlex.quote(first)}"
    line = " ".join(arguments)
    return f"{text}; the text is read from standard input: echo {shlex.quote(line)} | nmt translate"
