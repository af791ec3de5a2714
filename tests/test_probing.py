"""Offline probing: the rules of models, training, scores."""

import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import equinox as eqx
import imageio.v2 as imageio
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze import data
from memory_maze.cli import main
from memory_maze.data.archive import Archive
from memory_maze.data.tracks import constant_baseline, join_figures, measure, tracks_of_scenes
from memory_maze.models.nets import Linear
from memory_maze.probing import baselines, evaluate, session
from memory_maze.probing.check import ModelError, check_model
from memory_maze.probing.config import ProbeConfig
from memory_maze.probing.constant import evaluate_constant
from memory_maze.probing.model import Learned, Sequence, SequenceModel, find_maker, initial_carry
from memory_maze.probing.pictures import draw_panels
from memory_maze.probing.predictions import load_run, mean_score, predict
from memory_maze.probing.probe import Probe, Truth
from memory_maze.probing.train import Learner, Run, begin, count_turns, make_model, train
from memory_maze.results.metrics import read_metrics
from memory_maze.results.probing import read_result
from memory_maze.system.files import sole_writer
from memory_maze.system.provenance import ROOT
from memory_maze.training.stopping import RunStoppedError

# Those of the engine are read in test_data.py.
pytestmark = pytest.mark.usefixtures("plain_pictures")

STEPS = 40  # of a trajectory


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "9x9"
    data.collect(folder, "9x9", 15, steps=STEPS, evaluation=5, shard=5)  # one program makes all
    return data.load(folder, "train"), data.load(folder, "eval")


@pytest.fixture
def run():
    return session.make_run("vae-gru", "debug", steps=6, score_every=100)


def same(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs if eqx.is_array(a))


# Rules


class Mean(SequenceModel):
    """Adds up what it has seen: a good model, which others below spoil."""

    weight: Linear
    state_size = 5

    def __init__(self, key):
        self.weight = Linear(key, 3, 5)

    def initial(self):
        return jnp.zeros(5)

    def observe(self, carry, sequence, key):
        seen = self.see(sequence)

        def step(carry, inputs):
            x, reset = inputs
            carry = self.forget(carry, reset) + x
            return carry, carry

        return jax.lax.scan(step, carry, (seen, sequence.reset))

    def see(self, sequence):
        return self.weight(sequence.image.astype(jnp.float32).mean(axis=(-3, -2)) / 255)

    def forget(self, carry, reset):
        return jnp.where(reset[:, None], 0.0, carry)

    def loss(self, carry, sequence, key):
        carry, states = self.observe(carry, sequence, key)
        return jnp.square(states - 1).mean(), Learned(carry, states, {})


class WrongShape(Mean):
    def observe(self, carry, sequence, key):
        carry, states = super().observe(carry, sequence, key)
        return carry, states[..., :4]


class BatchFirst(Mean):
    def observe(self, carry, sequence, key):
        carry, states = super().observe(carry, sequence, key)
        return carry, states.swapaxes(0, 1)


class NotFinite(Mean):
    def see(self, sequence):
        return jnp.log(super().see(sequence) - 100)


class Whole(Mean):
    def observe(self, carry, sequence, key):
        carry, states = super().observe(carry, sequence, key)
        return carry, jnp.round(states).astype(jnp.int32)


class OtherStreams(Mean):
    def see(self, sequence):
        seen = super().see(sequence)
        return seen - seen.mean(axis=1, keepdims=True)


class Future(Mean):
    def see(self, sequence):
        seen = super().see(sequence)
        return seen + seen[-1:]


class NeverForgets(Mean):
    def forget(self, carry, reset):
        return carry


class KeepsALittle(Mean):
    """Forgets what is in the carry, but not the step before."""

    def see(self, sequence):
        seen = super().see(sequence)
        return seen.at[1:].add(seen[:-1])


class GrowingCarry(Mean):
    def observe(self, carry, sequence, key):
        carry, states = super().observe(carry, sequence, key)
        return jnp.concatenate([carry, carry], axis=-1), states


class NoPair(Mean):
    def observe(self, carry, sequence, key):
        return super().observe(carry, sequence, key)[1]


class NoLoss(Mean):
    def loss(self, carry, sequence, key):
        return jnp.nan * super().loss(carry, sequence, key)[0], super().loss(carry, sequence, key)[1]


class NoLearned(Mean):
    def loss(self, carry, sequence, key):
        return super().loss(carry, sequence, key)[0], {}


