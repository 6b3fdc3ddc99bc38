"""Collectives, and the environment that torchrun sets."""

import pytest
import torch

from nmt.config import RuntimeSettings
from nmt.errors import ConfigError, ModelError
from nmt.kernels import device, machine
from nmt.kernels.device import choose_device
from nmt.system import distributed


def test_collectives_of_one_process_return_their_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with distributed.connect(choose_device(RuntimeSettings())):
        assert (distributed.rank(), distributed.world_size()) == (0, 1)
        assert distributed.exchange(3, 0.1) == [(3, 0.1)]
        assert distributed.on_rank_zero(lambda: 5) == 5
        assert distributed.all_gather(list(distributed.shard("abc"))) == ["a", "b", "c"]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_gather_restores_the_order_before_shard(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    work = list(range(13))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: size)

    def gather(shares: list[list[int]], own: list[int]) -> None:
        shares[:] = [[-number for number in work[rank::size]] for rank in range(size)]
        assert own in shares

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    for rank in range(size):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        own = [-number for number in distributed.shard(work)]
        assert distributed.all_gather(own) == [-number for number in work]


def pretend(monkeypatch: pytest.MonkeyPatch, rank: int, size: int, gpus: int) -> None:
    places = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    for name, value in {**places, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda _: None)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "")


def test_each_process_gets_its_own_device_and_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, rank=3, size=4, gpus=4)
    monkeypatch.setattr(machine, "available_cores", lambda: 9)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    assert device.choose_device(RuntimeSettings()) == torch.device("cuda", 3)
    assert device.choose_device(RuntimeSettings(device="cpu")) == torch.device("cpu")
    device.set_threads(RuntimeSettings())
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    device.set_threads(RuntimeSettings())
    assert threads == [2, 1]


def test_more_processes_than_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, rank=0, size=8, gpus=4)
    expected = "8 processes on this machine, which has 4 GPUs; start torchrun with --nproc-per-node 4"
    with pytest.raises(ConfigError, match=expected), distributed.connect(choose_device(RuntimeSettings())):
        pass
    pretend(monkeypatch, rank=0, size=2, gpus=0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with (
        pytest.raises(ConfigError, match="mps cannot be shared"),
        distributed.connect(choose_device(RuntimeSettings())),
    ):
        pass


def test_lost_connection_raises_model_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, rank=0, size=2, gpus=0)
    monkeypatch.setattr(distributed, "_init_process_group", lambda _: None)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    lost = RuntimeError("[/some/gloo/transport/tcp/pair.cc:1] Connection closed by peer [127.0.0.1]:1")
    with (
        pytest.raises(
            ModelError, match=r"process 0 lost the connection .*closed by peer.* continues: a training from its"
        ),
        distributed.connect(choose_device(RuntimeSettings(device="cpu"))),
    ):
        raise lost
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    with (
        pytest.raises(ModelError, match=r"process 0 cannot connect to the others: .*; start it with torchrun"),
        distributed.connect(choose_device(RuntimeSettings(device="cpu"))),
    ):
        raise lost
    with pytest.raises(ZeroDivisionError), distributed.connect(choose_device(RuntimeSettings(device="cpu"))):
        _ = 1 / 0


def test_one_process_of_torchrun_on_a_gpu_sets_a_numbered_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda.set_device refuses a device without a number."""
    pretend(monkeypatch, rank=0, size=1, gpus=1)
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(distributed, "_init_process_group", lambda _: None)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with distributed.connect(choose_device(RuntimeSettings())):
        pass
    assert [(device.type, device.index) for device in chosen] == [("cuda", 0)]
