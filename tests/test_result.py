"""What comes of a run: its result file, the evaluation of its agent, and the agent alone."""

import dataclasses
import errno
import json
import os
import shutil
import tempfile

import imageio.v2 as imageio
import jax
import numpy as np
import pytest

from memory_maze import TASKS, Sampler, tasks
from memory_maze.agents.impala.config import PRESETS, Config
from memory_maze.agents.load import load_policy
from memory_maze.cli import main
from memory_maze.commands import evaluate as evaluate_command
from memory_maze.episodes.evaluate import evaluate
from memory_maze.episodes.rollout import Recording
from memory_maze.policies.forgetful import Forgetful
from memory_maze.policies.protocol import Sight
from memory_maze.results.metrics import read_metrics, thin
from memory_maze.results.online import add_evaluation, hash_weights, read_result, write_result
from memory_maze.splits import draw_scenario, is_held_out
from memory_maze.system.files import sole_writer
from memory_maze.system.provenance import ROOT, describe_devices

STEPS = 200
SHORT = {name: dataclasses.replace(task, seconds=STEPS / 4) for name, task in TASKS.items()}
TRAIN = ["train", "impala", "--preset", "debug", "--layouts", "64", "--log-every", "0"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Episodes of every task are short."""
    for name, task in SHORT.items():
        monkeypatch.setitem(tasks.TASKS, name, task)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of the command, with its evaluation."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        for name, task in SHORT.items():
            patch.setitem(tasks.TASKS, name, task)
        main([*TRAIN, "--out", str(folder), "--steps", "64", "--evaluate", "2"])
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy to change."""
    shutil.copytree(trained, tmp_path / "tiny")
    return tmp_path / "tiny"


def make_report(folder, **changes):
    report = {"task": "9x9", "engine": "jax", "mean": 1.5, "std_error": 0.5, "episodes": 2}
    report["held_out"] = True
    report |= {"rewards_per_100_steps": [1.0, 0.5], "scores": [1.0, 2.0], "weights": hash_weights(folder)}
    return report | changes


def test_a_run_leaves_everything_that_a_report_needs(trained):
    result = read_result(trained)
    assert (result["kind"], result["agent"], result["title"]) == ("online", "impala", "IMPALA")
    assert (result["preset"], result["changes"], result["loss_version"]) == ("debug", {}, 2)
    assert (result["task"], result["seed"], result["ablation"]) == ("9x9", 0, None)
    assert result["config"] == json.loads((trained / "config.json").read_text())
    assert result["hardware"]["devices"] == "1 cpu"
    assert result["versions"]["jax"] == jax.__version__
    training, lines = result["training"], read_metrics(trained)
    assert (training["steps"], training["steps_planned"]) == (64, 64)
    assert training["seconds"] == lines[-1]["seconds"] > training["compile_seconds"] > 0
    assert training["steps_per_second"] == np.median([line["steps_per_second"] for line in lines[1:]])
    assert [point["steps"] for point in result["curve"]] == [16, 32, 48, 64]
    assert result["curve"][0]["loss_entropy"] == pytest.approx(np.log(6), abs=0.01)
    (report,) = result["evaluations"]
    assert (report["engine"], report["episodes"], report["held_out"]) == ("jax", 2, True)
    assert report["weights"] == result["weights"]
    assert report["steps"] == STEPS
    assert read_result(trained / "result.json") == result
    text = (trained / "result.json").read_text()
    assert str(trained.parent) not in text
    assert str(ROOT) not in text


def test_a_run_that_goes_on_counts_all_its_time_and_drops_the_old_evaluation(run):
    before = read_result(run)
    slow = [line | {"seconds": line["seconds"] + 1000} for line in read_metrics(run)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in slow))
    main([*TRAIN, "--out", str(run), "--steps", "96", "--evaluate", "0"])
    after = read_result(run)
    assert after["training"]["steps"] == 96
    assert 1000 < before["training"]["seconds"] + 1000 < after["training"]["seconds"] < 1300
    assert after["training"]["compile_seconds"] > before["training"]["compile_seconds"]
    assert [point["steps"] for point in after["curve"]] == [16, 32, 48, 64, 80, 96]
    assert after["weights"] != before["weights"]
    assert after["evaluations"] == []


