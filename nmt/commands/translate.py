"""`nmt translate`: translate lines or documents, or score given translations."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from nmt import __version__
from nmt.commands.requests import TranslateRequest
from nmt.config import RuntimeSettings
from nmt.config.section import SettingError
from nmt.errors import ConfigError, ModelError
from nmt.kernels.machine import collect_garbage_rarely, reuse_freed_ram, thread_count
from nmt.model.stored import CONFIG_FILE, resolve_model
from nmt.system.console import Console, counted
from nmt.system.distributed import connect, on_rank_zero, rank
from nmt.system.files import check_output, digest_of, real_path
from nmt.text.glossary import Glossary
from nmt.text.readers.opening import STANDARD_INPUT, begin_text, first_bytes, input_name, read_lines, split_member
from nmt.translation.documents.document import Document, Format, ReadOptions
from nmt.translation.documents.recognizing import named_format, recognized_format
from nmt.translation.options import TranslateOptions
from nmt.translation.pipeline import LineInput, open_input, process_lines, score_batch, translate_stream
from nmt.translation.sinks import Fingerprint, is_stream, open_output, write_whole
from nmt.translation.translator import Translator


def translate(request: TranslateRequest, console: Console) -> None:
    """Run a request, together with the other processes of torchrun. Raises NMTError."""
    runtime = RuntimeSettings(device=request.device, threads=request.threads, precision=request.precision)
    if request.output == Path("-"):
        request = request._replace(output=None)
    check(request)
    models = request.models or [default_model()]
    glossary = None if request.glossary is None else Glossary.read(request.glossary)
    option, path = ("--reference", request.reference) if request.reference else ("--prefixes", request.prefixes)
    parallel = None if path is None else list(read_lines(path))
    reuse_freed_ram()
    with connected(runtime), ExitStack() as stack:
        # on a CPU, processes of one thread each translate together
        translator = Translator.load(models[0], models[1:], thread_count(runtime), **runtime.model_dump())
        collect_garbage_rarely()
        stack.enter_context(warned_of_kernels(translator, console))
        options = options_of(request, translator)
        # greedy search is faster without the log-probabilities, which plain text does not show
        search = options.search.model_copy(update={"log_probs": request.as_json or request.n_best > 1})
        options = replace(options, search=search, glossary=glossary, alignment=request.alignment)
        with open_input(request.source) as stream:
            place = request.source or STANDARD_INPUT
            start = on_rank_zero(lambda: first_bytes(stream))
            format_ = recognized_format(request.format, request.source, start)
            read_options = check_options(request, format_, (translator.languages.source, options.to))
            if format_ != "text":
                from nmt.translation.documents.translating import read_document  # lxml, markdown-it take time to import

                empty = Document("", lambda texts: b"")  # only the first process has the texts
                document = read_document(stream.read(), input_name(place), read_options) if rank() == 0 else empty
                write_whole(request.output, _translated(translator, document, options, console))
                return
            on_rank_zero(lambda: begin_text(stream, place))
            identity = fingerprint(request, models, translator, options)
            if parallel is not None:
                identity[option] = sha256("\n".join(parallel).encode()).hexdigest()
            with open_output(request.output, identity, resumable=not stream.isatty()) as output:
                # the other processes of torchrun have no lines
                source = LineInput(stream, translator.batch_lines, None if rank() else parallel, option)
                if request.reference is not None:
                    score = partial(score_batch, translator, options, request.as_json)
                    process_lines("scoring", source, output, score, console, translator)
                else:
                    translate_stream(translator, source, output, options, request.as_json, console)


@contextmanager
def warned_of_kernels(translator: Translator, console: Console) -> Iterator[None]:
    """Warn about fast kernels that cannot be used here, before and after the translation."""
    before = translator.engine.problem
    if before:
        console.warn(before)
    yield
    if translator.engine.problem not in (None, before):
        console.warn(f"{translator.engine.problem}")


def connected(runtime: RuntimeSettings) -> AbstractContextManager[None]:
    """Return the context in which the processes of torchrun, if there are any, are connected."""
    if "RANK" not in os.environ:
        return nullcontext()
    from nmt.kernels.device import choose_device

    return connect(choose_device(runtime))


def _translated(translator: Translator, document: Document, options: TranslateOptions, console: Console) -> bytes:
    """Return a translated document; report how much of it was translated."""
    from nmt.translation.documents.translating import translate_document

    started = time.monotonic()
    with console.progress("translating", len(document.lines), "lines") as advance:
        data, warnings = translate_document(translator.translate_batches, document, options, advance)
    for warning in warnings:
        console.warn(warning)
    entries = document.texts.entries
    count = sum(any(map(str.isalpha, text.text)) for text, _ in entries)
    others = f"; {len(entries) - count:,} without a letter" if count < len(entries) else ""
    console.info(f"translated {counted(count, 'text')} in {time.monotonic() - started:.1f} s{others}")
    return data


def options_of(request: TranslateRequest, translator: Translator) -> TranslateOptions:
    """Return the options of a request. Raises ConfigError that names command-line options."""
    try:
        return translator.options(
            beam=request.beam, n_best=request.n_best, overrides=request.overrides or (), to=request.to, tag=request.tag
        )
    except SettingError as error:
        raise ConfigError(f"--{error}" if error.key in ("to", "tag") else str(error)) from None


def check(request: TranslateRequest) -> None:
    """Raise ConfigError for options that exclude each other, and for an output that must not be replaced."""
    if named := named_format(request.format, request.source):
        check_options(request, named)
    if request.reference is not None and (request.prefixes or request.glossary or request.n_best > 1):
        raise ConfigError("--reference: --prefixes, --glossary and --n-best have no effect beside it; leave them out")
    if request.alignment and request.n_best > 1 and not request.as_json:
        raise ConfigError("--alignment: a table of the n best has no column for it; add --json, which has it")
    given = (request.source or Path("/dev/stdin"), request.reference, request.prefixes, request.glossary)
    inputs = [split_member(path)[0] for path in given if path is not None]
    if request.output is None:
        stdout = real_path(Path("/dev/stdout"))
        if stdout.is_file() and stdout in map(real_path, inputs):  # not a terminal, which is read and written
            raise ConfigError(f"{stdout}: cannot write it: it is also read; write the output to another file")
    elif not is_stream(request.output):
        check_output(request.output, inputs)


def check_options(request: TranslateRequest, format_: Format, languages: tuple[str, str] = ("", "")) -> ReadOptions:
    """Return how to read an input. Raises ConfigError for an option without effect for its format."""
    of_lines = {
        "--reference": request.reference, "--prefixes": request.prefixes, "--json": request.as_json,
        "--n-best": request.n_best > 1, "--alignment": request.alignment,
    }  # fmt: skip
    if format_ != "text" and (given := [option for option, value in of_lines.items() if value]):
        raise ConfigError(
            f"{given[0]}: the output of a file in the format {format_} is a file of this format, which has no place "
            "for it; leave it out, or add --format text to read the lines as they are"
        )
    return ReadOptions(format_, request.column or (), request.into, request.exclude or (), languages)


def fingerprint(
    request: TranslateRequest, models: Sequence[Path], translator: Translator, options: TranslateOptions
) -> Fingerprint:
    """Return everything that determines the output except the texts."""
    return {
        "nmt": __version__,
        "model": " ".join(digest_of(resolve_model(model) / CONFIG_FILE) for model in models),
        "computed by": translator.engine.description,
        "output": "JSON" if request.as_json else "a table" if options.search.n_best > 1 else "text",
        "lines in a batch": translator.batch_lines,
        **options.fingerprint(),
    }


def default_model() -> Path:
    """Return the model to use without --model: $NMT_MODEL, else runs/latest. Raises ModelError if there is none."""
    if named := os.environ.get("NMT_MODEL"):
        try:
            resolve_model(Path(named))
        except ModelError as error:
            raise ModelError(f"$NMT_MODEL: {error}; or give --model DIR") from None
        return Path(named)
    latest = Path("runs", "latest")
    if not latest.exists():
        state = f"points to {latest.readlink()}, which does not exist" if latest.is_symlink() else "does not exist"
        raise ModelError(
            f"no model given, $NMT_MODEL is not set, and {latest} {state}; give --model DIR (a run or a model "
            "directory), or train one: nmt train --config RECIPE"
        )
    return latest
