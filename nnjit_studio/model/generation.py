"""Facts about a decoder's two plans that text generation needs, and its requests and tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Generation:
    """How a token loop feeds a decoder with a KV cache.

    The *decode* plan takes one token; the *prefill* plan, where there is one,
    the first tokens of a prompt at once, and the *extend* plan those behind them.
    All have the same weights file and the same state: the cache, whose slots are
    the positions of the text.
    """

    capacity: int
    """Slots of the cache: prompt and new tokens together."""
    rows: int
    """Tokens that the prefill plan takes; 0 without such a plan."""
    ids: str
    """Name of the input ``[1, rows]``."""
    mask: str
    """Name of the input, ``[1, capacity]`` when decoding and ``[1, rows]`` in the prefill plan."""
    logits: str
    """Name of the output ``[1, rows, vocabulary]``."""
    positions: str = ""
    """The input ``[1, rows]`` of positions; empty when the model counts the mask."""
    slot: str = ""
    """The decode plan's input ``[1]``, i64: the slot of the new token."""
    last: str = ""
    """The prefill plan's input ``[1]``, i64: the row whose logits it gives; empty when it gives
    those of every row."""
    extends: bool = False
    """Whether a third plan reads ``rows`` tokens behind those in the cache. Its mask is
    ``[1, capacity]``: the slots but for the last ``rows``, then its own tokens."""


@dataclass(frozen=True)
class GenerationRequest:
    """What the user may choose of a decoder's plans."""

    capacity: int | None = None
    """Slots of the cache; None: as many as the model has positions, at most 1024."""
    rows: int = 128
    """Tokens that the prefill plan takes; below 2 there is none."""
    prefill: str = ""
    """Path of a model of the prefill alone, for a decoder of fixed shapes; empty for none."""
    half_weights: bool = False
    """Whether weights are rounded to f16 where that is cheap to read."""
    half_cache: bool = False
    """Whether a cache that the file has in f16 stays so."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, and how many.

    ``top_k`` 1 is greedy: the largest logit, of equal ones the lowest id. Else
    one of the ``top_k`` likeliest is drawn by the softmax of its logits over
    ``temperature``, of these the fewest that have ``top_p`` of the weight together; equal seeds
    give equal draws. A ``repetition_penalty`` divides the logits above 0 of tokens that the text
    has already, and multiplies those below, before either.
    """

    max_tokens: int
    top_k: int = 1
    temperature: float = 1.0
    seed: int = 0
    stop_tokens: tuple[int, ...] = ()
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    @property
    def greedy(self) -> bool:
        """Whether each token is the likeliest of the model's own logits."""
        return self.top_k == 1 and self.repetition_penalty == 1


@dataclass(frozen=True)
class Token:
    """A new token: milliseconds since the one before (the first: since the prompt was given)
    and the lead of the largest logit over the second. Greedy tokens of a GPU come in groups, each
    with its share of the time.
    """

    id: int
    ms: float
    margin: float


@dataclass(frozen=True)
class Generated:
    """How a text ended: ``length``, ``stop``, ``full`` (the cache) or ``cancelled``."""

    tokens: int
    reason: str
    memory_bytes: int