def test_training_that_is_complete_is_neither_dated_nor_evaluated_again(run, capsys, monkeypatch):
    before = read_result(run)
    monkeypatch.setenv("GIT_COMMIT", "of another day")
    main([*TRAIN, "--out", str(run), "--steps", "64", "--evaluate", "2"])
    assert read_result(run) == before
    assert "confidence" not in capsys.readouterr().out


def test_a_run_that_another_process_trains_is_left_alone_but_read_and_evaluated(run, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with sole_writer(run):
        with pytest.raises(SystemExit):
            main([*TRAIN, "--out", str(run), "--steps", "128"])
        assert f"process {os.getpid()} is writing to it" in capsys.readouterr().err
        assert (
            before.items() <= {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}.items()
        )
        assert load_policy(str(run))
        assert add_evaluation(run, make_report(run, engine="mujoco"))
    assert len(read_result(run)["evaluations"]) == 2


def test_a_run_of_somebody_else_is_evaluated_and_left_as_it_is(run, monkeypatch, capsys):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    before = (run / "result.json").read_bytes()
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    evaluate_command._note(run, make_report(run, engine="mujoco"), "9x9")
    printed = capsys.readouterr().out.replace("\n", "")
    assert f"not added: {run / 'result.json'}: cannot write to it (Permission denied)" in printed
    assert (run / "result.json").read_bytes() == before


def test_each_engine_has_one_evaluation_of_the_present_weights(run):
    assert add_evaluation(run, make_report(run, engine="mujoco"))
    assert add_evaluation(run, make_report(run, episodes=100))
    assert not add_evaluation(run, make_report(run, episodes=3))
    found = {one["engine"]: one["episodes"] for one in read_result(run)["evaluations"]}
    assert found == {"jax": 100, "mujoco": 2}
    assert len(write_result(run)["evaluations"]) == 2
    with pytest.raises(ValueError, match="was trained in 9x9, not in 11x11"):
        add_evaluation(run, make_report(run, task="11x11"))
    with pytest.raises(ValueError, match="results need held-out layouts"):
        add_evaluation(run, make_report(run, held_out=False))
    with pytest.raises(ValueError, match="weights changed"):
        add_evaluation(run, make_report(run, weights="others"))
    assert len(read_result(run)["evaluations"]) == 2
    # As if a run went on and was killed: what is known of the old weights is not said of the new ones.
    content = bytearray((run / "agent.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "agent.safetensors").write_bytes(content)
    assert add_evaluation(run, make_report(run))
    assert [one["weights"] for one in read_result(run)["evaluations"]] == [hash_weights(run)]


def test_a_run_that_was_killed_is_read_and_evaluated(run):
    whole = read_result(run)
    (run / "result.json").unlink()
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"steps": 1000}))
    result = read_result(run)
    assert (result["training"]["steps"], result["training"]["steps_planned"]) == (64, 1000)
    assert result["hardware"] is result["command"] is None
    assert result["curve"] == whole["curve"]
    add_evaluation(run, make_report(run))
    assert read_result(run) == result | {"evaluations": [make_report(run)]}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "not a valid result"),
        (lambda text: "", "not a valid result"),
        (lambda text: "[]", "it is no object"),
        (lambda text: text.replace('"curve"', '"bend"'), "curve is missing"),
        (lambda text: text.replace('"compile_seconds"', '"x"'), "compile_seconds is missing in training"),
        (lambda text: text.replace('"mean": ', '"mean": "a", "mine": '), "mean is 'a'"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "newer version"),
    ],
)
def test_damage_is_named_and_nothing_is_lost(run, damage, words, capsys, monkeypatch):
    path = run / "result.json"
    path.write_text(damage(path.read_text()))
    before = path.read_bytes()
    for use in (read_result, write_result, lambda folder: add_evaluation(folder, make_report(folder))):
        with pytest.raises(ValueError, match=words) as caught:
            use(run)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == before
    # Before the training or the evaluation, not after it.
    monkeypatch.setattr("memory_maze.training.on_policy.compile_iterate", None)
    monkeypatch.setattr("memory_maze.episodes.evaluate.play", None)
    train = [*TRAIN, "--out", str(run), "--steps", "128", "--evaluate", "0"]
    for command in (train, ["evaluate", str(run)]):
        with pytest.raises(SystemExit):
            main(command)
        assert str(path) in capsys.readouterr().err.replace("\n", "")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"not a run: it has neither result.json"):
        read_result(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"missing.json"):
        read_result(tmp_path / "missing.json")


