"""The engine without torch against the one with it, and what it does with a model that is not what it claims to be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from nmt.config import RuntimeSettings
from nmt.decoding.batches import in_threads
from nmt.decoding.engine import NativeEngine, RemoteEngine, engine_for
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Pair
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ConfigError, ModelError
from nmt.kernels.compiling import library
from nmt.kernels.native_search import SearchBatch, search
from nmt.model.stored import LoadedModel, read_arrays, read_model
from nmt.translation.translator import Translator
from tests.builders import save_model, tiny_loaded_model, tiny_tokenizers

pytestmark = pytest.mark.skipif(library() is None, reason="needs a C++ compiler")
TOKENIZERS = tiny_tokenizers()
RUNTIME = RuntimeSettings(device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("model") / "model"
    save_model(folder, tiny_loaded_model(dim=64, feed_forward=64))
    return read_model(folder)


@pytest.fixture(scope="module")
def native(model: LoadedModel) -> NativeEngine:
    engine = engine_for([model], RUNTIME, 2)
    assert isinstance(engine, NativeEngine)
    return engine


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 250), min_size=1, max_size=30), max_size=40),
    st.sampled_from(
        [
            {},
            {"beam": 1},
            {"beam": 1, "log_probs": False},
            {"beam": 4, "n_best": 3, "exact": True},
            {"no_repeat_ngram": 2},
            {"sampling": {"temperature": 1.0}, "n_best": 2},
        ]
    ),
    st.booleans(),
)
def test_both_engines_find_the_same(
    native: NativeEngine, model: LoadedModel, sentences: list[list[int]], options: dict[str, Any], with_prefixes: bool
) -> None:
    chosen = SearchOptions.model_validate({"beam": 3, "max_length": {"factor": 1, "extra": 4}, **options})
    prefixes: Sequence[Sequence[int]] | None = [ids[:2] for ids in sentences] if with_prefixes else None
    expected = TorchEngine.of_models([model.model], RUNTIME).search(sentences, chosen, prefixes)
    found = native.search(sentences, chosen, prefixes)
    assert [[one.tokens for one in best] for best in found] == [[one.tokens for one in best] for best in expected]


IDS = st.lists(st.integers(4, 250), max_size=30)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(IDS, IDS), max_size=20),
    st.integers(1, 200),
    st.booleans(),
    st.sampled_from(
        [
            {},
            {"norm": "post", "activation": "gelu"},
            {"positions": "rotary", "output_bias": True},
            {"activation": "swiglu"},
        ]
    ),
    st.sampled_from(["fp32", "bf16", "int8"]),
)
def test_both_engines_force_the_same(
    pairs: list[Pair], budget: int, with_attention: bool, changes: dict[str, Any], precision: str
) -> None:
    """In lower precisions, to what rounding makes of numbers of a random model."""
    loaded = tiny_loaded_model(TOKENIZERS, dim=64, feed_forward=64, decoder_layers=2, **changes)
    engine = engine_for([loaded], RUNTIME.model_copy(update={"precision": precision}), 2)
    assert isinstance(engine, NativeEngine)
    expected = TorchEngine.of_models([loaded.model], RUNTIME).force(pairs, budget, with_attention)
    of_log_probs, of_attention = {"fp32": (1e-4, 1e-4), "bf16": (0.2, 0.1), "int8": (0.8, 0.2)}[precision]
    for found, theirs in zip(engine.force(pairs, budget, with_attention), expected, strict=True):
        np.testing.assert_allclose(
            found.token_log_probs, theirs.token_log_probs, 1e-5 if precision == "fp32" else 0.05, of_log_probs
        )
        np.testing.assert_allclose(found.attention, theirs.attention, 0, of_attention)
        assert found.attention.shape == theirs.attention.shape


def test_torch_is_loaded_once_and_only_for_what_needs_it(model: LoadedModel) -> None:
    loaded: list[TorchEngine] = []
    torch_engine, laid_out = TorchEngine.of_models([model.model], RUNTIME), model.native("fp32")
    assert laid_out is not None
    engine = NativeEngine([laid_out], lambda: loaded.append(torch_engine) or torch_engine, 1)  # type: ignore[func-returns-value]
    engine.search([[5, 6]], SearchOptions(n_best=2), [[7]])
    engine.force([([5, 6], [7])], 100, with_attention=True)
    assert not loaded
    for _ in range(2):
        assert engine.torch_engine is torch_engine
    assert loaded == [torch_engine]


def test_a_search_that_does_not_fit_into_ram_is_halved_or_refused(
    native: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences, options = [[5 + i, 6, 7] for i in range(9)], SearchOptions(beam=2)
    expected = native.search(sentences, options)

    def limited(models: Any, batch: SearchBatch, *rest: Any) -> Any:
        if len(batch.sentences) > limit:
            raise MemoryError
        return search(models, batch, *rest)

    monkeypatch.setattr("nmt.decoding.engine.search", limited)
    limit = 2
    assert native.search(sentences, options) == expected
    limit = 0
    with pytest.raises(ConfigError, match=r"a sentence of 4 tokens with a beam of 2 does not fit in RAM; use"):
        native.search(sentences, options)


@pytest.mark.parametrize("change", ["missing", "added", "shape", "type"])
def test_weights_of_another_model_are_refused(model: LoadedModel, tmp_path: Path, change: str) -> None:
    """Kernels read as many numbers as the settings say: too few would be read from other memory."""
    weights, name = load_file(model.file), "encoder.0.attention.output.bias"
    if change == "missing":
        del weights[name]
    elif change == "added":
        weights["more"] = np.zeros(3, np.float32)
    else:
        weights[name] = weights[name][:-1] if change == "shape" else weights[name].astype(np.float16)
    save_model(tmp_path / "model", tiny_loaded_model(dim=64, feed_forward=64))
    save_file(weights, tmp_path / "model" / "model.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.system.files._check_listed", lambda *_: None)  # digests, which an attacker can write, too
        with pytest.raises(ModelError, match=r"model\.safetensors: (weight|cannot read the weights: its numbers)"):
            Translator.load(tmp_path / "model", device="cpu")


def test_a_damaged_file_of_weights_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 40):
        (tmp_path / "weights").write_bytes(content)
        with pytest.raises(ModelError, match="cannot read the weights"):
            read_arrays(tmp_path / "weights")


def test_a_remote_engine_sends_no_request_without_sentences(native: NativeEngine) -> None:
    requests = list[object]()
    remote = RemoteEngine(native, requests.append)
    assert remote.search([], SearchOptions()) == remote.force([], 100) == requests == []


def test_batches_of_a_thread_that_outlives_the_main_thread_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)  # as at the end of the main thread
    assert in_threads(sum, [[1, 2], [3], []], threads=2) == [3, 3, 0]
