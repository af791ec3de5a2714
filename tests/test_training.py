"""Agents are trained: what is learned from, that it learns, and that a run goes on as if never stopped."""

import dataclasses
import json
import random
import re
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from safetensors.numpy import load_file

from memory_maze import TASKS
from memory_maze.agents.impala import agent as impala
from memory_maze.agents.impala.agent import Network, loss
from memory_maze.agents.impala.config import PRESETS, Config
from memory_maze.agents.load import load_policy
from memory_maze.agents.network import load_network
from memory_maze.agents.protocol import Sequence
from memory_maze.agents.returns import vtrace
from memory_maze.cli import main
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.episodes.evaluate import evaluate
from memory_maze.models.cores.config import GRUConfig
from memory_maze.policies.protocol import Sight
from memory_maze.results.metrics import read_metrics
from memory_maze.system.overrides import override
from memory_maze.training import on_policy, run
from memory_maze.training.devices import make_mesh
from memory_maze.training.run import Run, train

# Those of the engine are learned from in test_result.py.
pytestmark = pytest.mark.usefixtures("plain_pictures")

DEBUG = PRESETS["debug"]
RUN = Run("9x9", DEBUG, steps=8 * 16, layouts=64, log_every=0)


def test_vtrace_on_policy_is_the_lambda_return():
    values = jnp.array([1.0, 2.0, 3.0, 4.0])
    rewards, discounts = jnp.array([0.5, 0.0, 1.0]), jnp.array([0.9, 0.9, 0.5])
    result = vtrace(values, rewards, discounts, jnp.ones(3), decay=0.8)
    last = 1.0 + 0.5 * 4
    second = 0.0 + 0.9 * (0.2 * 3 + 0.8 * last)
    first = 0.5 + 0.9 * (0.2 * 2 + 0.8 * second)
    np.testing.assert_allclose(result.targets, [first, second, last], rtol=1e-6)
    np.testing.assert_allclose(result.advantages, np.array([first, second, last]) - values[:-1], rtol=1e-6)


def test_vtrace_clips_ratios_and_ends_where_nothing_follows():
    values, rewards = jnp.array([1.0, 5.0, 2.0]), jnp.array([1.0, 3.0])
    result = vtrace(values, rewards, jnp.array([0.0, 0.9]), jnp.array([0.5, 7.0]))
    np.testing.assert_allclose(result.targets, [1 + 0.5 * (1 - 1), 5 + (3 + 0.9 * 2 - 5)], rtol=1e-6)
    np.testing.assert_allclose(result.advantages, [1 - 1, 3 + 0.9 * 2 - 5], rtol=1e-6)
    np.testing.assert_allclose(result.ratios, [0.5, 1], rtol=1e-6)


def make_sequence(network, config, key, count=6):
    """Something that might have happened."""
    image_key, action_key = jax.random.split(key)
    images = jax.random.randint(image_key, (count + 1, 64, 64, 3), 0, 256).astype(jnp.uint8)
    actions = jax.random.randint(action_key, (count,), 0, 6)
    first = jnp.zeros(count + 1, bool).at[4].set(True)
    sights = Sight(images, jnp.zeros(count + 1).at[2].set(1.0), jnp.append(0, actions), first)
    logits, _ = network.unroll(network.core.initial(), sights)
    return Sequence(network.core.initial(), sights, actions, logits[:-1], jnp.append(first[2:], False))


