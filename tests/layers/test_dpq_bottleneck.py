"""`DPQBottleneck`: rows, gradients, codes, steps, bad input and files."""

import copy
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.regularization import regularization_loss
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module

DIM, CODES, GROUPS, BATCH = 12, 5, 3, 40
OPTIONS = {
    "SX": {},
    "SX, learned temperature": {"learn_temperature": True, "temperature": 0.5, "distance_norm": "per_group"},
    "SX, eq. 5": {"value_gradient": "softmax", "share_subspaces": True},
    "SX, cosine": {"metric": "cosine", "key_dim": 6, "distance_norm": False},
    "VQ": {"variant": "vq"},
    "VQ, one codebook": {"variant": "vq", "share_subspaces": True, "distance_norm": False},
    "VQ, moving averages": {"variant": "vq", "ema_decay": 0.9, "distance_norm": "per_group"},
}


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def options(request: pytest.FixtureRequest) -> dict:
    return request.param


def bottleneck(options: dict, **more) -> edge_embed.DPQBottleneck:
    torch.manual_seed(0)
    return edge_embed.DPQBottleneck(DIM, CODES, GROUPS, **options, **more)


def inputs_of(layer: edge_embed.DPQBottleneck, *shape: int) -> Tensor:
    return torch.randn(*shape, layer.key_dim, dtype=layer.value.dtype)


def test_steps_equal_those_of_table_whose_queries_are_inputs(options):
    layer = bottleneck(options)
    table = edge_embed.DPQEmbedding(BATCH, DIM, CODES, GROUPS, **options)
    layer(inputs_of(layer, BATCH))
    layer.regularization_loss(commitment=0.25)  # with moving averages, a commitment counts from the second call on
    for _ in range(3):
        inputs = inputs_of(layer, BATCH).requires_grad_()
        state = {**layer.state_dict(), "query": inputs.detach()}
        table.load_state_dict(state)
        direction = torch.randn(BATCH, DIM)
        of_layer, of_table = layer(inputs), table(torch.arange(BATCH))
        assert of_layer.equal(of_table)
        for each, rows in ((layer, of_layer), (table, of_table)):
            each.zero_grad()
            (rows * direction).sum().add(each.regularization_loss(commitment=0.25)).backward()
        torch.testing.assert_close(inputs.grad, table.query.grad)
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(parameter.grad, table.get_parameter(name).grad, msg=name)
        for name, buffer in layer.named_buffers():
            torch.testing.assert_close(buffer, table.get_buffer(name), msg=name)


