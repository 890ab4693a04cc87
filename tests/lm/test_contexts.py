"""What an LM reads of y~ between two texts: the same with and without a cache, alone and in a batch, at every step."""

import gc
from dataclasses import replace

import pytest
import torch

from cold.constraints import Fluency, Future, Similarity
from cold.errors import ColdError
from cold.lm import Context, LanguageModel
from cold.lm.context import Reader
from cold.lm.prefix import Prefix
from cold.sampling import Langevin, run
from cold.sampling.noise import Noise
from cold.sampling.schedules import constant
from cold.soft import SHARPNESS, SoftSequence, expand
from cold.text.complete import GreedyCompletion
from cold.text.initialize import Greedy
from cold.text.problems import Example, Problems
from small import Bigram, small_decoder, small_energy
from tiny import ARCHS, SENTENCES, WINDOW, tiny_lm

every_arch = pytest.mark.parametrize("arch", ARCHS)
either_way = pytest.mark.parametrize("reverse", [False, True])
LEFT, RIGHT = "She went to the store to buy some bread and milk.", "He was late for school."
LEFTS = ["It fell.", *SENTENCES[1:7], " ".join(SENTENCES[:3])]
RIGHTS = [" ".join(SENTENCES[20:22]), *SENTENCES[30:36], "No."]
WORDS = [["dog"], ["river", "water"], ["bread"], ["cat", "mat", "sun"], ["bus"], ["park"], ["book"], ["game", "home"]]


