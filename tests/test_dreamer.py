"""Dreamer's parts: numbers worked out by hand, float64 in NumPy, and what may not reach what."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow_models import apply_mlp, elu, follow, log_softmax

from memory_maze.agents.dreamer.behaviour import (
    Dream,
    Returns,
    choose_target,
    find_losses,
    find_returns,
    imagine,
)
from memory_maze.agents.returns import lambda_returns, vtrace
from memory_maze.models.nets import MLP
from memory_maze.models.rssm import Latent
from memory_maze.models.world_model import Records, Sizes, WorldModel

TINY = Sizes(deter=10, hidden=9, groups=3, classes=4, depth=2, shrink=8, head_layers=2, head_units=8)
SIZE = 10 + 3 * 4
STEPS, STREAMS = 6, 4


@pytest.fixture(scope="module")
def model():
    return WorldModel(jax.random.key(0), 6, TINY)


@pytest.fixture(scope="module")
def records():
    keys = jax.random.split(jax.random.key(1), 3)
    actions = jax.random.randint(keys[1], (STEPS, STREAMS), 0, 6)
    return Records(
        image=jax.random.randint(keys[0], (STEPS, STREAMS, 64, 64, 3), 0, 256).astype(jnp.uint8),
        action=jax.nn.one_hot(actions, 6),
        reward=jax.random.bernoulli(keys[2], 0.3, (STEPS, STREAMS)).astype(jnp.float32),
        terminal=jnp.zeros((STEPS, STREAMS)),
        reset=jnp.zeros((STEPS, STREAMS), bool).at[3, 1].set(True),
    )


def start(model, count=STREAMS):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), model.initial())


def make_mlp(outputs, seed=0):
    return MLP(jax.random.key(seed), SIZE, 8, 2, outputs, 1e-3, init="pytorch")


# Returns


@pytest.mark.parametrize(
    ("discounts", "returns"), [((0.5, 0.5, 0.5), (1.9375, 1.75, 4.0)), ((0.5, 0.0, 0.5), (1.5, 0.0, 4.0))]
)
def test_lambda_returns_by_hand(discounts, returns):
    values, rewards = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, 0.0, 2.0])
    found = lambda_returns(values, rewards, jnp.array(discounts), 0.5)
    np.testing.assert_allclose(found, returns, atol=1e-6)


def test_lambda_returns_are_what_vtrace_has_on_policy():
    keys = jax.random.split(jax.random.key(0), 3)
    values, rewards = jax.random.normal(keys[0], (21, 5)), jax.random.normal(keys[1], (20, 5))
    discounts = jax.random.uniform(keys[2], (20, 5))
    same = vtrace(values, rewards, discounts, jnp.ones((20, 5)), decay=0.9).targets
    np.testing.assert_allclose(lambda_returns(values, rewards, discounts, 0.9), same, atol=1e-5)
    one = rewards + discounts * values[1:]
    np.testing.assert_allclose(lambda_returns(values, rewards, discounts, 0.0), one, atol=1e-6)


class Known(eqx.Module):
    """A head that reads the number of an imagined step from its features."""

    table: jax.Array

    def __call__(self, features):
        return self.table[features[..., 0].astype(int)][..., None]


def make_dream(horizon, starts=1):
    numbers = jnp.broadcast_to(jnp.arange(horizon + 1.0)[:, None, None], (horizon + 1, starts, 1))
    return Dream(numbers, jnp.zeros((horizon, starts), jnp.int32))


def set_heads(model, rewards, logits):
    heads = Known(jnp.array(rewards)), Known(jnp.array(logits))
    return eqx.tree_at(lambda m: (m.reward, m.terminal), model, heads)


def test_an_action_is_rewarded_by_the_state_that_it_leads_to(model):
    never = [-1e9] * 4
    target = Known(jnp.zeros(4))
    found = find_returns(set_heads(model, [0.0, 1, 2, 3], never), target, make_dream(3), 1.0, 0.0)
    np.testing.assert_allclose(found.returns[:, 0], [1, 2, 3])
    other = find_returns(set_heads(model, [7.0, 1, 2, 3], never), target, make_dream(3), 1.0, 0.0)
    np.testing.assert_array_equal(found.returns, other.returns)


def test_nothing_counts_after_an_end(model):
    target = Known(jnp.array([1.0, 2, 3, 4]))
    ends = set_heads(model, [0.0, 1, 0, 2], [-1e9, -1e9, 1e9, -1e9])
    found = find_returns(ends, target, make_dream(3), 0.5, 0.5)
    np.testing.assert_allclose(found.returns[:, 0], [1.5, 0, 4], atol=1e-6)
    np.testing.assert_allclose(found.advantages[:, 0], [0.5, -2, 1], atol=1e-6)
    np.testing.assert_allclose(found.weights[:, 0], [1, 1, 0], atol=1e-6)


# Losses


def test_losses_of_the_world_model_by_hand(model, records):
    nothing = jax.tree.map(jnp.zeros_like, (model.decoder, model.terminal))
    known = MLP(jax.random.key(0), SIZE, 8, 2, 1, 1e-3, zero=True)
    known = eqx.tree_at(lambda net: net.out.bias, known, jnp.array([0.2]))
    tested = eqx.tree_at(lambda m: (m.decoder, m.terminal, m.reward), model, (*nothing, known))
    white = records._replace(image=jnp.full_like(records.image, 255), reward=jnp.ones((STEPS, STREAMS)))
    loss, learned = tested.loss(start(model), white, jax.random.key(0))
    metrics = {name: float(value) for name, value in learned.metrics.items()}
    assert metrics["loss_image"] == pytest.approx(1536)
    assert metrics["loss_reward"] == pytest.approx(0.32)
    assert metrics["loss_terminal"] == pytest.approx(0.693147, abs=1e-6)
    assert metrics["predicted_reward"] == pytest.approx(0.2)
    assert float(loss) == pytest.approx(
        sum(metrics[f"loss_{n}"] for n in ("image", "reward", "terminal", "kl"))
    )


def test_the_loss_is_a_mean(model, records):
    """Twice the same streams have the same loss; their samples alone differ, which zero weights take away."""
    blind = eqx.tree_at(lambda m: m.rssm, model, replace_fn=lambda part: jax.tree.map(jnp.zeros_like, part))
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf], axis=1), records)
    fixed = eqx.tree_at(
        lambda m: (m.decoder, m.reward, m.terminal),
        blind,
        replace_fn=lambda part: jax.tree.map(jnp.zeros_like, part),
    )
    one, _ = fixed.loss(start(model), records, jax.random.key(0))
    two, _ = fixed.loss(start(model, 2 * STREAMS), twice, jax.random.key(0))
    assert float(one) == pytest.approx(float(two), rel=1e-6)


def test_the_gradient_of_the_actor_by_hand():
    """Probabilities of 3/4 and 1/4, action 0, advantage 2, entropy cost 0.1."""
    dream = Dream(jnp.zeros((2, 1, 1)), jnp.zeros((1, 1), jnp.int32))

    def gradient(advantage):
        zeros = jnp.zeros((1, 1))
        found = Returns(zeros, jnp.full((1, 1), advantage), jnp.ones((1, 1)), zeros, zeros)
        critic = Known(jnp.zeros(1))

        def loss(logits):
            return find_losses(lambda x: jnp.broadcast_to(logits, (1, 1, 2)), critic, dream, found, 0.1).actor

        return jax.grad(loss)(jnp.log(jnp.array([0.75, 0.25])))

    np.testing.assert_allclose(gradient(2.0), [-0.479401, 0.479401], atol=1e-5)
    np.testing.assert_allclose(gradient(0.0), [0.020599, -0.020599], atol=1e-5)


def test_losses_of_the_world_model_are_those_of_numpy(model, records):
    """Of all records, in float64, by formulas of their own."""
    key, carry = jax.random.key(7), start(model)
    records = records._replace(terminal=jnp.zeros((STEPS, STREAMS)).at[2, 0].set(1))
    loss, learned = model.loss(carry, records, key)
    pixels = np.asarray(records.image, np.float64).reshape(STEPS, STREAMS, 8, 8, 8, 8, 3).mean((3, 5))
    pixels = pixels.reshape(STEPS, STREAMS, -1) / 255 - 0.5
    embeds = elu(apply_mlp(model.encoder.net, pixels))
    deter, stoch, posterior, prior = follow(model.rssm, carry, embeds, records.action, records.reset, key)
    features = np.concatenate([deter, stoch], axis=-1)
    np.testing.assert_allclose(learned.states.vector, features, atol=1e-5)
    image = 0.5 * 64 * ((apply_mlp(model.decoder.net, features) - pixels) ** 2).sum(-1)
    reward = 0.5 * (apply_mlp(model.reward, features)[..., 0] - np.asarray(records.reward)) ** 2
    ends, terminal = apply_mlp(model.terminal, features)[..., 0], np.asarray(records.terminal)
    ended = -(terminal * np.log(1 / (1 + np.exp(-ends))) + (1 - terminal) * np.log(1 / (1 + np.exp(ends))))
    log_posterior, log_prior = log_softmax(posterior), log_softmax(prior)
    kl = (np.exp(log_posterior) * (log_posterior - log_prior)).sum((-1, -2))
    for name, values in (("image", image), ("reward", reward), ("terminal", ended), ("kl", kl)):
        assert float(learned.metrics[f"loss_{name}"]) == pytest.approx(values.mean(), rel=1e-5), name
    assert float(loss) == pytest.approx((image + reward + ended + kl).mean(), rel=1e-5)


def test_losses_of_the_behaviour_are_those_of_numpy(model, nets):
    actor, critic, target = nets
    dream = imagine(model, actor, start(model), 5, jax.random.key(4))
    found = find_returns(model, target, dream, 0.9, 0.8)
    losses = find_losses(actor, critic, dream, found, 0.01)
    features, actions = np.asarray(dream.features, np.float64), np.asarray(dream.actions)
    rewards = apply_mlp(model.reward, features)[..., 0]
    ends = 1 / (1 + np.exp(-apply_mlp(model.terminal, features)[..., 0]))
    values = apply_mlp(target, features)[..., 0]
    returns, later = np.zeros((5, STREAMS)), values[5]
    for step in reversed(range(5)):
        goes_on = 0.9 * (1 - ends[step + 1])
        later = returns[step] = rewards[step + 1] + goes_on * (0.2 * values[step + 1] + 0.8 * later)
    weights = np.cumprod(1 - ends, axis=0)[:5]
    logs = log_softmax(apply_mlp(actor, features[:5]))
    taken = np.take_along_axis(logs, actions[..., None], axis=-1)[..., 0]
    entropy = -(np.exp(logs) * logs).sum(-1)
    policy = -taken * (returns - values[:5]) - 0.01 * entropy
    wrong = 0.5 * (apply_mlp(critic, features[:5])[..., 0] - returns) ** 2
    np.testing.assert_allclose(found.returns, returns, atol=1e-5)
    np.testing.assert_allclose(found.weights, weights, atol=1e-5)
    assert float(losses.actor) == pytest.approx((weights * policy).mean(), rel=1e-5)
    assert float(losses.critic) == pytest.approx((weights * wrong).mean(), rel=1e-5)
    assert float(losses.entropy) == pytest.approx(entropy.mean(), rel=1e-5)


# What reaches what


@pytest.fixture(scope="module")
def nets():
    return make_mlp(6, 1), make_mlp(1, 2), make_mlp(1, 3)


def behave(model, nets, starts):
    actor, critic, target = nets
    dream = imagine(model, actor, starts, 5, jax.random.key(4))
    losses = find_losses(actor, critic, dream, find_returns(model, target, dream))
    return losses.actor, losses.critic


def find_gradient(model, nets, which):
    starts = start(model)
    return eqx.filter_grad(lambda parts: behave(*parts, starts)[which])((model, nets))


def is_zero(tree):
    return not any(leaf.any() for leaf in jax.tree.leaves(tree))


def test_gradients_stay_where_they_belong(model, nets):
    for which, own in ((0, 0), (1, 1)):
        of_model, of_nets = find_gradient(model, nets, which)
        assert is_zero(of_model)
        assert [is_zero(gradient) for gradient in of_nets] == [index != own for index in range(3)]


def test_dreams_begin_with_every_state_in_order(model, nets):
    states = Latent(jax.random.normal(jax.random.key(0), (7, 10)), jnp.ones((7, 12)))
    dream = imagine(model, nets[0], states, 5, jax.random.key(4))
    assert (dream.features.shape, dream.actions.shape) == ((6, 7, SIZE), (5, 7))
    np.testing.assert_array_equal(dream.features[0], states.vector)
    other = eqx.tree_at(lambda m: m.rssm.prior.bias, model, replace_fn=lambda bias: bias + jnp.arange(12.0))
    changed = imagine(other, nets[0], states, 5, jax.random.key(4))
    np.testing.assert_array_equal(changed.features[0], dream.features[0])
    assert (changed.features[1] != dream.features[1]).any()


def test_what_is_seen_is_not_known_in_a_dream(model, nets):
    blind = eqx.tree_at(
        lambda m: (m.encoder, m.rssm.see, m.rssm.posterior),
        model,
        replace_fn=lambda part: jax.tree.map(jnp.zeros_like, part),
    )
    dreams = [imagine(one, nets[0], start(model), 5, jax.random.key(4)) for one in (model, blind)]
    np.testing.assert_array_equal(dreams[0].features, dreams[1].features)


def test_the_target_is_copied_every_hundred_updates(nets):
    _, critic, target = nets
    for update, same in ((0, critic), (1, target), (99, target), (100, critic), (101, target), (200, critic)):
        chosen = choose_target(critic, target, jnp.int32(update))
        assert eqx.tree_equal(chosen, same), update


def test_the_world_model_learns_four_sequences_by_heart(records):
    """Its images, rewards and ends; by steps of Adam that a laptop makes in seconds."""
    import optax

    sizes = Sizes(deter=64, hidden=48, groups=8, classes=8, depth=4, shrink=8, head_layers=2, head_units=32)
    model, optimizer = WorldModel(jax.random.key(0), 6, sizes), optax.adam(3e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, key):
        def loss(model):
            total, learned = model.loss(start(model), records, key)
            return total, learned.metrics

        gradients, metrics = eqx.filter_grad(loss, has_aux=True)(model)
        changes, state = optimizer.update(gradients, state)
        return eqx.apply_updates(model, changes), state, metrics

    history = []
    for index in range(400):
        model, state, metrics = step(model, state, jax.random.key(index))
        history.append(metrics)
    first, last = history[0], history[-1]
    assert last["loss_reward"] < first["loss_reward"] / 10
    assert last["loss_image"] < first["loss_image"] / 10
    assert last["predicted_reward"] > 0.7


def test_sizes_are_those_of_the_program():
    shapes = eqx.filter_eval_shape(WorldModel, jax.random.key(0), 6, Sizes())

    def count(part):
        return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(part) if hasattr(leaf, "shape"))

    found = [
        count(part) for part in (shapes.encoder, shapes.rssm, shapes.decoder, shapes.reward, shapes.terminal)
    ]
    assert found == [1_551_312, 27_460_248, 12_725_139, 1_714_001, 1_714_001]
    actor = eqx.filter_eval_shape(MLP, jax.random.key(0), 3072, 400, 4, 6, 1e-3, init="pytorch")
    assert count(actor) == 1_716_006
    small = MLP(jax.random.key(0), 3072, 400, 1, 6, 1e-3, init="pytorch")
    for layer, bound in ((small.hidden[0], 3072**-0.5), (small.out, 0.05)):
        assert 0.5 * bound < float(jnp.abs(layer.bias).max()) <= bound
        assert 0.99 * bound < float(jnp.abs(layer.weight).max()) <= bound


WINDOW, ROWS, ASKED_EVERY, LENGTH = 24, 16, 16, 168


def ask_for_a_cue(carried, updates):
    """The reward losses of questions late in episodes, update by update.

    A cue is seen at the first step; every 16 steps a green image asks for it, and it is paid as the reward.
    No window is as long as an episode, so that only a carried state can know it after the first ones.
    """
    import optax

    sizes = Sizes(
        deter=32, hidden=32, groups=4, classes=4, shrink=8, vision_units=16, head_layers=1, head_units=32
    )
    model, optimizer = WorldModel(jax.random.key(0), 6, sizes), optax.adam(3e-3)
    state, rng, losses = optimizer.init(eqx.filter(model, eqx.is_array)), np.random.default_rng(0), []
    empty = carry = start(model, ROWS)
    cues = np.zeros(ROWS, int)

    @eqx.filter_jit
    def step(model, state, carry, records, key):
        def loss(model):
            scales = {"image": 0.01, "reward": 100.0, "kl": 0.01}
            total, learned = model.loss(carry, records, key, scales=scales)
            wrong = 0.5 * jnp.square(model.reward(learned.states.vector)[..., 0] - records.reward)
            return total, (learned.carry, wrong)

        gradients, (carried_on, wrong) = eqx.filter_grad(loss, has_aux=True)(model)
        changes, state = optimizer.update(gradients, state)
        return eqx.apply_updates(model, changes), state, carried_on, wrong

    for update in range(updates):
        times = update * WINDOW % LENGTH + np.arange(WINDOW)
        cues = rng.integers(0, 2, ROWS) if times[0] == 0 else cues
        asked = (times % ASKED_EVERY == 0) & (times > 0)
        images = np.full((WINDOW, ROWS, 8, 8, 3), 128, np.uint8)
        images[times == 0] = 255 * cues[:, None, None, None]
        images[asked] = 0, 255, 0
        records = Records(
            image=jnp.asarray(images),
            action=jnp.zeros((WINDOW, ROWS, 6)).at[..., 0].set(1),
            reward=jnp.asarray(asked[:, None] * cues, jnp.float32),
            terminal=jnp.zeros((WINDOW, ROWS)),
            reset=jnp.asarray(np.broadcast_to((times == 0)[:, None], (WINDOW, ROWS))),
        )
        memory = carry if carried else empty
        model, state, carry, wrong = step(model, state, memory, records, jax.random.key(update))
        if (late := asked & (times > 96)).any():
            losses.append(float(np.asarray(wrong)[late].mean()))
    return losses


@pytest.mark.slow
def test_carried_memory_reaches_over_the_borders_of_windows():
    chance = 0.125  # of answering one half
    assert np.mean(ask_for_a_cue(carried=True, updates=1600)[-50:]) < 0.03
    assert 0.9 * chance < np.mean(ask_for_a_cue(carried=False, updates=1600)[-50:]) < 1.2 * chance
