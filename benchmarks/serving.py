"""Requests per second and latency of `nmt serve`, relative to CTranslate2 behind the same server.

    python benchmarks/serving.py MODEL TEXT [--clients 1 8 32] [--requests 200] [--threads 1]

MODEL is a run or a model directory. Each request is one line of TEXT, sent by clients with connections that stay open,
each the next one after the answer. Engines, in turn, each in a forked process: nmt; nmt whose batches are single
requests; CTranslate2 in float32 with the same weights and beam, which translates each request by itself in the thread
of its handler. At the end, `Translator` in this process translates the lines one by one, without a server: what one
client can reach. The lines of a first tenth of the requests are sent before as a warm-up. Clients compute on the same
cores; where other work does too, the CPU time of the server is what can be compared. Prints a table and one JSON line.
"""

import argparse
import http.client
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch
import uvicorn

from nmt.commands.serve import listening_socket
from nmt.config import RuntimeSettings
from nmt.formats.ctranslate2 import write_ctranslate2
from nmt.kernels.device import set_threads
from nmt.kernels.machine import reuse_freed_ram
from nmt.model.checkpoint import load_model
from nmt.model.stored import resolve_model
from nmt.serving import request_queue
from nmt.serving.api import Service, TextRequest, options_for
from nmt.serving.app import Server, Settings
from nmt.text.readers.opening import read_lines
from nmt.translation.translator import Translator

ENGINES = ("nmt", "nmt, single requests", "CTranslate2")


def main() -> None:
    """Measure all engines; print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    lines = list(islice(cycle(read_lines(chosen.text)), chosen.requests))
    rows = list[dict[str, Any]]()
    for engine in ENGINES:
        with served(engine, chosen.model, chosen.threads) as (port, languages, cpu_seconds):
            send_all(port, languages, lines[: -(-len(lines) // 10)], 1)
            for clients in chosen.clients:
                before = cpu_seconds()
                seconds, times = send_all(port, languages, lines, clients)
                rows.append(row(engine, clients, seconds, cpu_seconds() - before, times))
    rows.append(row("Translator, no server", 1, *without_server(chosen.model, lines, chosen.threads)))
    print("| engine | clients | requests/s | p50 | p99 | CPU of the server, a request |\n|---|--:|--:|--:|--:|--:|")
    for one in rows:
        times = " | ".join(f"{one[name]:.1f} ms" for name in ("p50", "p99", "cpu"))
        print(f"| {one['engine']} | {one['clients']} | {one['requests/s']:.1f} | {times} |")
    print(json.dumps({"torch": torch.__version__, "threads": chosen.threads, "results": rows}))


def row(engine: str, clients: int, seconds: float, cpu: float, times: Sequence[float]) -> dict[str, Any]:
    """Return the figures of one measurement, in milliseconds; `times` are the seconds of each request."""
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    p50, p99 = (1e3 * percentiles[rank - 1] for rank in (50, 99))
    figures = {"requests/s": len(times) / seconds, "p50": p50, "p99": p99, "cpu": 1e3 * cpu / len(times)}
    return {"engine": engine, "clients": clients, **figures}


def without_server(model: Path, lines: Sequence[str], threads: int) -> tuple[float, float, list[float]]:
    """Return the seconds for all lines, those of the CPU, and those for each line."""
    translator = translator_of(model, threads)
    options = options_for(translator, translator.languages.target[0], 0, False)
    times, before = [], time.process_time()
    for line in lines:
        started = time.perf_counter()
        translator.translate_lines([line], options)
        times.append(time.perf_counter() - started)
    return sum(times), time.process_time() - before, times


def translator_of(model: Path, threads: int) -> Translator:
    """Return a translator that has laid out its weights."""
    runtime = RuntimeSettings(device="cpu", threads=threads)
    set_threads(runtime)
    reuse_freed_ram()
    translator = Translator.load(model, **runtime.model_dump())
    translator.translate("a", to=translator.languages.target[0])
    return translator


@contextmanager
def served(engine: str, model: Path, threads: int) -> Iterator[tuple[int, tuple[str, str], Callable[[], float]]]:
    """Run a server in a new process; yield its port, its languages, and a function: the CPU seconds that it used."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("fork").Process(target=run_server, args=(engine, model, threads, theirs))
    process.start()

    def cpu_seconds() -> float:
        ours.send("?")
        return float(ours.recv())

    try:
        yield (*ours.recv(), cpu_seconds)
    finally:
        process.kill()
        process.join()


def run_server(engine: str, model: Path, threads: int, connection: Connection) -> None:
    """Serve until the process is killed."""
    translator = translator_of(model, threads)
    if engine == "nmt, single requests":
        request_queue._BATCH_LINES = 0
    service = Service([translator])
    if engine == "CTranslate2":
        service.translate = with_program(model, threads, translator)  # type: ignore[method-assign]
    with listening_socket("127.0.0.1", 0) as listener, tempfile.TemporaryDirectory() as folder:
        server = Server(service, Settings(50_000, 1 << 20, 60, 128), Path(folder), lambda _: None)
        connection.send((listener.getsockname()[1], next(iter(service.queues))))
        Thread(target=answer_cpu_seconds, args=(connection,), daemon=True).start()
        uvicorn.Server(uvicorn.Config(server, log_config=None, lifespan="off")).run([listener])


def answer_cpu_seconds(connection: Connection) -> None:
    """Answer each message with the CPU seconds of this process."""
    while connection.recv():
        connection.send(time.process_time())


def with_program(model: Path, threads: int, translator: Translator) -> Callable[[TextRequest, Event], dict[str, Any]]:
    """Return a function that answers a request by CTranslate2."""
    import ctranslate2

    sys.path.insert(0, str(Path(__file__).parent))
    from decoding_speed import with_ctranslate2

    loaded = load_model(resolve_model(model), torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(Path(folder), loaded, "float32")
        program = ctranslate2.Translator(folder, inter_threads=1, intra_threads=threads)

    def translate(request: TextRequest, _: Event) -> dict[str, Any]:
        options = options_for(translator, request.target, 0, False)
        return {"translatedText": with_ctranslate2(program, loaded, request.texts, options)[0]}

    return translate


def send_all(port: int, languages: tuple[str, str], lines: Sequence[str], clients: int) -> tuple[float, list[float]]:
    """Send each line as a request of one of the clients; return the seconds for all and for each."""
    remaining, times = iter(lines), list[float]()
    threads = [Thread(target=partial(client, port, languages, remaining, times)) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == len(lines)
    return time.perf_counter() - started, times


def client(port: int, languages: tuple[str, str], remaining: Iterator[str], times: list[float]) -> None:
    """Send requests over one connection until no line remains."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for line in remaining:
        body = json.dumps({"q": line, "source": languages[0], "target": languages[1]})
        started = time.perf_counter()
        connection.request("POST", "/translate", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        times.append(time.perf_counter() - started)
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
