"""Objects as spheres: where they stand before a camera, and where rays meet them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.rays import AMBIENT, DIFFUSE, Camera, Lens, Ray, inverse_depth
from memory_maze.scenario import COLORS

OBJECT_RADIUS = 0.6
NOWHERE = 1e9  # squared distance of a sphere that no ray meets
# The object's texture holds whole numbers.
TEXELS = np.floor(255 * COLORS + 1e-6).astype(np.float32)


class Spheres(NamedTuple):
    """M spheres per lane in the camera's axes, metres; every field is (L, M) float32 but `rgb`."""

    depth: jax.Array
    right: jax.Array
    up: jax.Array
    gap: jax.Array  # squared distance of the centre, less the squared radius
    gloss: jax.Array  # light per metre that the surface lies before the centre
    rgb: jax.Array  # (L, M, 3) float32, 0 to 255


def see_spheres(lens: Lens, camera: Camera, x, y, z, radius, rgb: jax.Array) -> Spheres:
    """Spheres at x, y, z (L, M) in the world, as the camera has them before it."""
    x, y, z = x - camera.x, y - camera.y, z - camera.z
    ahead, right = x * camera.cos + y * camera.sin, x * camera.sin - y * camera.cos
    gap = ahead**2 + right**2 + z**2 - radius**2
    gloss = jnp.broadcast_to(jnp.float32(DIFFUSE / radius), gap.shape)
    return Spheres(lens.cos * ahead - lens.sin * z, right, lens.sin * ahead + lens.cos * z, gap, gloss, rgb)


def keep(spheres: Spheres, shown: jax.Array) -> Spheres:
    """Puts the spheres that are not shown where no ray meets them."""
    parts = (jnp.where(shown, part, 0) for part in spheres[:3])
    return Spheres(*parts, jnp.where(shown, spheres.gap, NOWHERE), spheres.gloss, spheres.rgb)


def in_sight(slopes: np.ndarray, key: jax.Array, camera: Camera, x: jax.Array, y: jax.Array) -> jax.Array:
    """(L, T) bool: whether some direction of the fan meets the object before its wall."""
    x, y = x - camera.x, y - camera.y
    ahead, right = x * camera.cos + y * camera.sin, x * camera.sin - y * camera.cos
    ahead, right = ahead[..., None], right[..., None]
    length = 1 + slopes**2
    along = ahead + slopes * right
    aside = (right - slopes * ahead) ** 2 < OBJECT_RADIUS**2 * length
    return ((along > 0) & aside & (along * inverse_depth(key)[:, None] < length)).any(-1)


def nearest_first(spheres: Spheres) -> Spheres:
    """The spheres from near to far; those moved away are last.

    The spheres must come from an earlier stage: distances that XLA computes twice may be rounded twice.
    """
    count = spheres.gap.shape[1]
    order = np.arange(count)
    far, near = spheres.gap[:, :, None], spheres.gap[:, None, :]
    nearer = (near < far) | (near == far) & (order < order[:, None])
    chosen = nearer.sum(-1)[:, None, :] == order[:, None]  # (L, slot, sphere)

    def pick(part: jax.Array) -> jax.Array:
        return jnp.where(chosen, part[:, None, :], 0).sum(-1)

    rgb = jnp.where(chosen[..., None], spheres.rgb[:, None], 0).sum(2)
    return Spheres(*(pick(part) for part in spheres[:5]), rgb)


def facing(ray: Ray, spheres: Spheres, m: int) -> jax.Array:
    """(L, P): the centre of sphere m along the rays."""
    return spheres.depth[:, m, None] + ray.right * spheres.right[:, m, None] + ray.up * spheres.up[:, m, None]


def square(ray: Ray) -> np.ndarray:
    """(P,): the squared length of the rays."""
    return 1 + ray.right**2 + ray.up**2


def is_met(ray: Ray, spheres: Spheres, m: int) -> jax.Array:
    """(L, P) bool: whether rays, or their extensions backwards, meet sphere m."""
    return facing(ray, spheres, m) ** 2 > square(ray) * spheres.gap[:, m, None]


def reach(ray: Ray, spheres: Spheres, m: int) -> jax.Array:
    """(L, P): the ray parameter at the surface, or at the closest point where the ray misses."""
    along, length = facing(ray, spheres, m), square(ray)
    root = jnp.sqrt(jnp.maximum(along**2 - length * spheres.gap[:, m, None], 0))
    return (along - root) * (1 / length)


def light(ray: Ray, spheres: Spheres, m: int) -> jax.Array:
    """(L, P): by how much of its depth the surface lies before the centre."""
    before = spheres.depth[:, m, None] - reach(ray, spheres, m)
    return AMBIENT + spheres.gloss[:, m, None] * jnp.maximum(0, before)
