"""The model directory: saving and loading are inverse, and damaged files are refused by name."""

import errno
import json
import os
import pickle
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from nmt.config import DecodeSettings, Languages, ModelSettings, TokenizerSettings
from nmt.errors import DamagedError, DataError, ModelError
from nmt.model import checkpoint
from nmt.model.checkpoint import TorchModel, load_model
from nmt.model.stored import LoadedModel, resolve_model
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import Tokenizer, Tokenizers
from tests.builders import record_digests, rewrite_configuration, save_model

CPU = torch.device("cpu")
LINES = [
    "il gatto dorme",
    "la casa è rossa",
    "the cat sleeps",
    "the house is red",
    "una casa per il gatto",
    "the cat has a red house",
] * 3


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    shared = Tokenizer.train(LINES, TokenizerSettings(vocab_size=296, type="bpe"))
    return Tokenizers(shared, shared)


def build(tokenizers: Tokenizers, seed: int = 1, **changes: object) -> LoadedModel:
    torch.manual_seed(seed)
    shape: dict[str, object] = {"encoder_layers": 1, "decoder_layers": 1, "dim": 8, "heads": 2, "feed_forward": 8}
    chosen = ModelSettings.model_validate({**shape, **changes})
    model = Transformer(chosen, len(tokenizers.source), len(tokenizers.target)).eval()
    languages, decode = Languages(source="it", target="en"), DecodeSettings(beam=3, length_penalty=0.5)
    return TorchModel(chosen, tokenizers, languages, decode, longest_source=256, in_torch=model)


@pytest.fixture
def saved(tokenizers: Tokenizers, tmp_path: Path) -> Path:
    save_model(tmp_path / "model", build(tokenizers))
    return tmp_path / "model"


def weights(loaded: LoadedModel) -> dict[str, torch.Tensor]:
    return dict(loaded.model.named_parameters())


def assert_same(a: LoadedModel, b: LoadedModel) -> None:
    assert (a.languages, a.decode, a.longest_source) == (b.languages, b.decode, b.longest_source)
    assert a.settings == b.settings
    assert a.tokenizers.source.to_bytes() == b.tokenizers.source.to_bytes()
    assert a.tokenizers.target.to_bytes() == b.tokenizers.target.to_bytes()
    assert weights(a).keys() == weights(b).keys()
    assert all(torch.equal(weights(a)[name], weights(b)[name]) for name in weights(a))


def flip_bit(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post", "activation": "swiglu"},
        {"positions": "relative"},
        {"positions": "rotary"},
        {"tied_embeddings": "target"},
        {"tied_embeddings": "none"},
    ],
    ids=str,
)
def test_loaded_model_equals_the_saved_one(tokenizers: Tokenizers, tmp_path: Path, changes: dict[str, object]) -> None:
    before = build(tokenizers, **changes)
    save_model(tmp_path / "model", before)
    after = load_model(tmp_path / "model", CPU)
    assert_same(before, after)
    assert not after.model.training
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 5, 6]])
    with torch.no_grad():
        assert torch.equal(before.model(source, None, target), after.model(source, None, target))
    output, tokens = after.model.output.weight, after.model.target_embedding.tokens.weight
    assert (output is tokens) == (before.settings.tied_embeddings != "none")


def test_separate_tokenizers_are_saved_and_loaded(tokenizers: Tokenizers, tmp_path: Path) -> None:
    other = Tokenizer.train(LINES, TokenizerSettings(vocab_size=290, type="bpe"))
    before = build(Tokenizers(tokenizers.source, other), tied_embeddings="target")
    save_model(tmp_path / "model", before)
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.source.model", "tokenizer.target.model",
    ]  # fmt: skip
    assert_same(before, load_model(tmp_path / "model", CPU))


def test_transposed_weight_is_saved_and_loaded(tokenizers: Tokenizers, tmp_path: Path) -> None:
    before = build(tokenizers)
    with torch.no_grad():
        layer = before.model.encoder[0].feed_forward.inner
        layer.weight = torch.nn.Parameter(layer.weight.t().contiguous().t())
    save_model(tmp_path / "model", before)
    assert_same(before, load_model(tmp_path / "model", CPU))


