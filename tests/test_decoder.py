"""The pipeline from examples to ranked texts, the recipes that describe it, and what they say when something is off."""

import copy
import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from cold import decoder
from cold.constraints import Fluency, Function
from cold.errors import ColdError
from cold.lm import Context, LanguageModel
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.recipes import Recipe, build, preset, preset_text, presets
from cold.sampling.noise import row_seed
from cold.tasks import abductive, counterfactual, decode, examples, lexical, sample
from cold.text import select
from cold.text.problems import Example, Problems
from small import small_decoder, small_problems
from tiny import VOCAB, tiny_lm, tiny_tokenizer

SEEDS = [row_seed(0, i) for i in range(4)]
EXAMPLES = {
    "lexical": (examples.lexical(["dog", "river"]), examples.lexical(["water", "garden", "book"])),
    "abductive": (
        examples.abductive("The dog ran to the river.", "He was late for school."),
        examples.abductive("It rained.", "She found an old letter under the bed."),
    ),
    "counterfactual": (
        examples.counterfactual("The dog ran to the river.", "It drank some cold water."),
        examples.counterfactual("It was a cold night.", "We drove to the mountains to watch the sun go down."),
    ),
}


def roomy(seed: int = 0, reverse: bool = False) -> LanguageModel:
    """A tiny model whose window holds the presets' style examples."""
    model = copy.deepcopy(tiny_lm(seed=seed).model)
    model.config.max_position_embeddings = 2048
    return LanguageModel(model, tiny_lm().tokenizer, name="reverse" if reverse else "forward", reverse=reverse)


LM, BACK = roomy(), roomy(seed=1, reverse=True)


def texts_of(decodings) -> list[list[str]]:
    return [[found.text for found in decoding.samples] for decoding in decodings]


# -- the pipeline ------------------------------------------------------------------------------------------


def test_the_same_seeds_give_the_same_texts_and_others_give_others():
    decoder, problems = small_decoder(), small_problems(tiny_lm(), tiny_lm(seed=1, reverse=True))
    once, again, other = (decoder(problems, seeds) for seeds in ([1, 2, 1, 2], [1, 2, 1, 2], [3, 4, 3, 4]))
    assert texts_of(once) == texts_of(again)
    assert [d.order for d in once] == [d.order for d in again]
    assert texts_of(once) != texts_of(other)


def test_a_sample_stays_the_same_when_more_are_asked_for():
    decoder, problems = small_decoder(steps=6), small_problems(tiny_lm())
    two = decoder(problems, SEEDS[:2] * 2)
    four = decoder(problems, SEEDS * 2)
    assert texts_of(two) == [row[:2] for row in texts_of(four)]
    assert len({text for row in texts_of(four) for text in row}) > 4


def test_a_decoding_tells_what_each_term_thought_and_what_decided():
    decoder, problems = small_decoder(steps=3), small_problems(tiny_lm())
    first, second = decoder(problems, [1, 2, 1, 2])
    assert first.trace is second.trace
    assert [info.step for info in first.trace] == [0, 1, 2]
    assert first.trace[0].scores.shape == (4, 4)
    assert sorted(first.order) == [0, 1]
    assert first.best == first.samples[first.order[0]]
    assert first.text == first.best.text
    for found in first.samples:
        assert list(found.terms) == ["fluency", "future", "keywords", "similarity"]
        assert [score.weight for score in found.terms.values()] == [0.5, 0.3, 2.0, 0.5]
        assert found.energy == pytest.approx(-sum(s.weight * s.text for s in found.terms.values()))
        assert found.soft_energy == pytest.approx(-sum(s.weight * s.soft for s in found.terms.values()))
        assert {"perplexity_left_y_right", "loop", "unfinished", "words_missing"} <= set(found.selection)


