"""World models: pictures to vectors and back, the recurrent state space model, the loop under it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from memory_maze.models.nets import LayerNorm, Linear
from memory_maze.models.ops.recurrence import unroll
from memory_maze.models.rssm import RSSM, Beliefs, Latent, divergence
from memory_maze.models.vision import Decoder, Encoder, FlatDecoder, FlatEncoder, double, halve, to_numbers

SMALL = {"embed": 12, "actions": 6, "deter": 10, "hidden": 9, "groups": 3, "classes": 4}


def step(layers, carry, x, given=1.0):
    hidden = jnp.tanh(layers["enter"](x) + layers["again"](carry * given))
    carry = layers["norm"](hidden)
    return carry, (hidden, carry.sum())


@pytest.fixture
def layers():
    keys = jax.random.split(jax.random.key(0), 2)
    return {"enter": Linear(keys[0], 3, 5), "again": Linear(keys[1], 5, 5), "norm": LayerNorm(5)}


def test_a_loop_has_the_gradients_that_scan_has(layers):
    carry, xs = jnp.ones((2, 5)), jax.random.normal(jax.random.key(1), (7, 2, 3))
    given = jnp.arange(7.0) % 3

    def loss(loop, layers, carry, xs):
        carry, (hidden, sums) = loop(layers, carry, xs)
        return (carry**2).sum() + jnp.sin(hidden).sum() + (sums**3).mean()

    def scan(layers, carry, xs):
        return lax.scan(lambda carry, x: step(layers, carry, *x), carry, (xs, given))

    found, wanted = (
        jax.jit(jax.value_and_grad(lambda *args, loop=loop: loss(loop, *args), argnums=(0, 1, 2)))(
            layers, carry, xs
        )
        for loop in (lambda *args: unroll(step, *args, given), scan)
    )
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=1e-5)


def test_the_loop_backwards_holds_no_weights():
    """Which is why it is there."""
    size = 400
    keys = jax.random.split(jax.random.key(0), 2)
    layers = {
        "enter": Linear(keys[0], 3, size),
        "again": Linear(keys[1], size, size),
        "norm": LayerNorm(size),
    }
    carry, xs = jnp.ones((2, size)), jnp.ones((7, 2, 3))

    def gradients(loop):
        return jax.grad(lambda layers: loop(layers)[0].sum())(layers)

    def carried(loop):
        """The largest array that a loop carries, anywhere."""
        text = str(jax.make_jaxpr(lambda: gradients(loop))())
        return text.count(f"f32[{size},{size}]")

    assert carried(lambda layers: unroll(step, layers, carry, xs, jnp.ones(7))) < carried(
        lambda layers: lax.scan(lambda carry, x: step(layers, carry, x), carry, xs)
    )


def test_the_loop_keeps_nothing_but_what_it_carries_and_gives(layers):
    carry, xs = jnp.ones((2, 5)), jnp.ones((7, 2, 3))

    def count_kept(loop):
        jaxpr = jax.make_jaxpr(jax.grad(lambda layers: loop(layers)[1][0].sum()))(layers)
        forward, _ = (one for one in jaxpr.eqns if one.primitive.name == "scan")
        return sum(kept.aval.shape[0] == len(xs) for kept in forward.outvars)

    def given_twice(layers, carry, x, given):
        carry, out = step(layers, carry, x)
        return carry, (*out, carry)

    assert count_kept(lambda layers: unroll(step, layers, carry, xs, jnp.ones(7))) == 3
    assert count_kept(lambda layers: unroll(given_twice, layers, carry, xs, jnp.ones(7))) == 3
    assert count_kept(lambda layers: lax.scan(lambda *args: step(layers, *args), carry, xs)) > 3


def test_a_layer_that_is_called_twice_is_refused(layers):
    def twice(layers, carry, x, given):
        return layers["again"](layers["again"](carry)), x

    with pytest.raises(ValueError, match="give it two names"):
        jax.grad(lambda layers: unroll(twice, layers, jnp.ones(5), jnp.ones((2, 3)))[0].sum())(
            {"again": layers["again"]}
        )


def test_pictures_become_vectors_and_come_back():
    images = jax.random.randint(jax.random.key(0), (2, 3, 64, 64, 3), 0, 256).astype(jnp.uint8)
    encoder = Encoder(jax.random.key(1), depth=4)
    decoder = Decoder(jax.random.key(2), 7, depth=4)
    assert encoder(images).shape == (2, 3, encoder.outputs) == (2, 3, 128)
    assert decoder(jnp.ones((2, 3, 7))).shape == images.shape
    assert encoder(images).std() > 0.01
    small = FlatEncoder(jax.random.key(1), 4, 16)
    assert small(images).shape == (2, 3, small.outputs) == (2, 3, 16)
    assert FlatDecoder(jax.random.key(1), 7, 4, 16)(jnp.ones((2, 3, 7))).shape == (2, 3, 16, 16, 3)


@pytest.mark.parametrize(
    ("pixels", "side"), [(64, 4), (31, 4), (14, 4), (6, 4), (1, 5), (5, 5), (13, 6), (2, 6)]
)
def test_strided_convolutions_are_what_others_make_of_them(pixels, side):
    x = jax.random.normal(jax.random.key(0), (2, pixels, pixels, 3))
    weight = jax.random.normal(jax.random.key(1), (side, side, 3, 5))
    bias = jax.random.normal(jax.random.key(3), (5,))
    pairs = [(double, jax.lax.conv_transpose)]
    if side == 4:
        pairs.append((lambda x, weight, bias: halve(x, weight) + bias, jax.lax.conv_general_dilated))
    for ours, convolve in pairs:

        def theirs(x, weight, bias, convolve=convolve):
            order = ("NHWC", "HWIO", "NHWC")
            return convolve(x, weight, (2, 2), "VALID", dimension_numbers=order) + bias

        results, pull = jax.vjp(ours, x, weight, bias)
        wanted, pull_wanted = jax.vjp(theirs, x, weight, bias)
        np.testing.assert_allclose(results, wanted, atol=1e-4)
        slope = jax.random.normal(jax.random.key(2), wanted.shape)
        for one, other in zip(pull(slope), pull_wanted(slope), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_losses_of_pictures_are_of_their_pixels():
    images = jnp.full((1, 64, 64, 3), 51, jnp.uint8)
    assert to_numbers(images)[0, 0, 0, 0] == pytest.approx(-0.3)
    zero = lambda net: jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, net)  # noqa: E731
    for decoder in (Decoder(jax.random.key(0), 2, 1), FlatDecoder(jax.random.key(0), 2, 4, 3)):
        assert zero(decoder).loss(jnp.ones((1, 2)), images)[0] == pytest.approx(
            0.5 * 0.09 * 64 * 64 * 3, rel=1e-4
        )


@pytest.fixture
def rssm():
    return RSSM(jax.random.key(0), **SMALL)


def see(rssm, steps=6, batch=2, seed=1):
    keys = jax.random.split(jax.random.key(seed), 2)
    embeds = jax.random.normal(keys[0], (steps, batch, 12))
    actions = jax.nn.one_hot(jax.random.randint(keys[1], (steps, batch), 0, 6), 6)
    carry = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), rssm.initial())
    return carry, embeds, actions, jnp.zeros((steps, batch), bool)


def test_states_are_one_hot_and_carried(rssm):
    carry, embeds, actions, resets = see(rssm)
    last, states, beliefs = rssm.observe(carry, embeds, actions, resets, jax.random.key(2))
    assert states.vector.shape == (6, 2, rssm.state_size) == (6, 2, 22)
    assert beliefs.posterior.shape == beliefs.prior.shape == (6, 2, 3, 4)
    groups = np.asarray(states.stoch).reshape(6, 2, 3, 4)
    np.testing.assert_allclose(np.sort(groups, axis=-1), np.tile([0, 0, 0, 1], (6, 2, 3, 1)), atol=1e-6)
    for one, two in zip(last, states, strict=True):
        np.testing.assert_array_equal(one, two[-1])


def test_resets_forget_everything_before(rssm):
    carry, embeds, actions, resets = see(rssm)
    resets = resets.at[3, 0].set(True)
    run = lambda embeds: rssm.observe(carry, embeds, actions, resets, jax.random.key(2))[1].vector  # noqa: E731
    states, others = run(embeds), run(embeds.at[:3].add(1.0))
    np.testing.assert_array_equal(states[3:, 0], others[3:, 0])
    assert not np.array_equal(states[3:, 1], others[3:, 1])


def test_what_would_be_is_what_the_prior_guesses(rssm):
    carry, embeds, actions, resets = see(rssm)
    carry, states, beliefs = rssm.observe(carry, embeds, actions, resets, jax.random.key(2))
    before = Latent(*(leaf[-2] for leaf in states))
    imagined = rssm.imagine(before, actions[-1], jax.random.key(3))
    np.testing.assert_allclose(imagined.deter, states.deter[-1], atol=1e-6)
    many = jax.vmap(lambda key: rssm.imagine(before, actions[-1], key).stoch)(
        jax.random.split(jax.random.key(0), 4000)
    )
    chances = jax.nn.softmax(beliefs.prior[-1]).reshape(2, -1)
    np.testing.assert_allclose(many.mean(axis=0), chances, atol=0.03)


def test_divergence_is_balanced():
    logits = jax.random.normal(jax.random.key(0), (2, 5, 3, 4))
    beliefs = Beliefs(*logits)
    one, two = jax.nn.softmax(logits[0]), jax.nn.softmax(logits[1])
    wanted = (one * jnp.log(one / two)).sum(axis=(-2, -1))
    np.testing.assert_allclose(divergence(beliefs), wanted, rtol=1e-4)
    half = jax.grad(lambda beliefs: divergence(beliefs, 0.5).sum())(beliefs)
    most = jax.grad(lambda beliefs: divergence(beliefs, 0.8).sum())(beliefs)
    np.testing.assert_allclose(most.prior, 1.6 * half.prior, rtol=1e-4)
    np.testing.assert_allclose(most.posterior, 0.4 * half.posterior, rtol=1e-4)


def test_the_state_learns_through_its_samples(rssm):
    carry, embeds, actions, resets = see(rssm)

    def loss(rssm):
        _, states, beliefs = rssm.observe(carry, embeds, actions, resets, jax.random.key(2))
        return (states.vector**2 * jnp.arange(22)).sum() + divergence(beliefs).sum()

    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter_grad(loss)(rssm)):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 0, path


@pytest.mark.slow
def test_half_the_precision_is_nearly_as_good():
    """Samples may differ where two numbers are near each other: without any there is nothing to draw."""
    options = SMALL | {"groups": 3, "classes": 1}
    states, slopes = [], []
    for dtype in (jnp.float32, jnp.bfloat16):
        rssm = RSSM(jax.random.key(0), **options, dtype=dtype)
        carry, embeds, actions, resets = see(rssm)

        def run(rssm, carry=carry, embeds=embeds, actions=actions, resets=resets):
            deter = rssm.observe(carry, embeds, actions, resets, jax.random.key(2))[1].deter
            return (deter * jnp.arange(10)).sum(), deter

        (_, deter), slope = eqx.filter_value_and_grad(run, has_aux=True)(rssm)
        states.append(deter)
        slopes.append(slope.gates.weight)
    assert states[1].dtype == slopes[1].dtype == jnp.float32
    for one, two in (states, slopes):
        assert jnp.linalg.norm(one - two) < 0.05 * jnp.linalg.norm(one)
