"""The three Dreamers: an update of all parts, acting, and runs that are stopped and resumed."""

import dataclasses
import functools
import json
import subprocess
import sys
import time

import equinox as eqx
import imageio.v2 as imageio
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from safetensors.numpy import load_file

from memory_maze.agents.dreamer import agent as dreamer
from memory_maze.agents.dreamer.config import Config, ProbeConfig, TBTTConfig
from memory_maze.agents.protocol import Window
from memory_maze.cli import main
from memory_maze.models.rssm import RSSM
from memory_maze.policies.protocol import Sight
from memory_maze.probing.agent import load_agent
from memory_maze.results.metrics import read_metrics
from memory_maze.training.actor import repeat
from memory_maze.training.run import Run, check_resumed, find_devices

pytestmark = pytest.mark.usefixtures("plain_pictures")  # which compile sooner

STEPS, ROWS, OBJECTS = 6, 2, 3
DEBUG = ProbeConfig.presets["debug"]
CHANGES = {"probe_head": "fixed", "weight_decay": 0.0, "target_interval": 2, "max_grad_norm": 1e9}
FIXED = dataclasses.replace(DEBUG, **CHANGES)


def make_window(seed=0, side=8):
    keys = iter(jax.random.split(jax.random.key(seed), 6))
    shape = STEPS, ROWS
    return Window(
        image=jax.random.randint(next(keys), (*shape, side, side, 3), 0, 256).astype(jnp.uint8),
        action=jax.random.randint(next(keys), shape, 0, 6),
        reward=jax.random.bernoulli(next(keys), 0.3, shape).astype(jnp.float32),
        first=jnp.zeros(shape, bool).at[3, 0].set(True),
        reset=jnp.zeros(shape, bool).at[3, 0].set(True),
        others={
            "targets_vec": jax.random.normal(next(keys), (*shape, OBJECTS, 2)),
            "target_vec": jax.random.normal(next(keys), (*shape, 2)),
        },
    )


@functools.cache
def begin(config=DEBUG):
    network = dreamer.init(jax.random.key(0), config)
    return network, dreamer.begin(network, config)


@functools.cache
def updater(config):
    return eqx.filter_jit(functools.partial(dreamer.update, config=config))


def update(network, learner, config=DEBUG, window=None, seed=1):
    carry = repeat(network.initial(), ROWS)
    return updater(config)(network, learner, carry, window or make_window(), jax.random.key(seed))


def same(one, two):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


def test_actor_and_critic_change_nothing_in_the_world_model():
    network, learner = begin()
    other = eqx.tree_at(
        lambda n: (n.actor, n.critic), network, replace_fn=lambda net: jax.tree.map(lambda x: x + 0.1, net)
    )
    one, two = update(network, learner)[0], update(other, learner)[0]
    assert same(one.model, two.model)
    assert same(one.probes, two.probes)
    assert not same(one.actor, two.actor)
    assert not same(one.model, network.model)


def test_probes_teach_the_world_model_and_nothing_else():
    network, learner = begin(FIXED)
    probed, _, _, metrics = update(network, learner, FIXED)
    assert {"loss_targets_vec", "loss_target_vec"} <= metrics.keys()
    shared = {name: getattr(FIXED, name) for name in CHANGES if name != "probe_head"}
    config = dataclasses.replace(TBTTConfig.presets["debug"], **shared)
    plain = eqx.tree_at(lambda n: n.probes, network, {})
    unprobed, _, _, metrics = update(plain, dreamer.begin(plain, config), config)
    assert "loss_targets_vec" not in metrics
    assert not same(probed.model.encoder, unprobed.model.encoder)
    assert not same(probed.model.rssm, unprobed.model.rssm)
    for part in (lambda n: n.model.decoder, lambda n: n.model.reward, lambda n: n.actor, lambda n: n.critic):
        assert same(part(probed), part(unprobed))


def test_the_loss_of_probes_by_hand():
    network, _ = begin()
    features = jnp.zeros((1, 1, network.model.rssm.state_size))
    nothing = jax.tree.map(jnp.zeros_like, network.probes)
    truth = {"targets_vec": jnp.array([[[[3.0, 4], [0, 1], [1, 0]]]]), "target_vec": jnp.array([[[3.0, 4]]])}
    losses = dreamer.find_probe_losses(nothing, features, truth)
    assert {name: float(loss) for name, loss in losses.items()} == {
        "loss_targets_vec": 13.5,
        "loss_target_vec": 12.5,
    }


def test_the_heads_of_probes_are_trained_unless_they_are_fixed():
    network, learner = begin()
    assert not same(update(network, learner)[0].probes, network.probes)
    after = update(*begin(FIXED), FIXED)[0]
    assert same(after.probes, network.probes)
    assert not same(after.model.rssm, network.model.rssm)


