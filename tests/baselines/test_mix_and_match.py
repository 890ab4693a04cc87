"""Mix-and-Match: its kernel keeps exp(-E) exactly, and it rewrites endings of the length they have."""

from types import SimpleNamespace

import pytest
import torch
from test_metropolis import TOKENS, Tables, agrees, every_state, is_irreducible, keeps, target, transition

from cold.baselines.base import Baseline
from cold.baselines.metropolis import Around, outcomes
from cold.baselines.mix_and_match import Masking, MixAndMatch, Rewriting, hamming
from cold.baselines.proposals import Gap, MaskedModel, Product
from cold.constraints import Energy, Fluency
from cold.errors import ColdError
from cold.lm import Context
from cold.recipes import preset
from cold.tasks import examples
from cold.text.problems import Example, Problems
from small import LEFTS, small_problems
from tiny import VOCAB, tiny_lm, tiny_tokenizer

ENDINGS = ("She went home.", "The man gave his wife a book.")


def rewriting(examples=(0, 1)):
    lm = tiny_lm()
    told = tuple(Example(left=LEFTS[i], ending=ENDINGS[i]) for i in examples)
    story = Context(lm, left=[example.left for example in told])
    return Problems(story, Energy(()) + 1.0 * Fluency(story), 6, told)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_target_over_texts_of_one_length_is_kept(length):
    oracle, states = Tables(), every_state(range(TOKENS), [length])
    matrix = transition(Masking(), states, oracle)
    assert keeps(matrix, target(states, oracle)) < 1e-10
    assert is_irreducible(matrix)


def test_a_sampled_histogram_agrees_with_the_target():
    assert agrees(Masking(), every_state(range(TOKENS), [3]), Tables())


def test_only_one_place_changes():
    for _, proposal in outcomes(Masking(), (1, 2, 3), Tables()):
        assert hamming(proposal.state, (1, 2, 3)) <= 1


def test_the_energy_adds_fluency_distance_and_closeness():
    problems, back = rewriting((1,)), tiny_lm(reverse=True)
    proposer = Product(problems.story, back)
    ending = tuple(problems.story.y_ids([ENDINGS[1]])[0])
    other = (ending[0], 9, *ending[2:])
    world = Rewriting(problems.story, proposer, (ending,), 0.5, 3.0, lambda row, state: 7.0)
    wanted = 0.5 * float(proposer.total([0], [other])[0]) - 3.0 + 7.0
    assert world.score([0], [other]) == pytest.approx([wanted])


# -- with the tiny models ------------------------------------------------------------------------------------------


def write(problems, seeds, **changes):
    return MixAndMatch(sweeps=2, **changes)(problems, tiny_lm(reverse=True), seeds)


def test_every_row_has_a_text_and_rows_of_a_batch_are_as_alone():
    batch = write(rewriting(), [5, 6, 5, 6])
    assert all(batch)
    assert write(rewriting(), [5, 6, 5, 6]) == batch
    assert [write(rewriting((i,)), [seed])[0] for i in (0, 1) for seed in (5, 6)] == batch


def test_it_is_called_as_the_decoder_is():
    recipe = preset("counterfactual", "fast").with_(samples=2)
    example = examples.counterfactual(LEFTS[0], ENDINGS[0])
    (found,) = Baseline(MixAndMatch(sweeps=1))(recipe, tiny_lm(), tiny_lm(reverse=True), [example])
    assert len(found.samples) == 2


def test_a_high_price_of_change_leaves_the_ending_and_none_rewrites_it():
    assert write(rewriting(), [1, 2], delta=1000.0) == list(ENDINGS)
    assert all(a != b for a, b in zip(write(rewriting(), [1, 2], delta=0.0), ENDINGS, strict=True))


def test_the_similarity_counts():
    kept = write(rewriting((0,)), [1], delta=0.0, gamma=1000.0, similarity=lambda a, b: float(a == b))
    assert kept == [ENDINGS[0]]


def test_without_an_ending_it_says_so():
    with pytest.raises(ColdError, match="example 0 has no ending"):
        write(small_problems(tiny_lm()), [1, 2])


# -- a masked model ------------------------------------------------------------------------------------------------


class Echo(torch.nn.Module):
    """A masked model that says of a place: the token before it, plus one."""

    device = torch.device("cpu")

    def forward(self, input_ids, attention_mask):
        before = input_ids.roll(1, dims=1)
        return SimpleNamespace(logits=torch.nn.functional.one_hot((before + 1) % VOCAB, VOCAB + 1) * 5.0)


def masked(mask=VOCAB):
    known = {**tiny_tokenizer().get_vocab(), "[MASK]": mask}
    return MaskedModel(Echo(), SimpleNamespace(get_vocab=lambda: known, mask_token_id=mask), "echo")


def test_a_masked_model_reads_both_sides_and_sums_its_logits():
    placed = masked().place(rewriting().story)
    said = placed.logits([Gap(0, [40], [50, 51]), Gap(1, [], [60])])
    assert said.shape == (2, VOCAB)
    assert int(said[0].argmax()) == 41
    assert int(said[1].argmax()) == rewriting().story.left_ids[1][-1] + 1
    assert placed.total([0, 1], [[40, 41, 42], [300]]).tolist() == [10.0, 0.0]


def test_it_writes_with_a_masked_model():
    assert all(write(rewriting(), [1, 2], masked=masked()))
    (near,) = Rewriting(rewriting((0,)).story, masked().place(rewriting((0,)).story), ((1,),)).near(
        [0], [Around((300,), ())]
    )
    assert int(near.log_probs.argmax()) == 301


def test_a_masked_model_of_another_vocabulary_is_refused():
    other = MaskedModel(Echo(), SimpleNamespace(get_vocab=lambda: {"[MASK]": 0}, mask_token_id=0), "other")
    with pytest.raises(ColdError, match="another vocabulary"):
        other.place(rewriting().story)