def soft(rows: int, length: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return 3.0 * torch.randn(rows, length, vocab, generator=torch.Generator().manual_seed(seed))


def read(context: Context, y: torch.Tensor, memory: torch.Tensor | None = None):
    return context.bind(y.shape[0], y.shape[1]).read(SoftSequence(y), memory)


def told(reading) -> torch.Tensor:
    """One number that depends on everything the LM says."""
    weights = torch.linspace(-1, 1, reading.predicted.shape[-1]).cos()
    return (reading.predicted * weights).sum() + (reading.after * weights).sum()


# -- the cache ---------------------------------------------------------------------------------------------


@every_arch
@either_way
def test_a_cached_prefix_equals_one_plain_forward_in_value_and_gradient(arch, reverse):
    lm = tiny_lm(arch=arch, reverse=reverse)
    context, y = Context(lm, LEFT, RIGHT), soft(1, 5, lm.vocab).requires_grad_(True)
    reading = read(context, y)
    (grad,) = torch.autograd.grad(told(reading), y)

    before, after = (torch.tensor(ids) for ids in (context.before, context.after))
    soft_tokens = lm.embed_soft(y.softmax(-1))
    middle = soft_tokens.flip(1) if reverse else soft_tokens
    logits = lm.model(inputs_embeds=torch.cat([lm.embed(before), middle, lm.embed(after)], 1), use_cache=False).logits
    start = before.shape[1] - 1
    predicted, behind = logits[:, start : start + 5], logits[:, start + 5 : -1]
    predicted = predicted.flip(1) if reverse else predicted
    assert torch.allclose(reading.predicted, predicted, atol=1e-4)
    assert torch.allclose(reading.after, behind, atol=1e-4)
    (expected,) = torch.autograd.grad(told(reading._replace(predicted=predicted, after=behind)), y)
    assert expected.abs().max() > 0.1
    assert torch.allclose(grad, expected, atol=1e-4 * float(expected.abs().max()))


@either_way
def test_a_text_on_the_far_side_is_not_needed(reverse):
    lm = tiny_lm(reverse=reverse)
    y = soft(1, 5, lm.vocab)
    near = Context(lm, right=RIGHT) if reverse else Context(lm, left=LEFT)
    assert torch.allclose(read(near, y).predicted, read(Context(lm, LEFT, RIGHT), y).predicted, atol=1e-4)
    assert read(near, y).after.shape == (1, 0, lm.vocab)


# -- rows --------------------------------------------------------------------------------------------------


def batch(lm: LanguageModel, back: LanguageModel, rows: list[int]) -> Problems:
    story = Context(lm, left=[LEFTS[i] for i in rows], right=[RIGHTS[i] for i in rows])
    examples = tuple(Example(LEFTS[i], RIGHTS[i], tuple(WORDS[i])) for i in rows)
    return Problems(story, small_energy(story, back, [WORDS[i] for i in rows]), 6, examples)


def evaluate(problems: Problems, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = y.clone().requires_grad_(True)
    energy = problems.energy.bind(y.shape[0], y.shape[1])
    evaluation = energy(y, energy.start(y), Noise(range(y.shape[0]), 0))
    (grad,) = torch.autograd.grad(evaluation.energy.sum(), y)
    return evaluation.scores.detach(), grad


@every_arch
def test_a_row_alone_equals_the_row_in_a_batch_with_other_context_lengths(arch):
    lm, back = tiny_lm(arch=arch), tiny_lm(seed=1, arch=arch, reverse=True)
    y = soft(8, 6, lm.vocab)
    scores, grad = evaluate(batch(lm, back, list(range(8))), y)
    assert torch.isfinite(scores).all()
    assert torch.isfinite(grad).all()
    for row in range(8):
        own_scores, own_grad = evaluate(batch(lm, back, [row]), y[row : row + 1])
        assert torch.allclose(scores[:, row : row + 1], own_scores, atol=1e-4), row
        assert torch.allclose(grad[row : row + 1], own_grad, atol=1e-4), row


def test_a_whole_decode_writes_the_same_texts_alone_and_in_a_batch():
    lm, back = tiny_lm(), tiny_lm(seed=1, reverse=True)
    decoder = small_decoder(steps=6)
    together = decoder(batch(lm, back, list(range(8))), [row for row in range(8) for _ in range(2)])
    for row in (0, 3, 7):
        (alone,) = decoder(batch(lm, back, [row]), [row, row])
        assert [s.text for s in alone.samples] == [s.text for s in together[row].samples]
        assert alone.order == together[row].order
        assert alone.best.energy == pytest.approx(together[row].best.energy, abs=1e-3)


def test_the_samples_of_an_example_stand_side_by_side():
    lm = tiny_lm()
    y = soft(4, 5, lm.vocab)
    both = read(Context(lm, left=LEFTS[:2], right=RIGHTS[:2]), y)
    second = read(Context(lm, left=LEFTS[1], right=RIGHTS[1]), y[2:])
    assert torch.allclose(both.predicted[2:], second.predicted, atol=1e-4)
    assert both.after_mask.sum(1).tolist() == [len(lm.encode_after(" " + RIGHTS[i])) for i in (0, 0, 1, 1)]
    assert expand(torch.tensor([1, 2]), 6).tolist() == [1, 1, 1, 2, 2, 2]


def test_one_text_on_one_side_serves_all_examples_of_the_other():
    context = Context(tiny_lm(), left=LEFTS[:3], right="It fell.")
    assert context.right_ids == [context.right_ids[0]] * 3
    assert Context(tiny_lm(), left="It fell.\n", right=RIGHTS[:3]).opens_line == [True] * 3


def test_an_empty_row_beside_a_full_one_reads_from_the_separator():
    lm = tiny_lm()
    y = soft(2, 4, lm.vocab)
    reading = read(Context(lm, left=["", LEFT]), y)
    assert torch.allclose(reading.predicted[:1], read(Context(lm), y[:1]).predicted, atol=1e-4)


# -- the energy --------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch) -> list[bool]:
    """Each reading of an LM, and whether it kept what a gradient needs."""
    seen, plain = [], Reader._states

    def counted(self, *inputs):
        seen.append(torch.is_grad_enabled())
        return plain(self, *inputs)

    monkeypatch.setattr(Reader, "_states", counted)
    return seen


def count(energy, reads: list[bool], length: int = 4) -> list[bool]:
    y = soft(1, length, 512).requires_grad_(True)
    bound = energy.bind(1, length)
    reads.clear()
    bound(y, bound.start(y), Noise([0], 0))
    return list(reads)


def test_a_context_is_read_once_per_step_whatever_the_number_of_terms(reads):
    story = Context(tiny_lm(), LEFT, RIGHT)
    back = Context(tiny_lm(reverse=True), right=RIGHT)
    one = 1.0 * Fluency(story)
    three = one + 1.0 * Future(story) + 1.0 * Fluency(story, name="again")
    assert count(one, reads) == [True]
    assert count(three, reads) == [True]
    assert count(three + 1.0 * Fluency(back, name="back"), reads) == [True, True]


def test_equal_contexts_that_are_not_the_same_object_are_two(reads):
    energy = 1.0 * Fluency(Context(tiny_lm(), LEFT)) + 1.0 * Fluency(Context(tiny_lm(), LEFT), name="again")
    assert len(count(energy, reads)) == 2


def test_a_context_with_detached_terms_alone_is_read_without_gradient(reads):
    story = Context(tiny_lm(), LEFT, RIGHT, top_k=3)
    detached = 1.0 * Fluency(story, detach=True) + 1.0 * Similarity([[5, 6]], within=story)
    assert count(detached, reads) == [False]
    assert count(detached + 1.0 * Future(story), reads) == [True]


def test_a_step_reads_each_context_once_and_the_prefix_never_again(reads):
    story = Context(tiny_lm(), LEFT, RIGHT)
    energy = (1.0 * Fluency(story) + 1.0 * Future(story)).bind(1, 4)
    reads.clear()
    for _ in run(Langevin(0.1, constant(0.1)), soft(1, 4, 512), energy, [0], steps=5):
        pass
    assert len(reads) == 5


def test_two_hundred_steps_hold_no_more_tensors_than_twenty():
    lm = tiny_lm()
    energy = small_energy(Context(lm, LEFT, RIGHT), tiny_lm(reverse=True), [["dog"]]).bind(2, 4)
    alive = {}
    for state, _ in run(Langevin(0.1, constant(0.1)), soft(2, 4, lm.vocab), energy, [0, 1], steps=200, watch=10):
        if state.step in (20, 200):
            gc.collect()
            alive[state.step] = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
    assert alive[200] <= alive[20]


# -- alignment ---------------------------------------------------------------------------------------------


TABLE = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))
FORWARD, BACKWARD = (LanguageModel(Bigram(TABLE), reverse=reverse) for reverse in (False, True))
Y = [4, 1, 6]


