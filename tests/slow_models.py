"""Networks in NumPy and float64, as the papers' formulas have them: what the fast ones are compared with."""

import equinox as eqx
import jax
import numpy as np


def to_float64(module):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), eqx.filter(module, eqx.is_array))


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def normalize(norm, x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * norm.scale + norm.offset


def apply_mlp(mlp, x):
    mlp = to_float64(mlp)
    for layer, norm in zip(mlp.hidden, mlp.norms, strict=True):
        x = elu(normalize(norm, x @ layer.weight + layer.bias))
    return x @ mlp.out.weight + mlp.out.bias


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Slow:
    """One step in NumPy, as section 3.2 of Pasukonis et al.'s program has it."""

    def __init__(self, model):
        self.model = to_float64(model)
        self.sizes = model.groups, model.classes

    def hidden(self, layer, norm, *inputs):
        return elu(normalize(norm, np.concatenate(inputs, axis=-1) @ layer.weight + layer.bias))

    def move(self, deter, stoch, action):
        model, sigmoid = self.model, lambda x: 1 / (1 + np.exp(-x))
        x = self.hidden(model.enter, model.enter_norm, stoch, action)
        inputs = np.split(x @ model.gates.weight + model.gates.bias, 3, -1)
        recurrent = np.split(deter @ model.recur.weight + model.recur.bias, 3, -1)
        reset, update = (sigmoid(one + two) for one, two in zip(inputs[:2], recurrent[:2], strict=True))
        candidate = np.tanh(inputs[2] + reset * recurrent[2])
        return (1 - update) * candidate + update * deter

    def logits(self, layer, hidden):
        return (hidden @ layer.weight + layer.bias).reshape(*hidden.shape[:-1], *self.sizes)

    def posterior(self, deter, embed):
        model = self.model
        return self.logits(model.posterior, self.hidden(model.see, model.see_norm, deter, embed))

    def prior(self, deter):
        model = self.model
        return self.logits(model.prior, self.hidden(model.guess, model.guess_norm, deter))

    def sample(self, logits, noise):
        picked = np.eye(logits.shape[-1])[np.argmax(logits + noise, axis=-1)]
        return picked.reshape(*picked.shape[:-2], -1)


def follow(model, carry, embeds, actions, resets, key):
    """States and both beliefs of all steps, slowly."""
    slow, noise = Slow(model), np.asarray(model.sample_noise(key, resets.shape))
    deter, stoch = (np.asarray(leaf, np.float64) for leaf in carry)
    found = []
    for t in range(len(embeds)):
        keep = 1 - np.asarray(resets[t], float)[:, None]
        deter = slow.move(keep * deter, keep * stoch, np.asarray(actions[t], np.float64))
        posterior = slow.posterior(deter, np.asarray(embeds[t], np.float64))
        stoch = slow.sample(posterior, noise[t])
        found.append((deter, stoch, posterior, slow.prior(deter)))
    return [np.stack(parts) for parts in zip(*found, strict=True)]