def test_nothing_is_learned_from_the_action_before_a_new_episode():
    network = Network(jax.random.key(0), DEBUG)
    sequence = make_sequence(network, DEBUG, jax.random.key(1))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda network, sequence: loss(network, sequence, DEBUG).total))
    before = gradient(network, sequence)
    other = sequence._replace(actions=sequence.actions.at[3].set((sequence.actions[3] + 1) % 6))
    # The network is told its last action, but not after a reset.
    other = other._replace(sights=other.sights._replace(action=jnp.append(0, other.actions)))
    other = other._replace(logits=other.logits.at[3].set(jnp.arange(6.0)))
    for one, two in zip(jax.tree.leaves(before), jax.tree.leaves(gradient(network, other)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-7)


def test_the_update_makes_rewarded_actions_likelier():
    network = Network(jax.random.key(0), DEBUG)
    config = dataclasses.replace(DEBUG, learning_rate=1e-2, entropy_cost=0.0)
    sequence = make_sequence(network, config, jax.random.key(1))
    batch = Sequence(
        jax.tree.map(lambda leaf: leaf[None], sequence.carry),
        *jax.tree.map(lambda leaf: leaf[:, None], tuple(sequence[1:])),
    )

    def likelihood(network):
        logits, _ = network.unroll(sequence.carry, sequence.sights)
        return float(jax.nn.log_softmax(logits)[1, sequence.actions[1]])

    before = likelihood(network)
    state = impala.make_optimizer(config).init(eqx.filter(network, eqx.is_array))
    update = eqx.filter_jit(impala.update)
    for _ in range(5):
        network, state, _ = update(network, state, batch, config)
    assert likelihood(network) > before + 0.05


def test_no_more_is_learned_from_actions_whose_chance_has_changed_enough():
    network = Network(jax.random.key(0), DEBUG)
    config = dataclasses.replace(DEBUG, clip_ratio=0.2, entropy_cost=0.0, value_cost=0.0)
    sequence = make_sequence(network, config, jax.random.key(1))
    sequence = sequence._replace(
        sights=sequence.sights._replace(reward=jnp.ones_like(sequence.sights.reward))
    )
    step = eqx.filter_jit(eqx.filter_grad(lambda network, sequence: loss(network, sequence, config).policy))
    taken = jax.nn.one_hot(sequence.actions, 6)
    size = {
        change: float(
            optax.tree.norm(step(network, sequence._replace(logits=sequence.logits - change * taken)))
        )
        for change in (0.0, 0.1, 1.0)  # by how much actions, which were all good, are likelier now
    }
    assert size[0.1] > 0.5 * size[0.0] > 0
    assert size[1.0] == 0


def test_values_that_are_right_stay_so_across_the_time_limit():
    """An episode of five steps ends, its last state is shown again, and the next one begins at 6."""
    first = jnp.zeros(11, bool).at[6].set(True)
    rewards = jnp.full(11, 0.01)

    def targets(time_limit, ignored_ratio):
        config = dataclasses.replace(DEBUG, discount=0.99, time_limit=time_limit)
        ratios = jnp.ones(10).at[5].set(ignored_ratio)
        truncated = jnp.append(first[2:], False)
        return find_targets(jnp.ones(11), rewards, ratios, first, truncated, config)

    for ratio in (0.1, 1.0, 30.0):
        result = targets("bootstrap", ratio)
        np.testing.assert_allclose(result.targets, 1, rtol=1e-6)
        np.testing.assert_allclose(result.advantages, 0, atol=1e-6)
        ended = targets("terminate", ratio)
        np.testing.assert_allclose(ended.targets[6:], 1, rtol=1e-6)
        np.testing.assert_allclose(ended.advantages[4], 0.01 - 1, rtol=1e-6)


@settings(max_examples=200)
@given(integers(0, 2**32 - 1))
def test_targets_are_those_of_episodes_cut_apart(seed):
    """Against V-trace as its paper sums it, in float64, of each episode alone."""
    rng, length = np.random.default_rng(seed), 24
    first = rng.random(length + 1) < 0.25
    first[1:] &= ~first[:-1]  # an episode has at least one step
    first[0] = False
    values, rewards = rng.normal(size=length + 1), rng.normal(size=length + 1)
    ratios = np.exp(rng.normal(size=length))
    truncated = np.append(first[2:], rng.random() < 0.5) & ~first[1:]
    for time_limit in ("bootstrap", "terminate"):
        config = dataclasses.replace(DEBUG, discount=0.9, lambda_=0.8, time_limit=time_limit)
        found = find_targets(
            *(jnp.asarray(array, jnp.float32) for array in (values, rewards, ratios)),
            jnp.asarray(first),
            jnp.asarray(truncated),
            config,
        )
        begin = 0
        for end in [*np.flatnonzero(first[1:]), length]:  # of the actions before each new episode
            last = values[end] * (time_limit == "bootstrap" or not truncated[max(end - 1, 0)])
            if end > begin:
                wanted = cut_out(values[begin:end], last, rewards[begin + 1 : end + 1], ratios[begin:end])
                np.testing.assert_allclose(found.targets[begin:end], wanted[0], rtol=2e-4, atol=2e-4)
                np.testing.assert_allclose(found.advantages[begin:end], wanted[1], rtol=2e-4, atol=2e-4)
            begin = end + 1


find_targets = jax.jit(impala.find_targets, static_argnums=5)


def cut_out(values, last, rewards, ratios, discount=0.9, lambda_=0.8):
    """Targets and advantages of steps after which the value is `last`."""
    clipped, values = np.minimum(ratios, 1), np.append(values, last)
    errors = clipped * (rewards + discount * values[1:] - values[:-1])
    count = len(rewards)
    targets = np.array(
        [
            values[s] + sum(errors[t] * np.prod(discount * lambda_ * clipped[s:t]) for t in range(s, count))
            for s in range(count)
        ]
    )
    following = np.append(lambda_ * targets[1:] + (1 - lambda_) * values[1:-1], last)
    return targets, rewards + discount * following - values[:-1]


@pytest.fixture(scope="module")
def batch():
    """Episodes have 8 steps."""
    return Batch(Env("9x9", image_only_obs=True, layouts=64, seconds=2), DEBUG.num_envs)


@pytest.fixture(scope="module")
def training(batch):
    return on_policy.begin(jax.random.key(0), batch, DEBUG, make_mesh())


unroll = jax.jit(on_policy.unroll, static_argnums=3)


def test_mazes_that_are_trained_in_do_not_end_at_once(training):
    assert len(set(training.play.states.step.tolist())) > 1


def test_what_is_played_is_what_the_environment_says(batch, training):
    play, sequences, _ = unroll(training.network, training.play, batch, DEBUG, jnp.arange(4))
    states, images = training.play.states, [training.play.sights.image]
    for actions in sequences.actions:
        states, timesteps = batch.step(states, actions)
        images.append(timesteps.observation)
    np.testing.assert_array_equal(sequences.sights.image, jnp.stack(images))
    np.testing.assert_array_equal(sequences.sights.action[1:], sequences.actions)
    groups = on_policy.divide(sequences, DEBUG)
    np.testing.assert_array_equal(groups.sights.image[1, :, 0], sequences.sights.image[:, 1])
    np.testing.assert_array_equal(play.sights.image, images[-1])


@pytest.mark.slow
def test_each_sequence_is_learned_from_so_many_times(batch):
    config = dataclasses.replace(DEBUG, epochs=3, max_grad_norm=None)
    begun = on_policy.begin(jax.random.key(0), batch, config, make_mesh())
    after, _ = on_policy.iterate(begun, batch, config, make_mesh())
    counts = optax.tree.get_all_with_path(after.optimizer, "count")
    assert {int(count) for _, count in counts} == {6}, "three times two groups of sequences"
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        dataclasses.replace(DEBUG, epochs=0)


def test_episodes_end_and_begin_while_playing(batch, training):
    states = training.play.states
    steps = jnp.array([8, 6, 5, 0])  # of 8: over, ends and begins, ends at the last action, goes on
    steps = jax.device_put(steps, states.step.sharding)  # so that the same program plays them
    play = training.play._replace(states=dataclasses.replace(states, step=steps))
    after, sequences, metrics = unroll(training.network, play, batch, DEBUG, jnp.arange(4))
    assert np.asarray(sequences.sights.first[1:]).T.tolist() == [
        [True, False, False, False],
        [False, False, True, False],
        [False, False, False, True],
        [False] * 4,
    ]
    assert np.argwhere(sequences.truncated.T).tolist() == [[1, 1], [2, 2]]
    assert after.states.step.tolist() == [3, 1, 0, 4]
    walls = batch.draw_next(states).maze.walls
    np.testing.assert_array_equal(after.states.maze.walls[:3], walls[:3])
    np.testing.assert_array_equal(after.states.maze.walls[3], states.maze.walls[3])
    assert int(metrics["episodes"]) == 0, "none of them was played from its start"
    with pytest.raises(ValueError, match="shorter than an episode of 8"):
        on_policy.begin(jax.random.key(0), batch, dataclasses.replace(DEBUG, unroll_length=8), make_mesh())


@pytest.mark.pythons
def test_a_stopped_run_goes_on_as_if_never_stopped(tmp_path, capsys):
    whole = train(RUN, tmp_path / "whole")
    train(dataclasses.replace(RUN, steps=3 * 16), tmp_path / "parts")
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"steps": 5 * 16}) + "\n")  # was played, but not saved
    resumed = train(RUN, tmp_path / "parts")
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(one, two)
    lines = [read_metrics(tmp_path / name) for name in ("whole", "parts")]
    assert [line["steps"] for line in lines[0]] == [line["steps"] for line in lines[1]]
    assert [line["loss_total"] for line in lines[0]] == [line["loss_total"] for line in lines[1]]
    network, described = load_network(tmp_path / "parts")
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(one, two)
    assert described["task"] == "9x9"
    with pytest.raises(ValueError, match="its run has seed 0, not 1"):
        train(dataclasses.replace(RUN, seed=1), tmp_path / "parts")
    other = dataclasses.replace(DEBUG, entropy_cost=0.5)
    with pytest.raises(
        ValueError, match=r"its run has entropy_cost 0.001, not 0.5: choose another directory"
    ):
        train(dataclasses.replace(RUN, agent=other), tmp_path / "parts")
    # As if the disk had lost a part of the last checkpoint: there is one before it.
    data = max((tmp_path / "parts" / "checkpoints" / "8").rglob("*"), key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1])
    again = train(RUN, tmp_path / "parts")
    assert "8: this checkpoint is damaged and was removed" in capsys.readouterr().err
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert [line["loss_total"] for line in read_metrics(tmp_path / "parts")] == [
        line["loss_total"] for line in lines[0]
    ]