def test_the_energy_of_a_text_is_that_of_the_text_alone_whatever_its_neighbours():
    lm, problems = tiny_lm(), small_problems(tiny_lm(), examples=(0,))
    ids = iter([[lm.encode_after(" The dog ran home.")], [lm.encode_after(" The dog ran home."), [300]]])
    decoder = small_decoder(
        discretize=lambda problems, y: next(ids), complete=lambda p, ids: [lm.decode(i) for i in ids]
    )
    y = torch.zeros(2, 6, VOCAB)
    (alone,), (beside,) = decoder.finish(problems, y[:1], [1], []), decoder.finish(problems, y, [1, 2], [])
    assert beside.samples[0].energy == pytest.approx(alone.samples[0].energy, abs=1e-3)


def test_texts_are_scored_with_those_of_their_length_and_no_more_than_fit(monkeypatch):
    problems = small_problems(tiny_lm())  # two examples, 6 tokens
    told = [
        "The dog ran.",
        "She sat.",
        "The dog ran to the river and drank some water.",
        "The dog ran.",
        "It.",
        "She ran.",
    ]
    seen, evaluate = [], decoder._evaluate

    def watched(problems, y, seeds):
        seen.append(tuple(y.shape[:2]))
        return evaluate(problems, y, seeds)

    monkeypatch.setattr(decoder, "_evaluate", watched)
    found = decoder.score_texts(problems, told, [1, 2, 3, 4, 5, 6])
    alone = [decoder.score_texts(problems, [text] * 2, [1, 2])[row // 3] for row, text in enumerate(told)]
    for one, other in zip(found, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-3, nan_ok=True)
    sizes = [len(ids) for ids in problems.story.y_ids(told)]
    assert sum(rows for rows, _ in seen[: len(set(sizes))]) < len(told) * len(set(sizes))
    assert all(rows * length <= len(told) * problems.length or rows == 2 for rows, length in seen)


def test_a_chain_can_be_stopped_and_finished_early():
    problems = small_problems(tiny_lm())
    decoder = replace(small_decoder(steps=2), steps=10)
    steps = decoder.chain(problems, [1, 1])
    trace = []
    for state, info in steps:
        trace.append(info)
        if state.step == 2:
            break
    early = decoder.finish(problems, state.y, [1, 1], trace)
    assert texts_of(early) == texts_of(replace(decoder, steps=2)(problems, [1, 1]))
    assert len(early[0].trace) == 2


def test_a_text_too_short_for_a_term_has_no_energy_and_is_not_taken():
    lm = tiny_lm()
    problems = small_problems(lm, examples=(1,))
    words = ["water", "The water was old."]
    decoder = small_decoder(
        discretize=lambda problems, y: [lm.encode_after(f" {text}") for text in words],
        complete=lambda problems, ids: [lm.decode(row).strip() for row in ids],
        rule=select.by_energy,
    )
    (decoding,) = decoder(problems, [1, 2])
    assert math.isnan(decoding.samples[0].energy)
    assert decoding.text == "The water was old."


def test_models_of_different_vocabularies_do_not_share_an_energy():
    story = Context(tiny_lm(), "The dog ran.")
    other = Context(tiny_lm(vocab=VOCAB + 8, reverse=True))
    with pytest.raises(ColdError, match=f"has {VOCAB + 8} tokens and .* has {VOCAB}: one energy needs"):
        Problems(story, 1.0 * Fluency(story) + 1.0 * Fluency(other, name="back"), 4, (Example(),))


def test_a_right_to_left_model_does_not_write():
    story = Context(tiny_lm(reverse=True), "The dog ran.")
    with pytest.raises(ColdError, match="reads right to left: it can judge a text, but not write it"):
        Problems(story, 1.0 * Fluency(story), 4, (Example(),))


@pytest.mark.parametrize("length", [0, -1])
def test_a_text_of_no_length_is_refused(length):
    story = Context(tiny_lm(), "The dog ran.")
    with pytest.raises(ColdError, match="take at least 1 token"):
        Problems(story, 1.0 * Fluency(story), length, (Example(),))


# -- an energy of one's own --------------------------------------------------------------------------------


def test_any_function_of_the_sequence_steers_the_samples():
    lm = tiny_lm()
    (token,) = lm.encode(" river")
    story = Context(lm, "The dog ran.")
    often = Function(lambda y: y.log_probs[..., token].mean(1), name="river")
    wish = 0.1 * Fluency(story) + 50.0 * often
    decoding = sample(wish, length=4, samples=3, steps=60)
    assert len(decoding.samples) == 3
    assert decoding.best.energy == min(found.energy for found in decoding.samples)
    assert decoding.best.terms["river"].soft > -1.0


def test_an_energy_that_reads_no_model_has_nobody_to_write():
    with pytest.raises(ColdError, match="nobody can write"):
        sample(1.0 * Function(lambda y: y.logits.sum((1, 2)), name="sum"))


# -- presets -----------------------------------------------------------------------------------------------


def reverse_terms(recipe: Recipe) -> list[str]:
    backward = {name for name, context in recipe.contexts.items() if context.get("model") == "reverse"}
    return [term.get("name", term["kind"]) for term in recipe.terms if term.get("context") in backward]


def test_each_task_has_the_three_presets():
    assert presets() == sorted(f"{task}-{name}" for task in EXAMPLES for name in ("fast", "paper", "released"))


@pytest.mark.parametrize("name", presets())
def test_every_preset_runs_with_a_reverse_model(name):
    task, _, variant = name.partition("-")
    recipe = preset(task, variant).with_(samples=2, steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decodings = decode(recipe, LM, BACK, EXAMPLES[task])
    assert [len(decoding.samples) for decoding in decodings] == [2, 2]
    for decoding in decodings:
        assert len(decoding.trace) == 2
        assert decoding.text
        assert "\n" not in decoding.text
        assert math.isfinite(decoding.best.soft_energy)
        assert len(decoding.best.terms) == len(recipe.terms)


@pytest.mark.parametrize("name", presets())
def test_without_a_reverse_model_its_term_is_left_out_and_the_others_keep_their_weight(name):
    task, _, variant = name.partition("-")
    recipe = preset(task, variant).with_(samples=1, steps=2)
    left_out = reverse_terms(recipe)
    job = build(recipe, LM, None, EXAMPLES[task])
    kept = {term.get("name", term["kind"]): term["weight"] for term in recipe.terms}
    assert len(job.notes) == len(left_out)
    for term, note in zip(left_out, job.notes, strict=True):
        assert repr(term) in note
        assert f"weight {kept.pop(term):g}" in note
    assert dict(zip(job.problems.energy.names, job.problems.energy.weights, strict=True)) == kept
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decodings = decode(recipe, LM, None, EXAMPLES[task])
    assert [str(warning.message) for warning in caught] == list(job.notes)
    assert all(decoding.text for decoding in decodings)


def test_some_presets_do_use_a_reverse_model():
    assert {name for name in presets() if reverse_terms(preset(*name.split("-")))} >= {
        "abductive-paper",
        "abductive-released",
    }


@pytest.mark.parametrize("name", presets())
def test_every_preset_holds_an_example_of_its_own(name):
    recipe = Recipe.parse(preset_text(name), name)
    job = build(recipe.with_(steps=1), LM, BACK)
    assert len(job.problems.examples) == 1
    task = name.split("-")[0]
    (example,) = job.problems.examples
    filled = {"lexical": example.words, "abductive": example.right, "counterfactual": example.ending}
    assert filled[task]


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ColdError, match=r"there is no preset 'quick' for lexical: there are .*lexical-fast"):
        preset("lexical", "quick")
    with pytest.raises(ColdError, match="there is no preset 'nothing'"):
        preset_text("nothing")


def test_the_three_calls_of_the_readme_decode_one_example():
    few = {"samples": 2, "steps": 2}
    assert len(lexical(["dog", "river"], LM, **few).samples) == 2
    assert len(abductive("The dog ran.", "It fell.", LM, **few).samples) == 2
    assert len(counterfactual("The dog ran.", "It fell in the water.", LM, **few).samples) == 2


def test_fewer_samples_of_a_recipe_are_the_first_of_more():
    recipe = preset("lexical", "paper").with_(steps=3)
    two, four = (decode(recipe.with_(samples=n), LM, BACK, EXAMPLES["lexical"]) for n in (2, 4))
    assert texts_of(two) == [row[:2] for row in texts_of(four)]


def test_numbers_of_a_recipe_can_be_changed_and_none_changes_nothing():
    recipe = preset("abductive", "released")
    changed = recipe.with_(samples=3, length=None, top_k=7)
    assert (changed.samples, changed.length) == (3, recipe.length)
    assert changed.discretize["k"] == 7
    assert changed.contexts["story"]["top_k"] == 7
    assert "top_k" not in changed.contexts["back"]
    assert recipe.discretize["k"] == 2
    with pytest.raises(ColdError, match="at least 1 token"):
        recipe.with_(top_k=0)


# -- recipes -----------------------------------------------------------------------------------------------

RECIPE = """
samples = 2
steps = 2
length = 5

[texts]
left = "The dog ran."
right = "It fell."
words = ["river"]

[contexts.story]
left = "{left}"
right = "{right}"

[[terms]]
kind = "fluency"
context = "story"
weight = 0.5

[[terms]]
kind = "keywords"
words = "{words}"
weight = 1
"""


def run_recipe(text: str, reverse: LanguageModel | None = None):
    recipe = Recipe.parse(text, "my.toml")
    return decode(recipe, LM, reverse, build(recipe, LM, reverse).problems.examples)


def refusal(text: str, reverse: LanguageModel | None = None) -> str:
    with pytest.raises(ColdError) as error:
        run_recipe(text, reverse)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_short_recipe_runs_with_the_default_stages():
    (decoding,) = run_recipe(RECIPE)
    assert list(decoding.best.terms) == ["fluency", "keywords"]
    assert decoding.best.selection == {"judged": decoding.best.energy}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("samples = 2", "sample = 2", ("my.toml", "there is no key 'sample'", "samples")),
        ('left = "The', 'lefft = "The', ("my.toml: texts", "there is no key 'lefft'")),
        ('right = "{right}"', 'rihgt = "{right}"', ("my.toml: contexts.story", "there is no key 'rihgt'")),
        ("weight = 1", "weihgt = 1", ("my.toml: terms[1]", "'weight' is missing")),
        ("weight = 1", "weight = 1\ncolour = 2", ("my.toml: terms[1]", "there is no key 'colour'")),
        ('kind = "keywords"', "", ("my.toml: terms[1]", "'kind' is missing")),
        ('words = "{words}"', "", ("my.toml: terms[1]", "'words' is missing")),
        ('context = "story"', "", ("my.toml: terms[0]", "'context' is missing")),
        ('kind = "fluency"', 'kind = "flow"', ("my.toml: terms[0]", "there is no term 'flow'", "similarity")),
        ('context = "story"', 'context = "tale"', ("my.toml: terms[0]", "there is no context 'tale'")),
        ("weight = 0.5", 'weight = "much"', ("my.toml: terms[0]", "weight is 'much'")),
        ("weight = 0.5", "weight = true", ("my.toml: terms[0]", "weight is True")),
        ("weight = 0.5", "weight = -0.5", ("'fluency' is -0.5", "at least 0")),
        ("weight = 0.5", "weight = inf", ("'fluency' is inf", "finite")),
        ("weight = 0.5", 'weight = 0.5\nreduction = "max"', ("my.toml: terms[0]", "'max'", "sum or mean")),
        ("samples = 2", "samples = 2.5", ("my.toml", "samples is 2.5", "whole number")),
        ("steps = 2", "steps = true", ("my.toml", "steps is True", "whole number")),
        ("steps = 2", "steps = 0", ("0 steps", "at least 1")),
        ("length = 5", "length = 0", ("at least 1",)),
        ("{left}", "{lefft}", ("my.toml: contexts.story", "unknown field", "{left}")),
        ('right = "{right}"', 'model = "other"', ("my.toml: contexts.story", "'other'", "lm or reverse")),
        ('right = "{right}"', 'temperature = "hot"', ("my.toml: contexts.story", "temperature is 'hot'", "a number")),
        ("samples = 2", "samples = ", ("my.toml is not valid TOML", "line 2")),
        ("[texts]", "[initialize]\nkind = 'magic'\n[texts]", ("my.toml: initialize", "'magic'", "greedy")),
        ("[texts]", "[initialize]\nkind = 'sampled'\nlifft = 1\n[texts]", ("my.toml: initialize", "'lifft'", "lift")),
        ("[texts]", "[discretize]\nkind = 'top_k'\n[texts]", ("my.toml: discretize", "'k' is missing")),
        (
            "[texts]",
            "[discretize]\nkind = 'top_k'\nk = 'x'\n[texts]",
            ("my.toml: discretize", "k is 'x'", "whole"),
        ),
        ("[texts]", "[sampler]\nkind = 'langevin'\nstep_size = 1\n[texts]", ("my.toml: sampler", "'noise' is missing")),
        (
            "[texts]",
            "[sampler]\nkind = 'langevin'\nstep_size = 1\nnoise = {kind = 'pink'}\n[texts]",
            ("my.toml: sampler.noise", "'pink'", "staircase"),
        ),
        ("[texts]", "[select]\nrule = 'luck'\n[texts]", ("my.toml: select", "no selection rule 'luck'", "energy")),
        ("[texts]", "[select]\nrule = 'energy'\nluck = 1\n[texts]", ("my.toml: select", "no key 'luck'", "agreement")),
        ("[texts]", "[select]\nrule = 'lexical'\nagreement = 1\n[texts]", ("my.toml: select", 'for rule = "energy"')),
        ("[texts]", "[select]\nrule = 'energy'\nagreement = 'x'\n[texts]", ("my.toml: select", "agreement is 'x'")),
        (
            "[texts]",
            "[select]\nrule = 'energy'\nweights = 1\n[texts]",
            ("my.toml: select.weights is 1", "own = 1.0"),
        ),
        (
            "[texts]",
            "[select]\nrule = 'energy'\nweights = {flow = 1}\n[texts]",
            ("my.toml: select.weights", "no term 'flow'", "own, right, fluency"),
        ),
        ('kind = "fluency"', 'kind = "no_such_module:f"', ("my.toml: terms[0]", "'no_such_module:f' cannot be")),
        ('kind = "fluency"', 'kind = "math:no_such"', ("my.toml: terms[0]", "'math:no_such' cannot be")),
        ('kind = "fluency"', 'kind = "math:pi"', ("my.toml: terms[0]", "'math:pi' is not a function")),
    ],
)
def test_a_mistake_in_a_recipe_is_named_with_its_place(old, new, says):
    assert old in RECIPE
    message = refusal(RECIPE.replace(old, new, 1))
    for part in says:
        assert part in message


