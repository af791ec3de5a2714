"""How the ball moves: the walker's dynamics in steps of 5 ms, with the contacts of MuJoCo 3.10.

    M v' = torques - damping + camera + J' f,    f by `contact`: the ground and at most two walls

Damping is implicit, as in MuJoCo's Euler integrator. All steps of one control run inside one loop on (L,)
arrays, a lane per maze, in metres from the centre of the cell where the control began: that cell and its
eight neighbours are all the ball can touch until then.
"""

import contextlib
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental import pallas
from jax.experimental.pallas import triton

from memory_maze.engine.physics import arithmetic
from memory_maze.engine.physics.contact import (
    ACCURATE,
    CAMERA_MOMENT,
    INVERSE_MASS,
    MASS,
    ROLL_INERTIA,
    STEER_INERTIA,
    Accuracy,
    Contact,
    Vector,
    add,
    invert_mass,
    multiply,
    push,
    solve_all,
    solve_ground,
    touch_ground,
    touch_wall,
)
from memory_maze.engine.platforms import by_platform
from memory_maze.engine.types import Body, Maze
from memory_maze.options import PHYSICS_TIMESTEP
from memory_maze.world import BALL_RADIUS, FLOATING_HEIGHT, OBJECT_RADIUS

SUBSTEPS = 50
GRAVITY = 9.81
ROLL_TORQUE, STEER_TORQUE = -50.0, 30.0
ROLL_DAMPING, STEER_DAMPING = 5.0, 20.0
# Whole turns in radians, which are taken off: float32 holds large angles too roughly to turn at the right
# speed. More than anyone turns in 1000 s, the longest episode that was published: those stay as they were.
WRAP = 256 * 2 * math.pi
_DAMPED_INVERSE_MASS = invert_mass(
    STEER_INERTIA + PHYSICS_TIMESTEP * STEER_DAMPING, ROLL_INERTIA + PHYSICS_TIMESTEP * ROLL_DAMPING
)

# Floating objects are touched by the head and the face: cylinders of (radius, half length).
HEAD_HEIGHT = 0.53
HEAD, FACE, FACE_AHEAD = (0.1, 0.06), (0.05, 0.035), 0.1

# Lanes that share one decision whether any is at a wall: few enough to say no, enough to fill vectors.
_CPU_BLOCK, _CPU_VECTOR = 64, 8
_GPU_BLOCK = 32


class _Lanes(NamedTuple):
    """The balls during one control, cell-local; every field is (L,) float32."""

    x: jax.Array
    y: jax.Array
    z: jax.Array
    cos: jax.Array  # of the heading
    sin: jax.Array
    turned: jax.Array  # steer since the control began
    vx: jax.Array
    vy: jax.Array
    vz: jax.Array
    steer_rate: jax.Array
    roll_rate: jax.Array
    nearest: tuple[jax.Array, ...]  # per object: smallest of squared distance - squared reach; < 0 is touched


class _Drive(NamedTuple):
    """What stays the same during one control, (L,) each."""

    roll: jax.Array
    steer: jax.Array
    walls: jax.Array  # int32: bit 3 * row + column of the neighbourhood, from the bottom left
    objects_x: tuple[jax.Array, ...]
    objects_y: tuple[jax.Array, ...]


class _Setup(NamedTuple):
    """What the program is compiled for."""

    substeps: int
    floating_objects: bool
    accuracy: Accuracy