@pytest.mark.parametrize("config", ['{"model": "vae"}', "[]"])
def test_a_run_of_another_kind_is_left_alone(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match="it holds another kind of run: choose another directory"):
        train(RUN, tmp_path)
    assert (tmp_path / "config.json").read_text() == config


def test_runs_of_other_versions(tmp_path):
    train(dataclasses.replace(RUN, steps=16), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["agent"]["blocks"]  # came later
    (tmp_path / "config.json").write_text(json.dumps(config))
    train(dataclasses.replace(RUN, steps=32), tmp_path)
    assert load_network(tmp_path)[1]["agent"]["blocks"] == 2
    config["agent"]["telepathy"] = True
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match="unknown field telepathy: written by a newer version of the package"
    ):
        load_network(tmp_path)


def test_a_trained_agent_is_a_policy_on_both_engines(tmp_path):
    train(dataclasses.replace(RUN, steps=16), tmp_path)
    policy = load_policy(str(tmp_path))
    task = dataclasses.replace(TASKS["9x9"], seconds=5)
    for engine in ("jax", "mujoco"):
        assert evaluate(policy, task, 2, engine=engine)["episodes"] == 2


def test_numbers_that_are_none_stop_the_run(tmp_path, monkeypatch):
    def spoil(training, batch):
        metrics = {"episodes": 0, "return_sum": 0.0, "loss_total": jnp.nan}
        return training._replace(steps=training.steps + 1), metrics

    monkeypatch.setattr(on_policy, "compile_iterate", lambda *_: spoil)
    monkeypatch.setattr("memory_maze.training.runner.check_memory", lambda *_: None)
    with pytest.raises(RuntimeError, match=r"loss_total is nan after 16 steps.*try a smaller learning rate"):
        train(RUN, tmp_path)


