"""Negatives beyond those of the batch.

They are random, given with the examples, or mined with the model itself. Mined, or hard, negatives
are the wrong responses that the model ranks highest for a context; ACL19 leaves them to future
work. The nearest responses of a large pool are often right, so these are left out: texts equal to
the pair's own response, responses known to answer the same input (and history), and whatever scores
too close to the pair's own (Moreira et al. 2024, "NV-Retriever", compares such limits). A stage is
cut into windows; at the beginning of each, negatives of its pairs are mined with the model as it
then is, into a file that a continued run reads again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from rejoinder.arrays import Column, Joined, ranges
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.networks.packing import SEGMENT_COST, TokenBatch, pack
from rejoinder.progress import Advance
from rejoinder.training.data.batches import ExtraNegatives, MixedOrder, make_batch
from rejoinder.training.data.tokens import TokenRows, TokenStore, token_hashes
from rejoinder.training.display import Display
from rejoinder.training.metrics import PAIRS_AT_ONCE, Encode
from rejoinder.training.recipe.stages import HardNegatives, Stage

RANDOM_STREAM = 1 << 21  # tell these draws from the orders of examples of the same seed
POOL_STREAM = 1 << 20
HASHED_AT_ONCE = 1 << 16  # texts whose tokens are in memory together
SCORES_AT_ONCE = 1 << 24  # scores that are in memory together: 64 MB


def with_negatives(
    store: TokenStore, stage: Stage, seed: tuple[int, ...], mined: ExtraNegatives | None
) -> tuple[TokenStore, ExtraNegatives | None]:
    """Return the examples and the finder of their additional negatives in a stage.

    They are drawn, given, `mined`, or none.
    """
    if stage.given_negatives or stage.input_negatives:
        source = GivenNegatives(store) if stage.given_negatives else InputNegatives(store)
        return source.store, source
    return store, RandomNegatives(len(store), stage.negatives, seed) if stage.negatives else mined


class RandomNegatives:
    """k = `count` negatives of each example, drawn anew from all others.

    The seed and the batch's examples decide.
    """

    def __init__(self, examples: int, count: int, seed: tuple[int, ...]) -> None:
        self._examples = examples
        self._count = count
        self._seed = seed

    def __call__(self, rows: TokenRows) -> TokenRows:
        """Return for each of n examples the k whose responses are its negatives (n, k)."""
        generator = np.random.default_rng([*self._seed, RANDOM_STREAM, *rows.tolist()])
        drawn = generator.integers(0, self._examples - 1, (len(rows), self._count))
        return drawn + (drawn >= rows[:, None])  # of all but the example itself


class GivenNegatives:
    """The wrong candidates that come with each example, as rows of its `store`.

    See POLY, section 5.1: ConvAI2's 19.
    """

    def __init__(self, store: TokenStore) -> None:
        wrong = store.given
        assert wrong is not None  # `prepare` keeps them where a stage asks for them
        self._first = len(store)
        self._count = wrong.count
        texts = Joined([store.response, wrong.texts])
        hashes = Joined([store.response_hash, wrong.hashes])
        self.store = dataclasses.replace(store, response=texts, response_hash=hashes)

    def __call__(self, rows: TokenRows) -> TokenRows:
        """Return for each of n examples the k rows whose responses are its negatives (n, k)."""
        return self._first + rows[:, None] * self._count + np.arange(self._count)


class InputNegatives:
    """The newest message of each example, as a row of its `store`.

    It is not an answer to itself.
    """

    def __init__(self, store: TokenStore) -> None:
        self._first = len(store)
        texts = Joined([store.response, store.input])
        hashes = Joined([store.response_hash, InputHashes(store.input)])
        self.store = dataclasses.replace(store, response=texts, response_hash=hashes)

    def __call__(self, rows: TokenRows) -> TokenRows:
        """Return for each of n examples the row whose response is its newest message (n, 1)."""
        return self._first + rows[:, None]


@dataclass(frozen=True, slots=True)
class InputHashes:
    """Hashes of texts, computed when they are asked for."""

    texts: Column | Joined

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: TokenRows) -> TokenRows:
        return _hashes(self.texts, rows)


@dataclass(frozen=True, slots=True)
class NegativesTable:
    """Hard negatives of examples."""

    rows: TokenRows  # the examples, ascending (n,)
    negatives: TokenRows  # examples whose responses are the negatives of each (n, k)

    def __call__(self, rows: TokenRows) -> TokenRows:
        """Return those of the given examples: (len(rows), k)."""
        places = np.searchsorted(self.rows, rows).clip(max=len(self.rows) - 1)
        if (self.rows[places] != rows).any():
            raise InputError(
                "the table of hard negatives is of another run; name another folder to train again"
            )
        return self.negatives[places]


class Tables:
    """The tables of a stage of `steps` batches (None: minutes).

    `step` counts the run's batches, `stage_step` its.
    """

    def __init__(
        self,
        config: HardNegatives,
        order: MixedOrder,
        steps: int | None,
        folder: Path,
        seed: tuple[int, ...],
    ) -> None:
        self.config = config
        self._order = order
        self._steps = steps
        self._folder = folder
        self._seed = seed

    def window(self, stage_step: int) -> tuple[int, int | None]:
        """Return first step and end of the window of a batch in the stage.

        None is the end of the stage.
        """
        every = self.config.every_steps
        start = 0 if every is None else stage_step - stage_step % every
        return start, None if every is None else start + every

    def load(self, step: int, stage_step: int) -> NegativesTable | None:
        """Return the table of the window, or None if it is to be mined now."""
        path = self._path(step, stage_step)
        if not path.exists() and stage_step == self.window(stage_step)[0]:
            return None
        try:
            return NegativesTable(**load_file(path))
        except FileNotFoundError:
            raise InputError(
                f"{path} is missing, so the run cannot go on as it began;"
                " name another folder to train again"
            ) from None
        except (SafetensorError, TypeError, OSError) as error:
            raise InputError(
                f"{path}: not a whole table of hard negatives ({error});"
                " name another folder to train again"
            ) from None

    def load_or_mine(
        self,
        step: int,
        stage_step: int,
        miner: Miner,
        display: Display,
        pause: Callable[[], object],
    ) -> tuple[NegativesTable, bool]:
        """Return the table of the window, and whether it was mined now; see `mine`."""
        table = self.load(step, stage_step)
        if table is not None:
            return table, False
        return self.mine(step, stage_step, miner, display, pause), True

    def mine(
        self,
        step: int,
        stage_step: int,
        miner: Miner,
        display: Display,
        pause: Callable[[], object],
    ) -> NegativesTable:
        """Mine the table of the window that begins now, and write it.

        `pause` is called on the way, and may raise.
        """
        start, stop = self.window(stage_step)
        rows = self._rows(start, stop)
        drawn = self._order.sample(
            self.config.pool, np.random.default_rng([*self._seed, start, POOL_STREAM])
        )
        with display.track("Mining hard negatives", len(rows) + len(drawn), "texts") as advance:

            def report(done: int) -> None:
                advance(done)
                pause()

            negatives, above = miner(rows, drawn, report)
        with atomic_file(self._path(step, stage_step)) as part:
            save_file({"rows": rows, "negatives": negatives}, part)
        over = f", {above / negatives.size:.1%} of them above the limit" if above else ""
        display.note(
            f"step {step:,}: hard negatives for {len(rows):,} pairs,"
            f" {self.config.per_pair} each{over}"
        )
        return NegativesTable(rows, negatives)

    def forget_others(self, step: int, stage_step: int) -> None:
        """Remove all tables but that of the present window."""
        for path in {*self._folder.glob("step-*.safetensors")} - {self._path(step, stage_step)}:
            path.unlink()

    def _path(self, step: int, stage_step: int) -> Path:
        """Return the file of the window, named by the step of the run at which it begins."""
        return (
            self._folder / f"step-{step - stage_step + self.window(stage_step)[0]:08}.safetensors"
        )

    def _rows(self, start: int, stop: int | None) -> TokenRows:
        """Return the examples of a window's batches, ascending.

        They are all where it goes over them more than once.
        """
        examples = sum(self._order.sizes)
        size = self._order.batch_size
        ends = [end for end in (stop, self._steps) if end is not None]
        if not ends or (min(ends) - start) * size >= examples:
            return np.arange(examples)
        return np.unique(
            np.concatenate([self._order.rows(step) for step in range(start, min(ends))])
        )


@dataclass(frozen=True)
class Miner:
    """Scores a pool's responses for hard negatives.

    `retrieval`'s scan knows no limit and no answers to leave out.
    """

    store: TokenStore
    config: HardNegatives
    encode: Encode
    encode_responses: Callable[[TokenBatch], Tensor]
    padding_id: int
    segments: bool = True  # texts are cut into segments, as processors want them

    @torch.no_grad()
    def __call__(
        self, rows: TokenRows, drawn: TokenRows, advance: Advance
    ) -> tuple[TokenRows, int]:
        """Return k negatives of n pairs among the drawn examples, hardest first (n, k).

        Also return how many exceed the limit.
        """
        drawn_hashes = self.store.response_hash[drawn]
        first = np.sort(np.unique(drawn_hashes, return_index=True)[1])
        pool = drawn[first]
        vectors = self._vectors(drawn[first], advance)
        advance(len(drawn) - len(pool))
        every = np.union1d(rows, drawn)
        known = KnownAnswers(
            self._input_hashes(every), self.store.response_hash[every], drawn_hashes[first]
        )
        size = max(1, min(PAIRS_AT_ONCE, SCORES_AT_ONCE // len(pool)))
        chosen = [np.empty((0, self.config.per_pair), np.int64)]
        above = 0
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            batch = make_batch(self.store, block, self.padding_id, segments=self.segments)
            x, y = self.encode(batch)
            x = x.float()
            y = y.float()
            right = known.places(self._input_hashes(block))
            limit = highest((x * y).sum(dim=1), self.config)
            places, easier = hardest(x @ vectors.T, limit, right, self.config.per_pair)
            chosen.append(pool[places])
            above += easier
            advance(len(block))
        return np.concatenate(chosen), above

    def _vectors(self, rows: TokenRows, advance: Advance) -> Tensor:
        vectors = []
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            block = rows[start : start + PAIRS_AT_ONCE]
            ids, lengths = self.store.response.gather(block)
            batch = pack(ids, lengths, self.padding_id, SEGMENT_COST if self.segments else None)
            vectors.append(self.encode_responses(batch).float())
            advance(len(block))
        return torch.cat(vectors)

    def _input_hashes(self, rows: TokenRows) -> TokenRows:
        """Return hashes that are equal for contexts of which the model reads the same."""
        input_ = self.store.input
        history = self.store.history
        history_hashes = 0 if history is None else history.hashes(rows)
        # each alone is spread over 64 bits
        return _hashes(input_, rows) * np.int64(31) + history_hashes


def _hashes(texts: Column | Joined, rows: TokenRows) -> TokenRows:
    hashes: list[TokenRows] = []
    for start in range(0, len(rows), HASHED_AT_ONCE):
        ids, lengths = texts.gather(rows[start : start + HASHED_AT_ONCE])
        hashes.append(token_hashes(ids, lengths))
    return np.concatenate(hashes)


class KnownAnswers:
    """Responses of a pool of different ones that belong to a pair with an input.

    All are given by their hashes.
    """

    def __init__(self, inputs: TokenRows, responses: TokenRows, pool: TokenRows) -> None:
        ordered = np.argsort(pool)
        places = ordered[np.searchsorted(pool, responses, sorter=ordered).clip(max=len(pool) - 1)]
        inside = pool[places] == responses
        by_input = np.argsort(inputs[inside], kind="stable")
        self._inputs = inputs[inside][by_input]
        self._places = places[inside][by_input]

    def places(self, inputs: TokenRows) -> TokenRows:
        """Return pairs (i, place in the pool) of all known answers to n inputs, (2, m)."""
        first = np.searchsorted(self._inputs, inputs, side="left")
        last = np.searchsorted(self._inputs, inputs, side="right")
        counts = last - first
        return np.stack(
            [np.repeat(np.arange(len(inputs)), counts), self._places[ranges(first, counts)]]
        )


def highest(own: Tensor, config: HardNegatives) -> Tensor:
    """Return the highest score allowed for a negative, given each pair's own score, (n,)."""
    if config.margin is not None:
        return own + config.margin
    if config.share is not None:
        # below the own score where that is negative, too
        return own - (1 - config.share) * own.abs()
    return torch.full_like(own, torch.inf)


def hardest(scores: Tensor, limit: Tensor, right: TokenRows, k: int) -> tuple[TokenRows, int]:
    """Find the k hardest negatives of n pairs.

    They are the highest scores up to the limit, then the lowest ones above it. `scores` are cosines
    (n, pool), `limit` is (n,), and `right` lists pairs (i, place) that are not negatives (2, m).
    Return their places (n, k), and how many of them are above the limit.
    """
    keys = torch.where(scores > limit[:, None], -4 - scores, scores)
    keys[tuple(torch.from_numpy(right).to(scores.device))] = -torch.inf
    best = torch.topk(keys, min(k, keys.shape[1]))
    if best.values.shape[1] < k or bool(best.values[:, -1].isneginf().any()):
        raise InputError(
            f"{scores.shape[1]} different responses in the pool are too few"
            f" for hard_negatives.per_pair = {k}; lower it, or, where the data have more, raise"
            " hard_negatives.pool"
        )
    return best.indices.cpu().numpy(), int((best.values < -2).sum())