def move(
    body: Body,
    control: jax.Array,
    maze: Maze,
    *,
    substeps: int = SUBSTEPS,
    floating_objects: bool = False,
    accuracy: Accuracy = ACCURATE,
) -> tuple[Body, jax.Array]:
    """Holds control (2,), roll (-1 is forward) and steer (1 is right), for `substeps` of 5 ms.

    Returns the body and touched (T,) bool: the objects touched at the end of any of the substeps.
    One maze in: `jax.vmap` runs all lanes in one kernel.
    """
    touched = jnp.zeros(maze.objects.shape[0], bool)
    whole, rest = divmod(substeps, SUBSTEPS)
    advance = functools.partial(_advance, control=control, maze=maze)
    setup = _Setup(SUBSTEPS, floating_objects, accuracy)
    if whole == 1:
        body, touched = advance((body, touched), setup=setup)
    elif whole:
        body, touched = lax.fori_loop(0, whole, lambda _, carry: advance(carry, setup=setup), (body, touched))
    if rest:
        body, touched = advance((body, touched), setup=setup._replace(substeps=rest))
    return body, touched


def _advance(
    carry: tuple[Body, jax.Array], control: jax.Array, maze: Maze, setup: _Setup
) -> tuple[Body, jax.Array]:
    """At most 50 substeps, in which the ball stays within one cell of where it is."""
    body, touched = carry
    size = maze.walls.shape[0]
    column, row = _cell(body.x, size), _cell(body.y, size)
    x, y = _centre(column, size), _centre(row, size)
    zero = body.x - body.x  # unlike a constant, sharded like the rest of the loop's state
    lanes = _Lanes(
        x=body.x - x,
        y=body.y - y,
        z=body.z,
        cos=jnp.cos(body.steer),
        sin=-jnp.sin(body.steer),
        turned=zero,
        vx=body.vx,
        vy=body.vy,
        vz=body.vz,
        steer_rate=body.steer_rate,
        roll_rate=body.roll_rate,
        nearest=(zero + jnp.inf,) * maze.objects.shape[0],
    )
    drive = _Drive(
        roll=control[0],
        steer=control[1],
        walls=_neighbourhood(maze.walls, row, column),
        objects_x=tuple(maze.objects[:, 0] - x),
        objects_y=tuple(maze.objects[:, 1] - y),
    )
    lanes = _add_lane_axis(_run_lanes(setup))(lanes, drive)
    body = Body(
        x=x + lanes.x,
        y=y + lanes.y,
        z=lanes.z,
        steer=_wrap(body.steer + lanes.turned),
        vx=lanes.vx,
        vy=lanes.vy,
        vz=lanes.vz,
        steer_rate=lanes.steer_rate,
        roll_rate=lanes.roll_rate,
    )
    return body, touched | (jnp.stack(lanes.nearest) < 0)


def _wrap(steer: jax.Array) -> jax.Array:
    return steer - WRAP * jnp.trunc(steer / WRAP)


def _cell(position: jax.Array, size: int) -> jax.Array:
    return jnp.floor(0.5 * position + 0.5 * size).astype(jnp.int32)


def _centre(cell: jax.Array, size: int) -> jax.Array:
    return (2 * cell - (size - 1)).astype(jnp.float32)


