import time

import numpy as np

from pipeline import engine
from pipeline.data.batches import ShuffledBatches, WholeBatches
from pipeline.data.datasets import Examples

EXAMPLES = Examples(np.arange(10, dtype=np.uint8)[:, None, None, None], np.arange(10))


def epoch(batches: ShuffledBatches, number: int = 0) -> list[int]:
    batches.begin_epoch(number)
    return [int(label) for index in range(len(batches)) for label in batches[index][1]]


def test_an_epoch_sees_each_example_once_including_a_partial_batch():
    batches = ShuffledBatches(EXAMPLES, 4, seed=0)
    assert [len(batches[index][1]) for index in range(len(batches))] == [4, 4, 2]
    assert sorted(epoch(batches)) == list(range(10))


def test_the_order_depends_only_on_seed_and_epoch():
    first, again = ShuffledBatches(EXAMPLES, 4, seed=3), ShuffledBatches(EXAMPLES, 5, seed=3)
    epochs = [epoch(first, number) for number in range(3)]
    assert epochs == [epoch(again, number) for number in range(3)], "the batch size must not change the order"
    assert epochs[0] != epochs[1]
    assert epochs[0] != epoch(ShuffledBatches(EXAMPLES, 4, seed=4))


def test_the_engine_receives_examples_in_the_order_of_each_epoch():
    batches = ShuffledBatches(EXAMPLES, 4, seed=0)
    fed = engine.feed(batches)
    for number in (0, 1, 2):
        expected = epoch(batches, number)
        pairs = [fed[index] for index in range(len(fed))] if fed is batches else list(fed)
        assert [int(label) for _, labels in pairs for label in labels] == expected
        assert [int(image[0, 0, 0]) for images, _ in pairs for image in images] == expected


def test_releasing_batches_takes_no_time():
    """However long they were held: every prediction and every training ends with it."""
    readers = [iter(engine.feed(ShuffledBatches(EXAMPLES, 4, seed=0))) for _ in range(5)]
    for reader in readers:
        next(reader)
    time.sleep(1)
    started = time.monotonic()
    while readers:
        del readers[-1]
    del reader
    assert time.monotonic() - started < 0.5


def test_the_last_batch_is_padded_with_the_last_image():
    batches = WholeBatches(EXAMPLES.images, 4)
    assert [batches[index].ravel().tolist() for index in range(len(batches))] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 9, 9],
    ]
