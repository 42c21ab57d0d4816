"""Metrics of the test set besides accuracy: from probabilities (N, C) and labels (N,), in [0, 1]."""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.errors import InputError
from pipeline.study.recipe import Metric


def top_5_accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of examples whose class has fewer than five more probable ones.

    Raises:
        InputError: with five classes or fewer it would always be 1.
    """
    if probabilities.shape[1] <= 5:
        raise InputError(f"metrics: top_5_accuracy is always 1 with {probabilities.shape[1]} classes; leave it out.")
    true = np.take_along_axis(probabilities, labels[:, None], axis=1)
    return float(((probabilities > true).sum(axis=1) < 5).mean())


def macro_f1(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean over classes of F₁ = 2·TP / (2·TP + FP + FN); 0 for a class that is there and never predicted.

    A class that is neither among the labels nor among the predictions is left out.
    """
    right, predicted, present = _counts(probabilities, labels)
    seen = predicted + present > 0
    return float((2 * right[seen] / (predicted + present)[seen]).mean())


def balanced_accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean over classes of the share of right examples; classes without examples are left out."""
    right, _, present = _counts(probabilities, labels)
    return float((right[present > 0] / present[present > 0]).mean())


def _counts(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count by class (C,): how many were right, were predicted so, and are so."""
    num_classes, predicted = probabilities.shape[1], probabilities.argmax(axis=1)
    return (
        np.bincount(labels[predicted == labels], minlength=num_classes),
        np.bincount(predicted, minlength=num_classes),
        np.bincount(labels, minlength=num_classes),
    )


METRICS: dict[Metric, Callable[[np.ndarray, np.ndarray], float]] = {
    "top_5_accuracy": top_5_accuracy,
    "macro_f1": macro_f1,
    "balanced_accuracy": balanced_accuracy,
}


def measure(names: Sequence[Metric], probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {name: METRICS[name](probabilities, labels) for name in names}