def nearest_keys(layer: edge_embed.DPQBottleneck, inputs: Tensor) -> Tensor:
    """Return codes by the definition, in float64: inputs [B, D w] -> [B, D]."""
    keys = (layer.value if layer.tie_key_value else layer.key).detach().double()
    parts = inputs.double().view(len(inputs), GROUPS, 1, layer.key_dim // GROUPS)
    match layer.metric:
        case "dot":
            distances = (parts * keys).sum(-1)  # [B, D, K]
        case "euclidean":
            distances = -(parts - keys).square().sum(-1)
        case "cosine":
            distances = nn.functional.cosine_similarity(parts, keys, dim=-1)
    if layer.distance_norm:
        distances = (distances - layer.running_mean) / (layer.running_var.double() + 1e-5).sqrt()
    return distances.argmax(-1)


@given(shape=st.lists(st.integers(0, 3), max_size=3), name=st.sampled_from(sorted(OPTIONS)))
def test_eval_mode_selects_values_of_nearest_keys(shape, name):
    layer = bottleneck(OPTIONS[name])
    for _ in range(5):
        layer(inputs_of(layer, BATCH))
    inputs = inputs_of(layer.eval(), *shape)
    codes, outputs = layer.encode(inputs), layer(inputs)
    assert codes.shape == (*shape, GROUPS)
    assert codes.dtype == torch.int64
    assert outputs.shape == (*shape, DIM)
    assert outputs.equal(layer.decode(codes))
    assert codes.view(-1, GROUPS).equal(nearest_keys(layer, inputs.view(-1, layer.key_dim)))
    places = torch.zeros(GROUPS, dtype=torch.int64) if layer.share_subspaces else torch.arange(GROUPS)
    assert outputs.view(-1, GROUPS, DIM // GROUPS).equal(layer.value[places, codes.view(-1, GROUPS)])


def test_eval_mode_gives_gradient_to_values_only():
    layer = bottleneck({}).eval()
    inputs = inputs_of(layer, BATCH).requires_grad_()
    layer(inputs).sum().backward()
    assert inputs.grad is None
    assert layer.key.grad is None
    used = nn.functional.one_hot(layer.encode(inputs), CODES).sum(0)  # [D, K]
    assert layer.value.grad.equal(used.unsqueeze(-1).expand_as(layer.value).float())


@pytest.mark.parametrize("variant", [{"variant": "vq"}, {"variant": "vq", "ema_decay": 0.9}], ids=["L_reg", "averages"])
def test_codebook_finds_clusters(variant):
    """Inputs lie near four corners in each group: outputs become the corners."""
    layer = edge_embed.DPQBottleneck(4, 4, 2, distance_norm=False, **variant)
    with torch.no_grad():
        layer.value.copy_(0.1 * torch.tensor([[1.0, 1.0], [1, -1], [-1, 1], [-1, -1]]))
    if layer.centroids is not None:
        layer.centroids.reset(layer.value)
    optimizer = torch.optim.Adam(layer.parameters(), 0.05) if list(layer.parameters()) else None
    for _ in range(200):
        corners = torch.randint(0, 2, (64, 4)) * 2.0 - 1
        layer(corners + 0.05 * torch.randn(64, 4))
        if optimizer is not None:
            optimizer.zero_grad()
            layer.regularization_loss().backward()
            optimizer.step()
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1])] * 4)
    torch.testing.assert_close(layer.eval()(corners), corners, atol=0.05, rtol=0)


def test_commitment_pulls_inputs_to_moving_averages_from_second_call():
    layer = bottleneck({"variant": "vq", "ema_decay": 0.9})
    for expected in (False, True, True):
        inputs = inputs_of(layer, BATCH).requires_grad_()
        outputs = layer(inputs)
        loss = layer.regularization_loss(commitment=0.25)
        if expected:
            torch.testing.assert_close(loss, 1.25 * (outputs - inputs).square().mean())  # L_reg trains nothing
            loss.backward()
            torch.testing.assert_close(inputs.grad, 0.5 * (inputs - outputs).detach() / inputs.numel())
        else:
            assert loss == 0


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_layer_that_trains_nothing_keeps_no_pass(ema_decay):
    """Stored passes would hold the graph for ever: without a parameter that changes, steps cannot be told apart."""
    layer = bottleneck({"variant": "vq", "ema_decay": ema_decay}).requires_grad_(False)
    inputs = inputs_of(layer, BATCH).requires_grad_()
    hidden = inputs * 2
    alive = weakref.ref(hidden)
    layer(hidden)
    del hidden
    gc.collect()
    assert alive() is None


def test_loss_of_model_includes_bottleneck():
    layer = bottleneck({"variant": "vq"})
    model = nn.Sequential(nn.Linear(DIM, DIM), layer)
    inputs = inputs_of(layer, BATCH)
    outputs = model(inputs)
    expected = (outputs - model[0](inputs)).square().mean()
    torch.testing.assert_close(regularization_loss(model), expected)


def test_unused_loss_warns():
    layer = bottleneck({"variant": "vq"})
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(inputs_of(layer, BATCH)).sum().backward()
    optimizer.step()
    with pytest.warns(UserWarning, match=r"DPQBottleneck: only regularization_loss\(\) trains the centroids"):
        layer(inputs_of(layer, BATCH))


def test_compiled_step_equals_eager_one(options):
    layer = bottleneck(options)
    compiled = copy.deepcopy(layer)
    inputs = inputs_of(layer, BATCH)
    results = []
    for each, forward in ((layer, layer), (compiled, torch.compile(compiled, backend="aot_eager", fullgraph=True))):
        leaf = inputs.clone().requires_grad_()
        rows = forward(leaf)
        (rows.square().sum() + each.regularization_loss()).backward()
        results.append((rows.detach(), leaf.grad, *each.buffers()))
    for eager, traced in zip(*results, strict=True):
        torch.testing.assert_close(traced, eager)