def sharp(ids: list[int]) -> torch.Tensor:
    return 5 * SoftSequence.of_ids([ids], 7, torch.device("cpu")).logits


def test_left_to_right_the_prediction_is_the_row_of_the_token_before():
    reading = read(Context(FORWARD, left=[2, 3], right=[5, 0]), sharp(Y))
    assert torch.allclose(reading.predicted[0], TABLE[[3, 4, 1]], atol=1e-5)
    assert reading.covers == slice(None)


def test_right_to_left_the_prediction_is_the_row_of_the_token_behind():
    reading = read(Context(BACKWARD, left=[2, 3], right=[5, 0]), sharp(Y))
    assert torch.allclose(reading.predicted[0], TABLE[[1, 6, 5]], atol=1e-5)
    assert reading.covers == slice(None)


@either_way
def test_a_prediction_depends_on_its_one_neighbour_alone(reverse):
    context = Context(BACKWARD if reverse else FORWARD, left=[2], right=[5])
    y = soft(1, 4, 7).requires_grad_(True)
    predicted = read(context, y).predicted
    for t in range(4):
        neighbour = t + 1 if reverse else t - 1
        if not 0 <= neighbour < 4:
            assert torch.allclose(predicted[0, t], TABLE[5 if reverse else 2])
            continue
        (grad,) = torch.autograd.grad(predicted[0, t, 0], y, retain_graph=True)
        moved = grad[0].abs().sum(-1) > 0
        assert moved.tolist() == [place == neighbour for place in range(4)]