def test_gradients_are_clipped_for_each_part_alone_and_all_weights_decay():
    model, _actor, _critic = dreamer.make_optimizers(Config(learning_rate=3e-4))
    weights, gradient = jnp.array([1.0]), jnp.array([400.0])
    changes, _ = model.update(gradient, model.init(weights), weights)
    assert float((weights + changes)[0]) == pytest.approx(0.999697, abs=1e-6)
    # Were they clipped together, a large gradient of the actor would change the steps of the others.
    network, learner = begin()
    steep = eqx.tree_at(lambda n: n.actor.out.weight, network, network.actor.out.weight + 5)
    one, two = update(network, learner)[0], update(steep, learner)[0]
    assert same(one.model, two.model)
    still = optax.tree.zeros_like(eqx.filter(network.model, eqx.is_array))
    changes, _ = model.update(still, model.init(still), network.model)
    for weight, change in zip(jax.tree.leaves(network.model), jax.tree.leaves(changes), strict=True):
        np.testing.assert_allclose(change, -3e-4 * 1e-2 * weight, rtol=1e-5, atol=1e-12)
    assert float(network.model.rssm.enter_norm.scale[0]) == 1, "norms and biases are among them"


def test_the_target_critic_is_the_critic_of_some_updates_ago():
    network, learner = begin(FIXED)
    critics = []
    for _ in range(5):
        critics.append(network.critic)
        network, learner, _, _ = update(network, learner, FIXED)
        assert same(learner.target, critics[(len(critics) - 1) // 2 * 2])
    assert not same(critics[0], critics[2])
    assert int(learner.updates) == 5


def test_a_memory_is_handed_on_without_its_gradient():
    network, learner = begin()
    after = update(network, learner)[2]
    assert after.deter.shape == (ROWS, DEBUG.deter)
    carry = jax.tree.map(lambda leaf: leaf + 0.5, repeat(network.initial(), ROWS))
    other = updater(DEBUG)(network, learner, carry, make_window(), jax.random.key(1))
    assert not same(other[2].deter[1], after.deter[1])
    np.testing.assert_array_equal(other[2].deter[0], after.deter[0])  # reset within the window


def test_acting_is_what_training_sees(monkeypatch):
    """The states of an episode, step by step and at once, with the same noise; images are pooled alike."""
    # So sure of what it sees that other pixels would be another state.
    sure = jax.tree.map(lambda leaf: 300 * leaf, begin()[0].model.rssm.posterior)
    network = eqx.tree_at(lambda n: n.model.rssm.posterior, begin()[0], sure)
    window = make_window(side=64)
    keys = jax.random.split(jax.random.key(5), (STEPS, ROWS))
    noise = jax.vmap(network.model.rssm.ready().sample_noise)(keys)
    monkeypatch.setattr(RSSM, "sample_noise", lambda self, key, shape: noise)
    carry = memory = repeat(network.initial(), ROWS)
    pooled = window._replace(image=dreamer.pool(window.image, DEBUG.downsample), reset=window.first)
    _, states = network.model.observe(carry, dreamer.to_records(pooled), jax.random.key(0))
    acting = network.ready()
    for step in range(STEPS):
        sight = Sight(*(leaf[step] for leaf in (window.image, window.reward, window.action, window.first)))
        memory, logits = acting.step(memory, sight, keys[step])
        np.testing.assert_allclose(memory.deter, states.deter[step], atol=1e-5)
        np.testing.assert_array_equal(memory.stoch, states.stoch[step])
        np.testing.assert_allclose(logits, network.actor(states.vector[step]), atol=1e-5)
    # And in one environment alone, as in an evaluation.
    sight = jax.tree.map(lambda leaf: leaf[0], sight)
    alone, _ = network.step(jax.tree.map(lambda leaf: leaf[0], memory), sight, keys[0, 0])
    assert alone.deter.shape == (DEBUG.deter,)


def test_the_agents_differ_in_what_the_paper_says_alone():
    for name in ("paper", "fast"):
        one, two, three = (
            dataclasses.asdict(kind.presets[name]) for kind in (Config, TBTTConfig, ProbeConfig)
        )
        assert one == two
        assert {key: three[key] for key in one} == one
    assert [kind.carries for kind in (Config, TBTTConfig, ProbeConfig)] == [False, True, True]
    assert ProbeConfig.told
    assert not TBTTConfig.told


# Runs


def words(out, *more, agent="dreamer-tbtt-probe", steps=1600):
    where = ["--task", "7x7", "--seconds", "15", "--layouts", "64", "--log-every", "0"]
    return ["train", agent, "--preset", "debug", *where, "--steps", str(steps), "--out", str(out), *more]


def read_checkpoint(folder):
    with ocp.CheckpointManager((folder / "checkpoints").resolve()) as manager:
        return manager.latest_step(), manager.restore(manager.latest_step(), args=ocp.args.StandardRestore())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that was never stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    main(words(out, "--evaluate", "5", "--strips"))
    return out


def check_same_runs(one, two):
    """Weights, optimizers, replay, streams and memories, and all metrics but times."""
    (step, first), (other, second) = read_checkpoint(one), read_checkpoint(two)
    assert step == other == 1600 // DEBUG.steps_per_iteration
    assert first.keys() == second.keys()
    assert {"replay.records.reward", "streams.episode", "carries.deter", "learner.updates"} <= first.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    untimed = [
        [{key: value for key, value in line.items() if "second" not in key} for line in read_metrics(folder)]
        for folder in (one, two)
    ]
    assert untimed[0] == untimed[1]


@pytest.mark.pythons
def test_a_run_that_was_stopped_goes_on_as_if_it_never_had(trained, tmp_path):
    main(words(tmp_path / "parts", "--evaluate", "0", steps=1000))
    main(words(tmp_path / "parts", "--evaluate", "0"))
    check_same_runs(trained, tmp_path / "parts")


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_as_if_it_never_had(tmp_path):
    """Killed at any moment: what it made since the last checkpoint is made again."""
    command = [sys.executable, "-m", "memory_maze"]
    options = "--evaluate", "0", "--save-every", "0"
    subprocess.run([*command, *words(tmp_path / "whole", *options)], check=True)
    out = tmp_path / "parts"
    with subprocess.Popen([*command, *words(out, *options)]) as process:
        while process.poll() is None and len(list(out.glob("checkpoints/[0-9]*/checksums.json"))) < 2:
            time.sleep(0.02)
        process.kill()
    assert 40 <= read_metrics(out)[-1]["steps"] < 1600
    subprocess.run([*command, *words(out, *options)], check=True)
    check_same_runs(tmp_path / "whole", out)


def test_updates_keep_their_ratio_to_steps(trained):
    _, saved = read_checkpoint(trained)
    lines = read_metrics(trained)
    assert [line["steps"] for line in lines] == list(range(40, 1601, 40))
    updates = sum(line["updates"] for line in lines)
    assert int(saved["updates"]) == int(saved["learner.updates"]) == updates
    learning = [line for line in lines if line["updates"]]
    assert all(line["updates"] == DEBUG.updates_per_iteration for line in learning)
    assert lines[-len(learning) :] == learning
    assert 0 < len(learning) < len(lines), "at first there is nothing to learn from"
    assert all(line["loss_total"] is None for line in lines if not line["updates"])


def test_a_run_is_evaluated_collected_from_reported_and_probed(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["evaluate", str(trained), "--episodes", "2", "--engine", "mujoco"])
    main(["collect", "--policy", str(trained), "--out", "data", "--episodes", "10", "--evaluation", "4"])
    capsys.readouterr()
    main(["report", "online", str(trained)])
    assert capsys.readouterr().out.count("†") == 4, "the paper's row, ours on each engine, and the note"
    how = ["--preset", "debug", "--steps", "3", "--out", "probed"]
    main(["probe", str(trained), "--task", "7x7", "--data", "data", *how])
    result = json.loads((tmp_path / "probed/result.json").read_text())
    assert (result["title"], result["frozen"]) == ("Dreamer (TBTT + Probe loss), agent whole", True)
    assert result["state_size"] == DEBUG.deter + DEBUG.groups * DEBUG.classes
    assert result["evaluation"].keys() == {"walls", "objects"}
    frozen, network = load_weights_of(tmp_path / "probed"), load_weights_of(trained)
    for name in network:
        if name.startswith("model."):
            np.testing.assert_array_equal(frozen[f"model.{name}"], network[name], err_msg=name)


def load_weights_of(folder):
    return load_file(folder / "agent.safetensors")


def test_what_has_no_world_model_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="impala-9x9 has no world model to probe: its agent is impala"):
        load_agent("impala-9x9")
    with pytest.raises(SystemExit):
        main(["train", "impala", "--preset", "debug", "--strips", "--out", "out"])
    assert "IMPALA has no world model, whose images strips would show" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_strips_show_what_is_imagined_above_what_was_seen(trained, tmp_path, capsys):
    (path,) = (trained / "open-loop").iterdir()
    assert path.name == "000000001600.png"
    image = imageio.imread(path)
    assert image.shape[2] == 3
    assert image.std() > 10
    with pytest.raises(SystemExit):
        main([*words(tmp_path / "out"), "--strips", "--seconds", "10"])
    assert "strips are of 50 images, and an episode has 41" in capsys.readouterr().err


def test_a_replay_is_resumed_on_as_many_devices(trained):
    """On CPUs the command does so by itself, however many cores there are now."""
    settings = Run("7x7", DEBUG, layouts=64)
    assert find_devices(trained) == 1
    with pytest.raises(ValueError, match="replay is spread over 1 devices: resume it on as many, not on 2"):
        check_resumed(settings, trained, 2)