def test_long_curves_keep_the_mean_of_all_episodes():
    rng = np.random.RandomState(0)
    episodes = rng.randint(0, 5, 1234)
    lines = [
        {"steps": i, "seconds": 0.5 * i, "episodes": int(n), "return": float(i) if n else None}
        for i, n in enumerate(episodes)
    ]
    curve = thin(lines)
    assert 100 < len(curve) <= 200
    size = curve[0]["steps"] + 1
    assert [point["steps"] for point in curve] == [*range(size - 1, 1233, size), 1233]
    for start, point in zip(range(0, 1234, size), curve, strict=True):
        weights = episodes[start : start + size]
        mean = np.average(np.arange(start, start + len(weights)), weights=weights) if weights.any() else None
        assert point["return"] == (mean if mean is None else pytest.approx(mean))


def test_agents_are_named_by_the_nearest_preset():
    fast = PRESETS["fast"].describe()
    assert Config.nearest_preset(fast) == ("fast", {})
    assert Config.nearest_preset(fast | {"core": "none"}) == ("fast", {"core": "none"})
    assert Config.ablation(fast) is None
    assert Config.ablation(fast | {"core": "none"}) == "no memory"
    assert Config.ablation(fast | {"forget_every": 50}) == "forgets every 50 steps"


def test_runs_of_before_fields_were_renamed_are_read():
    former = {new: old for old, new in Config.former_names.items()}
    old = {former.get(key, key): value for key, value in PRESETS["fast"].settings().items()}
    assert {"trust", "core_size"} < old.keys()
    assert Config.read(old) == PRESETS["fast"]
    assert Config.nearest_preset(old | {"trust": 0.3}) == ("fast", {"clip_ratio": 0.3})
    with pytest.raises(ValueError, match="written by a newer version"):
        Config.read(old | {"wings": 2})


def test_results_are_named_by_what_presets_are_now(run, monkeypatch):
    changed = dataclasses.replace(PRESETS["debug"], entropy_cost=0.5, clip_ratio=0.2)
    old = json.loads((run / "result.json").read_text())
    del old["config"]["agent"]["clip_ratio"]  # there was no choice yet
    (run / "result.json").write_text(json.dumps(old))
    assert read_result(run)["changes"] == {}
    monkeypatch.setitem(PRESETS, "debug", changed)
    result = read_result(run)
    assert (result["preset"], result["changes"]) == ("debug", {"entropy_cost": 0.001, "clip_ratio": None})


@pytest.mark.parametrize(
    ("policy", "flags", "held_out"),
    [
        ("run", [], True),
        ("run", ["--no-held-out"], True),
        ("random", ["--held-out"], True),
        ("random", [], False),
    ],
)
def test_trained_agents_are_evaluated_in_held_out_mazes_only(
    run, policy, flags, held_out, monkeypatch, tmp_path
):
    played = []

    def play(policy, scenarios, steps, **settings):
        played.extend(scenarios)
        return Recording(None, np.zeros((len(scenarios), steps), np.uint8), None, None)

    monkeypatch.setattr("memory_maze.episodes.evaluate.play", play)
    name = str(run) if policy == "run" else policy
    main(["evaluate", name, "--episodes", "40", "--seed", "5", "--json", str(tmp_path / "x.json"), *flags])
    assert json.loads((tmp_path / "x.json").read_text())["held_out"] is held_out
    kept = [is_held_out(scenario) for scenario in played]
    assert len(kept) == 40
    assert all(kept) if held_out else 0 < sum(kept) < 15
    assert len({scenario.walls for scenario in played}) > 35


