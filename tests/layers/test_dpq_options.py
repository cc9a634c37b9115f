"""Options of DPQEmbedding: refusals with reasons, repr, checkpoints, and training with each of them."""

import copy
import io
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.ops.dpq_distance import affine, responses

OPTIONS = {
    "dot": {},
    "euclidean": {"metric": "euclidean"},
    "cosine": {"metric": "cosine", "temperature": 0.2},
    "learned temperature": {"temperature": 0.5, "learn_temperature": True},
    "tied": {"tie_key_value": True},
    "key_dim": {"key_dim": 6},
    "per group": {"distance_norm": "per_group", "query_init_scale": 0.01},
    "vq per group": {"variant": "vq", "distance_norm": "per_group"},
    "vq ema": {"variant": "vq", "ema_decay": 0.9},
}


@pytest.fixture(params=OPTIONS)
def options(request: pytest.FixtureRequest) -> dict[str, object]:
    return OPTIONS[request.param]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "l1"}, "metric must be one of dot, euclidean, cosine, got 'l1'"),
        (
            {"variant": "vq", "metric": "dot"},
            r"""metric: got 'dot' with variant "vq", expected euclidean: .*eq. 6.*use variant="sx"$""",
        ),
        ({"variant": "vq", "tie_key_value": False}, r'tie_key_value: got False with variant "vq", expected True: .*eq'),
        ({"variant": "vq", "key_dim": 6}, "key_dim: got 6, expected 12 .embedding_dim., as keys and values are one"),
        ({"tie_key_value": True, "key_dim": 6}, "key_dim: got 6, expected 12 .embedding_dim."),
        ({"key_dim": 7}, "num_groups must divide key_dim, got 3 and 7: choose one of 1"),
        (
            {"metric": "cosine", "key_dim": 3},
            r'metric: got "cosine" with key_dim 3 in 3 groups, expected at least 2 columns',
        ),
        ({"key_dim": 0}, "key_dim must be at least 1, got 0"),
        ({"distance_norm": "per_code"}, "distance_norm must be True, False or \"per_group\", got 'per_code'"),
        ({"query_init_scale": -1.0}, "query_init_scale must be a finite number of at least 0, got -1.0"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0, got 0.0"),
        ({"temperature": float("inf")}, "temperature must be a finite number above 0, got inf"),
        ({"temperature": 1e-320}, "temperature must be a finite number above 0, got 1e-320; float32 holds 1.2e-38 to"),
        ({"temperature": True}, "temperature must be a finite number above 0, got True"),
        ({"tie_key_value": "yes"}, "tie_key_value must be True or False, got 'yes'"),
        ({"share_subspaces": 1}, "share_subspaces must be True or False, got 1"),
        (
            {"variant": "vq", "temperature": 0.5},
            'temperature: got 0.5 with variant "vq", expected 1, as it has no softmax',
        ),
        (
            {"learn_temperature": True, "temperature": 1e-30},
            "temperature: got 1e-30, expected 0.001 to 1000 for a learned one",
        ),
        ({"learn_temperature": 1}, "learn_temperature must be True or False, got 1"),
        (
            {"variant": "vq", "learn_temperature": True},
            'learn_temperature: got True with variant "vq", expected False, as it has no softmax',
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused_with_reason(options, message):
    with pytest.raises(BadInputError, match=message):
        DPQEmbedding(20, 12, 5, 3, **options)


def test_options_accept_numpy_numbers():
    layer = DPQEmbedding(20, 12, 5, 3, temperature=np.float32(0.5))
    assert type(layer.temperature) is float
    assert layer.temperature == 0.5
    decay = DPQEmbedding(20, 12, 5, 3, "vq", ema_decay=np.float32(0.5)).centroids.decay
    assert type(decay) is float


def test_options_implied_by_variant_are_accepted():
    DPQEmbedding(20, 12, 5, 3, "vq", metric="euclidean", tie_key_value=True, key_dim=12)
    DPQEmbedding(20, 12, 5, 3, "sx", metric="dot", tie_key_value=False, key_dim=12)


def test_key_dim_sets_sizes_of_queries_and_keys(share):
    layer = DPQEmbedding(20, 12, 5, 3, share_subspaces=share, key_dim=6)
    groups = 1 if share else 3
    assert {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()} == {
        "query": (20, 6), "key": (groups, 5, 2), "value": (groups, 5, 4)
    }  # fmt: skip
    assert layer(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 12)
    tied = DPQEmbedding(20, 12, 5, 3, share_subspaces=share, tie_key_value=True)
    assert [name for name, _ in tied.named_parameters()] == ["query", "value"]


def test_queries_start_in_range_of_their_own():
    layer = DPQEmbedding(2000, 12, 5, 3, init_scale=1.0, query_init_scale=0.01)
    for parameter, scale in ((layer.query, 0.01), (layer.key, 1.0), (layer.value, 1.0)):
        assert 0.8 * scale < parameter.abs().max() <= scale
    layer.reset_parameters()
    assert 0.009 < layer.query.abs().max() <= 0.01


def test_learned_temperature_is_saved_trained_and_reset():
    layer = DPQEmbedding(20, 12, 5, 3, temperature=0.5, learn_temperature=True, init_scale=1.0)
    assert layer.temperature == pytest.approx(0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.arange(20)).square().sum().backward()
        optimizer.step()
    learned = layer.temperature
    assert abs(learned - 0.5) > 1e-3
    other = DPQEmbedding(20, 12, 5, 3, learn_temperature=True)
    other.load_state_dict(layer.state_dict())
    assert other.temperature == learned
    layer.temperature = 2.0
    assert layer.log_temperature.item() == pytest.approx(math.log(2))
    other.reset_parameters()
    assert other.temperature == 1
    assert "temperature=0.5, learn_temperature=True" in repr(
        DPQEmbedding(20, 12, 5, 3, temperature=0.5, learn_temperature=True)
    )
    with pytest.raises(BadInputError, match=r"temperature: got 1e-05, expected 0\.001 to 1000 for a learned one"):
        layer.temperature = 1e-5
    assert set(layer.freeze().state_dict()) == {"codes", "value"}
    assert "learn_temperature" not in repr(layer)


def test_learned_temperature_out_of_range_trains_on_at_its_bound():
    layer = DPQEmbedding(20, 12, 5, 3, learn_temperature=True, init_scale=1.0)
    with torch.no_grad():
        layer.log_temperature.fill_(-80)
    assert layer.temperature == pytest.approx(1e-3)
    layer(torch.arange(20)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_temperature_set_during_training_is_checked_and_used():
    layer = DPQEmbedding(20, 12, 5, 3, init_scale=1.0)
    ids, gradient = torch.arange(20), torch.randn(20, 12)
    saved = set(layer.state_dict())
    rows, gradients = [], []
    for temperature in (1.0, 4.0):
        layer.temperature = temperature
        layer.zero_grad()
        rows.append(layer(ids))
        rows[-1].backward(gradient)
        gradients.append(layer.query.grad.clone())
    torch.testing.assert_close(rows[0], rows[1])  # the forward pass is that of tau = 0
    assert (gradients[0] - gradients[1]).abs().max() > 0.01
    for bad in (0, -1.0, float("nan"), "1"):
        with pytest.raises(BadInputError, match="temperature must be a finite number above 0"):
            layer.temperature = bad
    assert layer.temperature == 4.0
    assert set(layer.state_dict()) == saved
    assert "temperature=4.0" in repr(layer)


def test_repr_shows_options_that_differ_from_default(options):
    shown = repr(DPQEmbedding(20, 12, 5, 3, **options))
    for name, value in options.items():
        assert f"{name}={value!r}" in shown
    plain = repr(DPQEmbedding(20, 12, 5, 3, init_scale=0.3, query_init_scale=0.3))
    assert not [word for word in ("metric", "tie", "key_dim", "norm", "temperature", "scale", "ema") if word in plain]
    assert "ema_decay" not in repr(DPQEmbedding(20, 12, 5, 3, **options).freeze())


def test_statistics_per_group_match_batch_norm_over_batch(variant, share):
    """Each group and choice has one mean and variance, as nn.BatchNorm1d has over [ids, D * K] without affine."""
    layer = DPQEmbedding(20, 12, 5, 3, variant, share, padding_idx=7, distance_norm="per_group", init_scale=1.0,
                         dtype=torch.float64)  # fmt: skip
    norm = nn.BatchNorm1d(15, affine=False, dtype=torch.float64)
    for _ in range(3):
        ids = torch.randint(0, 20, (4, 6))
        ids[0, :2] = 7
        layer(ids)
        query = layer.query[ids[ids != 7]].detach()
        distances = responses(query, affine(layer._keys(), layer.metric), layer.metric)
        norm(distances.transpose(0, 1).flatten(1))  # [B, D * K]
    torch.testing.assert_close(layer.running_mean.flatten(), norm.running_mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer.running_var.flatten(), norm.running_var, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_layer_with_each_option_learns_small_task(options, share):
    """20 words and 4 classes by id in eval mode: the exported codes have learned, beside the soft form."""
    layer, linear = DPQEmbedding(20, 12, 4, 3, share_subspaces=share, **options), nn.Linear(12, 4)
    ids = torch.arange(20)
    optimizer = torch.optim.Adam([*layer.parameters(), *linear.parameters()], 0.03)

    def loss() -> torch.Tensor:
        return nn.functional.cross_entropy(linear(layer(ids)), ids % 4)

    first = loss().item()
    for _ in range(200):
        optimizer.zero_grad()
        (loss() + layer.regularization_loss()).backward()
        optimizer.step()
    layer.eval()
    frozen = loss().item()
    assert frozen < 0.3 * first
    layer.freeze()
    assert loss().item() == frozen


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_training_is_finite(options, dtype):
    key_dim = 32 if "key_dim" in options else None
    layer = DPQEmbedding(300, 64, 4, 32, padding_idx=0, dtype=dtype, **(options | {"key_dim": key_dim}))
    rows = layer(torch.randint(0, 300, (2048,)))
    assert rows.dtype == dtype
    (rows.float().square().sum() + layer.regularization_loss()).backward()
    for name, tensor in layer.state_dict().items():
        assert tensor.isfinite().all(), name
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_autocast_training_is_finite(options):
    layer = DPQEmbedding(20, 12, 5, 3, **options)
    with torch.autocast("cpu", torch.bfloat16):
        rows = layer(torch.arange(20))
    rows.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.slow
def test_compiled_training_steps_match_plain_steps(options):
    torch._dynamo.reset()
    layer = DPQEmbedding(20, 12, 5, 3, padding_idx=2, init_scale=1.0, **(options | {"query_init_scale": 1.0}))
    plain = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    weight = torch.randn(12)
    # Another number of ids compiles everything again, so one case of each variant does that.
    for size in (4, 7) if options in (OPTIONS["dot"], OPTIONS["vq ema"]) else (7,):
        ids = torch.randint(0, 20, (2, size))
        (compiled(ids) * weight).sum().backward()
        (plain(ids) * weight).sum().backward()
    for got, wanted in zip(layer.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(got.grad, wanted.grad)
    torch.testing.assert_close(layer.state_dict(), plain.state_dict())


def test_temperature_schedule_does_not_recompile():
    torch._dynamo.reset()
    layer = DPQEmbedding(20, 12, 5, 3)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for step in range(20):
        layer.temperature = 1 - step / 40
        compiled(torch.arange(20)).sum().backward()
    assert counter.frame_count <= 3


def trained(layer: DPQEmbedding, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        if layer.variant == "sx":
            layer.temperature = 1 / (1 + step)
        ids = torch.randint(0, 20, (9,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (layer(ids).square().sum() + layer.regularization_loss()).backward()
        optimizer.step()


def test_run_resumed_equals_uninterrupted_run(options):
    """All tensors are equal bit for bit; the temperature is set from the step, as a learning rate is."""
    layers = [DPQEmbedding(20, 12, 5, 3, padding_idx=4, init_scale=1.0, **options) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    whole, first = (torch.optim.Adam(layer.parameters(), 0.05) for layer in layers)
    trained(layers[0], whole, range(6))
    trained(layers[1], first, range(3))
    buffer = io.BytesIO()
    torch.save({"layer": layers[1].state_dict(), "optimizer": first.state_dict()}, buffer)
    buffer.seek(0)
    checkpoint = torch.load(buffer, weights_only=True)
    resumed = DPQEmbedding(20, 12, 5, 3, padding_idx=4, **options)
    resumed.load_state_dict(checkpoint["layer"])
    second = torch.optim.Adam(resumed.parameters(), 0.05)
    second.load_state_dict(checkpoint["optimizer"])
    trained(resumed, second, range(3, 6))
    torch.testing.assert_close(resumed.state_dict(), layers[0].state_dict(), rtol=0, atol=0)


def test_smallest_tables_train_and_stay_finite(options):
    """One row, two codes, one group; an empty batch; padding only."""
    layer = DPQEmbedding(1, 2, 2, 1, **(options | {"key_dim": 2}))
    layer(torch.tensor(0)).sum().backward()
    layer(torch.zeros(0, 3, dtype=torch.int64)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert all(tensor.isfinite().all() for tensor in layer.state_dict().values())
    rows = layer.eval()(torch.tensor([0]))
    assert torch.equal(layer.freeze()(torch.tensor([0])), rows)

    layer = DPQEmbedding(1, 2, 2, 1, padding_idx=0, **(options | {"key_dim": 2}))
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    rows = layer(torch.zeros(3, dtype=torch.int64))
    rows.sum().backward()
    assert not rows.any()
    torch.testing.assert_close(layer.state_dict(), before)
    assert all(not parameter.grad.any() for parameter in layer.parameters())
