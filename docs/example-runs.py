"""Train a small network in plain JAX, with weights in 32 or 16 bits, eight seeds each; print a table of the runs."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from pipeline.data.known import read_bundled


def loss(weights, images, labels):
    hidden = jax.nn.relu(images @ weights[0])
    logits = (hidden @ weights[1]).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


@jax.jit
def epoch(weights, images, labels):
    def step(weights, batch):
        slopes = jax.grad(loss)(weights, *batch)
        return [
            weight - (0.2 * slope).astype(weight.dtype) for weight, slope in zip(weights, slopes, strict=True)
        ], None

    return jax.lax.scan(step, weights, (images, labels))[0]


if __name__ == "__main__":
    data = read_bundled("mnist")
    (images, labels), (test_images, test_labels) = ((x.reshape(len(x), -1) / 255, y) for x, y in data.values())
    print("variant,seed,accuracy,seconds")
    for seed in range(8):
        for dtype in (jnp.float32, jnp.bfloat16):
            rng = np.random.default_rng(seed)  # the same weights and order of data for both
            weights = [jnp.asarray(rng.normal(0, n**-0.5, (n, m)), dtype) for n, m in ((784, 128), (128, 10))]
            order = rng.permutation(len(images))[: 468 * 128].reshape(468, 128)
            batches = jnp.asarray(images[order], dtype), jnp.asarray(labels[order])
            jax.block_until_ready(epoch(weights, *batches))  # compiles, and trains nothing
            start = time.perf_counter()
            for _ in range(3):
                weights = epoch(weights, *batches)
            jax.block_until_ready(weights)
            seconds = time.perf_counter() - start
            logits = jax.nn.relu(jnp.asarray(test_images, dtype) @ weights[0]) @ weights[1]
            accuracy = 100 * (logits.argmax(1) == test_labels).mean()
            print(f"{dtype.__name__},{seed},{accuracy:.2f},{seconds:.2f}")
