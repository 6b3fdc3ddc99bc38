"""`nmt import`: make a model of ours from a Marian model."""

from pathlib import Path

from nmt.formats.marian import import_model as read_marian
from nmt.model.checkpoint import write_model
from nmt.system.console import Console
from nmt.system.files import check_new_directory, new_directory


def import_model(path: Path, output: Path, languages: str | None, console: Console) -> None:
    """Write a model directory that computes what the model at `path` does. Raises as `read_marian` does."""
    check_new_directory(output)
    with console.status("reading the model"):
        loaded = read_marian(path, languages)
    with new_directory(output) as staging:
        write_model(staging, loaded)
    settings = loaded.model.settings
    console.info(
        f"imported {path} into {output}: {loaded.languages.names}, {settings.encoder_layers}+{settings.decoder_layers} "
        f"layers, dim {settings.dim}, {len(loaded.tokenizers.target):,} pieces"
    )
