"""A search in several processes: the same as in one, and a clear end when one of them is killed.

Only a process whose torch has always had one thread may be copied. This one may be another, so workers_alone.py has the
tests themselves.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.config import ModelSettings, RuntimeSettings
from nmt.decoding.batched_search import search_all
from nmt.decoding.options import SearchOptions
from nmt.decoding.workers import Workers
from nmt.model.transformer import Transformer


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_in_a_process_of_one_thread() -> None:
    tests = Path(__file__).with_name("workers_alone.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads, such as those of torch's products, would not be in the copies, which would wait for them."""
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": 16, "heads": 2, "feed_forward": 32}
    torch.manual_seed(0)
    model = Transformer(ModelSettings.model_validate(shape), 40, 40).eval()
    workers = Workers(model, RuntimeSettings(device="cpu"), 2)
    monkeypatch.setattr("nmt.decoding.workers._threads", lambda: 1000)
    monkeypatch.setattr(Workers, "share_out", lambda *_: pytest.fail("was copied"))
    asked = [[5, 6, 7]] * 9
    assert not workers.ready
    found, expected = (search_all(one, asked, SearchOptions(), 40) for one in (workers, model))
    assert [of_one[0].tokens for of_one in found] == [of_one[0].tokens for of_one in expected]