def test_held_out_mazes_are_those_of_their_seeds():
    seed, scenario = draw_scenario(TASKS["9x9"], 7, held_out=True)
    assert scenario == Sampler(TASKS["9x9"], seed).sample()
    assert draw_scenario(TASKS["9x9"], seed, held_out=True) == (seed, scenario)
    assert not is_held_out(draw_scenario(TASKS["9x9"], 7, held_out=False)[1])


def test_the_command_evaluates_a_run_and_adds_it_on_both_engines(run, capsys, tmp_path):
    path = tmp_path / "out.json"
    main(["evaluate", str(run), "--episodes", "3", "--engine", "mujoco", "--json", str(path)])
    report = json.loads(path.read_text())
    assert (report["task"], report["policy"], report["held_out"]) == ("9x9", "tiny", True)
    assert str(tmp_path) not in path.read_text()
    added = {one["engine"]: one for one in read_result(run)["evaluations"]}
    assert added["mujoco"]["scores"] == report["scores"]
    assert len(added["jax"]["scores"]) == 2
    out = capsys.readouterr().out
    assert "rewards per 100 steps: " in out
    assert "held-out layouts" in out
    before = (run / "result.json").read_bytes()
    main(["evaluate", str(run), "--episodes", "1", "--task", "11x11", "--engine", "mujoco"])
    assert (run / "result.json").read_bytes() == before
    assert "in 11x11 on mujoco" in capsys.readouterr().out


def test_an_agent_that_is_made_to_forget_is_no_result_of_the_run(run, tmp_path, monkeypatch, capsys):
    before, path = (run / "result.json").read_bytes(), tmp_path / "out.json"

    def play(policy, scenarios, steps, **settings):
        assert isinstance(policy, Forgetful)
        return Recording(None, np.ones((len(scenarios), steps), np.uint8), None, None)

    monkeypatch.setattr("memory_maze.episodes.evaluate.play", play)
    main(["evaluate", str(run), "--episodes", "3", "--forget-every", "5", "--json", str(path)])
    assert json.loads(path.read_text())["forget_every"] == 5
    assert (run / "result.json").read_bytes() == before
    assert "is reset every 5 steps" in capsys.readouterr().out


def test_an_evaluation_of_weights_that_have_changed_meanwhile_is_not_added(run, monkeypatch, capsys):
    before = (run / "result.json").read_bytes()

    def play(policy, scenarios, steps, **settings):
        content = (run / "agent.safetensors").read_bytes()
        (run / "agent.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        return Recording(None, np.ones((len(scenarios), steps), np.uint8), None, None)

    monkeypatch.setattr("memory_maze.episodes.evaluate.play", play)
    main(["evaluate", str(run), "--episodes", "3"])
    assert "the run has continued in the meantime" in capsys.readouterr().out
    assert (run / "result.json").read_bytes() == before


@pytest.fixture
def shipped(run, tmp_path, monkeypatch):
    """An agent of the package, from a run."""
    agents = tmp_path / "assets" / "agents"
    monkeypatch.setattr("memory_maze.agents.folder.AGENTS", agents)
    folder = agents / "impala-tiny"
    main(["export-agent", str(run), str(folder)])
    return folder


def test_an_agent_of_the_package_is_played_by_its_name(shipped, tmp_path, monkeypatch, capsys):
    assert sorted(path.name for path in shipped.iterdir()) == ["agent.safetensors", "config.json"]
    config = json.loads((shipped / "config.json").read_text())
    (shipped / "config.json").write_text(json.dumps(config | {"task": "11x11"}))
    main(["evaluate", "impala-tiny", "--episodes", "1", "--engine", "mujoco"])
    assert "impala-tiny in 11x11 on mujoco" in capsys.readouterr().out
    # Nothing is written into the package.
    assert len(list(shipped.iterdir())) == 2
    monkeypatch.chdir(tmp_path)
    settings = ["--episodes", "2", "--steps", "8", "--engine", "mujoco"]
    main(["collect", "--policy", "impala-tiny", "--out", "data", *settings])
    assert len(list((tmp_path / "data").glob("train*"))) == 1
    with pytest.raises(SystemExit):
        main(["evaluate", "impala-other"])
    assert "choose from oracle, explorer, random, impala-tiny, your own" in capsys.readouterr().err
    # A folder of your own comes before an agent of the package.
    (tmp_path / "impala-tiny").mkdir()
    with pytest.raises(ValueError, match="not a run or agent"):
        load_policy("impala-tiny")


def test_weights_of_half_the_size_give_the_same_logits(run, shipped):
    sizes = [(folder / "agent.safetensors").stat().st_size for folder in (run, shipped)]
    assert sizes[1] < 0.7 * sizes[0]  # names take some of it
    images = jax.random.randint(jax.random.key(0), (8, 64, 64, 3), 0, 256).astype(np.uint8)
    logits = []
    for name in (str(run), "impala-tiny"):
        network = load_policy(name).network
        carry = network.core.initial()
        assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(carry))
        for image in images:
            sight = Sight(image, np.float32(0), np.int32(1), np.bool_(False))
            carry, out = network.step(carry, sight, jax.random.key(0))
        logits.append(np.asarray(out))
    assert np.abs(logits[0]).max() > 1e-3
    np.testing.assert_allclose(*logits, atol=2e-3 * np.abs(logits[0]).max())