def test_a_run_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("memory_maze.training.needs.memory_free", lambda: 1000)
    with pytest.raises(ValueError, match=r"an update needs .*B of memory, and .* 1.0 kB free: choose"):
        train(RUN, tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_a_run_is_trained_for_so_many_minutes_and_goes_on(tmp_path):
    sentences = []
    train(dataclasses.replace(RUN, minutes=1e-9), tmp_path, tell=sentences.append)
    assert read_metrics(tmp_path)[-1]["steps"] == 16, "one update, and then the time is over"
    train(RUN, tmp_path, tell=sentences.append)
    assert read_metrics(tmp_path)[-1]["steps"] == RUN.steps
    (needs, again, forecast) = sentences
    assert re.fullmatch(r"an update needs [\d.]+ .?B of memory, and this machine has .* free", needs)
    assert again.startswith("an update needs")
    assert re.fullmatch(r"[\d,.]+ steps per second: 112 will take about \d s", forecast)


def test_values_go_with_the_devices(tmp_path, monkeypatch, capsys):
    """And tiny runs are over in seconds."""
    asked = []
    monkeypatch.setattr(run, "train", lambda run, *_, **__: asked.append(run))
    monkeypatch.setattr("memory_maze.results.online.write_result", lambda folder: {})
    for backend, words in (
        ("cpu", []),
        ("gpu", []),
        ("cpu", ["--preset", "paper"]),
        ("cpu", ["--preset", "debug"]),
    ):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        main(["train", "impala", "--out", str(tmp_path), "--evaluate", "0", *words])
    assert [run.agent for run in asked] == [PRESETS[name] for name in ("small", "fast", "paper", "debug")]
    assert [run.steps for run in asked] == [100_000_000] * 3 + [512]
    assert asked[-1].layouts == 64
    assert capsys.readouterr().out.count("JAX finds no GPU") == 1


@pytest.mark.slow  # hosts that are asked to stop do the same
def test_ctrl_c_saves(tmp_path):
    command = [sys.executable, "-m", "memory_maze", "train", "impala", "--preset", "debug"]
    command += ["--steps", "1000000", "--out", tmp_path, "--log-every", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not read_metrics(tmp_path):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert "stopped: saved after" in errors
    assert "run it again to resume" in errors
    assert list((tmp_path / "checkpoints").iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments_it_learns_the_same(tmp_path):
    words = ["train", "impala", "--preset", "debug", "--layouts", "64", "--steps", str(100 * 16)]
    words += ["--log-every", "0", "--save-every", "0", "--evaluate", "0", "--out"]
    command = [sys.executable, "-m", "memory_maze", *words]
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    moments = random.Random(3)
    progress = []
    for _ in range(6):
        process = subprocess.Popen([*command, tmp_path / "killed"], stdout=subprocess.DEVNULL)
        while process.poll() is None and len(read_metrics(tmp_path / "killed")) <= max(progress, default=0):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.4))
        process.kill()
        process.wait()
        progress.append(len(read_metrics(tmp_path / "killed")))
    assert progress[-1] < 100, "it was killed to the end"
    subprocess.run([*command, tmp_path / "killed"], check=True, capture_output=True)
    results = [load_file(tmp_path / name / "agent.safetensors") for name in ("whole", "killed")]
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array, err_msg=name)
    lines = [read_metrics(tmp_path / name) for name in ("whole", "killed")]
    assert [line["steps"] for line in lines[1]] == [16 * (1 + index) for index in range(100)]
    assert [line["loss_total"] for line in lines[1]] == [line["loss_total"] for line in lines[0]]


def test_values_are_overridden_by_name():
    config = override(Config(), ("learning_rate=1e-3", "core=gru", "channels=[8, 8, 8]", "forget_every=50"))
    assert (config.learning_rate, config.core, config.channels, config.forget_every) == (
        1e-3,
        GRUConfig(256),
        (8, 8, 8),
        50,
    )
    assert override(Config(), ("max_grad_norm=null", "clip_ratio=1")) == Config(
        max_grad_norm=None, clip_ratio=1.0
    )
    for wrong, words in (
        (("learning=1",), "did you mean 'learning_rate'"),
        (("xyz=1",), "choose from num_envs"),
        (("unroll_length=1.5",), "of type int"),
        (("unroll_length=true",), "of type int"),
        (("clip_ratio=[1]",), "of type float or null"),
        (("channels=3",), "of type list"),
        (("unroll_length=x",), "neither a number"),
        (("batch_size=33",), "not a multiple of batch_size=33"),
    ):
        with pytest.raises(ValueError, match=words):
            override(Config(), wrong)