def test_loading_runs_no_pickle(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("unpickling runs code")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    load_model(saved, CPU)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model"])
@pytest.mark.parametrize("place", [0, 9, 200, -1])
def test_flipped_bit_is_refused_with_the_file_name(saved: Path, name: str, place: int) -> None:
    flip_bit(saved / name, place)
    with pytest.raises(
        ModelError, match=rf"{saved / name}: damaged: .*SHA-256 differs\); copy the directory again"
    ) as caught:
        load_model(saved, CPU)
    assert "config.json" not in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model"])
def test_truncated_or_missing_file_is_refused(saved: Path, name: str) -> None:
    (saved / name).write_bytes((saved / name).read_bytes()[:-10])
    with pytest.raises(ModelError, match=f"{saved / name}: damaged"):
        load_model(saved, CPU)
    (saved / name).unlink()
    with pytest.raises(ModelError, match=f"{saved / name}: missing, .*copy the whole directory"):
        load_model(saved, CPU)


def test_damaged_weights_with_matching_digests_are_refused(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"\0" * 50)
    record_digests(saved)
    with pytest.raises(ModelError, match=f"{saved / 'model.safetensors'}: cannot read the weights"):
        load_model(saved, CPU)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "sub/file", "..", ".", ""])
def test_paths_in_the_list_of_files_are_refused(saved: Path, name: str) -> None:
    (saved.parent / "secret").write_text("secret")
    files = json.loads((saved / "config.json").read_text())["files"]
    rewrite_configuration(saved, files={**files, name: [6, "0" * 64]})
    with pytest.raises(ModelError, match=r": not a regular file"):
        load_model(saved, CPU)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "config.json"])
def test_links_out_of_the_directory_are_refused(saved: Path, name: str) -> None:
    (saved / name).rename(saved.parent / name)
    (saved / name).symlink_to(saved.parent / name)
    with pytest.raises(
        ModelError, match=rf"{name}: (not a regular file in this directory|damaged, or .*is a symbolic link)"
    ):
        load_model(saved, CPU)


def test_link_to_the_directory_is_followed_and_links_inside_it_are_not(saved: Path) -> None:
    (saved.parent / "link").symlink_to(saved)
    load_model(saved.parent / "link", CPU)
    (saved / "model.safetensors").rename(saved / "weights")
    (saved / "model.safetensors").symlink_to("weights")
    with pytest.raises(ModelError, match=r"model\.safetensors: not a regular file in this directory"):
        load_model(saved, CPU)


@pytest.mark.parametrize("files", [None, {}, [], "x", 5, {"model.safetensors": 0}, {"tokenizer.model": 0}])
def test_list_without_a_required_file_is_refused_before_any_is_opened(saved: Path, files: object) -> None:
    """A pipe in place of a file would be waited for."""
    listed = json.loads((saved / "config.json").read_text())["files"]
    rewrite_configuration(saved, files={name: listed[name] for name in files} if isinstance(files, dict) else files)
    for name in ("model.safetensors", "tokenizer.model"):
        (saved / name).unlink()
        os.mkfifo(saved / name)
    with pytest.raises(ModelError, match=r"config\.json: damaged, or not written by nmt: (it has no digests|its list)"):
        load_model(saved, CPU)


@pytest.mark.parametrize("recorded", ["0" * 64, None, [], [1], [10**400, ""], {"size": 1}], ids=str)
def test_ill_typed_digests_are_refused(saved: Path, recorded: object) -> None:
    listed = json.loads((saved / "config.json").read_text())["files"]
    rewrite_configuration(saved, files={**listed, "model.safetensors": recorded})
    with pytest.raises(ModelError, match=r"model\.safetensors: damaged: .*size or SHA-256 differs"):
        load_model(saved, CPU)


def test_files_that_are_not_listed_are_ignored(tokenizers: Tokenizers, tmp_path: Path) -> None:
    other = Tokenizer.train(LINES, TokenizerSettings(vocab_size=290, type="bpe"))
    before = build(Tokenizers(tokenizers.source, other), tied_embeddings="none")
    save_model(tmp_path / "model", before)
    os.mkfifo(tmp_path / "model" / "tokenizer.model")
    (tmp_path / "model" / "notes.txt").symlink_to("/etc/hostname")
    assert_same(before, load_model(tmp_path / "model", CPU))


def test_changed_value_of_the_configuration_is_refused(saved: Path) -> None:
    """Every setting of a model changes its translations."""
    file = saved / "config.json"
    file.write_text(file.read_text().replace('"beam": 3', '"beam": 2'))
    with pytest.raises(DamagedError, match=r"config\.json: damaged, .* its content is not what was saved"):
        load_model(saved, CPU)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "config.json"])