def test_left_to_right_the_text_behind_is_predicted_from_the_end_of_y_on():
    reading = read(Context(FORWARD, left=[2, 3], right=[[5, 0, 2]]), sharp(Y))
    assert torch.allclose(reading.after[0], TABLE[[6, 5, 0]], atol=1e-5)
    assert reading.after_ids.tolist() == [[5, 0, 2]]


def test_right_to_left_the_text_before_is_predicted_from_the_start_of_y_on():
    reading = read(Context(BACKWARD, left=[2, 3, 1], right=[5]), sharp(Y))
    assert torch.allclose(reading.after[0], TABLE[[4, 1, 3]], atol=1e-5)
    assert reading.after_ids.tolist() == [[1, 3, 2]]


def test_right_texts_of_different_lengths_are_masked_behind_their_end():
    reading = read(Context(FORWARD, left=[2], right=[[5, 0, 2], [1]]), sharp(Y).expand(2, -1, -1))
    assert reading.after_ids.tolist() == [[5, 0, 2], [1, 0, 0]]
    assert reading.after_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert torch.allclose(reading.after[1, 0], TABLE[6], atol=1e-5)


@pytest.mark.parametrize(
    ("context", "covers", "rows"),
    [
        (Context(FORWARD, left=[[]], separator=False), slice(1, None), [4, 1]),
        (Context(BACKWARD, right=[[]], separator=False), slice(0, -1), [1, 6]),
        (Context(FORWARD), slice(None), [0, 4, 1]),
        (Context(BACKWARD), slice(None), [1, 6, 0]),
    ],
    ids=["forward, nothing", "backward, nothing", "forward, separator", "backward, separator"],
)
def test_without_any_context_the_first_token_is_not_predicted(context, covers, rows):
    reading = read(context, sharp(Y))
    assert reading.covers == covers
    assert torch.allclose(reading.predicted[0], TABLE[rows], atol=1e-5)
    assert len(sharp(Y)[0, covers]) == len(rows)


def test_a_sequence_of_one_token_is_predicted_from_its_context_alone():
    assert torch.allclose(read(Context(FORWARD, left=[2]), sharp([4])).predicted[0], TABLE[[2]], atol=1e-5)
    assert read(Context(BACKWARD, right=[[]], separator=False), sharp([4])).predicted.shape == (1, 0, 7)


def test_ids_shifted_by_one_are_the_same_model():
    wide = torch.nn.functional.pad(TABLE, (1, 0, 1, 0), value=9.0)
    shifted = LanguageModel(Bigram(wide), reverse=True, first_id=1)
    y = soft(1, 4, 7)
    assert shifted.vocab == 7
    plain = read(Context(BACKWARD, left=[2], right=[5]), y)
    other = read(Context(shifted, left=[2], right=[5]), y)
    assert torch.allclose(plain.predicted, other.predicted, atol=1e-5)
    assert torch.allclose(plain.after, other.after, atol=1e-5)


# -- what is read of y -------------------------------------------------------------------------------------


def test_keep_reads_only_the_last_tokens_on_the_left():
    lm, y = tiny_lm(), soft(1, 4, 512)
    whole = Context(lm, LEFT, RIGHT)
    for n in (1, 3):
        last = whole.left_ids[0][-n:]
        kept = Context(lm, LEFT, RIGHT, keep=n)
        assert kept.left_ids == [last]
        assert torch.equal(read(kept, y).after, read(Context(lm, last, RIGHT, separator=False), y).after)
    assert Context(lm, LEFT, RIGHT, keep=0).left_ids == whole.left_ids