def test_checkpointed_pass_counts_once(options):
    layer = bottleneck(options)
    plain = copy.deepcopy(layer)
    inputs = inputs_of(layer, BATCH).requires_grad_()
    checkpoint(layer, inputs, use_reentrant=False).sum().backward()
    plain(inputs).sum().backward()
    for name, buffer in plain.named_buffers():
        assert buffer.equal(layer.get_buffer(name)), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_outputs_have_dtype_of_layer(options, dtype):
    layer = bottleneck(options, dtype=dtype)
    rows = layer(torch.randn(BATCH, layer.key_dim, requires_grad=True))
    rows.float().sum().backward()
    assert rows.dtype == layer.eval()(torch.randn(2, layer.key_dim)).dtype == dtype
    assert all(tensor.isfinite().all() for tensor in layer.state_dict().values())


def test_autocast_changes_no_code(options):
    layer = bottleneck(options).eval()
    inputs = inputs_of(layer, 500)
    codes = layer.encode(inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.encode(inputs).equal(codes)


def test_empty_batch_changes_nothing(options):
    layer = bottleneck(options)
    before = copy.deepcopy(layer.state_dict())
    rows = layer(inputs_of(layer, 2, 0).requires_grad_())
    assert rows.shape == (2, 0, DIM)
    rows.sum().backward()
    for name, tensor in layer.state_dict().items():
        torch.testing.assert_close(tensor, before[name], msg=name)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_batch_that_is_not_finite_leaves_layer_as_it_was(options, wrong):
    """Mixed precision skips such a step; averages that followed it would stay NaN for ever."""
    layer = bottleneck(options)
    layer(inputs_of(layer, BATCH))
    if layer.centroids is not None:
        layer.centroids.move(layer.value)  # as the next pass would
    before = copy.deepcopy(dict(layer.named_buffers()))
    inputs = inputs_of(layer, BATCH)
    inputs[0] = wrong
    layer(inputs)
    for name, buffer in layer.named_buffers():
        assert buffer.equal(before[name]), name
    assert layer.eval()(inputs).isfinite().all()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.zeros(2, 11), r"inputs: got torch.float32 of shape \(2, 11\), expected floats of shape \[\*, 12\]"),
        (torch.zeros(()), r"inputs: got torch.float32 of shape \(\), expected floats of shape \[\*, 12\]"),
        (torch.zeros(2, 12, dtype=torch.int64), r"inputs: got torch.int64 of shape \(2, 12\), expected floats"),
        ([0.0] * 12, r"inputs must be a tensor, got a list: give torch.tensor\(inputs\)"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_bad_inputs_are_refused(inputs, message, training):
    with pytest.raises(BadInputError, match=message):
        bottleneck({}).train(training)(inputs)


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        (torch.full((2, 3), 5), IdOutOfRangeError, "code 5 is out of range: expected 0 to 4"),
        (torch.full((2, 3), -1), IdOutOfRangeError, "code -1 is out of range: expected 0 to 4"),
        (torch.zeros(2, 4, dtype=torch.int64), BadInputError, r"codes: got shape \(2, 4\), expected \[\*, 3\]"),
        (torch.zeros(2, 3), BadInputError, r"codes must be integers, got torch.float32: convert them with codes.long"),
    ],
)
def test_bad_codes_are_refused(codes, error, message):
    with pytest.raises(error, match=message):
        bottleneck({}).decode(codes)