def test_pipes_and_folders_are_refused_without_waiting(saved: Path, name: str) -> None:
    (saved / name).unlink()
    os.mkfifo(saved / name)
    with pytest.raises(ModelError, match=r"not a regular file"):
        load_model(saved, CPU)
    (saved / name).unlink()
    (saved / name).mkdir()
    with pytest.raises(ModelError, match=r"not a regular file"):
        load_model(saved, CPU)


def test_large_configuration_is_refused_unread(saved: Path) -> None:
    with (saved / "config.json").open("ab") as file:
        file.truncate(2**40)  # sparse: takes no space
    with pytest.raises(ModelError, match=r"config\.json: damaged, or .* expected a file of at most 1,048,576 bytes"):
        load_model(saved, CPU)


def test_settings_known_at_the_end_of_training_are_added_to_a_saved_model(saved: Path, tmp_path: Path) -> None:
    decode = DecodeSettings(beam=7)
    assert load_model(saved, CPU).decode != decode
    checkpoint.write_settings(saved, decode)
    save_model(tmp_path / "copy", load_model(saved, CPU))
    assert load_model(tmp_path / "copy", CPU).decode == decode


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_file_modes_follow_the_umask(tokenizers: Tokenizers, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        save_model(tmp_path / "model", build(tokenizers))
        checkpoint.write_settings(tmp_path / "model", DecodeSettings())
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "model").iterdir()} == {mode}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"languages": {}}',
        '{"format_version": 5, "files": null}',
        '{"format_version": 1e999}',
        '{"format_version": ' + "1" * 5000 + "}",
        "\udcff",
        "[" * 100_000,
        '{"format_version": "x"}',
    ],
)
def test_damaged_configuration_is_refused(saved: Path, content: str) -> None:
    (saved / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match=f"{saved / 'config.json'}: damaged"):
        load_model(saved, CPU)


def test_configuration_without_format_version_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config\.json: damaged, or not written by nmt: it has no format_version"):
        load_model(saved, CPU)


def test_another_format_is_refused_before_other_checks(saved: Path) -> None:
    (saved / "config.json").write_text('{"format_version": 3, "model": "made of cheese"}')
    with pytest.raises(ModelError, match=r"config.json: format version 3, expected 5: another version of nmt wrote it"):
        load_model(saved, CPU)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"dim": "wide"}},
        {"model": {"a_new_layer": True}},
        {"languages": {"source": "it"}},
    ],
    ids=str,
)
def test_unknown_settings_are_refused(saved: Path, changes: dict[str, object]) -> None:
    rewrite_configuration(saved, **changes)
    with pytest.raises(ModelError, match=f"{saved / 'config.json'}: .*was it written by a newer nmt"):
        load_model(saved, CPU)


def test_weights_of_another_model_are_refused(saved: Path) -> None:
    content = {"encoder.0.odd": torch.zeros(4000)}
    save_file(content, saved / "model.safetensors")
    record_digests(saved)
    with pytest.raises(ModelError, match=r"weight 'decoder.0.*': found nothing, the configuration expects \("):
        load_model(saved, CPU)


@pytest.mark.parametrize("when", ["weights", "tokenizer", "digests"])
def test_full_disk_leaves_nothing(
    tokenizers: Tokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    loaded = build(tokenizers, seed=2)

    def no_space(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write = {"weights": "model.checkpoint.save_file", "tokenizer": "text.tokenizer.Tokenizers.save"}
    monkeypatch.setattr(f"nmt.{write.get(when, 'system.files.digest_of')}", no_space)
    with pytest.raises(DataError, match=f"{tmp_path}/model: cannot write it: No space left on device; free some space"):
        save_model(tmp_path / "model", loaded)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_resolve_model_accepts_a_model_or_a_run(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert resolve_model(saved) == saved
    (run / "last").symlink_to(saved)
    assert resolve_model(run) == run / "last"
    (run / "best").symlink_to(saved)
    assert resolve_model(run) == run / "best"
    (run / "best").unlink()
    (run / "best").symlink_to(tmp_path / "pruned")
    assert resolve_model(run) == run / "last"


def test_resolve_model_of_another_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=f"{tmp_path / 'nowhere'}: no such directory; give a model directory or a run directory"
    ):
        resolve_model(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=f"{tmp_path}: neither a model directory .config.json is missing. nor a run"):
        resolve_model(tmp_path)
    with pytest.raises(ModelError, match=f"{tmp_path}: not a model directory"):
        load_model(tmp_path, CPU)
