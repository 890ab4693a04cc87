"""What every constraint promises, checked on one table. A new constraint is one more row; forget it and a test fails.

Three examples with texts, keywords and targets of different lengths; a fourth stands in where one is exchanged.
"""

import copy
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForSequenceClassification

import cold
from cold.constraints import (
    At,
    Classifier,
    Constraint,
    Count,
    Ends,
    Fluency,
    Function,
    Future,
    Keywords,
    Meaning,
    Similarity,
    mean,
    train_probe,
)  # fmt: skip
from cold.constraints.fluency import ECHO
from cold.lm import Context, LanguageModel
from cold.lm.prefix import Prefix
from cold.sampling.noise import Noise
from cold.soft import SoftSequence
from tiny import tiny_lm


def double(lm: LanguageModel) -> LanguageModel:
    """The same model in fp64, so that slopes can be measured; its logits are fp32 all the same."""
    return replace(lm, model=copy.deepcopy(lm.model).double())


LM, BACK = double(tiny_lm()), double(tiny_lm(seed=1, reverse=True))
LENGTH, DEVIATION = 5, 3.0  # of the logits: some tokens stand out, none is certain

LEFT = ["The dog ran to the river.", "She", "It was a cold night and the wind was strong. The window", "He wanted to"]
RIGHT = [
    "He never saw the dog again.",
    "The team won the game in the last minute, and she smiled.",
    "Nobody",
    "We ate.",
]
WORDS = [[" dog"], [" guitar", " river"], [" doctor", " the", " salt"], [" fence", " a"]]
TEXTS = [" dog ran to the river", " cat sat on the mat", " man who loved her so", " boat went down the sea"]


def pick(entries: Sequence, examples: Sequence[int]) -> list:
    return [entries[i] for i in examples]


def words(examples: Sequence[int]) -> list[list[list[int]]]:
    return [[LM.encode(word) for word in WORDS[i]] for i in examples]


def targets(examples: Sequence[int]) -> list[list[int]]:
    """Two, three, five and four tokens."""
    return [LM.encode(TEXTS[i])[: (2, 3, 5, 4)[i]] for i in examples]


class Case(NamedTuple):
    build: Callable[[Sequence[int]], Constraint]  # for the given examples
    satisfying: Callable[[Constraint, Sequence[int]], list[list[int]]]  # one text of LENGTH tokens per example
    gradient: float = 1.0  # of the true gradient, how much is asked for
    everywhere: bool = True  # whether every position matters


# -- texts that satisfy -----------------------------------------------------------------------------------------


def likely(constraint: Fluency, examples: Sequence[int]) -> list[list[int]]:
    """What the LM itself would write: each token in turn the best, in the LM's direction."""
    rows = len(examples)
    reader = constraint.context.bind(rows, LENGTH)
    ids = torch.zeros(rows, LENGTH, dtype=torch.long)
    for t in reversed(range(LENGTH)) if reader.context.lm.reverse else range(LENGTH):
        y = SoftSequence.of_ids(ids.tolist(), LM.vocab, LM.device)
        expected = reader.read(y, None).predicted
        echo = ECHO * expected[:, t + 1].softmax(-1) if constraint.no_echo and t < LENGTH - 1 else 0
        ids[:, t] = (expected[:, t] - echo).argmax(-1)
    return ids.tolist()


def spelled(constraint: Constraint, examples: Sequence[int]) -> list[list[int]]:
    """The targets, in order, then full stops."""
    return [(ids + LM.encode(".") * LENGTH)[:LENGTH] for ids in targets(examples)]


def mentioned(constraint: Constraint, examples: Sequence[int]) -> list[list[int]]:
    return [([*chain(*ids)] + LM.encode(".") * LENGTH)[:LENGTH] for ids in words(examples)]


def causes(constraint: Constraint, examples: Sequence[int]) -> list[list[int]]:
    return pick(CAUSES, examples)