def test_the_weights_of_the_selection_are_not_those_of_the_energy():
    more = RECIPE + "\n[select]\nrule = 'energy'\nweights = { keywords = 3.0 }\nagreement = 0.5\n"
    (decoding,) = run_recipe(more)
    for found in decoding.samples:
        assert found.selection["judged"] == pytest.approx(-3 * found.terms["keywords"].text)
        fluency, keywords = (found.terms[name].text for name in ("fluency", "keywords"))
        assert found.energy == pytest.approx(-0.5 * fluency - keywords)
    (decoding,) = run_recipe(more.replace("keywords = 3.0", "own = 1.0, right = 2.0"))
    for found in decoding.samples:
        y, right = (LM.encode_after(f" {text}") for text in (found.text, "It fell."))
        left = [LM.separator, *LM.encode("The dog ran.")]
        own, both = (float(log_likelihood(Prefix.of(LM, [left]), [ids])) for ids in (y, [*y, *right]))
        expected = -own / len(y) - 2 * (both - own) / len(right)
        assert found.selection["judged"] == pytest.approx(expected, rel=1e-4)
    cut = Recipe.parse(more, "my.toml").without(["keywords"])
    assert build(cut, LM, None).decoder.weights is None


KINDS = {
    "count": "words = ['river', 'door']\nat_most = 1",
    "at": "word = 'The'",
    "ends": "at_least = 3\nat_most = 5",
    "meaning": "target = '{right}'",
    "probe": "examples = { wet = ['river', 'water'], dry = ['door', 'house'] }\nlabel = 'dry'",
}


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("count", "words = '{words}'\nat_most = 1", "words is '{words}': give a list of words"),
        ("count", "words = ['river']\nat_most = 'x'", "at_most is 'x': give a whole number"),
        ("count", "at_most = 1", "'words' is missing"),
        ("at", "place = 0", "'word' is missing"),
        ("ends", "at_least = 3", "'at_most' is missing"),
        ("meaning", "colour = 1", "'target' is missing"),
        ("probe", "examples = 3", "the examples of 'probe' are 3: give a list of sentences for each label"),
        ("probe", "examples = { wet = ['river'], dry = ['door'] }\nlabel = 'cold'", "no label 'cold': use wet, dry"),
    ],
)
def test_a_mistake_in_a_new_kind_of_term_is_one_line(kind, wrong, says):
    assert says in refusal(f"{RECIPE}\n[[terms]]\nkind = '{kind}'\nweight = 0.5\n{wrong}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_term_can_be_written_in_a_recipe(kind):
    (decoding,) = run_recipe(f"{RECIPE}\n[[terms]]\nkind = '{kind}'\nweight = 0.5\n{KINDS[kind]}\n")
    assert list(decoding.best.terms) == ["fluency", "keywords", kind]
    assert all(math.isfinite(score) for score in decoding.best.terms[kind])


def test_a_classifier_over_the_same_vocabulary_is_a_term(tmp_path):
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        pad_token_id=0, id2label={0: "dull", 1: "bright"},
    )  # fmt: skip
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    term = f"{RECIPE}\n[[terms]]\nkind = 'classifier'\nweight = 1\nmodel = '{tmp_path}'\nlabel = "
    (decoding,) = run_recipe(term + "'bright'\n")
    assert decoding.best.terms["classifier"].text < 0
    assert "there is no label 'loud': use dull, bright" in refusal(term + "'loud'\n")