class VectorLoss(Mean):
    def loss(self, carry, sequence, key):
        loss, learned = super().loss(carry, sequence, key)
        return loss[None], learned


class NoSize(Mean):
    state_size = None


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (WrongShape, r"states of shape \(6, 3, 4\).*should be \(6, 3, 5\), for state_size is 5"),
        (BatchFirst, r"should be \(6, 3, 5\)"),
        (NotFinite, "not finite"),
        (Whole, "floating point"),
        (OtherStreams, "other streams"),
        (Future, "later inputs"),
        (NeverForgets, "previous trajectory"),
        (KeepsALittle, "previous trajectory"),
        (GrowingCarry, "gives a carry of"),
        (NoPair, "it should give carry, states"),
        (NoLoss, "loss is nan"),
        (NoLearned, "should be a Learned"),
        (VectorLoss, "loss has no gradient"),
        (NoSize, "state_size is None"),
    ],
)
def test_a_model_that_breaks_a_rule_is_told_which(model, rule):
    check_model(Mean(jax.random.key(0)), jax.random.key(1))
    with pytest.raises(ModelError, match=rule):
        check_model(model(jax.random.key(0)), jax.random.key(1))


@pytest.mark.parametrize("name", baselines.MODELS)
def test_baselines_keep_the_rules(name):
    model = make_model(session.make_run(name, "debug"), jax.random.key(0))
    check_model(model, jax.random.key(1))


def test_baselines_have_the_papers_sizes():
    sizes = {}
    for name in baselines.MODELS:
        sizes[name] = eqx.filter_eval_shape(make_model, Run(name), jax.random.key(0)).state_size
    # A recurrent state of 2,048 and 32 x 32 one-hot numbers.
    wanted = {"vae": 32, "supervised": 2048, "vae-gru": 2048}
    assert sizes == wanted | dict.fromkeys(("rssm", "rssm-tbtt", "rssm-untrained"), 2048 + 1024)


def make_noise(length):
    keys = jax.random.split(jax.random.key(3), 2)
    images = jax.random.randint(keys[0], (length, 2, 64, 64, 3), 0, 256, jnp.uint8)
    actions = jax.nn.one_hot(jax.random.randint(keys[1], (length, 2), 0, 6), 6)
    return Sequence(images, actions, jnp.zeros((length, 2), bool))


def test_a_gru_learns_to_predict_embeddings_of_the_same_trajectory():
    model = make_model(session.make_run("vae-gru", "debug"), jax.random.key(0))
    silent = jax.tree.map(jnp.zeros_like, eqx.filter(model.dynamics, eqx.is_array))
    model = eqx.tree_at(lambda m: m.dynamics, model, eqx.combine(silent, model.dynamics))
    sequence, carry = make_noise(3), initial_carry(model, 2)
    embeds, _ = model.vae.embed(sequence.image)
    wrong = jnp.square(embeds[1:]).sum(axis=-1) / 2  # it guesses zeros
    _, learned = model.loss(carry, sequence, jax.random.key(1))
    assert learned.metrics["loss_prediction"] == pytest.approx(float(wrong.mean()), rel=1e-4)
    sequence = sequence._replace(reset=sequence.reset.at[2].set(True))  # two other trajectories
    _, learned = model.loss(carry, sequence, jax.random.key(1))
    assert learned.metrics["loss_prediction"] == pytest.approx(float(wrong[0].mean()), rel=1e-4)


@pytest.mark.parametrize(("name", "reaches"), [("vae-gru", False), ("supervised", True)])
def test_what_is_asked_of_the_gru_reaches_the_vae_only_if_supervised(name, reaches):
    model = make_model(session.make_run(name, "debug"), jax.random.key(0))

    def ask_states(model):
        _, learned = model.loss(initial_carry(model, 2), make_noise(3), jax.random.key(1))
        return learned.states.sum()

    slopes = eqx.filter_grad(ask_states)(model)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(slopes.core))
    assert any(np.any(leaf) for leaf in jax.tree.leaves(slopes.vae)) == reaches


# Probes


