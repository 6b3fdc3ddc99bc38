"""`nmt inspect`: what a model or a run contains."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from nmt.config import Languages
from nmt.errors import NMTError
from nmt.model.cache import bytes_to_decode
from nmt.model.checkpoint import load_model
from nmt.model.stored import resolve_model
from nmt.model.transformer import Transformer
from nmt.report.run_records import RunRecords, score_name
from nmt.system.console import counted, printable
from nmt.training.display import format_seconds
from nmt.training.progress import PROGRESS_FILE, RUN, read_progress

_TYPICAL_LENGTH = 30  # tokens on each side of a line for which the memory is stated


def inspect(path: Path) -> dict[str, Any]:
    """Return the description of a model directory or a run. Raises ModelError if there is no model."""
    directory = resolve_model(path)
    loaded = load_model(directory, torch.device("cpu"))
    settings, tokenizers = loaded.model.settings, loaded.tokenizers
    beam, max_length = loaded.decode.beam, loaded.decode.max_length
    source_pieces, target_pieces = len(tokenizers.source), len(tokenizers.target)
    parts = parameters_by_part(loaded.model)
    total = sum(parts.values())
    line_bytes = bytes_to_decode(settings, target_pieces, _TYPICAL_LENGTH, _TYPICAL_LENGTH, beam)
    return {
        "model": str(directory),
        "languages": loaded.languages.model_dump(),
        "sizes": settings.model_dump(mode="json"),
        "parameters": {**parts, "total": total},
        "tokenizer": {"shared": tokenizers.shared, "source_pieces": source_pieces, "target_pieces": target_pieces},
        "limits": {"longest_source": loaded.longest_source, "max_length": max_length and max_length.model_dump()},
        "decoding": {"beam": beam, "weight_bytes": 4 * total, "tokens": _TYPICAL_LENGTH, "line_bytes": line_bytes},
        "training": _training(path, directory),
    }


def parameters_by_part(model: Transformer) -> dict[str, int]:
    """Return the number of weights of the embedding, encoder, decoder and output; a tied matrix is in the embedding."""
    counts = {"embedding": 0, "encoder": 0, "decoder": 0, "output": 0}
    for name, weight in model.named_parameters():
        module = name.partition(".")[0]  # source_embedding, encoder, encoder_norm …
        counts[next(part for part in counts if part in module)] += weight.numel()
    return counts


def _training(path: Path, directory: Path) -> dict[str, Any] | None:
    """Return what is recorded about the training of a run or a checkpoint; None for other models."""
    record: dict[str, Any] = {}
    if RUN.read(path):
        directory = path / "last"
        with suppress(NMTError):  # a run may be incomplete, and its text may be gone or prepared anew
            run = RunRecords(path)
            scores = {score_name(score): score["value"] for score in run.test_scores}
            record |= {"validation": run.best, "test": scores}
            record["pairs"] = run.manifest().train.kept
    if not (directory / PROGRESS_FILE).exists():
        return None
    progress = read_progress(directory)
    reached = {"step": progress.step, "epoch": progress.epoch, "target_tokens": progress.target_tokens}
    return {**reached, "seconds": round(progress.seconds, 1), **record}


def as_text(content: dict[str, Any]) -> str:
    """Return a description for a terminal: a table of names and values."""
    return printable("\n".join(f"{name:<12}{value}" for name, value in _rows(content)))


def _rows(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the table that describes a model."""
    sizes, limits, tokenizer = content["sizes"], content["limits"], content["tokenizer"]
    parts, decoding, training = content["parameters"], content["decoding"], content["training"]
    yield "model", f"{content['model']}, {Languages.model_validate(content['languages']).names}"
    yield "layers", f"{sizes['encoder_layers']} of the encoder, {sizes['decoder_layers']} of the decoder"
    yield "sizes", f"dim {sizes['dim']}, feed-forward {sizes['feed_forward']}, {counted(sizes['heads'], 'head')}"
    kind = (f"{sizes['positions']} positions", f"{sizes['attention_score']} attention", f"{sizes['norm']}-norm")
    yield "kind", ", ".join((*kind, sizes["activation"]))
    yield "parameters", f"{parts['total']:,} ({decoding['weight_bytes'] / 2**20:,.1f} MiB in fp32)"
    for name in ("embedding", "encoder", "decoder", "output"):
        tied = "  the embedding of the target" if name == "output" and not parts[name] else ""
        yield "", f"{name:<10}{parts[name]:>13,}{parts[name] / parts['total']:>7.1%}{tied}"
    more = " pieces, shared by both sides" if tokenizer["shared"] else f" and {tokenizer['target_pieces']:,} pieces"
    yield "tokenizer", f"{tokenizer['source_pieces']:,}{more}"
    yield "limits", f"source segments of at most {counted(limits['longest_source'], 'token')}"
    if longest := limits["max_length"]:
        yield "", f"output of at most {longest['factor']:g} × source + {longest['extra']} tokens"
    line = f"a line of {decoding['tokens']} + {decoding['tokens']} tokens, beam {decoding['beam']}"
    yield "memory", f"{decoding['line_bytes'] / 2**20:,.1f} MiB for {line}"
    if training is None:
        return
    pairs = f", {counted(training['pairs'], 'pair')}" if "pairs" in training else ""
    yield "training", f"{counted(training['step'], 'step')} in {format_seconds(training['seconds'])}{pairs}"
    if best := training.get("validation"):
        scores = f"loss {best['loss']:.3f}, BLEU {best['bleu']:.2f}, chrF {best['chrf']:.2f}"
        yield "validation", f"{scores} at step {best['step']:,}"
    if tests := training.get("test"):
        yield "test", ", ".join(f"{name} {value:.2f}" for name, value in tests.items())
