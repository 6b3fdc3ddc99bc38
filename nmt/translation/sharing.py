"""Work on line batches, shared among processes: on a CPU all of it, on a GPU all but the searches."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from nmt.system.distributed import scatter_map, world_size
from nmt.system.workers import Item, Result, WorkerPool, can_fork

if TYPE_CHECKING:
    from nmt.translation.translator import Translator


def shared_map(
    translator: "Translator", work: Callable[[Item], Result], batches: Iterable[Item], is_long: bool = True
) -> Iterator[Result]:
    """Yield `work(batch)` for each batch, in order; `work` may run in another process, so it changes nothing here.

    The processes of torchrun share the batches; or forks of this process, if the text is long and the translator may
    have several: then results are pickled, and a batch is read before the previous one is done.
    """
    # forks end with the thread that started them, and lack the threads of torch, which a search in them would need
    is_main = threading.current_thread() is threading.main_thread()
    if world_size() > 1:
        return scatter_map(batches, work)
    engine = translator.engine
    if not (is_long and translator.process_count > 1 and is_main and (not engine.uses_cores or can_fork())):
        return map(work, batches)

    def begin() -> None:
        translator.engine = engine.for_worker(pool.call)

    advice = "give fewer --threads or a smaller decode.batch_tokens"
    pool = WorkerPool(work, translator.process_count, advice, begin, engine.answer)
    return pool.map(batches)
