"""Support vector machines of ai.onnx.ml: a kernel with each vector, and weighted sums of those.

ONNX leaves open how the weights of a classifier lie and what its scores are; both are as in ONNX
Runtime, whose layout is LIBSVM's: a sum for each pair of classes, over the vectors of both.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from nnjit_studio.compiler.importer.onnx.ml.scores import transformed
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def regressor(r: Rewriter) -> None:
    """A number for each row; with ``one_class`` 1 inside the border and -1 elsewhere."""
    weights = _floats(r, "coefficients").reshape(-1, 1)
    count = r.attribute("n_supports", 0)
    vectors = _floats(r, "support_vectors").reshape(count, -1) if count else None
    score = _sums(r, _kernel(r, vectors), weights)
    if r.attribute("one_class", 0):
        inside = r.op("Greater", score, r.weight(0, np.float32))
        score = r.op("Where", inside, r.weight(1, np.float32), r.weight(-1, np.float32))
    r.op("Identity", score, out=r.node.output[0])


def classifier(r: Rewriter) -> None:
    """The class that most pairs vote for, and the score of each pair."""
    labels = r.attribute("classlabels_ints", None)
    if not labels:
        raise r.refuse("classes that are numbers")
    counts = r.attribute("vectors_per_class", [])
    if r.attribute("prob_a", []) or len(counts) != len(labels):
        raise r.refuse("vectors for each class, and no probabilities (SVC without probability)")
    kernel = _kernel(r, _floats(r, "support_vectors").reshape(sum(counts), -1))
    scores = _sums(r, kernel, _weights_of_pairs(_floats(r, "coefficients"), counts))
    found, out = [*r.node.output, ""][:2]
    r.op("Gather", r.weight(labels, np.int64), _voted(r, scores, len(labels)), axis=0, out=found)
    if out:
        if len(labels) == 2:
            scores = r.op("Concat", r.op("Neg", scores), scores, axis=1)
        transform = r.attribute("post_transform", b"NONE").decode()
        if len(labels) == 2 and transform not in ("NONE", "LOGISTIC"):
            raise r.refuse("of two classes scores as they are, or by LOGISTIC")
        transformed(r, scores, transform, out)


def _voted(r: Rewriter, scores: str, classes: int) -> str:
    """The class [N] for which most pairs speak, the first of several."""
    pairs = list(combinations(range(classes), 2))
    change = np.zeros((len(pairs), classes), np.float32)
    start = np.zeros(classes, np.float32)
    for place, (first, second) in enumerate(pairs):
        change[place, [first, second]] = 1, -1
        start[second] += 1
    over = r.op("Greater", scores, r.weight(0, np.float32))
    ones = r.op("Where", over, r.weight(1, np.float32), r.weight(0, np.float32))
    votes = r.op("Add", r.op("MatMul", ones, r.weight(change)), r.weight(start))
    return r.op("ArgMax", votes, axis=1, keepdims=0)


def _weights_of_pairs(flat: NDArray[np.float32], counts: list[int]) -> NDArray[np.float32]:
    """[vectors, pairs]: a vector of a pair has the weight that is kept for the other class."""
    kept = flat.reshape(len(counts) - 1, sum(counts))
    starts = np.cumsum([0, *counts])
    columns = []
    for first, second in combinations(range(len(counts)), 2):
        column = np.zeros(sum(counts), np.float32)
        for mine, row in ((first, second - 1), (second, first)):
            part = slice(starts[mine], starts[mine + 1])
            column[part] = kept[row, part]
        columns.append(column)
    return np.stack(columns, axis=1)


def _sums(r: Rewriter, kernel: str, weights: NDArray[np.float32]) -> str:
    """[N, sums] of the kernel's values, each with its own constant."""
    rho = _floats(r, "rho")
    product = r.op("MatMul", kernel, r.weight(weights))
    return r.op("Add", product, r.weight(rho.reshape(weights.shape[1])))


def _kernel(r: Rewriter, vectors: NDArray[np.float32] | None) -> str:
    """[N, vectors] of the rows with each vector; the rows themselves where there are none."""
    x = r.op("Cast", r.node.input[0], to=TensorProto.FLOAT)
    if vectors is None:
        return x
    kind = r.attribute("kernel_type", b"LINEAR")
    gamma, constant, degree = (r.attribute("kernel_params", None) or [0.0, 0.0, 0.0])[:3]
    if kind == b"RBF":
        apart = r.op("Sub", r.along("Unsqueeze", x, [1]), r.weight(vectors))
        square = r.along("ReduceSum", r.op("Mul", apart, apart), [2], keepdims=0)
        return r.op("Exp", r.op("Mul", square, r.weight(-gamma, np.float32)))
    product = r.op("MatMul", x, r.weight(vectors.T.copy()))
    if kind == b"LINEAR":
        return product
    line = r.op("Mul", product, r.weight(gamma, np.float32))
    line = r.op("Add", line, r.weight(constant, np.float32))
    if kind == b"SIGMOID":
        return r.op("Tanh", line)
    return r.op("Pow", line, r.weight(degree, np.float32))


def _floats(r: Rewriter, name: str) -> NDArray[np.float32]:
    return np.array(r.attribute(name, []), np.float32)
