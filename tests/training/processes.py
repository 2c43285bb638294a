"""Several processes of one training, each a fork, that meet by a file."""

import os
import traceback

import torch
import torch.distributed as dist


def in_a_fork(work):
    """How it ended: 0, its own exit code, or 1 with the error on stderr; killed by a signal, minus its number."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as left:
            code = left.code
        except BaseException:  # noqa: BLE001 - told, and it ended so
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def together(folder, count, work, **environment):
    """`work(rank)` in so many processes of one group; how each ended, and what each gave back."""
    store = folder / f"meeting-{len(list(folder.glob('meeting-*')))}"
    for old in folder.glob("given-*"):
        old.unlink()
    children = []
    for rank in range(count):
        if (child := os.fork()) == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(count), **environment}
                if count > 1 or not environment:
                    dist.init_process_group("gloo", store=dist.FileStore(str(store), count), rank=rank, world_size=count)
                torch.save(work(rank), folder / f"given-{rank}")
                if dist.is_initialized():
                    dist.destroy_process_group()
                code = 0
            except SystemExit as left:
                code = left.code
            except BaseException:  # noqa: BLE001 - told by whoever waits for it
                (folder / f"broken-{rank}").write_text(traceback.format_exc())
            os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    broken = "\n".join(one.read_text() for one in folder.glob("broken-*"))
    assert not broken, broken
    return codes, [torch.load(one, weights_only=True) for one in sorted(folder.glob("given-*"))]