def test_a_temperature_reads_the_scaled_sequence():
    lm, y = tiny_lm(), soft(1, 4, 512)
    warm = read(Context(lm, LEFT, RIGHT, temperature=0.4), y)
    plain = read(Context(lm, LEFT, RIGHT), y / 0.4)
    assert torch.allclose(warm.predicted, plain.predicted, atol=1e-4)
    assert not torch.allclose(warm.predicted, read(Context(lm, LEFT, RIGHT), y).predicted, atol=1e-2)


def test_straight_through_reads_the_same_and_its_gradient_lacks_the_temperature():
    lm, temperature = tiny_lm(), 0.4
    found = []
    for straight_through in (False, True):
        y = soft(1, 4, 512).requires_grad_(True)
        context = Context(lm, LEFT, RIGHT, temperature=temperature, straight_through=straight_through)
        reading = read(context, y)
        found.append((told(reading).detach(), *torch.autograd.grad(told(reading), y)))
    (value, grad), (straight_value, straight) = found
    assert torch.allclose(value, straight_value, rtol=1e-5)
    assert torch.allclose(straight, temperature * grad, atol=1e-4 * float(grad.abs().max()))


def test_with_top_k_the_first_step_reads_everything_and_the_second_only_candidates():
    lm, k, widen = tiny_lm(), 3, [7, 9]
    y = soft(1, 4, 512)
    context = Context(lm, LEFT, top_k=k, widen=[widen])
    reader = context.bind(1, 4)
    first = reader.read(SoftSequence(y), None)
    memory = first.candidates
    assert torch.allclose(first.predicted, read(Context(lm, LEFT), y).predicted, atol=1e-5)
    best = first.predicted.topk(k).indices[0].tolist()
    candidates = [sorted({*row, *widen}) for row in best]
    assert [sorted(found) for found in memory.sets()[0]] == candidates

    second = reader.read(SoftSequence(y), memory)
    allowed = torch.full_like(y, -float("inf"))
    for t, tokens in enumerate(candidates):
        allowed[0, t, tokens] = 0
    assert torch.allclose(second.predicted, read(Context(lm, LEFT), y + allowed).predicted, atol=1e-4)
    assert not torch.allclose(second.predicted, first.predicted, atol=1e-2)


def test_each_row_has_its_own_widened_candidates():
    reading = read(Context(FORWARD, left=[[2], [3]], top_k=1, widen=[[0], [1, 5]]), sharp(Y).expand(4, -1, -1))
    found = reading.candidates.sets()
    for row, more in enumerate([{0}, {0}, {1, 5}, {1, 5}]):
        last = [2, 2, 3, 3][row]
        assert found[row] == [{int(TABLE[i].argmax())} | more for i in (last, *Y[:-1])]


@pytest.mark.parametrize(("temperature", "products"), [(1.0, 1), (0.5, 2)])
def test_models_over_one_table_share_the_soft_embedding_of_a_step(temperature, products, monkeypatch):
    seen, plain = [], LanguageModel.embed_soft
    monkeypatch.setattr(LanguageModel, "embed_soft", lambda *given: seen.append(1) or plain(*given))
    one = tiny_lm()
    other = LanguageModel(one.model, one.tokenizer, reverse=True)
    energy = 1.0 * Fluency(Context(one, LEFT)) + 1.0 * Fluency(
        Context(other, right=RIGHT, temperature=temperature), "b"
    )
    bound, y = energy.bind(2, 4), soft(2, 4, one.vocab).requires_grad_(True)
    both = torch.autograd.grad(bound(y, bound.start(y), Noise([0, 1], 0)).energy.sum(), y)[0]
    assert len(seen) == products
    alone = [1.0 * term.constraint for term in energy.terms]
    parts = [torch.autograd.grad(e.bind(2, 4)(y, (None,), Noise([0, 1], 0)).energy.sum(), y)[0] for e in alone]
    assert torch.allclose(both, parts[0] + parts[1], atol=1e-5 * float(both.abs().max()) + 1e-6)