def test_probes_are_the_papers_and_told_what_they_need():
    config = ProbeConfig()
    walls, objects = (Probe(jax.random.key(0), target, 2048, 9, 3, config) for target in ("walls", "objects"))
    shapes = [layer.weight.shape for layer in (*walls.net.hidden, walls.net.out)]
    assert shapes == [(2052, 1024), (1024, 1024), (1024, 1024), (1024, 1024), (1024, 81)]
    assert walls.net.norms is not None
    assert [norm.epsilon for norm in walls.net.norms] == [1e-3] * 4
    assert objects.net.hidden[0].weight.shape == (2048, 1024)
    assert objects.net.out.bias.shape == (6,)
    told = Probe(jax.random.key(0), "objects", 2048, 9, 3, ProbeConfig(told=("walls", "objects")))
    assert told.net.hidden[0].weight.shape == (2052, 1024)


def test_scores_are_shares_of_cells_and_squared_distances():
    walls = jnp.zeros((2, 1, 3, 3), jnp.uint8).at[0, 0, 0].set(1)
    objects = jnp.zeros((2, 1, 4, 2)).at[0, 0, 0].set([3.0, 4.0]).at[1, 0, 1].set([0.0, 1.0])
    truth = Truth(jnp.zeros((2, 1, 2)), jnp.zeros((2, 1, 2)), walls, objects)

    def zeros(probe):
        return jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, probe)

    states = jnp.zeros((2, 1, 5))
    for target, scores, loss in (
        ("walls", [[100 * 6 / 9], [100.0]], 9 * np.log(2)),
        ("objects", [[25 / 4], [1 / 4]], (25 / 2 + 1 / 2) / 2),
    ):
        probe = zeros(Probe(jax.random.key(0), target, 5, 3, 4, ProbeConfig(units=4)))
        np.testing.assert_allclose(probe.score(states, truth), scores, rtol=1e-5)
        assert probe.loss(states, truth) == pytest.approx(loss), "of all cells or objects together"


# Training


def learn(run, sets, steps=3):
    learning = begin(run, 9, 3)
    order, learner = "replay" if learning.model.carries else "windows", Learner(run, learning)
    turns = count_turns(run, learning.model)
    with sets[0].batches(order, run.batch, run.time, arrays="jax", interleave=turns) as batches:
        for _ in range(steps):
            metrics = learner.step(next(batches))
    return learner.learning, metrics


def test_probes_leave_no_trace_in_the_model(run, sets):
    both, _ = learn(run, sets)
    one, _ = learn(dataclasses.replace(run, targets=("walls",), probe=ProbeConfig(units=32)), sets)
    assert same(both.model, one.model)
    assert not same(both.model, begin(run, 9, 3).model)


@pytest.mark.slow  # its gradients are tested
def test_the_supervised_model_learns_from_its_probe(run, sets):
    run = dataclasses.replace(run, model="supervised", targets=("walls",))
    one, _ = learn(run, sets)
    two, _ = learn(dataclasses.replace(run, targets=("objects",)), sets)
    assert not same(one.model, two.model)
    for part in (lambda model: model.vae.encoder, lambda model: model.core):
        assert not same(part(one.model), part(two.model))
    with pytest.raises(ValueError, match="choose one of walls and objects"):
        begin(dataclasses.replace(run, targets=("walls", "objects")), 9, 3)


def test_the_untrained_model_stays_as_it_was(run, sets):
    run = dataclasses.replace(run, model="rssm-untrained")
    learned, _ = learn(run, sets)
    before = begin(run, 9, 3)
    assert same(learned.model, before.model)
    assert not same(learned.probes, before.probes)


def test_carries_go_on_only_where_they_should(run, sets):
    for name, goes_on in (("Clock", True), ("Fresh", False)):
        own = dataclasses.replace(run, model=f"tests.test_probing:{name}", settings=None)
        learned, _ = learn(own, sets)
        assert bool(jnp.abs(learned.carry).max() > 0) == goes_on
    for name, goes_on in (("rssm-tbtt", True), ("rssm", False)):
        key, config = jax.random.key(0), baselines.PRESETS["debug"]
        assert eqx.filter_eval_shape(baselines.MODELS[name], key, config).carries == goes_on


