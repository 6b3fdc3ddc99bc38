"""What `nmt translate` can do with a model: translate lines, judge translations that are given, or verify itself."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from nmt import __version__
from nmt.config import RuntimeSettings
from nmt.decoding.options import SearchOptions
from nmt.errors import ModelError
from nmt.export.exported import EXPORT_FILE, is_export
from nmt.model.checkpoint import CONFIG_FILE, resolve_model
from nmt.system.console import Console
from nmt.system.device import reuse_freed_memory, set_threads, thread_count
from nmt.system.distributed import connect, rank
from nmt.system.files import digest_of
from nmt.translation.forced_scoring import score_given_stream
from nmt.translation.lines import ParallelLines
from nmt.translation.pipeline import opened, translate_stream
from nmt.translation.sinks import Work
from nmt.translation.translator import LINE_BATCH_SIZE, TranslateOptions, Translator
from nmt.translation.verify import Verification, verify_lines


@contextmanager
def opened_translator(
    models: Sequence[Path], runtime: RuntimeSettings, engine: Literal["torch", "ct2"] | None
) -> Iterator[Translator]:
    """Open models to translate with in this process, which does nothing else, and in all others of torchrun.

    Raises as `Translator.load` does.
    """
    # on a CPU processes of one thread each share the work; what is left for this one is too small for several
    set_threads(runtime.model_copy(update={"threads": 1}))
    reuse_freed_memory()
    directory, *others = models
    with connect(runtime):
        yield Translator.load(directory, runtime, engine, others, thread_count(runtime))


@dataclass(frozen=True)
class Job:
    """A translator, what to read, and what to write; no file is stdin or stdout."""

    translator: Translator
    models: Sequence[Path]
    options: TranslateOptions
    source: Path | None
    output: Path | None
    as_json: bool

    @property
    def work(self) -> Work:
        """What decides about the translation of a line, and how it is written, under the names that users know."""
        layout = "a table" if self.options.n_best > 1 else "text"
        found: dict[str, Any] = {
            "nmt": __version__,
            "model": " ".join(map(digest_of_model, self.models)),
            "computed by": self.translator.computed_by,
            "output": "JSON" if self.as_json else layout,
            "window lines": LINE_BATCH_SIZE,
        }
        for key, value in asdict(self.options).items():
            inner = dict(value) if isinstance(value, SearchOptions) else {key: value}
            found |= {
                name: part if isinstance(part, (str, int, float, bool)) else repr(part) for name, part in inner.items()
            }
        return found

    def translate(self, prefixes: Path | None, console: Console) -> None:
        """Translate each line, beginning as a line of a file of prefixes, if there is one. Raises as `through` does."""
        beside = None if prefixes is None else ParallelLines.read("--prefixes", prefixes)
        with opened(self.source, self.output, self.work, beside) as (lines, sink):
            translate_stream(self.translator, lines, sink, self.options, self.as_json, console)

    def score_given(self, reference: Path, console: Console) -> None:
        """Write how probable the translations in a file are. Raises as `score_given_stream` does."""
        self.translator.needs_own_model("--reference")
        beside = ParallelLines.read("--reference", reference)
        with opened(self.source, self.output, self.work, beside) as (lines, sink):
            score_given_stream(self.translator, lines, sink, self.options, self.as_json, console)

    def verify(self, console: Console) -> Verification | None:
        """Verify, in the first process, that translations do not depend on their company.

        Raises as `verify_lines` does.
        """
        if rank() > 0:
            return None
        with opened(self.source, None, {}) as (lines, _):
            return verify_lines(self.translator, lines.stream, self.options, console)


def default_model() -> Path:
    """Return the model to use when none is named: $NMT_MODEL, else runs/latest. Raises ModelError if there is none."""
    named = os.environ.get("NMT_MODEL")
    if named:
        try:
            digest_of_model(Path(named))
        except ModelError as error:
            raise ModelError(f"$NMT_MODEL: {error}; or give --model DIR") from None
        return Path(named)
    latest = Path("runs", "latest")
    if not latest.exists():
        state = f"points to {latest.readlink()}, which is gone" if latest.is_symlink() else "is not there"
        raise ModelError(
            f"no model named, $NMT_MODEL is not set, and {latest} {state}; give --model DIR (a run or a model "
            "directory), or train one: nmt train --config RECIPE"
        )
    return latest


def digest_of_model(directory: Path) -> str:
    """Return a digest of all that a model is, its weights included. Raises ModelError if there is none."""
    return digest_of(directory / EXPORT_FILE if is_export(directory) else resolve_model(directory) / CONFIG_FILE)