def test_wrong_exports_are_refused(run, shipped, capsys):
    before = (run / "agent.safetensors").read_bytes()
    with pytest.raises(SystemExit):
        main(["export-agent", str(shipped), str(run)])
    assert "which needs its own weights" in capsys.readouterr().err
    assert (run / "agent.safetensors").read_bytes() == before
    (shipped / "agent.safetensors").write_bytes(before[:100])
    for arguments in (["export-agent", str(shipped), str(shipped.parent / "b")], ["evaluate", str(shipped)]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "damaged" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # the child becomes ffmpeg
@pytest.mark.parametrize(("policy", "engine"), [("random", "jax"), ("agent", "mujoco")])
def test_a_video_shows_every_picture_of_the_first_episode(trained, tmp_path, engine, policy, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "9x9", dataclasses.replace(TASKS["9x9"], seconds=10))
    path = tmp_path / "walk.mp4"
    name = str(shutil.copytree(trained, tmp_path / "tiny")) if policy == "agent" else policy
    main(["evaluate", name, "--episodes", "2", "--engine", engine, "--video", str(path)])
    with imageio.get_reader(path) as video:
        assert video.count_frames() == 41
        first = video.get_data(0)
    task = TASKS["9x9"]
    scenario = draw_scenario(task, 0, True)[1] if policy == "agent" else Sampler(task, 0).sample()
    seen = first_picture(scenario, engine).repeat(7, axis=0).repeat(7, axis=1).astype(int)
    assert np.abs(first[:448] - seen).mean() < 12  # of 255: videos lose some


def first_picture(scenario, engine):
    from memory_maze.adapters.simulation import Simulation

    simulation = Simulation("9x9", scenario=scenario, engine=engine, image_only_obs=True)
    image = simulation.reset()
    simulation.close()
    return image


def test_videos_are_refused_before_anything_is_played(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "random", "--video", str(tmp_path / "walk.gif")])
    assert "videos are .mp4 files" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_each_size_comes_with_an_agent_that_has_learned(task):
    policy = load_policy(f"impala-{task}")
    report = evaluate(policy, dataclasses.replace(TASKS[task], seconds=100), episodes=6)
    # A random policy finds one object in five or ten episodes of this length.
    assert report["held_out"]
    assert report["mean"] > 0.5


@pytest.mark.slow
def test_an_agent_of_the_package_plays_mujoco_as_well():
    task, policy = dataclasses.replace(TASKS["9x9"], seconds=75), load_policy("impala-9x9")
    on_jax, on_mujoco = (evaluate(policy, task, episodes=3, engine=engine) for engine in ("jax", "mujoco"))
    assert on_mujoco["mean"] == pytest.approx(on_jax["mean"], abs=3)
    assert on_mujoco["mean"] > 2


def test_runs_on_a_shared_gpu_say_so(monkeypatch):
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert "shared" not in describe_devices()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps")
    assert describe_devices().endswith(", shared")