@pytest.mark.parametrize("interleave", [1, 3])
def test_every_interleaved_batch_goes_on_with_its_own_carry(run, sets, interleave):
    run = dataclasses.replace(run, model="tests.test_probing:Clock", settings=None, interleave=interleave)
    learner = Learner(run, begin(run, 9, 3))
    with sets[0].replay(run.batch, run.time, arrays="jax", interleave=interleave) as batches:
        for _ in range(interleave * 2 * STEPS // run.time):  # until every row has begun a trajectory
            learner.step(next(batches))
        rows = np.array([start or STEPS + 1 for _, start in batches.position["rows"]])
    np.testing.assert_array_equal(learner.learning.carry, rows.reshape(interleave, run.batch))


@pytest.mark.pythons
def test_a_run_that_goes_on_is_the_same_as_one_that_never_stopped(run, sets, tmp_path):
    whole = train(run, *sets, tmp_path / "whole")
    train(dataclasses.replace(run, steps=4), *sets, tmp_path / "parts")
    parts = train(run, *sets, tmp_path / "parts")
    assert int(parts.steps) == 6
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(one, two)
    lines = [json.loads(line) for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines if "held_out_walls" in line] == [4, 6]
    assert {"held_out_walls", "held_out_objects", "loss_model", "score_walls"} <= lines[-1].keys()
    assert len(list((tmp_path / "parts").glob("position-*.json"))) == 2


def test_a_run_that_is_out_of_time_is_evaluated_and_goes_on(sets, tmp_path, capsys):
    words = ["vae-gru", "--steps", "2"]
    result = call(sets, *words, "--minutes", "1e-9", out=tmp_path)
    assert (result["training"]["steps"], result["training"]["steps_planned"]) == (1, 2)
    assert "time limit reached after 1 of 2 steps; run it again to resume" in capsys.readouterr().out
    assert sorted(result["evaluation"]) == ["objects", "walls"]
    result = call(sets, *words, out=tmp_path)
    assert result["training"]["steps"] == 2
    assert "time limit reached" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call(sets, *words, "--minutes", "0", out=tmp_path)
    assert "minutes must be above 0: got 0" in capsys.readouterr().err


def test_what_is_stopped_while_it_is_scored_is_saved(run, sets, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    monkeypatch.setattr("memory_maze.probing.train.evaluate", interrupted)
    with pytest.raises(RunStoppedError, match="saved after 4 steps"):
        train(dataclasses.replace(run, score_every=3), *sets, tmp_path)
    assert (tmp_path / "position-4.json").exists()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["4"]


def test_a_folder_holds_one_run(run, sets, tmp_path):
    train(dataclasses.replace(run, steps=1), *sets, tmp_path)
    with pytest.raises(ValueError, match="its run has seed 0, not 1: choose another directory"):
        train(dataclasses.replace(run, seed=1), *sets, tmp_path)
    with pytest.raises(ValueError, match=r"its run has data .*'trajectories': 10.*, not .*5"):
        train(run, sets[1], sets[1], tmp_path)


def test_a_run_that_another_process_trains_is_left_alone(sets, tmp_path, capsys):
    with sole_writer(tmp_path), pytest.raises(SystemExit):
        call(sets, "vae", "--steps", "1", out=tmp_path)
    assert f"process {os.getpid()} is writing to it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_that_does_not_fit_into_memory_is_refused(run, sets, tmp_path, monkeypatch):
    told = []
    train(dataclasses.replace(run, steps=1), *sets, tmp_path / "fits", tell=told.append)
    assert "of memory" in told[0]
    monkeypatch.setattr("memory_maze.training.needs.memory_free", lambda: 1000)
    with pytest.raises(ValueError, match=r"an update needs .* of memory, and .* 1.0 kB free: choose"):
        train(run, *sets, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


def test_too_few_trajectories_are_told_before_the_model_is_tried(run, sets, tmp_path, monkeypatch):
    monkeypatch.setattr("memory_maze.probing.train.check_model", lambda *_: pytest.fail("tried"))
    with pytest.raises(
        ValueError, match="16 different trajectories per batch, but only 10 exist: collect more"
    ):
        train(dataclasses.replace(run, batch=16), *sets, tmp_path)


def test_a_loss_that_is_no_number_stops_the_run(run, sets, tmp_path):
    hot = dataclasses.replace(run.optimizer, learning_rate=1e30)
    with pytest.raises(RuntimeError, match="try a smaller learning rate"):
        train(dataclasses.replace(run, optimizer=hot, log_every=0.0, steps=50), *sets, tmp_path)


# Scores


class Clock(Mean):
    """Its state is the number of steps since its trajectory began."""

    state_size = 1

    def initial(self):
        return jnp.zeros(())

    def observe(self, carry, sequence, key):
        def step(carry, reset):
            carry = jnp.where(reset, 0.0, carry) + 1
            return carry, carry[:, None]

        return jax.lax.scan(step, carry, sequence.reset)


class Fresh(Clock):
    """Begins every batch anew."""

    carries = False


class Reads(eqx.Module):
    """A probe whose score is the state."""

    def score(self, states, truth):
        return states[..., 0]


@pytest.mark.parametrize("streams", [2, 5, 64])
@pytest.mark.parametrize("chunk", [7, 41, 100])
def test_states_are_carried_over_whole_trajectories(sets, monkeypatch, streams, chunk):
    monkeypatch.setattr(evaluate, "STREAMS", streams)
    monkeypatch.setattr(evaluate, "CHUNK", chunk)
    done = []
    scores = evaluate.evaluate(Clock(jax.random.key(0)), {"walls": Reads()}, sets[1], advance=done.append)
    np.testing.assert_array_equal(scores["walls"], np.tile(np.arange(1, STEPS + 2), (5, 1)))
    assert sum(done) == 5 * (STEPS + 1)
    figures = evaluate.summarize(scores)["walls"]
    assert figures["mean"] == np.mean(np.arange(22, 42))  # the second half
    assert figures["std_error"] == 0
    assert figures["by_step"] == list(range(1, 42))


def test_scores_do_not_depend_on_how_trajectories_are_put_together(run, sets, monkeypatch):
    learning = begin(run, 9, 3)
    found = []
    for streams, chunk in ((64, 100), (2, 7)):
        monkeypatch.setattr(evaluate, "STREAMS", streams)
        monkeypatch.setattr(evaluate, "CHUNK", chunk)
        found.append(evaluate.evaluate(learning.model, learning.probes, sets[1]))
    np.testing.assert_allclose(found[0]["objects"], found[1]["objects"], rtol=1e-3)
    # A cell of 81 may be as likely free as not.
    np.testing.assert_allclose(found[0]["walls"], found[1]["walls"], atol=1.3)


def test_the_constant_baseline_is_that_of_inspect(sets):
    scores = evaluate.summarize(evaluate_constant(*sets))
    figures = join_figures([measure(tracks_of_scenes(one.scenes)) for one in sets])
    wanted = constant_baseline(figures, ["train"] * 10 + ["eval"] * 5)
    assert scores["walls"]["mean"] == pytest.approx(wanted["walls_percent"], rel=1e-5)
    assert scores["objects"]["mean"] == pytest.approx(wanted["objects_squared_error"], rel=1e-4)


# The command

OWN = """
import jax, jax.numpy as jnp
from memory_maze.models.nets import Linear
from memory_maze.probing.model import Learned, SequenceModel

class Model(SequenceModel):
    layer: Linear
    state_size = 7

    def __init__(self, key):
        self.layer = Linear(key, 6, 7)

    def initial(self):
        return ()

    def observe(self, carry, sequence, key):
        return carry, self.layer(sequence.action)

    def loss(self, carry, sequence, key):
        carry, states = self.observe(carry, sequence, key)
        return jnp.square(states).mean(), Learned(carry, states, {})
"""


def call(sets, *words, out):
    main(["probe", *words, "--preset", "debug", "--data", str(sets[0].path), "--out", str(out)])
    return read_result(out)


def test_your_own_model_is_found_where_you_are(sets, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    result = call(sets, "own_model:Model", "--steps", "3", "--trajectories", "2", out=tmp_path / "run")
    printed = capsys.readouterr().out
    assert "own_model:Model in 9x9: " in printed
    assert (result["kind"], result["title"], result["loss_version"]) == ("probing", "own_model:Model", 2)
    assert (result["model"], result["state_size"], result["preset"]) == ("own_model:Model", 7, None)
    assert result["evaluation"]["walls"]["trajectories"] == 2
    assert len(result["evaluation"]["objects"]["by_step"]) == STEPS + 1
    assert result["training"]["steps"] == result["training"]["steps_planned"] == 3
    assert result["data"]["trajectories"] == 10
    assert str(tmp_path) not in (tmp_path / "run" / "result.json").read_text()


@pytest.mark.parametrize("name", ["own", "nowhere:Model", "own_model:Nothing", "builtins:dict"])
def test_what_is_no_model_is_one_line(name, sets, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        call(sets, name, out=tmp_path / "run")
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert name.partition(":")[0] in error
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_makers_are_not_looked_for_in_the_folder_for_ever(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert find_maker("memory_maze.probing.baselines:VAE") is baselines.VAE
    assert sys.path == before


def test_results_of_baselines_tell_what_was_changed(sets, tmp_path):
    result = call(sets, "vae", "--steps", "2", "--probe", "layers=0", "--set", "latent=3", out=tmp_path / "a")
    assert (result["title"], result["preset"]) == ("VAE (no memory)", "debug")
    assert result["changes"]["latent"] == 3
    assert result["changes"]["probe"]["layers"] == 0
    result = call(sets, "constant", out=tmp_path / "b")
    assert result["title"] == "Constant baseline"
    assert sorted(result["evaluation"]) == ["objects", "walls"]
    assert result["training"]["steps"] == 0


@pytest.mark.slow
def test_further_probes_are_asked_beside_and_change_nothing(sets, tmp_path):
    alone = call(sets, "rssm-tbtt", "--steps", "3", out=tmp_path / "alone")
    beside = call(sets, "rssm-tbtt", "--steps", "3", "--depths", "0", "2", out=tmp_path / "beside")
    assert alone["depths"] == {}
    assert beside["evaluation"] == alone["evaluation"]
    assert sorted(beside["depths"]) == ["0", "2"]
    for found in beside["depths"].values():
        for target in ("walls", "objects"):
            assert found[target]["mean"] != alone["evaluation"][target]["mean"]
            assert found[target]["std_error"] > 0
    predictions = predict(*load_run(tmp_path / "beside", sets[1]), sets[1], 0)
    same = predict(*load_run(tmp_path / "alone", sets[1]), sets[1], 0)
    np.testing.assert_array_equal(predictions.places, same.places)
    with pytest.raises(SystemExit):
        call(sets, "supervised", "--targets", "walls", "--depths", "1", out=tmp_path / "none")
    assert not (tmp_path / "none" / "checkpoints").exists()


def test_data_of_npz_files_is_as_good(sets, tmp_path):
    main(["convert", str(sets[0].path), str(tmp_path / "npz"), "--format", "npz"])
    other = [data.load(tmp_path / "npz", split) for split in ("train", "eval")]
    pairs = ((sets, "a"), (other, "b"))
    results = [call(one, "vae", "--steps", "2", out=tmp_path / name) for one, name in pairs]
    for target in ("walls", "objects"):
        means = [result["evaluation"][target]["mean"] for result in results]
        assert means[0] == pytest.approx(means[1], rel=1e-3)
    assert results[1]["data"]["format"] == "npz"


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_goes_on(sets, tmp_path):
    out = tmp_path / "run"
    words = ["probe", "vae", "--preset", "debug", "--data", str(sets[0].path), "--out", str(out)]
    words += ["--log-every", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "memory_maze", *words, "--steps", "100000"], stderr=subprocess.PIPE, text=True
    )
    while not (out / "metrics.jsonl").exists() or len((out / "metrics.jsonl").read_text().splitlines()) < 5:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert error.startswith("stopped: saved after"), "no error"
    assert "run it again to resume" in error
    steps = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["steps"]
    main([*words, "--steps", str(steps + 2)])
    assert read_result(out)["training"]["steps"] == steps + 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments_it_learns_the_same(sets, tmp_path):
    words = ["probe", "vae-gru", "--preset", "debug", "--data", str(sets[0].path), "--steps", "60"]
    words += ["--log-every", "0", "--save-every", "0", "--trajectories", "2", "--out"]
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
    assert progress[-1] < 60, "it was killed to the end"
    subprocess.run([*command, tmp_path / "killed"], check=True, capture_output=True)
    results = [read_result(tmp_path / name) for name in ("whole", "killed")]
    assert results[1]["evaluation"] == results[0]["evaluation"]
    lines = [read_metrics(tmp_path / name) for name in ("whole", "killed")]
    assert [line["steps"] for line in lines[1]] == list(range(1, 61))
    assert [line["loss_model"] for line in lines[1]] == [line["loss_model"] for line in lines[0]]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"kind": "other", "format": 1}', b"[1]"])
def test_damaged_results_are_named(damage, tmp_path):
    (tmp_path / "result.json").write_bytes(damage)
    with pytest.raises(ValueError, match=r"result.json: not a valid result of a probing run"):
        read_result(tmp_path)


def test_the_example_of_the_documentation_is_probed(sets, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "probing.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    small = example.replace("depth=8", "depth=2").replace(
        "    core: GRU\n", "    core: GRU\n    state_size = 16\n"
    )
    (tmp_path / "my_model.py").write_text(small)
    monkeypatch.chdir(tmp_path)
    result = call(sets, "my_model:Model", "--steps", "2", "--trajectories", "2", out=tmp_path / "run")
    assert result["state_size"] == 16
    assert "loss_action" in result["curve"][-1]


# Pictures


@pytest.fixture(scope="module")
def probed(sets, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    call(sets, "vae-gru", "--steps", "3", out=out)
    return out


def test_answers_are_those_that_are_scored(sets, probed):
    model, probes = load_run(probed, sets[1])
    predictions = predict(model, probes, sets[1], 3)
    scores = evaluate.evaluate(model, probes, sets[1])
    for step in (0, 7, STEPS):
        found = mean_score(predictions, step)
        assert found["walls"] == pytest.approx(scores["walls"][3, step], abs=1.3)
        assert found["objects"] == pytest.approx(scores["objects"][3, step], rel=1e-3)
    truth = sets[1].read(3, keys=("targets_pos", "maze_layout", "image"))
    np.testing.assert_allclose(predictions.objects, truth["targets_pos"][0], atol=1e-3)
    np.testing.assert_array_equal(predictions.layout, truth["maze_layout"][0])
    np.testing.assert_array_equal(predictions.images, truth["image"])


def test_maps_show_what_is_wrong(sets, probed):
    predictions = predict(*load_run(probed, sets[1]), sets[1], 0)
    right = predictions._replace(walls=np.tile(predictions.layout, (STEPS + 1, 1, 1)))
    wrong = predictions._replace(walls=~right.walls)
    red = [(draw_panels(one, 5).reshape(-1, 3) == (200, 60, 60)).all(axis=1).sum() for one in (right, wrong)]
    assert red[0] == 0
    assert red[1] > 1000
    below, beside = draw_panels(predictions, 5), draw_panels(predictions, 5, across=True)
    assert below.shape == (4 * 224, 208, 3)
    assert beside.shape == (224, 4 * 208, 3)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # the child becomes ffmpeg
def test_strips_and_videos_are_written(sets, probed, tmp_path, capsys, monkeypatch):
    words = ["probe-pictures", str(probed), "--data", str(sets[0].path), "--out"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "imageio_ffmpeg", None)  # pictures need none
        main([*words, str(tmp_path / "strip.png"), "--columns", "3"])
        with pytest.raises(SystemExit):
            main([*words, str(tmp_path / "predictions.mp4")])
        assert "imageio_ffmpeg: pip install" in capsys.readouterr().err
    assert imageio.imread(tmp_path / "strip.png").shape == (4 * 224, 3 * 208, 3)
    main([*words, str(tmp_path / "predictions.mp4"), "--trajectory", "2"])
    with imageio.get_reader(tmp_path / "predictions.mp4") as video:
        assert video.count_frames() == STEPS // 2 + 1
    for wrong, message in (
        ([str(tmp_path / "a.gif")], "must end in .png or .mp4"),
        (
            [str(tmp_path / "a.png"), "--trajectory", "5"],
            "trajectory 5 is out of range: there are 5, counted from 0",
        ),
        ([str(tmp_path / "a.png"), "--columns", "0"], "columns must be from 1 to 100"),
    ):
        with pytest.raises(SystemExit):
            main([*words, *wrong])
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["probe-pictures", str(tmp_path), *words[2:], str(tmp_path / "a.png")])
    assert "not a run or agent" in capsys.readouterr().err


def test_npz_files_are_unpacked_once_for_all_steps(sets, tmp_path, monkeypatch):
    main(["convert", str(sets[0].path), str(tmp_path / "npz"), "--format", "npz"])
    npz = data.load(tmp_path / "npz", "eval")
    opened, read = [], Archive.read
    monkeypatch.setattr(Archive, "read", lambda self, key: opened.append((self.name, key)) or read(self, key))
    monkeypatch.setattr(evaluate, "CHUNK", 7)
    scores = evaluate.evaluate(Clock(jax.random.key(0)), {"walls": Reads()}, npz)
    np.testing.assert_array_equal(scores["walls"], np.tile(np.arange(1, STEPS + 2), (5, 1)))
    assert len(opened) == len(set(opened)) > 0