EXAMPLE_FILES = sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", [p for p in EXAMPLE_FILES if p.stem != "own_term"], ids=lambda path: path.stem)
def test_every_example_file_runs(path):
    recipe = Recipe.read(path).with_(steps=2, samples=2)
    lm = roomy()
    (decoding,) = decode(recipe, lm, None, build(recipe, lm, None).problems.examples)
    assert decoding.text
    assert list(decoding.best.terms) == recipe.term_names


def test_a_recipe_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ColdError, match="cannot be read"):
        Recipe.read(tmp_path / "nothing.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ColdError, match="cannot be read"):
        Recipe.read(tmp_path / "odd.toml")


def test_a_reverse_model_with_another_vocabulary_is_refused():
    message = refusal(RECIPE, tiny_lm(vocab=VOCAB + 8, reverse=True))
    assert f"has {VOCAB + 8} tokens and 'forward' has {VOCAB}" in message


@pytest.mark.parametrize("name", ["fast", "paper", "released"])
def test_a_keyword_longer_than_the_sequence_is_named(name):
    recipe = preset("lexical", name).with_(length=6)
    with pytest.raises(ColdError, match=r"keyword 'chrysanthemum' becomes 11 tokens but the sequence has 6.* 11"):
        decode(recipe, LM, BACK, [examples.lexical(["dog", "chrysanthemum"])])


def test_a_function_of_a_module_is_a_term(tmp_path, monkeypatch):
    (tmp_path / "own_terms.py").write_text(
        "def sharp(y):\n    return y.log_probs.amax(-1).mean(1)\n\ndef wrong(y):\n    return y.log_probs.sum()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = RECIPE.replace('kind = "keywords"\nwords = "{words}"\n', 'kind = "own_terms:sharp"\nname = "sharp"\n')
    (decoding,) = run_recipe(own)
    assert list(decoding.best.terms) == ["fluency", "sharp"]
    assert decoding.best.terms["sharp"].weight == 1.0
    assert -1e-3 < decoding.best.terms["sharp"].text <= 0
    assert "return one number per row" in refusal(own.replace("own_terms:sharp", "own_terms:wrong"))


def test_two_terms_of_one_name_are_refused():
    twice = RECIPE + '\n[[terms]]\nkind = "fluency"\ncontext = "story"\nweight = 1\n'
    assert "two terms are called 'fluency'" in refusal(twice)
