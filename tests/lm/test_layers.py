"""Layers in fewer passes compute what the library's do, and so do their slopes."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from cold.lm.layers import _Norm, fuse, gated, heads_of
from tiny import tiny_lm


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def test_heads_of_one_product_are_the_librarys_with_all_slopes():
    made, cos, sin = random(2, 3, 4 + 2 + 2, 6), random(2, 3, 6, seed=1).detach(), random(2, 3, 6, seed=2).detach()
    query, key, value = (part.transpose(1, 2) for part in made.split([4, 2, 2], 2))
    wanted = (*apply_rotary_pos_emb(query, key, cos, sin), value)
    for found, part in zip(heads_of(made, cos, sin, 2), wanted, strict=True):
        assert torch.allclose(found, part)
    assert gradcheck(lambda made: heads_of(made, cos, sin, 2), made)


def test_turning_by_hand():
    """Two numbers (3, 4) by a quarter turn: cos 0, sin 1; a value is not turned."""
    made = torch.tensor([3.0, 4.0]).expand(1, 1, 3, 2)
    query, key, value = heads_of(made, torch.zeros(1, 1, 2), torch.ones(1, 1, 2), 1)
    assert [part.flatten().tolist() for part in (query, key, value)] == [[-4.0, 3.0], [-4.0, 3.0], [3.0, 4.0]]


def test_a_gate_is_the_librarys_with_its_slope():
    both = random(2, 3, 8)
    first, second = both.chunk(2, -1)
    assert torch.allclose(gated(both), F.silu(first) * second)
    assert gradcheck(gated, both)


def test_a_norm_is_the_librarys_with_its_slope():
    x, weight = random(2, 3, 8), random(8, seed=1).detach()
    assert torch.allclose(_Norm.apply(x, weight, 1e-3), F.rms_norm(x, (8,), weight, 1e-3))
    assert gradcheck(lambda x: _Norm.apply(x, weight, 1e-3), x)


@pytest.mark.parametrize("arch", ["llama", "qwen"])
def test_a_fused_model_says_what_it_said_with_the_same_weights(arch):
    plain = AutoModelForCausalLM.from_config(tiny_lm(arch=arch).model.config).eval()
    ids = torch.arange(12).view(2, 6)
    said = plain(input_ids=ids).logits
    weights = {name: value.clone() for name, value in plain.state_dict().items()}
    size = sum(p.numel() for p in plain.parameters())
    fuse(plain)
    assert any(hasattr(part, "joined") for part in plain.modules())
    assert torch.allclose(plain(input_ids=ids).logits, said, atol=1e-5)
    assert sum(p.numel() for p in plain.parameters()) == size
    assert plain.state_dict().keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in plain.state_dict().items())
