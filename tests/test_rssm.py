"""The RSSM in the forms that agents have: a plain GRU and norms, against the same in NumPy and float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow_models import Slow, follow

from memory_maze.models.rssm import RSSM, Latent, sample_one_hot

SIZES = {"embed": 12, "actions": 6, "deter": 10, "hidden": 9, "groups": 3, "classes": 4}
STEPS, BATCH = 5, 2


def make(**changes):
    model = RSSM(jax.random.key(0), **SIZES | {"cell": "plain", "norms": True} | changes)
    # Biases and norms that are not at their start, so that forgetting one is seen.
    leaves, tree = jax.tree.flatten(eqx.filter(model, eqx.is_array))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, moved), model)


def make_inputs(sizes=SIZES):
    keys = jax.random.split(jax.random.key(2), 4)
    embeds = jax.random.normal(keys[0], (STEPS, BATCH, sizes["embed"]))
    actions = jax.nn.one_hot(jax.random.randint(keys[1], (STEPS, BATCH), 0, 6), 6)
    resets = jnp.zeros((STEPS, BATCH), bool).at[2, 1].set(True)
    carry = Latent(
        jax.random.normal(keys[2], (BATCH, sizes["deter"])),
        jnp.ones((BATCH, sizes["groups"] * sizes["classes"])),
    )
    return carry, embeds, actions, resets


def test_the_plain_cell_by_hand():
    """One unit, all matrices 0: half of what was there, and half of the bias in the reset product."""
    model = RSSM(jax.random.key(0), 1, 1, deter=1, hidden=1, groups=1, classes=1, cell="plain", norms=True)
    model = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, model)
    model = eqx.tree_at(lambda m: m.gates.bias, model, jnp.array([0.0, 0.0, 0.2]))
    model = eqx.tree_at(lambda m: m.recur.bias, model, jnp.array([0.0, 0.0, 0.4]))
    state = model.imagine(Latent(jnp.array([0.5]), jnp.zeros(1)), jnp.zeros(1), jax.random.key(0))
    assert float(state.deter[0]) == pytest.approx(0.439974, abs=1e-6)


@pytest.mark.parametrize("hidden", [9, 64, 100])
def test_states_and_beliefs_are_those_of_numpy(hidden):
    """Layers of 9 and 100 units are padded to 64 and 128, over which no norm may go."""
    model = make(hidden=hidden)
    inputs, key = make_inputs(), jax.random.key(5)
    _, states, beliefs = eqx.filter_jit(model.observe)(*inputs, key)
    deter, stoch, posterior, prior = follow(model, *inputs, key)
    np.testing.assert_allclose(states.deter, deter, atol=1e-5)
    np.testing.assert_array_equal(states.stoch, stoch)
    np.testing.assert_allclose(beliefs.posterior, posterior, atol=2e-5)
    np.testing.assert_allclose(beliefs.prior, prior, atol=2e-5)


def test_steps_while_acting_are_those_of_a_sequence():
    model, key = make(hidden=100), jax.random.key(5)
    carry, embeds, actions, resets = make_inputs()
    last, states, _ = model.observe(carry, embeds, actions, resets, key)
    ready, noise = model.ready(), model.sample_noise(key, resets.shape)
    for t in range(STEPS):
        carry = ready.step(carry, embeds[t], actions[t], resets[t], noise[t])
        np.testing.assert_allclose(carry.deter, states.deter[t], atol=1e-6)
        np.testing.assert_array_equal(carry.stoch, states.stoch[t])
    np.testing.assert_array_equal(carry.stoch, last.stoch)


@pytest.mark.parametrize("cell", ["plain", "normed"])
def test_imagination_knows_the_prior_alone(cell):
    model, key = make(hidden=100, cell=cell), jax.random.key(5)
    carry, _, actions, _ = make_inputs()

    def imagine(model):
        return model.imagine(carry, actions[0], key)

    state = imagine(model)
    blind = eqx.tree_at(lambda m: (m.see.weight, m.posterior.weight), model, replace_fn=jnp.zeros_like)
    np.testing.assert_array_equal(imagine(blind).vector, state.vector)
    other = eqx.tree_at(lambda m: m.prior.bias, model, replace_fn=lambda bias: 9 * bias[::-1])
    np.testing.assert_array_equal(imagine(other).deter, state.deter)
    assert (imagine(other).stoch != state.stoch).any()
    if cell == "plain":
        slow = Slow(model)
        deter = slow.move(
            *(np.asarray(leaf, np.float64) for leaf in carry), np.asarray(actions[0], np.float64)
        )
        noise = np.asarray(model.sample_noise(key, (BATCH,)))
        np.testing.assert_allclose(state.deter, deter, atol=1e-5)
        np.testing.assert_array_equal(state.stoch, slow.sample(slow.prior(deter), noise))


def test_a_reset_forgets_the_state_and_keeps_the_action():
    model, key = make(), jax.random.key(5)
    carry, embeds, actions, resets = make_inputs()
    resets = resets.at[2].set(True)
    run = jax.jit(lambda *args: model.observe(*args, resets, key)[1].vector)
    states = run(carry, embeds, actions)
    before = run(carry, embeds.at[:2].set(9.0), actions.at[:2].set(0.0))
    np.testing.assert_array_equal(states[2:], before[2:])
    assert (run(carry, embeds, actions.at[2].set(0.0))[2] != states[2]).any()


def test_two_windows_with_their_carry_are_one(monkeypatch):
    model = make()
    carry, embeds, actions, resets = make_inputs()
    noise = model.sample_noise(jax.random.key(5), resets.shape)

    def observe(carry, part):
        monkeypatch.setattr(RSSM, "sample_noise", lambda *_: noise[part])
        return model.observe(carry, embeds[part], actions[part], resets[part], jax.random.key(0))

    _, whole, _ = observe(carry, slice(None))
    middle, first, _ = observe(carry, slice(0, 3))
    _, second, _ = observe(middle, slice(3, None))
    joined = np.concatenate([first.vector, second.vector])
    np.testing.assert_allclose(joined, whole.vector, atol=1e-6)


def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)))


def test_sizes_and_starts_are_those_of_the_program():
    shapes = eqx.filter_eval_shape(RSSM, jax.random.key(0), 1536, 6, cell="plain", norms=True)
    assert (
        sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(shapes) if hasattr(leaf, "shape")) == 27_460_248
    )
    model = RSSM(jax.random.key(0), 150, 6, deter=100, hidden=50, cell="plain", norms=True)

    def limit(inputs, outputs):
        return np.sqrt(6 / (inputs + outputs))

    for weight, bound in (
        (model.enter.weight[:1024], limit(1024, 50)),
        (model.enter.weight[1024:], limit(6, 50)),
        (model.see.weight[:100], limit(100, 50)),
        (model.see.weight[100:], limit(150, 50)),
        (model.gates.weight, limit(50, 300)),
    ):
        assert 0.95 * bound < np.abs(weight).max() <= bound
    product = model.recur.weight @ model.recur.weight.T
    np.testing.assert_allclose(product, np.eye(100), atol=1e-5)
    assert count(model.enter.bias) == 50
    assert not model.enter.bias.any()


def test_samples_pass_on_the_gradient_of_their_probabilities():
    logits = jnp.log(jnp.array([[0.75, 0.25]]))
    noise = jax.random.gumbel(jax.random.key(0), (10_000, 1, 2))

    def sample(logits, noise):
        return sample_one_hot(logits, noise)[0]

    drawn = jax.vmap(sample, (None, 0))(logits, noise)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert float(drawn.mean()) == pytest.approx(0.75, abs=0.02)
    for index in (int(jnp.argmax(drawn)), int(jnp.argmin(drawn))):  # whichever it is
        np.testing.assert_allclose(jax.grad(sample)(logits, noise[index])[0], [0.1875, -0.1875], atol=1e-6)