# -- errors ------------------------------------------------------------------------------------------------


def test_a_context_that_does_not_fit_the_window_is_refused():
    lm = tiny_lm()
    left = [1] * (WINDOW - 10)
    Context(lm, left=left, right=[1] * 5).bind(1, 5)
    with pytest.raises(ColdError, match=rf"a context of {WINDOW + 1} tokens does not fit into the window .*{WINDOW}"):
        Context(lm, left=left, right=[1] * 5).bind(1, 6)
    with pytest.raises(ColdError, match="does not fit into the window"):
        Prefix.of(lm, [[1] * (WINDOW + 1)])


@every_arch
def test_a_start_beyond_the_window_is_refused_and_a_completion_ends_there(arch):
    lm = tiny_lm(arch=arch)
    story = Context(lm, left=[1] * (WINDOW - 5))
    problems = Problems(story, 1.0 * Fluency(story), 8, (Example(left="long"),))
    with pytest.raises(ColdError, match="does not fit into the window"):
        Greedy()(problems, [0])
    assert len(Greedy()(replace(problems, length=6), [0])[0]) == 6
    (text,) = GreedyCompletion(max_length=40)(problems, [lm.encode(" the dog")])
    assert text.startswith("the dog")
    assert len(text) > len("the dog")


def test_a_prefix_counts_what_its_own_rows_hold():
    lm = tiny_lm()
    long, short = [1] * (WINDOW - 1), [1, 2]
    left = Prefix.of(lm, [long, short]).select([1])
    grown = left.append_ids(torch.tensor([[5, 6, 7]]))
    assert torch.allclose(grown.logits, Prefix.of(lm, [[1, 2, 5, 6, 7]]).logits, atol=1e-4)


def test_texts_that_do_not_pair_up_are_refused():
    with pytest.raises(ColdError, match="2 left and 3 right texts"):
        Context(FORWARD, left=[[1], [2]], right=[[1], [2], [3]])


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature):
    with pytest.raises(ColdError, match="must be above 0"):
        Context(FORWARD, temperature=temperature)


@pytest.mark.parametrize("name", ["top_k", "keep"])
def test_a_negative_number_of_tokens_is_refused(name):
    with pytest.raises(ColdError, match=f"{name} of a context is -1"):
        Context(FORWARD, **{name: -1})


def test_sets_to_widen_that_do_not_pair_up_are_refused():
    assert Context(FORWARD, left=[[1], [2], [3]], top_k=1, widen=[[4]]).bind(6, 2).widen.ids.tolist() == [[[4]]] * 6
    with pytest.raises(ColdError, match="3 examples has 2 sets to widen"):
        Context(FORWARD, left=[[1], [2], [3]], top_k=1, widen=[[4], [5]])


def test_an_empty_row_beside_a_full_one_without_a_separator_is_refused():
    with pytest.raises(ColdError, match="one text of the batch is empty"):
        Context(BACKWARD, right=[[], [1]], separator=False).bind(2, 3)


# -- soft sequences ----------------------------------------------------------------------------------------


def test_a_hard_text_is_an_almost_one_hot_sequence():
    y = SoftSequence.of_ids([Y, Y[::-1]], 7, torch.device("cpu"))
    assert (y.rows, y.length) == (2, 3)
    assert y.ids.tolist() == [Y, Y[::-1]]
    assert sorted(y.log_probs[0, 0].tolist()) == pytest.approx([-SHARPNESS] * 6 + [0.0], abs=1e-5)


def test_entropy_is_the_mean_over_positions_in_nats():
    logits = torch.zeros(1, 2, 4)
    logits[0, 1, 0] = 50.0
    assert float(SoftSequence(logits).entropy()) == pytest.approx(torch.tensor(4.0).log().item() / 2, abs=1e-5)
