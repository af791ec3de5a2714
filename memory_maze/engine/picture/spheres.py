"""Objects as spheres: where they stand before a camera, and where rays meet them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine.physics.arithmetic import invert, root
from memory_maze.engine.picture import shading
from memory_maze.engine.picture.rays import AMBIENT, DIFFUSE, Camera, Lens, Ray, inverse_depth
from memory_maze.world import COLORS, OBJECT_RADIUS

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
    rgb: Any  # (L, M, 3) float32, 0 to 255


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


def one_by_one(spheres: Spheres, count: int) -> list[Spheres]:
    """The first spheres of each lane, with fields (L, 1) that meet pixels (P,); `rgb` is three of them."""
    return [
        Spheres(
            *(part[:, m, None] for part in spheres[:5]), tuple(spheres.rgb[:, m, c, None] for c in range(3))
        )
        for m in range(count)
    ]


# Below, `sphere` is one of these, or has scalars in the same fields, and rays are (P,).


def facing(ray: Ray, sphere: Spheres) -> jax.Array:
    """The centre of the sphere along the rays."""
    return sphere.depth + ray.right * sphere.right + ray.up * sphere.up


def squared_length(ray: Ray) -> Any:
    """The squared length of the rays."""
    return 1 + ray.right**2 + ray.up**2


def is_met(ray: Ray, sphere: Spheres) -> jax.Array:
    """Whether rays, or their extensions backwards, meet the sphere."""
    return facing(ray, sphere) ** 2 > squared_length(ray) * sphere.gap


def reach(ray: Ray, sphere: Spheres) -> jax.Array:
    """The ray parameter at the surface, or at the closest point where the ray misses."""
    along, length = facing(ray, sphere), squared_length(ray)
    square = jnp.maximum(along**2 - length * sphere.gap, 1e-12)
    return (along - root(square)) * invert(length)


def light(ray: Ray, sphere: Spheres) -> jax.Array:
    """By how much of its depth the surface lies before the centre."""
    before = sphere.depth - reach(ray, sphere)
    return AMBIENT + sphere.gloss * jnp.maximum(0, before)


def color(ray: Ray, sphere: Spheres) -> jax.Array:
    """Packed, where the rays meet the sphere."""
    brightness = light(ray, sphere)
    return shading.pack(*(brightness * part for part in sphere.rgb))
