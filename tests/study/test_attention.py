"""Study of attention heads: constructed attention with known density, diversity and roles; trained alphas."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.study import attention as study
from edge_embed.study import attention_plot as plot


def one_hot(keys, length):
    """Return attention [1, 1, T, S] with probability 1 at one key of each query; none at a negative one."""
    p = np.zeros((1, 1, len(keys), length))
    for query, key in enumerate(keys):
        p[0, 0, query, key] = key >= 0
    return p


def test_density_counts_probabilities_above_zero_of_allowed_keys():
    p = np.zeros((1, 2, 3, 4))
    p[0, 0, :2] = [[0.5, 0.5, 0, 0], [1, 0, 0, 0]]  # query 2 attends to nothing
    p[0, 1] = 0.25
    np.testing.assert_allclose(study.density(p), [(2 / 4 + 1 / 4) / 2, 1])
    causal = np.tril(np.ones((3, 4), bool), 1)
    np.testing.assert_allclose(study.density(p * causal, causal), [(2 / 2 + 1 / 3) / 2, 1])
    assert np.isnan(study.density(np.zeros((1, 1, 2, 2)))).all()


def test_diversity_is_0_for_equal_and_logarithm_of_number_for_disjoint_heads():
    same = np.repeat(np.random.default_rng(0).dirichlet(np.ones(5), (2, 1, 3)), 4, 1)
    assert study.diversity(same) == pytest.approx(0, abs=1e-12)
    disjoint = np.concatenate([one_hot([key] * 2, 3) for key in range(3)], 1)
    assert study.diversity(disjoint) == pytest.approx(math.log(3))
    half = np.concatenate([one_hot([0], 2), np.full((1, 1, 1, 2), 0.5)], 1)
    mean = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert study.diversity(half) == pytest.approx(mean - math.log(2) / 2)


def test_previous_position_head_is_found_among_others():
    previous, own = one_hot([0, 0, 1, 2], 4), one_hot([0, 1, 2, 3], 4)
    layer = np.concatenate((own, previous, np.full((1, 1, 4, 4), 0.25)), 1)
    np.testing.assert_allclose(study.position_scores(layer), [0, 1, 0.25])
    np.testing.assert_allclose(study.position_scores(one_hot([1, 2, 3, 0], 4), 1), [1])
    assert study.find_position_heads({"a": own, "b": layer}) == [("b", 1, 1.0)]
    assert study.find_position_heads({"b": layer}, offset=0, at_least=0.2) == [
        ("b", 0, 1.0),
        ("b", 1, 0.25),
        ("b", 2, 0.25),
    ]


def test_merging_head_is_found_by_other_sub_words_of_its_word():
    words = np.array([[-1, 0, 0, 1, 2, 2]])
    merging, own = one_hot([0, 2, 1, 3, 5, 4], 6), one_hot(range(6), 6)
    spread = np.full((1, 1, 6, 6), 1 / 6)
    layer = np.concatenate((own, merging, spread), 1)
    np.testing.assert_allclose(study.merging_scores(layer, words), [0, 1, 1 / 6])
    assert study.find_merging_heads({"x": layer}, words) == [("x", 1, 1.0)]
    specials = one_hot([1, 0, 0, 0, 0, 0], 6)  # tokens of no word are no word together
    np.testing.assert_allclose(study.merging_scores(specials, np.array([[-1, -1, 0, 0, 1, 2]])), [0])


@pytest.mark.parametrize("activation", [None, "softmax", "sparsemax"])
def test_recorded_attention_is_that_of_the_layers_and_changes_no_output(activation):
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 8, batch_first=True).eval()
    if activation:
        edge_embed.use_sparse_attention(model, activation)
    x, y = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    with torch.no_grad():
        expected = model(x, y)
        with study.recorded_attention(model) as found:
            torch.testing.assert_close(model(x, y), expected, atol=1e-5, rtol=1e-4)
        model(x, y)
        shapes = {name: [each.shape for each in calls] for name, calls in found.items()}
        layer = model.encoder.layers[0].self_attn
        torch.testing.assert_close(
            torch.tensor(found["encoder.layers.0.self_attn"][0]),
            layer(x, x, x, average_attn_weights=False)[1],
            atol=1e-5,
            rtol=1e-4,
        )
        with study.recorded_attention(layer) as alone:
            for options in ({}, {"average_attn_weights": False}, {"need_weights": False}):
                torch.testing.assert_close(
                    layer(x[0], x[0], x[0], **options)[1],
                    layer(
                        x[0],
                        x[0],
                        x[0],
                        None,
                        options.get("need_weights", True),
                        None,
                        options.get("average_attn_weights", True),
                    )[1],
                )
    assert shapes == {
        "encoder.layers.0.self_attn": [(3, 2, 5, 5)],
        "decoder.layers.0.self_attn": [(3, 2, 4, 4)],
        "decoder.layers.0.multihead_attn": [(3, 2, 4, 5)],
    }
    assert [each.shape for each in alone[""]] == [(1, 2, 5, 5)] * 6


def test_trajectories_follow_alphas_of_a_trained_model():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2)
    edge_embed.use_sparse_attention(model, "learned")
    optimizer, trajectories = torch.optim.SGD(model.parameters(), 1.0), study.AlphaTrajectories(model)
    x = torch.randn(2, 5, 8)
    for step in range(3):
        trajectories.record(step)
        optimizer.zero_grad()
        (model(x) * x).mean().backward()
        optimizer.step()
    trajectories.record(3)
    assert trajectories.steps == [0, 1, 2, 3]
    assert list(trajectories.alphas) == ["layers.0.self_attn", "layers.1.self_attn"]
    for name, lines in trajectories.alphas.items():
        assert lines.shape == (4, 2)
        np.testing.assert_allclose(lines[0], 1.5)
        np.testing.assert_allclose(lines[-1], study.learned_alphas(model)[name])
        assert (lines[-1] != 1.5).all()
    assert list(study.learned_alphas(edge_embed.Entmax(1.25, num_heads=3))) == [""]


@pytest.fixture
def trajectories():
    made = study.AlphaTrajectories(edge_embed.SparseMultiheadAttention(4, 2, activation="learned"))
    made.record(0)
    made.record(700)
    return made


MAP = one_hot([0, 0, 1], 3)[0]


def test_plots_are_svg_with_their_titles(tmp_path, trajectories):
    pytest.importorskip("matplotlib", reason="matplotlib draws, the extra `report` has it")
    for draw, numbers, options, title in (
        (plot.draw_alphas, trajectories, {}, "700"),
        (plot.draw_alpha_histograms, {"encoder": [1.2, 1.9], "decoder": [[1.1]]}, {}, "decoder"),
        (plot.draw_layers, {"softmax": {"first": 0.5}, "entmax": {"first": 0.2}}, {"label": "diversity"}, "diversity"),
        (plot.draw_maps, MAP, {"queries": ["the", "cat", "sat"]}, "cat"),
    ):
        path = tmp_path / f"{draw.__name__}.svg"
        draw(numbers, path, **options)
        texts = [each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("text")]
        assert title in texts
        with pytest.raises(BadInputError, match="exists"):
            draw(numbers, path, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: study.density(np.zeros((2, 2))),
            r"attention: got shape \[2, 2\], expected probabilities \[B, H, T, S\]",
        ),
        (lambda: study.diversity(np.full((1, 1, 1, 1), np.nan)), "attention: got negative numbers, infinity or NaN"),
        (
            lambda: study.density(one_hot([0], 3), np.ones(2, bool)),
            r"mask: got bool \[2\], expected bool that broadcasts",
        ),
        (lambda: study.density(one_hot([0], 3), np.ones(3)), r"mask: got float64 \[3\], expected bool"),
        (lambda: study.position_scores(one_hot([0], 3)), r"got shape \[1, 1, 1, 3\], expected self-attention"),
        (lambda: study.position_scores(one_hot([0, 0], 2), 2), "offset: got 2, expected less than the 2 positions"),
        (
            lambda: study.merging_scores(one_hot([0, 0], 2), [0, 0]),
            r"words: got int64 \[2\], expected integers \[1, 2\]",
        ),
        (lambda: study.merging_scores(one_hot([0, 0], 2), [[0, 1]]), "words: got no word of several tokens"),
        (
            lambda: study.AlphaTrajectories(nn.Linear(1, 1)),
            "got Linear without learned alphas: use activation='learned'",
        ),
        (lambda: study.recorded_attention(nn.Linear(1, 1)).__enter__(), "got Linear without nn.MultiheadAttention"),
        (lambda: plot.draw_maps(MAP[0], "x.svg"), r"attention: got shape \[3, 3\], expected \[H, T, S\]"),
        (lambda: plot.draw_maps(MAP, "x.svg", queries=["a"]), "queries: got 1 tokens, expected 3"),
        (lambda: plot.draw_layers({"a": {"x": 1}, "b": {"y": 1}}, "x.svg"), r"b: got layers \['y'\], expected \['x'\]"),
        (lambda: plot.draw_alpha_histograms({}, "x.svg"), "nothing to draw"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(BadInputError, match=message):
        call()


def test_recording_inside_another_records_in_both():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    with study.recorded_attention(layer) as outer, study.recorded_attention(layer) as inner:
        out, weights = layer(x, x, x, need_weights=False)
    assert weights is None
    np.testing.assert_array_equal(outer[""][0], inner[""][0])
    torch.testing.assert_close(out, layer(x, x, x)[0])


def test_tokens_with_dollars_are_drawn_as_they_are(tmp_path):
    tokens = ["$$", "$x^{$", "$5$"]
    plot.draw_maps(
        torch.full((2, 3, 3), 1 / 3, dtype=torch.bfloat16, requires_grad=True), tmp_path / "m.svg", queries=tokens
    )
    texts = {each.text for each in ElementTree.parse(tmp_path / "m.svg").iter() if each.text}
    assert set(tokens) <= texts


def test_trajectories_name_layers_that_changed():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1)
    edge_embed.use_sparse_attention(model, "learned")
    changed = study.AlphaTrajectories(model)
    changed.record(0)
    edge_embed.use_sparse_attention(model, "entmax15")
    with pytest.raises(BadInputError, match=r"model: got learned alphas of \[\], expected those of the first record"):
        changed.record(1)
    assert next(iter(changed.alphas.values())).shape == (1, 2)


@pytest.mark.parametrize("offset", [1.5, "a", None, True])
def test_offset_that_is_no_integer_is_named(offset):
    with pytest.raises(BadInputError, match=r"offset: got .*, expected an integer"):
        study.position_scores(np.full((1, 1, 3, 3), 1 / 3), offset)


@pytest.mark.parametrize("attention", ["abc", [[1], [1, 2]], None, np.full((1, 1, 2, 2), np.inf)])
def test_attention_that_is_no_probabilities_is_named(attention):
    with pytest.raises(BadInputError, match="attention: got "):
        study.density(attention)