def _neighbourhood(walls: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """Nine bits from the bottom left: which cells around (row, column) are wall. Outside all are."""
    size = walls.shape[0]
    rows = row + jnp.arange(-1, 2)
    columns = column + jnp.arange(-1, 2)
    inside = (rows >= 0) & (rows < size)
    found = walls[jnp.clip(rows, 0, size - 1)]
    bits = (found[:, None] >> jnp.clip(columns, 0, 31).astype(jnp.uint32)) & 1
    free = (bits == 0) & inside[:, None] & (columns >= 0) & (columns < size)
    return jnp.sum(jnp.where(free, 0, 1 << jnp.arange(9).reshape(3, 3))).astype(jnp.int32)


# ---------------------------------------------------------------------------------------------------------
# One substep
# ---------------------------------------------------------------------------------------------------------


def _substep(lanes: _Lanes, drive: _Drive, setup: _Setup) -> _Lanes:
    cos, sin = lanes.cos, lanes.sin
    steer_rate, roll_rate = lanes.steer_rate, lanes.roll_rate
    velocity = (
        cos * lanes.vx + sin * lanes.vy,
        cos * lanes.vy - sin * lanes.vx,
        lanes.vz,
        steer_rate,
        roll_rate,
    )
    zero = jnp.zeros_like(lanes.x)
    applied = (
        CAMERA_MOMENT * steer_rate * steer_rate,  # the camera swings outwards
        zero,
        zero - MASS * GRAVITY,
        STEER_TORQUE * drive.steer - STEER_DAMPING * steer_rate,
        ROLL_TORQUE * drive.roll - ROLL_DAMPING * roll_rate,
    )
    forces = add(applied, _contact_forces(lanes, velocity, applied, drive.walls, setup.accuracy))
    forward, left, up, steer, roll = multiply(_DAMPED_INVERSE_MASS, forces)
    vx = lanes.vx + PHYSICS_TIMESTEP * (cos * forward - sin * left)
    vy = lanes.vy + PHYSICS_TIMESTEP * (sin * forward + cos * left)
    vz = lanes.vz + PHYSICS_TIMESTEP * up
    steer_rate = steer_rate + PHYSICS_TIMESTEP * steer
    angle = PHYSICS_TIMESTEP * steer_rate
    cos, sin = _turn(cos, sin, angle)
    moved = lanes._replace(
        x=lanes.x + PHYSICS_TIMESTEP * vx,
        y=lanes.y + PHYSICS_TIMESTEP * vy,
        z=lanes.z + PHYSICS_TIMESTEP * vz,
        cos=cos,
        sin=sin,
        turned=lanes.turned + angle,
        vx=vx,
        vy=vy,
        vz=vz,
        steer_rate=steer_rate,
        roll_rate=roll_rate + PHYSICS_TIMESTEP * roll,
    )
    gap = _floating_gap if setup.floating_objects else _floor_gap
    gaps = [gap(moved, x, y) for x, y in zip(drive.objects_x, drive.objects_y, strict=True)]
    return moved._replace(nearest=tuple(map(jnp.minimum, moved.nearest, gaps)))


def _turn(cos: jax.Array, sin: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Clockwise by an angle of at most 0.01, by its series."""
    square = angle * angle
    c, s = 1 - 0.5 * square, angle * (1 - square * (1 / 6))
    return cos * c + sin * s, sin * c - cos * s


def _contact_forces(
    lanes: _Lanes, velocity: Vector, applied: Vector, walls: jax.Array, accuracy: Accuracy
) -> Vector:
    """J' f of all contacts. The costly solution is left out if no lane of the block is at a wall."""
    smooth = multiply(INVERSE_MASS, applied)
    ground = touch_ground(lanes.z, velocity)
    alone = push(ground, solve_ground(ground, smooth, accuracy))
    first, second = (
        (active, touch_wall(active, distance, *_to_body(lanes, nx, ny), velocity))
        for active, distance, nx, ny in _find_walls(lanes.x, lanes.y, walls)
    )

    def with_walls(*touching: Contact) -> Vector:
        start = add(smooth, multiply(INVERSE_MASS, alone))
        forces = solve_all((ground, *touching), smooth, start, accuracy)
        return tuple(jnp.where(first[0], force, free) for force, free in zip(forces, alone, strict=True))

    return lax.cond(
        _any(first[0]),
        lambda: lax.cond(
            _any(second[0]), lambda: with_walls(first[1], second[1]), lambda: with_walls(first[1])
        ),
        lambda: alone,
    )


def _to_body(lanes: _Lanes, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lanes.cos * x + lanes.sin * y, lanes.cos * y - lanes.sin * x


def _any(flags: jax.Array) -> jax.Array:
    return jnp.max(flags.astype(jnp.int32)) > 0  # Pallas on GPU reduces by maximum, but not by "or"


def _find_walls(x: jax.Array, y: jax.Array, walls: jax.Array):
    """Two contacts (active, distance, normal x, normal y) with walls; the second only in concave corners.

    Only the four cells around the nearest corner of the lattice matter: seen from the ball's quarter, the
    ones across the border in x, across in y, and diagonally across. The diagonal one is touched at its
    corner, and only if both others are free.
    """
    right, above = x >= 0, y >= 0
    sign_x, sign_y = jnp.where(right, 1.0, -1.0), jnp.where(above, 1.0, -1.0)
    ahead_x, ahead_y = sign_x * x - 1, sign_y * y - 1  # beyond the corner's borders: positive
    over_x, over_y = ahead_x > 0, ahead_y > 0
    column, row = jnp.where(right, 2, 0), jnp.where(above, 6, 0)
    here_x, there_x = jnp.where(over_x, column, 1), jnp.where(over_x, 1, column)
    here_y, there_y = jnp.where(over_y, row, 3), jnp.where(over_y, 3, row)
    across_x = ((walls >> (there_x + here_y)) & 1) > 0
    across_y = ((walls >> (here_x + there_y)) & 1) > 0
    diagonal = ((walls >> (there_x + there_y)) & 1) > 0
    far_x, far_y = jnp.abs(ahead_x), jnp.abs(ahead_y)
    at_x, at_y = across_x & (far_x < BALL_RADIUS), across_y & (far_y < BALL_RADIUS)
    square = ahead_x * ahead_x + ahead_y * ahead_y + 1e-12
    close = arithmetic.invert_root(square)
    far = square * close
    at_corner = diagonal & ~across_x & ~across_y & (far < BALL_RADIUS)
    face_x, face_y = jnp.where(over_x, sign_x, -sign_x), jnp.where(over_y, sign_y, -sign_y)
    zero = jnp.zeros_like(x)
    first = (
        at_x | at_y | at_corner,
        jnp.where(at_corner, far, jnp.where(at_x, far_x, far_y)) - BALL_RADIUS,
        jnp.where(at_corner, sign_x * ahead_x * close, jnp.where(at_x, face_x, zero)),
        jnp.where(at_corner, sign_y * ahead_y * close, jnp.where(at_x, zero, face_y)),
    )
    return first, (at_x & at_y, far_y - BALL_RADIUS, zero, face_y)


def _floor_gap(lanes: _Lanes, x: jax.Array, y: jax.Array) -> jax.Array:
    """Squared distance to an object on the floor, less the square of where it is touched."""
    dx, dy, dz = x - lanes.x, y - lanes.y, BALL_RADIUS + lanes.z
    return dx * dx + dy * dy + dz * dz - (BALL_RADIUS + OBJECT_RADIUS) ** 2


def _floating_gap(lanes: _Lanes, x: jax.Array, y: jax.Array) -> jax.Array:
    """Likewise from a floating object to the nearer of the head, an upright cylinder, and the face."""
    forward, left = _to_body(lanes, x - lanes.x, y - lanes.y)
    up = FLOATING_HEIGHT - HEAD_HEIGHT - lanes.z
    head = _to_cylinder(up, forward * forward + left * left, *HEAD)
    face = _to_cylinder(forward - FACE_AHEAD, left * left + up * up, *FACE)
    return jnp.minimum(head, face) - OBJECT_RADIUS**2


def _to_cylinder(along: jax.Array, across_squared: jax.Array, radius: float, half_length: float) -> jax.Array:
    """Squared distance of a point to a solid cylinder around the origin."""
    beyond = jnp.maximum(jnp.abs(along) - half_length, 0)
    outside = jnp.maximum(jnp.sqrt(across_squared) - radius, 0)
    return beyond * beyond + outside * outside


# ---------------------------------------------------------------------------------------------------------
# All substeps, as one kernel per platform
# ---------------------------------------------------------------------------------------------------------


def _add_lane_axis(function):
    """A function of (L,) arrays as one of scalars."""

    def single(*args):
        results = function(*jax.tree.map(lambda leaf: leaf[None], args))
        return jax.tree.map(lambda leaf: leaf[0], results)

    return single


@functools.cache
def _run_lanes(setup: _Setup):
    """The loop over all substeps on (L,) arrays. `vmap` makes its axis part of L, also a nested one."""

    @custom_vmap
    @jax.jit  # traced once for all programs with as many lanes
    def run(lanes: _Lanes, drive: _Drive) -> _Lanes:
        return by_platform(
            lanes,
            drive,
            cpu=functools.partial(_run_cpu, setup=setup),
            cuda=functools.partial(_run_pallas, setup=setup),
            default=functools.partial(_run_plain, setup=setup),
        )

    @run.def_vmap
    def _(size: int, batched, lanes: _Lanes, drive: _Drive):
        def merge(leaf: jax.Array, has_axis: bool) -> jax.Array:
            if not has_axis:
                leaf = jnp.broadcast_to(leaf, (size, *leaf.shape))
            return leaf.reshape(-1)

        merged = run(*jax.tree.map(merge, (lanes, drive), tuple(batched)))
        split = jax.tree.map(lambda leaf: leaf.reshape(size, -1), merged)
        return split, jax.tree.map(lambda _: True, split)

    return run


def _run_plain(lanes: _Lanes, drive: _Drive, *, setup: _Setup) -> _Lanes:
    return lax.fori_loop(0, setup.substeps, lambda _, lanes: _substep(lanes, drive, setup), lanes)


def _run_cpu(lanes: _Lanes, drive: _Drive, *, setup: _Setup) -> _Lanes:
    """Blocks of lanes one after another, in one function of machine code."""
    run = jax.jit(functools.partial(_run_blocks, setup=setup))
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except ImportError:  # an experimental interface; without it the result is the same
        return run(lanes, drive)
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return run(lanes, drive)


def _run_blocks(lanes: _Lanes, drive: _Drive, *, setup: _Setup) -> _Lanes:
    count = lanes.x.shape[0]
    blocks = -(-count // _CPU_BLOCK)
    if blocks == 1:
        return _run_plain(lanes, drive, setup=setup)
    padded = jax.tree.map(lambda leaf: leaf.reshape(blocks, -1), _pad((lanes, drive), blocks * _CPU_VECTOR))
    result = lax.map(lambda args: _run_plain(*args, setup=setup), padded)
    return jax.tree.map(lambda leaf: leaf.reshape(-1)[:count], result)


def _run_pallas(lanes: _Lanes, drive: _Drive, *, setup: _Setup, interpret: bool = False) -> _Lanes:
    """One kernel in which a warp keeps 32 lanes in its registers for all substeps."""
    count = lanes.x.shape[0]
    leaves, structure = jax.tree.flatten(_pad((lanes, drive), _GPU_BLOCK))
    outputs = len(jax.tree.leaves(lanes))

    def kernel(*refs) -> None:
        inputs = jax.tree.unflatten(structure, [ref[...] for ref in refs[: len(leaves)]])
        with contextlib.nullcontext() if interpret else arithmetic.approximate():
            result = _run_plain(*inputs, setup=setup)
        for ref, leaf in zip(refs[len(leaves) :], jax.tree.leaves(result), strict=True):
            ref[...] = leaf

    spec = pallas.BlockSpec((_GPU_BLOCK,), lambda i: (i,))
    results = pallas.pallas_call(
        kernel,
        grid=(leaves[0].shape[0] // _GPU_BLOCK,),
        in_specs=[spec] * len(leaves),
        out_specs=[spec] * outputs,
        out_shape=jax.eval_shape(lambda: leaves[:outputs]),  # with their sharding under shard_map
        compiler_params=None if interpret else triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
    )(*leaves)
    return jax.tree.map(lambda leaf: leaf[:count], jax.tree.unflatten(jax.tree.structure(lanes), results))


def _pad(tree, block: int):
    return jax.tree.map(lambda leaf: jnp.pad(leaf, (0, -leaf.shape[0] % block)), tree)