def continuation(text: Sequence[int], lm, tokens: int) -> list[int]:
    """The LM's best next tokens."""
    prefix, ids = Prefix.of(lm, [text]), []
    for _ in range(tokens):
        ids.append(int(prefix.logits.argmax()))
        prefix = prefix.append_ids(torch.tensor([ids[-1]]))
    return ids


# The random LM has no idea what causes what, so the effects are what it writes after the causes.
CAUSES = [LM.encode(sentence)[:LENGTH] for sentence in TEXTS]
EFFECTS = [continuation([0, *LM.encode(LEFT[i]), *CAUSES[i]], LM, 2 + i) for i in range(4)]
NEAR = [continuation([*LM.encode(LEFT[i])[-1:], *CAUSES[i]], LM, 2 + i) for i in range(4)]  # sees one token of the left
BEFORE = [continuation([0, *CAUSES[i][::-1]], BACK, 5 - i)[::-1] for i in range(4)]

# -- classifiers ------------------------------------------------------------------------------------------------

ANIMALS = {"animals": [" dog", " cat", " horse"], "things": [" river", " door", " table"]}


def classifier() -> LlamaForSequenceClassification:
    """Random, over the LM's vocabulary; its last token decides."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    labels = {0: "dull", 1: "bright"}
    config = LlamaConfig(vocab_size=LM.vocab, pad_token_id=0, id2label=labels, initializer_range=0.5, **sizes)
    return LlamaForSequenceClassification(config).double()


def brightest(constraint: Classifier, examples: Sequence[int]) -> list[list[int]]:
    """The best of a thousand random texts."""
    texts = torch.randint(257, LM.vocab, (1000, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        said = constraint.model(input_ids=texts).logits.log_softmax(-1)[:, 1]
    return [texts[int(said.argmax())].tolist()] * len(examples)


# -- the table --------------------------------------------------------------------------------------------------


def story(examples: Sequence[int], **options) -> Context:
    return Context(LM, left=pick(LEFT, examples), right=pick(RIGHT, examples), **options)


def back(examples: Sequence[int], **options) -> Context:
    return Context(BACK, right=pick(RIGHT, examples), **options)


def released(examples: Sequence[int]) -> Context:
    return story(examples, temperature=1e-3, top_k=20, widen=[[*chain(*ids)] for ids in words(examples)])


def last_token(examples: Sequence[int]) -> Context:
    """Straight through: its gradient is as if the temperature were 1, which is 0.3 of the true one."""
    options = {"temperature": 0.3, "straight_through": True, "keep": 1, "separator": False}
    return Context(LM, pick(LEFT, examples), pick(NEAR, examples), **options)


CASES = {
    "fluency": Case(lambda e: Fluency(story(e)), likely),
    "fluency, sharpened": Case(lambda e: Fluency(story(e, temperature=0.3), reduction=mean), likely),
    "fluency, detached": Case(lambda e: Fluency(story(e), detach=True), likely),
    "fluency, released": Case(lambda e: Fluency(released(e), reduction=mean, detach=True, within=True), likely),
    "fluency, reverse": Case(lambda e: Fluency(back(e)), likely),
    "fluency, reverse, released": Case(
        lambda e: Fluency(back(e, temperature=1e-5, separator=False), reduction=mean, detach=True, no_echo=True),
        likely,
    ),
    "future": Case(lambda e: Future(Context(LM, pick(LEFT, e), pick(EFFECTS, e))), causes),
    "future, released": Case(lambda e: Future(last_token(e), reduction=mean), causes, gradient=0.3),
    "future, reverse": Case(lambda e: Future(Context(BACK, left=pick(BEFORE, e))), causes),
    "similarity": Case(lambda e: Similarity(targets(e)), spelled),
    "similarity, orders 2 and 3": Case(lambda e: Similarity(targets(e), n=(2, 3)), spelled),
    "similarity, gumbel": Case(lambda e: Similarity(targets(e), n=(1, 2), gumbel=True), spelled),
    "similarity, floor": Case(lambda e: Similarity(targets(e), floor=-13.0), spelled),
    "similarity, released": Case(
        lambda e: Similarity(
            targets(e), n=(2, 3), gumbel=True, floor=-20.0, within=story(e, top_k=20, widen=targets(e))
        ),
        spelled,
    ),
    "keywords": Case(lambda e: Keywords(words(e)), mentioned),
    "keywords, any form": Case(lambda e: Keywords([[[ids, ids[::-1]] for ids in row] for row in words(e)]), mentioned),
    "keywords, sharp": Case(lambda e: Keywords(words(e), sharpness=5.0), mentioned),
    "count, at least": Case(lambda e: Count(words([1])[0], at_least=1), lambda c, e: mentioned(c, [1]) * len(e)),
    "count, exactly": Case(lambda e: Count(words([1])[0], 2, 2), lambda c, e: mentioned(c, [1]) * len(e)),
    "count, at most": Case(
        lambda e: Count([[i] for i in range(1, 200)], at_most=0), lambda c, e: [LM.encode(" the") * LENGTH] * len(e)
    ),
    "at": Case(
        lambda e: At(LM.encode(" dog"), place=-1),
        lambda c, e: [(LM.encode(".") * LENGTH + LM.encode(" dog"))[-LENGTH:]] * len(e),
        everywhere=False,
    ),
    "ends": Case(
        lambda e: Ends(LM.encode("."), 4, LENGTH), lambda c, e: [[300, 301, 302, *LM.encode("."), 303]] * len(e)
    ),
    "meaning": Case(lambda e: Meaning(LM, targets(e)), spelled),
    "probe": Case(
        lambda e: train_probe(LM, ANIMALS), lambda c, e: [LM.encode(" dog cat horse dog cat")[:LENGTH]] * len(e)
    ),
    "classifier": Case(lambda e: Classifier(classifier(), "bright"), brightest),
    "function": Case(
        lambda e: Function(lambda y: y.log_probs[:, :, 0].logsumexp(1), name="ends"),
        lambda c, e: [[5, 6, 0, 7, 8]] * len(e),
    ),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


class Scored(NamedTuple):
    score: Tensor
    gradient: Tensor


def soft(rows: int, seed: int = 0) -> Tensor:
    return DEVIATION * torch.randn(rows, LENGTH, LM.vocab, generator=torch.Generator().manual_seed(seed))


def evaluate(constraint: Constraint, y: Tensor, seeds: Sequence[int]) -> Scored:
    """At the second step, when contexts remember the first."""
    bound = (1.0 * constraint).bind(y.shape[0], LENGTH)
    memory = bound(y, bound.start(y), Noise(seeds, 0)).memory
    y = y.clone().requires_grad_(True)
    score = bound(y, memory, Noise(seeds, 1)).scores[0]
    (gradient,) = torch.autograd.grad(score.sum(), y)
    return Scored(score.detach(), gradient)


def assert_same(one: Scored, other: Scored) -> None:
    assert torch.allclose(one.score, other.score, rtol=1e-4, atol=1e-5)
    scale = float(one.gradient.abs().max())
    assert torch.allclose(one.gradient, other.gradient, rtol=1e-3, atol=1e-4 * scale)


def take(scored: Scored, rows: Sequence[int]) -> Scored:
    return Scored(scored.score[list(rows)], scored.gradient[list(rows)])


# -- the contract -----------------------------------------------------------------------------------------------


@every_case
def test_there_is_one_finite_number_per_row(case):
    score = evaluate(case.build([0, 1, 2]), soft(3), [0, 1, 2]).score
    assert score.shape == (3,)
    assert score.dtype == torch.float32
    assert torch.isfinite(score).all()


@every_case
def test_every_position_feels_a_finite_pull(case):
    gradient = evaluate(case.build([0, 1, 2]), soft(3), [0, 1, 2]).gradient
    assert torch.isfinite(gradient).all()
    felt = gradient.abs().sum(-1) > 0
    assert felt.all() if case.everywhere else felt.any(1).all()


@every_case
def test_a_row_does_not_feel_what_another_row_says_or_stands_in(case):
    y = soft(3)
    other = torch.cat([y[:1], soft(1, seed=1), y[2:]])
    one = evaluate(case.build([0, 1, 2]), y, [0, 1, 2])
    exchanged = evaluate(case.build([0, 3, 2]), other, [0, 99, 2])
    assert_same(take(one, [0, 2]), take(exchanged, [0, 2]))
    assert not torch.allclose(one.score[1], exchanged.score[1])


@every_case
def test_a_batch_is_its_examples_one_by_one(case):
    y, seeds = soft(3), [10, 11, 12]
    batch = evaluate(case.build([0, 1, 2]), y, seeds)
    for i in range(3):
        assert_same(take(batch, [i]), evaluate(case.build([i]), y[i : i + 1], seeds[i : i + 1]))


@every_case
def test_samples_of_an_example_stand_side_by_side(case):
    y, seeds = soft(6), [10, 11, 12, 13, 14, 15]
    samples = evaluate(case.build([0, 1, 2]), y, seeds)
    examples = evaluate(case.build([0, 0, 1, 1, 2, 2]), y, seeds)
    assert_same(samples, examples)
    assert not torch.allclose(samples.score[0], samples.score[1])


@every_case
def test_a_satisfying_text_scores_higher_than_random_ones(case):
    examples = [0, 1, 2]
    constraint = case.build(examples)
    bound = (1.0 * constraint).bind(3, LENGTH)

    def score(ids: list[list[int]]) -> Tensor:
        y = SoftSequence.of_ids(ids, LM.vocab, LM.device).logits
        return bound(y, bound.start(y), Noise([0, 1, 2], 0)).scores[0]

    good = score(case.satisfying(constraint, examples))
    for seed in range(10):
        text = torch.randint(1, 257, (3, LENGTH), generator=torch.Generator().manual_seed(seed))  # bytes: no words
        assert (good > score(text.tolist())).all()


@every_case
def test_the_gradient_is_the_slope_of_the_score(case):
    constraint, y, random = case.build([0, 1, 2]), soft(3).double(), Noise([0, 1, 2], 1)
    bound = (1.0 * constraint).bind(3, LENGTH)
    memory = bound(y, bound.start(y), random).memory
    # what a detached term has read stands still while y moves
    frozen = {r.context: r.read(SoftSequence(y), m) for r, m in zip(bound.readers, memory, strict=True)}

    def score(y: Tensor) -> Tensor:
        if not constraint.wish.slope:
            return constraint.score(SoftSequence(y), frozen, random)
        return bound(y, memory, random).scores[0]

    gradient = evaluate(constraint, y, [0, 1, 2]).gradient.flatten(1)
    steepest = gradient.abs().amax(1)
    anywhere = torch.tensor([[7], [800], [2222]])
    for place in torch.cat([gradient.abs().topk(4).indices, anywhere], 1).T:  # one entry per row
        asked = gradient.gather(1, place[:, None])[:, 0]
        assert ((asked - case.gradient * slope(score, y, place)).abs() < 3e-3 * steepest).all()


def slope(score: Callable[[Tensor], Tensor], y: Tensor, place: Tensor, h: float = 1e-3) -> Tensor:
    """Of each row along one of its entries, from four points: exact but for h^4 and the rounding of logits / h."""
    along = torch.zeros_like(y).flatten(1).scatter(1, place[:, None], 1.0).view_as(y)
    with torch.no_grad():
        near = score(y + h * along) - score(y - h * along)
        far = score(y + 2 * h * along) - score(y - 2 * h * along)
    return (8 * near - far) / (12 * h)


# -- nobody is left out -----------------------------------------------------------------------------------------


def subclasses(cls: type) -> Iterator[type]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_every_constraint_of_the_package_is_in_the_table():
    for module in pkgutil.walk_packages(cold.__path__, "cold."):
        if not module.name.endswith("__main__") and ".gpu" not in module.name:  # the latter needs a GPU's compiler
            importlib.import_module(module.name)
    defined = {cls for cls in subclasses(Constraint) if cls.__module__.split(".")[0] == "cold"}
    assert defined == {type(case.build([0])) for case in CASES.values()}