def test_narrow_codes_are_decoded():
    layer = edge_embed.DPQBottleneck(DIM, 256, GROUPS)
    codes = layer.encode(inputs_of(layer, 300))
    assert codes.max() > 127
    assert layer.decode(codes.to(torch.uint8)).equal(layer.decode(codes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_groups": 5}, "num_groups must divide embedding_dim, got 5 and 12"),
        ({"variant": "vq", "key_dim": 6}, r"key_dim: got 6, expected 12 \(embedding_dim\)"),
        ({"ema_decay": 0.9}, 'ema_decay: got 0.9 with variant "sx"'),
        ({"variant": "vq", "learn_temperature": True}, 'learn_temperature: got True with variant "vq"'),
        ({"init_scale": -1}, "init_scale must be a finite number of at least 0, got -1"),
        ({"embedding_dim": 0}, "embedding_dim must be at least 1"),
        ({"dtype": torch.complex64}, "dtype must be a float type, got torch.complex64"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        edge_embed.DPQBottleneck(**{"embedding_dim": DIM, "num_codes": CODES, "num_groups": GROUPS} | options)


def test_printed_layer_shows_options_that_differ():
    assert repr(bottleneck({})) == "DPQBottleneck(12, num_codes=5, num_groups=3, variant='sx', share_subspaces=False)"
    assert "key_dim=6, distance_norm=False" in repr(bottleneck(OPTIONS["SX, cosine"]))
    assert "ema_decay=0.9" in repr(bottleneck(OPTIONS["VQ, moving averages"]))


class Encoder(nn.Module):
    """Vectors, their codes, and classes computed from the codes."""

    def __init__(self, options: dict) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(50, 16, 8, 4)
        self.vectors = nn.Linear(16, options.get("key_dim", DIM))
        self.bottleneck = bottleneck(options)
        self.classes = nn.Linear(DIM, 4)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self.vectors(self.words(ids))
        return self.classes(self.bottleneck(vectors)), self.bottleneck.encode(vectors)


FILES = [("onnx", name) for name in OPTIONS] + [("tflite", name) for name in ("SX", "SX, cosine", "VQ, one codebook")]


@pytest.mark.parametrize(("target", "name"), FILES, ids=" ".join)
def test_exported_model_has_codes_of_model(target, name, tmp_path: Path):
    if target == "tflite":
        pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    model = Encoder(OPTIONS[name])
    for _ in range(3):
        model(torch.randint(50, (8, 6)))
    ids = torch.randint(50, (2, 6))
    edge_embed.save(model.eval(), tmp_path / "model.pt", (ids,))
    classes, codes = model(ids)
    exported = tmp_path / f"model.{target}"
    edge_embed.export(tmp_path / "model.pt", target, exported)
    if target == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
        got = session.run(None, {session.get_inputs()[0].name: ids.numpy()})
    else:
        from ai_edge_litert.interpreter import Interpreter

        runner = Interpreter(str(exported)).get_signature_runner()
        ((feed, details),) = runner.get_input_details().items()
        outputs = runner(**{feed: ids.numpy().astype(details["dtype"])})
        got = [outputs[each] for each in runner.get_output_details()]
    of_classes, of_codes = sorted(got, key=lambda each: each.shape[-1], reverse=True)
    np.testing.assert_array_equal(of_codes, codes.numpy())
    np.testing.assert_allclose(of_classes, classes.detach().numpy(), atol=1e-5)


def test_tflite_file_of_shared_codebook_is_right_in_both_runtimes(tmp_path: Path):
    """The older runtime computes a batch of products with a shared right side wrongly."""
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    model = Encoder(OPTIONS["VQ, one codebook"]).eval()
    edge_embed.save(model, tmp_path / "model.pt", (torch.randint(50, (2, 6)),))
    edge_embed.export(tmp_path / "model.pt", "tflite", tmp_path / "model.tflite")
    options = edge_embed.ValidationOptions(iterations=1, warmup=0)
    report = edge_embed.validate(tmp_path / "model.pt", tmp_path / "model.tflite", options=options)
    assert not list(report.failures())


def test_model_without_table_is_exported_by_torch(options, tmp_path: Path):
    import onnxruntime

    model = nn.Sequential(nn.Linear(DIM, options.get("key_dim", DIM)), bottleneck(options)).eval()
    inputs = torch.randn(9, DIM)
    torch.onnx.export(model, (inputs,), dynamo=True, verbose=False).save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})
    np.testing.assert_allclose(found, model(inputs).detach().numpy(), atol=1e-6)


def test_saved_module_loads_without_code(tmp_path: Path):
    model = nn.Sequential(nn.Linear(DIM, DIM), bottleneck(OPTIONS["VQ, moving averages"])).eval()
    torch.save(model, tmp_path / "model.pt")
    inputs = torch.randn(9, DIM)
    assert load_module(Archive(tmp_path / "model.pt"))(inputs).equal(model(inputs))
