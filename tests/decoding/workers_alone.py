"""What test_workers.py runs in a process of its own, whose torch has one thread."""

import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch

from nmt.config import ModelSettings, RuntimeSettings
from nmt.decoding.batched_search import search_all
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.options import SearchOptions
from nmt.decoding.rescoring import search_and_rescore
from nmt.decoding.step_model import StepModel
from nmt.decoding.workers import Workers, _received
from nmt.errors import ConfigError, ModelError
from nmt.model.transformer import Transformer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")


def tiny_model() -> Transformer:
    torch.manual_seed(5)
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": 16, "heads": 2, "feed_forward": 32}
    return Transformer(ModelSettings.model_validate(shape), 40, 40).eval()


def sentences(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in lengths]


@pytest.mark.parametrize("beam", [1, 3])
def test_several_processes_find_what_one_finds(beam: int) -> None:
    model, options = tiny_model(), SearchOptions(beam=beam, n_best=beam)
    workers = Workers(model, RuntimeSettings(device="cpu"), 2)
    for count in (0, 1, 60):
        asked = sentences(count)
        alone = search_all(model, asked, options, 60)
        shared = search_all(workers, asked, options, 60)
        assert [[found.tokens for found in of_one] for of_one in shared] == [
            [found.tokens for found in of_one] for of_one in alone
        ]


def _fail(decoder: StepModel, item: int) -> int:
    raise ConfigError(f"item {item}: too much")


def _die(decoder: StepModel, item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def _double(decoder: StepModel, item: int) -> int:
    return 2 * item


def test_errors_come_back_and_the_next_search_works() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2)
    with pytest.raises(ConfigError, match="item 0: too much"):
        list(workers.share_out(_fail, range(5)))
    assert list(workers.share_out(_double, range(5))) == [0, 2, 4, 6, 8]


def test_a_process_that_is_killed_is_named_as_gone() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2)
    with pytest.raises(ModelError, match="a process that translated is gone"):
        list(workers.share_out(_die, range(8)))
    assert list(workers.share_out(_double, range(5))) == [0, 2, 4, 6, 8]


def test_a_process_that_is_killed_in_the_midst_of_its_answer_is_named_as_gone() -> None:
    mine, theirs = Pipe()
    os.write(theirs.fileno(), (100).to_bytes(4, "big") + b"not a hundred bytes")
    theirs.close()
    with pytest.raises(ModelError, match="a process that translated is gone"):
        _received(mine)


def test_a_process_that_is_killed_while_it_waits_is_named_as_gone() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2)
    for process in set(workers.share_out(_name, range(4))):
        os.kill(process, signal.SIGKILL)
    with pytest.raises(ModelError, match="a process that translated is gone"):
        list(workers.share_out(_double, [0] * 100_000))


def _take_turns(decoder: StepModel, item: int) -> int:
    time.sleep(0.001 * (item * 7 % 5))
    return item


def test_results_come_in_order_whoever_is_first_and_however_large() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 3)
    assert list(workers.share_out(_take_turns, range(60))) == list(range(60))
    large = [bytes([i]) * 3_000_000 for i in range(6)]
    assert list(workers.share_out(_same, large)) == large


def _same(decoder: StepModel, item: bytes) -> bytes:
    return item


def _cannot_be_pickled(decoder: StepModel, item: int) -> object:
    return lambda: item


def test_what_cannot_be_sent_is_an_error_like_any_other() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2)
    with pytest.raises((AttributeError, pickle.PicklingError), match="pickle") as failure:
        list(workers.share_out(_cannot_be_pickled, range(3)))
    assert "_answer" in failure.value.__notes__[0]


def _stop(decoder: StepModel, item: int) -> int:
    if item:
        os.kill(os.getpid(), signal.SIGSTOP)
    return os.getpid()


def test_an_interruption_ends_processes_that_are_stopped() -> None:
    results = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2).share_out(_stop, [0, 0, 1, 1])
    worker = next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert not Path(f"/proc/{worker}").exists()


def test_nobody_is_left_when_nobody_needs_them_any_more() -> None:
    workers = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2)
    processes = set(workers.share_out(_name, range(4)))
    del workers
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def _sleep(decoder: StepModel, item: int) -> int:
    time.sleep(10**6 if item else 0)
    return os.getpid()


def test_an_interruption_does_not_wait_for_the_work_at_hand() -> None:
    results = Workers(tiny_model(), RuntimeSettings(device="cpu"), 2).share_out(_sleep, range(8))
    worker = next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    while not _is_zombie(worker):
        time.sleep(0.01)


_FIRST = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from workers_alone import Workers, RuntimeSettings, tiny_model, _name
for name in Workers(tiny_model(), RuntimeSettings(device="cpu"), 2).share_out(_name, range(4)):
    print(name, flush=True)
time.sleep(10**6)
"""


def _name(decoder: StepModel, item: int) -> int:
    time.sleep(0.1)
    return os.getpid()


def test_nobody_is_left_when_the_first_process_is_killed(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", _FIRST, here], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        workers = {int(first.stdout.readline()) for _ in range(4)}
        assert first.pid not in workers
        first.kill()
    while any(Path(f"/proc/{worker}").exists() and not _is_zombie(worker) for worker in workers):
        time.sleep(0.05)


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_several_processes_read_what_one_reads() -> None:
    models = [tiny_model(), Transformer(tiny_model().settings, 40, 40).eval()]
    alone, together = (Workers(one, RuntimeSettings(device="cpu"), 2) for one in (models[0], Ensemble(models)))
    asked = sentences(60)
    pairs = list(zip(asked, reversed(asked), strict=True))
    for model, workers in ((models[0], alone), (models[0], together), (models[1], together)):
        for heads in ((), [(0, 1), (0, 0)]):
            expected = force_all(model, pairs, 60, heads)
            shared = force_all(model, pairs, 60, heads, workers)
            assert [one.token_log_probs for one in shared] == [one.token_log_probs for one in expected]
            assert all(torch.equal(a.attention, b.attention) for a, b in zip(shared, expected, strict=True))


def test_what_a_beam_found_is_ranked_anew_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, options = tiny_model(), SearchOptions(beam=3, coverage_penalty=0.5, repetition_penalty=1.5)
    expected = search_and_rescore(model, sentences(40), options, 60)
    workers = Workers(model, RuntimeSettings(device="cpu"), 2)
    list(workers.share_out(_double, range(2)))
    monkeypatch.setattr(Transformer, "encode", None)  # in this process only: the others are there already
    shared = search_and_rescore(model, sentences(40), options, 60, workers=workers)
    assert [of_one[0].tokens for of_one in shared] == [of_one[0].tokens for of_one in expected]
