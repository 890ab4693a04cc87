"""The kernels of cold.gpu compute what plain torch computes. They need a GPU and skip where there is none."""

import pytest
import torch
import torch.nn.functional as F

from cold.constraints import Fluency, Future
from cold.kernels import agreement, chosen, level
from cold.lm import Context
from cold.lm.context import causal_mask
from cold.lm.layers import gated, heads_of
from cold.sampling.noise import Noise, Rows
from cold.sampling.update import adam_, langevin_
from tiny import on, tiny_lm

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SHAPES = {  # rows, texts, heads, queries a key head, tokens, tokens before, width
    "two texts": (4, 2, 2, 1, 5, 3, 16),
    "GPT-2's": (8, 1, 12, 1, 21, 12, 64),
    "SmolLM2's": (6, 2, 9, 3, 22, 70, 64),
    "an odd width": (2, 2, 2, 1, 33, 17, 20),
    "long": (2, 1, 2, 2, 50, 300, 64),
    "as long as fits": (2, 1, 2, 2, 90, 300, 64),
}


def plain(q, k, v, old_k, old_v, mask, scale):
    share, group = len(q) // len(old_k), q.shape[1] // k.shape[1]
    keys, values = (
        torch.cat([old.repeat_interleave(share, 0), new], 2).repeat_interleave(group, 1)
        for old, new in ((old_k, k), (old_v, v))
    )
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale).transpose(1, 2)


@pytest.mark.parametrize(("dtype", "apart"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_attention_behind_a_text_and_its_gradient(shape, dtype, apart):
    from cold.gpu.attention import Attend, fits

    rows, texts, heads, group, tokens, before, width = shape
    draw = torch.Generator().manual_seed(0)
    sizes = [(rows, tokens, heads), (rows, tokens, heads // group), (rows, tokens, heads // group)]
    new = [torch.randn(*size, width, generator=draw).transpose(1, 2).cuda().to(dtype) for size in sizes]
    old = [torch.randn(texts, heads // group, before, width, generator=draw).cuda().to(dtype) for _ in "kv"]
    assert fits(new[0], old[0]) == (tokens < 64 or dtype == torch.bfloat16)
    if not fits(new[0], old[0]):
        return  # a program cannot hold so many: such a step goes to the library's attention
    there = torch.ones(rows, before + tokens, dtype=torch.long, device="cuda")
    there[0, : before - 1] = 0  # a short text
    there[1, -1] = 0
    mask = causal_mask(there, tokens, dtype)
    slope = torch.randn(rows, tokens, heads, width, generator=draw).cuda()
    found = []
    for attend, kind in ((Attend.apply, dtype), (plain, torch.float32)):
        given = [part.to(kind).detach().requires_grad_(True) for part in new]
        out = attend(*given, *(part.to(kind) for part in old), mask.to(kind), 0.3)
        found.append([out, *torch.autograd.grad((out.float() * slope).sum(), given)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours.float() - theirs).norm() < apart * theirs.norm()


@pytest.mark.parametrize("vocab", [7, 4096, 9001])
def test_sums_over_the_vocabulary_and_their_slopes(vocab):
    draw = torch.Generator().manual_seed(0)
    expected, y = (4 * torch.randn(3, 5, vocab + 3, generator=draw)[:, 1:, :vocab] for _ in "ey")
    ids, weight = torch.randint(vocab, (3, 4), generator=draw), torch.randn(3, 4, generator=draw)
    found = []
    for device in ("cpu", "cuda"):
        given = [part.to(device).requires_grad_(True) for part in (expected, y)]
        scores = agreement(*given) - level(given[1]) + chosen(given[0], ids.to(device))
        slopes = torch.autograd.grad((scores * weight.to(device)).sum(), given)
        alone = torch.autograd.grad(agreement(given[0].detach(), given[1]).sum(), given[1])
        found.append([part.detach().cpu() for part in (scores, *slopes, *alone)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("dtype", "apart"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("shape", [(2, 5, 2, 1, 8), (3, 40, 3, 3, 64), (1, 33, 2, 2, 20)])
def test_parts_of_a_layer_and_their_slopes(shape, dtype, apart):
    rows, tokens, keys, group, width = shape
    draw = torch.Generator().manual_seed(0)
    made = torch.randn(rows, tokens, keys * (group + 2), width, generator=draw)
    cos, sin = (torch.randn(rows, tokens, width, generator=draw) for _ in "cs")
    slope = torch.randn(rows, tokens, keys * (group + 2), width, generator=draw)
    found = []
    for device, kind in (("cpu", torch.float32), ("cuda", dtype)):
        given = made.to(device, kind).requires_grad_(True)
        parts = heads_of(given, cos.to(device, kind), sin.to(device, kind), group)
        out = torch.cat([part.transpose(1, 2) for part in parts], 2)
        (back,) = torch.autograd.grad((out * slope.to(device, kind)).sum(), given)
        both = made.flatten(2).to(device, kind).requires_grad_(True)
        open_ = gated(both)
        (turn,) = torch.autograd.grad((open_ * slope.flatten(2)[..., : open_.shape[-1]].to(device, kind)).sum(), both)
        found.append([part.detach().cpu().float() for part in (out, back, open_, turn)])
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < apart * one.norm()


@pytest.mark.parametrize("vocab", [7, 2048, 3001])
def test_an_update_moves_y_as_plain_torch_does(vocab):
    draw = torch.Generator().manual_seed(0)
    start, grad = (torch.randn(3, 4, vocab, generator=draw) for _ in "yg")
    moments = torch.rand(2, 3, 4, vocab, generator=draw)
    found = []
    for device in ("cpu", "cuda"):
        y, slope = start.clone().to(device), grad.to(device)
        first, second = moments.clone().to(device)
        random = Noise(Rows([1, 2, 3], device), 7)
        langevin_(y, slope, random, (0.5,), 0.1)
        adam_(y, slope, (first, second), random, (0.3, -0.2, 0.7), (0.9, 0.999), 1e-8)
        found.append([part.cpu() for part in (y, first, second)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "neox", "qwen"])
def test_an_energy_and_its_gradient_are_those_of_the_cpu(arch):
    found = []
    for device in ("cpu", "cuda"):
        lm, back = on(device, tiny_lm(arch=arch)), on(device, tiny_lm(arch=arch, reverse=True))
        story = Context(lm, ["It fell.", "She went to the store."], "He was late.", separator=True)
        behind = Context(back, right=["He was late.", "It rained."])
        energy = 0.5 * Fluency(story) + 0.5 * Future(story) + 0.2 * Fluency(behind, name="back")
        draw = torch.Generator().manual_seed(1)
        y = (3 * torch.randn(4, 5, lm.vocab, generator=draw)).to(device).requires_grad_(True)
        bound = energy.bind(4, 5)
        total = bound(y, bound.start(y), Noise(Rows(range(4), device), 0)).energy
        found.append([total.detach().cpu(), torch.autograd.grad(total.sum(), y)[0].cpu()])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))
