"""Train one run in several processes on TensorFlow: Keras's `fit` in each, and sums over them all.

Keras 3.15 can't fit a model built under MultiWorkerMirroredStrategy (keras #20585). Here the strategy does only what
lies below Keras: it connects the processes and sums over them. Each process trains its own copy of the model on an
equal share of every batch; gradients are summed before the optimizer sees them, so the copies stay equal.
"""

import faulthandler
import os
import signal
from typing import Any

import tensorflow as tf

from pipeline.engine import processes
from pipeline.errors import InputError

# Above the ports that Linux gives to clients; jobs whose numbers are less than 64 apart don't meet there.
FIRST_PORT, NUM_PORTS, PORTS_PER_JOB = 61440, 4096, 64

_strategy: Any = None  # once several processes have joined


def join_processes() -> tuple[int, int]:
    """Join the processes that one launcher started for one run; return which of them this is, and their number.

    Slurm's tasks of a job step find each other; elsewhere TF_CONFIG names the address of every worker, as TensorFlow
    documents it. Call it before anything else of TensorFlow.

    Raises:
        InputError: a machine can't be found, or has fewer GPUs than processes; TF_CONFIG has other jobs than "worker".
    """
    global _strategy
    if processes.are_slurm_tasks():
        first = int(os.environ["SLURM_JOB_ID"]) * PORTS_PER_JOB
        hosts, index = processes.slurm_hosts(), int(os.environ["SLURM_PROCID"])
        addresses = [f"{host}:{FIRST_PORT + (first + task) % NUM_PORTS}" for task, host in enumerate(hosts)]
    else:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs, index = resolver.cluster_spec().as_dict(), resolver.task_id
        if jobs.keys() > {"worker"} or (jobs and resolver.task_type != "worker"):
            raise InputError(f"TF_CONFIG: every process must be a worker. Received: {', '.join(jobs)}")
        addresses = jobs.get("worker", [])
    if len(addresses) < 2:
        return 0, 1
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:  # the processes of a machine take one each
        hosts = [address.rpartition(":")[0] for address in addresses]
        place = hosts[:index].count(hosts[index])
        if place >= len(gpus):
            raise InputError(f"devices: {hosts[index]} has more processes than its {len(gpus)} GPUs.")
        tf.config.set_visible_devices(gpus[place], "GPU")
    cluster = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": addresses}),
        task_type="worker",
        task_id=index,
        num_accelerators={"GPU": min(len(gpus), 1)},
        rpc_layer="grpc",
    )
    processes.expect([address for address in addresses if address != addresses[index]], index, len(addresses))
    # TensorFlow waits deaf to signals and holds the interpreter's lock: only another thread of C can end that.
    faulthandler.dump_traceback_later(processes.JOIN_SECONDS, exit=True)
    _strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster)
    faulthandler.cancel_dump_traceback_later()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow has caught it to take note of it, and to go on
    return index, len(addresses)


def num_processes() -> int:
    return _strategy.num_replicas_in_sync if _strategy else 1


def synchronise() -> None:
    """Wait until the devices of this process have finished, and wait for no other process."""
    if not _strategy:
        tf.test.experimental.sync_devices()
        return
    with tf.device(_strategy.extended.worker_devices[0]):
        tf.raw_ops.SyncDevice()


def share_gradients(model: Any) -> None:
    """Sum the gradients of all processes before the optimizer of a compiled model gets them.

    Each process divides its mean loss by their number, as Keras does under a strategy: float16 sees the same numbers in
    the backward pass as in one process. A dynamic loss scale looks at the sums, so all find the same overflows and skip
    the same steps.

    Raises:
        InputError: the step is compiled by XLA, or a call of TensorFlow makes several.
    """
    if not _strategy:
        return
    if model.jit_compile:
        raise InputError("jit_compile: several processes on TensorFlow train without XLA; on jax they train with it.")
    if model.steps_per_execution > 1:
        raise InputError("steps_per_execution: must be 1 for several processes on TensorFlow, it fails on more.")
    optimizer = model.optimizer
    scale_loss, apply = optimizer.scale_loss, optimizer.apply
    optimizer.scale_loss = lambda loss: scale_loss(loss) / num_processes()
    optimizer.apply = lambda gradients, variables=None: apply(_total(gradients), variables)


def average_epoch(model: Any, logs: dict[str, Any]) -> None:
    """Average the metrics `logs` of an ended epoch, and batch norm's moving averages, over the processes.

    Those are linear in what each step saw, so that averaging them now and averaging them at every step is the same.
    """
    if not _strategy:
        return
    variables = [variable for variable in model.non_trainable_variables if "float" in variable.dtype]
    values = [*(tf.convert_to_tensor(variable) for variable in variables), tf.constant(list(logs.values()))]
    *averages, metrics = _total_now([value / num_processes() for value in values])
    for variable, average in zip(variables, averages, strict=True):
        variable.assign(average)
    logs.update(zip(logs, metrics.numpy().tolist(), strict=True))


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _total(tensors: list[Any]) -> list[Any]:
    """Return the sums of each over all processes. Call it inside a tf.function."""

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def total(*shares: Any) -> Any:
        context, totals = tf.distribute.get_replica_context(), list(shares)
        for dtype in dict.fromkeys(share.dtype for share in shares):  # float16 models end in a float32 layer
            places = [place for place, share in enumerate(shares) if share.dtype == dtype]
            placed = [tf.identity(shares[place]) for place in places]  # on the device of this context
            for place, value in zip(places, context.all_reduce(tf.distribute.ReduceOp.SUM, placed), strict=True):
                totals[place] = value
        return totals

    with _strategy.scope():
        totals: list[Any] = _strategy.run(total, args=tensors)
    return totals


_total_now = tf.function(_total)
