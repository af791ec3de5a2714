"""What a trained agent remembers: its frozen world model as a sequence model."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.agents.folder import find_folder, read_config, read_environment
from memory_maze.agents.network import load_network, read_agent
from memory_maze.models.rssm import Latent
from memory_maze.models.vision import pool
from memory_maze.models.world_model import WorldModel
from memory_maze.options import Options
from memory_maze.probing import baselines
from memory_maze.probing.model import Carry, Learned, Sequence, SequenceModel
from memory_maze.results.online import hash_weights
from memory_maze.variants import name_task


class AgentModel(SequenceModel):
    """The world model of an agent, which learns nothing any more. Its state is what the actor is given."""

    model: WorldModel
    downsample: int = eqx.field(static=True)
    state_size: int = eqx.field(static=True)
    frozen: bool = eqx.field(static=True)

    def __init__(self, network: Any) -> None:
        self.model, self.downsample = network.model, network.downsample
        self.state_size, self.frozen = network.model.rssm.state_size, True

    def initial(self) -> Latent:
        return self.model.initial()

    def observe(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[Carry, jax.Array]:
        embeds = self.model.encoder(pool(sequence.image, self.downsample))
        carry, states, _ = self.model.rssm.observe(carry, embeds, sequence.action, sequence.reset, key)
        return carry, states.vector

    def loss(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        carry, states = self.observe(carry, sequence, key)
        return jnp.float32(0), Learned(carry, states, {})


def _find_folder(name: str) -> Path | None:
    """Of a trained agent; baselines come before directories of their names."""
    return None if name in baselines.TITLES else find_folder(name)


def load_agent(name: str) -> AgentModel | None:
    """The world model of a run of memory-maze train, or of an agent by its name; None for other names."""
    if (folder := _find_folder(name)) is None:
        return None
    network, described = load_network(folder)
    if not isinstance(getattr(network, "model", None), WorldModel):
        raise ValueError(f"{name} has no world model to probe: its agent is {described['algorithm']}")
    return AgentModel(network)


def describe_agent(name: str) -> dict[str, Any]:
    """What config.json tells of an agent beside its name: which weights it has. Empty for other models."""
    return {} if (folder := _find_folder(name)) is None else {"weights": hash_weights(folder)}


def title_agent(name: str) -> str | None:
    """The name of an agent in reports; None for other models."""
    if (folder := _find_folder(name)) is None:
        return None
    return f"{read_agent(read_config(folder), folder).title}, agent {Path(folder).resolve().name}"


def check_variant(name: str, options: Options) -> None:
    """Refuses data of another variant than an agent was trained in."""
    if (folder := _find_folder(name)) is None:
        return
    task, own = read_environment(folder)
    if own != options:
        raise ValueError(
            f"{name} was trained in {name_task(task, own)}, and the data is of {name_task(task, options)}"
        )
