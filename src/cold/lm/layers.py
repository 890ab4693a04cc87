"""A transformer's layer in fewer passes than the library writes it out in, with derivatives by hand.

The library's models stay what they are; `fuse` exchanges how some of their parts compute.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.activations import SiLUActivation
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

from cold.kernels import compiled

RMS_NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
GATED = ("LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP")


def fuse(model: Any) -> None:
    """The same functions in one call each: the library writes some of them out in up to eight."""
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            kind = type(part).__name__
            if kind == "NewGELUActivation":
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif kind in RMS_NORMS:
                setattr(parent, name, Norm(part.weight, part.variance_epsilon))
            elif kind in GATED and type(part.act_fn) in (nn.SiLU, SiLUActivation):
                _join(part, _feed_forward, part.gate_proj, part.up_proj)
            elif kind == "LlamaAttention":
                _join(part, _attention, part.q_proj, part.k_proj, part.v_proj)


def _join(part: Any, forward: Any, *products: nn.Linear) -> None:
    """One product for several of the same input; their weights become pieces of its own, so no memory is added."""
    if not all(type(product) is nn.Linear and product.bias is None for product in products):
        return
    weight = torch.cat([product.weight for product in products]).detach()
    for product, piece in zip(products, torch.split(weight, [len(p.weight) for p in products]), strict=True):
        product.weight.data = piece
    part.register_buffer("joined", weight, persistent=False)
    part.forward = MethodType(forward, part)


class Norm(nn.Module):
    """x / sqrt(mean x^2 + eps) weight."""

    def __init__(self, weight: nn.Parameter, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = weight, eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32 and not x.is_cuda:  # elsewhere it is one call in both directions
            out: Tensor = _Norm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
            return out
        fused: Tensor = F.rms_norm(x, [len(self.weight)], self.weight, self.eps)
        return fused


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale: Tensor = torch.linalg.vecdot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_()[..., None]
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        slope = grads[0] * weight
        along = torch.linalg.vecdot(slope, x)[..., None].mul_(scale**3).div_(-x.shape[-1])
        return slope.mul_(scale).addcmul_(x, along), None, None


def _feed_forward(self: Any, x: Tensor) -> Tensor:
    """down(silu(gate(x)) up(x))"""
    out: Tensor = self.down_proj(gated(F.linear(x, self.joined)))
    return out


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        ctx.save_for_backward(both)
        if compiled(both.device):
            from cold.gpu.layers import gate

            return gate(both)
        first, second = both.chunk(2, -1)
        return F.silu(first).mul_(second)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (both,) = ctx.saved_tensors
        if compiled(both.device):
            from cold.gpu.layers import gate_back

            return gate_back(both, grads[0].contiguous())
        (first, second), out = both.chunk(2, -1), torch.empty_like(both)
        to_first, to_second = out.chunk(2, -1)
        torch.mul(grads[0], F.silu(first), out=to_second)
        torch.ops.aten.silu_backward.grad_input(grads[0] * second, first, grad_input=to_first)
        return out


def gated(both: Tensor) -> Tensor:
    """silu(first half) times second half of the last axis."""
    out: Tensor = _Gated.apply(both)  # type: ignore[no-untyped-call]
    return out


def _attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Llama's, with queries, keys and values in one product."""
    made = F.linear(hidden_states, self.joined).view(*hidden_states.shape[:-1], -1, self.head_dim)
    query, key, value = heads_of(made, *position_embeddings, self.num_key_value_groups)
    if past_key_values is not None:
        key, value = past_key_values.update(key, value, self.layer_idx)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
    out, _ = attend(self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **options)
    return self.o_proj(out.flatten(2)), None


class _Heads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, made: Tensor, cos: Tensor, sin: Tensor, group: int) -> tuple[Tensor, ...]:
        ctx.save_for_backward(cos, sin)
        each = made.shape[2] // (group + 2)
        ctx.sizes = [group * each, each, each]
        return _parts(_turned(_parts(made, ctx.sizes), cos, sin, back=False), ctx.sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _turned(grads, cos, sin, back=True), None, None, None


def _parts(made: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
    """Queries, keys and values [rows, heads, tokens, width], as they lie in [rows, tokens, heads, width]."""
    return tuple(part.transpose(1, 2) for part in torch.split(made, sizes, 2))


def _turned(parts: tuple[Tensor, ...], cos: Tensor, sin: Tensor, back: bool) -> Tensor:
    """The parts side by side [rows, tokens, heads, width]; queries and keys turned."""
    if compiled(cos.device):
        from cold.gpu.layers import turn

        return turn(parts, cos, sin, back)
    (rows, _, tokens, width), sizes = parts[0].shape, [part.shape[1] for part in parts]
    out = parts[0].new_empty(rows, tokens, sum(sizes), width)
    query, key, value = _parts(out, sizes)
    _turn(parts[0], query, cos, sin, back)
    _turn(parts[1], key, cos, sin, back)
    value.copy_(parts[2])
    return out


def _turn(x: Tensor, out: Tensor, cos: Tensor, sin: Tensor, back: bool) -> None:
    """(x1, x2) -> (x1 cos1 - x2 sin1, x2 cos2 + x1 sin2), or the transposed of that."""
    half = x.shape[-1] // 2
    cos, sin = cos[:, None], sin[:, None]
    sin1, sin2 = sin[..., :half], sin[..., half:]
    torch.mul(x, cos, out=out)
    out[..., :half].addcmul_(x[..., half:], sin2 if back else sin1, value=1.0 if back else -1.0)
    out[..., half:].addcmul_(x[..., :half], sin1 if back else sin2, value=-1.0 if back else 1.0)


def heads_of(made: Tensor, cos: Tensor, sin: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values [rows, heads, tokens, width] of one product [rows, tokens, all heads, width].

    `group` queries share a key. Queries and keys are turned by their positions: cos, sin [rows, tokens, width].
    """
    out: tuple[Tensor, Tensor, Tensor] = _Heads.apply(made, cos, sin, group)  # type: ignore[no-untyped-call]
    return out
