"""A shortlist: the same model over some of its tokens. Over all of them nothing changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.lm.shortlist import Shortlisted, shortlist
from cold.recipes import Recipe, build, listed, preset
from cold.tasks import decode, decode_many, examples
from tiny import ARCHS, SENTENCES, tiny_lm

LM = tiny_lm()
BYTES = range(257)  # the separator and every byte
FEW = Shortlisted.of(LM, [*BYTES, *range(260, LM.vocab, 3)])
RECIPE = preset("lexical", "fast").with_(samples=2, steps=3, length=6)
WORDS = examples.lexical(["dog", "river"])


def read(lm, ids):
    at = torch.arange(ids.shape[1])[None]
    return lm.read(lm.embed(ids), (), torch.ones_like(at), at)[0]


@pytest.mark.parametrize("arch", ARCHS)
def test_over_all_tokens_it_is_the_model_itself(arch):
    lm = tiny_lm(arch=arch)
    same = Shortlisted.of(lm, range(lm.vocab))
    ids = torch.tensor([same.encode(SENTENCES[0])])
    assert ids.tolist() == [lm.encode(SENTENCES[0])]
    torch.testing.assert_close(read(same, ids), read(lm, ids))
    probs = torch.rand(2, 3, lm.vocab).softmax(-1)
    torch.testing.assert_close(same.embed_soft(probs), lm.embed_soft(probs))
    assert (same.separator, same.token_strings, same.looks_ahead) == (lm.separator, lm.token_strings, lm.looks_ahead)


@pytest.mark.parametrize("arch", ARCHS)
def test_over_some_tokens_it_is_the_model_given_that_one_of_them_comes(arch):
    lm = tiny_lm(arch=arch)
    few = Shortlisted.of(lm, FEW.kept.tolist())
    ids = torch.tensor([few.encode(SENTENCES[0])])
    whole = read(lm, few.kept[ids]).softmax(-1)[..., few.kept]
    torch.testing.assert_close(read(few, ids).softmax(-1), whole / whole.sum(-1, keepdim=True))
    probs = torch.rand(2, 3, few.vocab).softmax(-1)
    spread = torch.zeros(2, 3, lm.vocab).index_copy_(-1, few.kept, probs)
    torch.testing.assert_close(few.embed_soft(probs), lm.embed_soft(spread))


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_spelled_with_what_is_on_the_list(text):
    assert FEW.decode(FEW.encode(text)) == LM.decode(LM.encode(text))


def test_a_list_without_letters_says_what_it_cannot_spell():
    narrow = Shortlisted.of(LM, [LM.separator, *LM.encode("The dog")])
    assert narrow.decode(narrow.encode("The dog")) == "The dog"
    with pytest.raises(ColdError, match=r"a shortlist of \d tokens cannot spell 'river|take a longer one"):
        narrow.encode("The river")


def test_the_list_has_what_is_expected_what_is_said_and_every_letter():
    kept = shortlist(LM, 40, [SENTENCES[0]], ["umbrella"])
    expected = torch.zeros(LM.vocab)
    for n in range(len(LM.encode(SENTENCES[0])) + 1):
        ids = torch.tensor([[LM.separator, *LM.encode(SENTENCES[0])[:n]]])
        expected += read(LM, ids)[0, -1].softmax(-1)
    best = expected.masked_fill(LM.banned, 0).topk(40).indices.tolist()
    pieces = LM.tokenizer.convert_ids_to_tokens(range(LM.vocab))
    letters = [token for token, piece in enumerate(pieces) if len(piece) == 1]
    said = [*LM.encode(SENTENCES[0]), *LM.encode_after(" " + SENTENCES[0])]
    said += [*LM.encode("umbrella"), *LM.encode_after(" umbrella")]
    assert kept == sorted({*best, *said, *letters, LM.separator})


def test_a_soft_sequence_over_all_tokens_again():
    job = build(RECIPE.with_(shortlist=300), LM, None, [WORDS])
    walked = job.problems.walked
    assert walked.lm.vocab < LM.vocab
    y = torch.randn(2, 6, walked.lm.vocab)
    whole = job.problems.whole(y)
    torch.testing.assert_close(whole[..., walked.lm.kept], y)
    others = [token for token in range(LM.vocab) if token not in walked.lm.kept.tolist()]
    torch.testing.assert_close(whole[..., others], y.amin(-1, keepdim=True).expand(-1, -1, len(others)))


def test_a_list_of_all_tokens_changes_no_text():
    plain = decode(RECIPE, LM, None, [WORDS])[0]
    listed_all = decode(RECIPE, LM, None, [WORDS], kept=range(LM.vocab))[0]
    assert [s.text for s in listed_all.samples] == [s.text for s in plain.samples]
    assert [s.soft_energy for s in listed_all.samples] == pytest.approx([s.soft_energy for s in plain.samples])


def test_one_list_serves_a_whole_run_so_that_no_text_depends_on_its_batch():
    recipe, batch = RECIPE.with_(shortlist=300), [WORDS, examples.lexical(["cake", "party"])]
    kept = listed(recipe, LM, batch)
    alone = [[s.text for s in decode(recipe, LM, None, [one], kept)[0].samples] for one in batch]
    for memory in (1 << 20, 1 << 34):
        found = dict(decode_many(recipe, LM, None, batch, memory=memory))
        assert [[s.text for s in found[n].samples] for n in range(2)] == alone


def test_words_that_nobody_expects_are_on_the_list():
    decoding = decode(RECIPE.with_(shortlist=300), LM, None, [examples.lexical(["zebra", "quartz"])])[0]
    assert "zebra" in decoding.text.lower()
    assert "quartz" in decoding.text.lower()


def test_a_list_of_fewer_than_no_tokens_is_refused():
    with pytest.raises(ColdError, match="the shortlist has -5 tokens: give a number of them, or 0 for all"):
        decode(RECIPE.with_(shortlist=-5), LM, None, [WORDS])


def test_a_term_that_knows_token_ids_is_refused():
    text = """
    shortlist = 300
    [contexts.story]
    left = "The dog ran."
    [[terms]]
    kind = "cold.kernels:level"
    weight = 1.0
    """
    with pytest.raises(ColdError, match="knows the LM's own token ids: leave the shortlist out, or this term"):
        build(Recipe.parse(text, "own.toml"), LM, None)
