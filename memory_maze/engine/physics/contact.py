"""Contact forces on the ball: MuJoCo's elliptic cones, Newton solver and noslip sweeps.

Every array is (L,) float32, one lane per ball, and every operation is elementwise, so that the same code
runs in XLA and inside a kernel. Vectors are tuples over the five axes forward, left, up, steer and roll of
the body frame, in which the mass matrix is constant. A row of a Jacobian is a dictionary from axis to
coefficient, which leaves the zeros out.

A contact has a normal row and three tangent rows. The third, torsion, is scaled by its friction
coefficient, so that all cones are |tangent force| <= normal force, and turning the tangents into one another
changes nothing: they are turned such that the accelerations they cause do not mix, J M^-1 J' is diagonal.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from memory_maze.engine.physics.arithmetic import invert, invert_root
from memory_maze.world import BALL_RADIUS

Value = jax.Array | float
Vector = tuple[Value, ...]  # one value per axis
Row = dict[int, Value]

AXES = FORWARD, LEFT, UP, STEER, ROLL = range(5)

# The walker of the model: a ball under a head that carries a camera of 1 kg, 0.15 m ahead of the axis.
MASS = 22.00001
STEER_INERTIA, ROLL_INERTIA = 1.18533229, 0.016
CAMERA_MOMENT = 0.15
TORSION = 0.02  # friction against turning on the spot, in metres; sliding friction is 1
INVERSE_WEIGHT = 0.045468  # MuJoCo's body_invweight0 of the ball, which scales the softness of contacts

# MuJoCo's default contact: solref (0.02, 1) is a critically damped spring of 20 ms, solimp
# (0.9, 0.95, 0.001, 0.5, 2) the impedance, from 0.9 at the surface to 0.95 at a depth of 1 mm.
_TIME, _HARD, _SOFT, _WIDTH = 0.02, 0.95, 0.9, 0.001
SPRING = 1 / (_HARD * _TIME) ** 2
DAMPER = 2 / (_HARD * _TIME)


def invert_mass(steer_inertia: float, roll_inertia: float) -> tuple[dict[int, float], ...]:
    """Rows of the inverse of the mass matrix; the camera couples left and steer by -CAMERA_MOMENT."""
    det = MASS * steer_inertia - CAMERA_MOMENT**2
    return (
        {FORWARD: 1 / MASS},
        {LEFT: steer_inertia / det, STEER: CAMERA_MOMENT / det},
        {UP: 1 / MASS},
        {LEFT: CAMERA_MOMENT / det, STEER: MASS / det},
        {ROLL: 1 / roll_inertia},
    )


_MASS_MATRIX: dict[tuple[int, int], Value] = {
    (FORWARD, FORWARD): MASS,
    (LEFT, LEFT): MASS,
    (LEFT, STEER): -CAMERA_MOMENT,
    (UP, UP): MASS,
    (STEER, STEER): STEER_INERTIA,
    (ROLL, ROLL): ROLL_INERTIA,
}
INVERSE_MASS = invert_mass(STEER_INERTIA, ROLL_INERTIA)


def _turn_ground_tangents() -> tuple[float, float, float, float]:
    """Eigenvalues, and cosine and sine of the first eigenvector, of J M^-1 J' over slip and torsion."""
    slip = INVERSE_MASS[LEFT][LEFT]
    both = -TORSION * INVERSE_MASS[LEFT][STEER]
    twist = TORSION**2 * INVERSE_MASS[STEER][STEER]
    half = (slip - twist) / 2
    root = math.hypot(half, both)
    large = (slip + twist) / 2 + root
    angle = math.atan2(both, half + root)
    return large, (slip * twist - both**2) / large, math.cos(angle), math.sin(angle)


_GROUND_TANGENTS = _turn_ground_tangents()


class Accuracy(NamedTuple):
    """How many steps the solvers take."""

    ground_roots: int
    newton_steps: int
    sweeps: int
    first_roots: int  # in the first sweep
    later_roots: int  # in the others, which start from it


# RMS error of one control of 50 substeps at walls: 4e-4 m and 2e-3 rad; more steps do not lower it. MuJoCo's
# own five sweeps do not converge, so their number is part of the physics.
ACCURATE = Accuracy(ground_roots=3, newton_steps=6, sweeps=5, first_roots=4, later_roots=2)


class Contact(NamedTuple):
    """One contact, or none where `weight` is zero."""

    rows: tuple[Row, Row, Row, Row]  # the normal and the tangents
    softness: jax.Array  # missing acceleration per force
    weight: jax.Array  # its inverse
    wanted: Vector  # (4,) acceleration of each row at which the force vanishes
    spread: Vector  # (3,) diagonal of J M^-1 J' over the tangents


def dot(row: Row | dict[int, float], vector: Vector) -> Value:
    return _sum([value * vector[axis] for axis, value in row.items()])


def multiply(matrix: tuple[dict[int, float], ...], vector: Vector) -> Vector:
    return tuple(dot(row, vector) for row in matrix)


def add(a: Vector, b: Vector) -> Vector:
    return tuple(p + q for p, q in zip(a, b, strict=True))


def push(contact: Contact, force: Vector) -> Vector:
    """J' f: what a force in the contact does along the axes."""
    return tuple(
        _sum([row[axis] * value for row, value in zip(contact.rows, force, strict=True) if axis in row])
        for axis in AXES
    )


def touch_ground(height: jax.Array, velocity: Vector) -> Contact:
    """The ball at `height` above first contact: it rolls along forward, slips along left, twists by steer."""
    arm = BALL_RADIUS + 0.5 * height
    large, small, cos, sin = _GROUND_TANGENTS
    rows: tuple[Row, Row, Row, Row] = (
        {UP: 1.0},
        {FORWARD: 1.0, ROLL: -arm},
        {LEFT: cos, STEER: -TORSION * sin},
        {LEFT: -sin, STEER: -TORSION * cos},
    )
    spread = (1 / MASS + arm * arm * (1 / ROLL_INERTIA), large, small)
    return _soften(rows, spread, height < 0, height, velocity)


def touch_wall(
    active: jax.Array,
    distance: jax.Array,
    normal_forward: jax.Array,
    normal_left: jax.Array,
    velocity: Vector,
) -> Contact:
    """The ball at `distance` from a wall whose normal is given in the body frame.

    Tangents are along the wall, upwards, and torsion about the normal; the wheel mixes the last two.
    """
    arm = BALL_RADIUS + 0.5 * distance
    lever, twist = arm * normal_forward, TORSION * normal_left
    # Eigenvectors of the 2x2 block (1/m + lever^2/I, lever twist/I; ., twist^2/I), without cancellation.
    both = lever * twist * (1 / ROLL_INERTIA)
    up, about = 1 / MASS + lever * lever * (1 / ROLL_INERTIA), twist * twist * (1 / ROLL_INERTIA)
    half = 0.5 * (up - about)
    root = jnp.sqrt(half * half + both * both)
    large = 0.5 * (up + about) + root
    scale = invert_root((half + root) * (half + root) + both * both)
    cos, sin = (half + root) * scale, both * scale
    rows: tuple[Row, Row, Row, Row] = (
        {FORWARD: normal_forward, LEFT: normal_left},
        {FORWARD: -normal_left, LEFT: normal_forward, STEER: arm},
        {UP: cos, ROLL: cos * lever + sin * twist},
        {UP: -sin, ROLL: cos * twist - sin * lever},
    )
    left, steer = INVERSE_MASS[LEFT], INVERSE_MASS[STEER]
    along = (
        normal_left * normal_left * (1 / MASS)
        + normal_forward * (normal_forward * left[LEFT] + 2 * arm * left[STEER])
        + arm * arm * steer[STEER]
    )
    return _soften(rows, (along, large, about * invert(MASS * large) + 1e-9), active, distance, velocity)


def solve_ground(ground: Contact, smooth: Vector, accuracy: Accuracy) -> Vector:
    """Force of the ground alone, in closed form but for two scalar roots.

    With b = J a - wanted at the smooth acceleration a, a normal force n between sticking and lifting off
    solves sum_i b_i^2 / ((s_i + 1/m + 2R) n + b_0)^2 = 1 over the tangents, where s is the spread and R the
    softness. Friction is then found again without softness, as MuJoCo's noslip solver does.
    """
    normal, *tangents = _lack(ground, smooth)
    slopes = [spread + (1 / MASS + 2 * ground.softness) for spread in ground.spread]
    low = jnp.maximum(-normal * invert(1 / MASS + ground.softness), 0.0)
    inverses = [invert(slope) for slope in slopes]
    for tangent, inverse in zip(tangents, inverses, strict=True):
        low = jnp.maximum(low, (jnp.abs(tangent) - normal) * inverse)
    # The last slope is the smallest.
    high = jnp.maximum((jnp.sqrt(_square(tangents)) - normal) * inverses[2], low)
    tops = [jnp.abs(tangent) * inverse for tangent, inverse in zip(tangents, inverses, strict=True)]
    shifts = [normal * inverse + 1e-8 for inverse in inverses]
    force = _find_root(tops, shifts, low, low, high, accuracy.ground_roots)
    force = jnp.where(ground.weight > 0, force, 0.0)
    friction, _ = _rub(tangents, ground.spread, force, jnp.zeros_like(force), accuracy.ground_roots)
    return (force, *friction)


def solve_all(contacts: tuple[Contact, ...], smooth: Vector, start: Vector, accuracy: Accuracy) -> Vector:
    """J' f of several contacts: Newton from the acceleration `start`, then Gauss-Seidel on friction."""
    forces = _newton(contacts, smooth, start, accuracy.newton_steps)
    forces = _noslip(contacts, smooth, forces, accuracy)
    pushes = [push(contact, force) for contact, force in zip(contacts, forces, strict=True)]
    return tuple(_sum(list(values)) for values in zip(*pushes, strict=True))


def _newton(contacts: tuple[Contact, ...], smooth: Vector, start: Vector, steps: int) -> list[Vector]:
    """Forces at the minimum over a of (a - smooth)' M (a - smooth) / 2 plus the cost of each contact.

    The cost is weight / 2 times the squared distance of wanted - J a from the polar cone. Full steps:
    from the solution without walls a line search never helped.
    """
    grams = [_gram(contact.rows[1:]) for contact in contacts]

    def step(_: int, accelerations: Vector) -> Vector:
        offset = tuple(a - s for a, s in zip(accelerations, smooth, strict=True))
        gradient = [
            _sum([value * offset[i + j - axis] for (i, j), value in _MASS_MATRIX.items() if axis in (i, j)])
            for axis in AXES
        ]
        hessian: dict[tuple[int, int], Value] = dict(_MASS_MATRIX)
        for contact, gram in zip(contacts, grams, strict=True):
            force, direction, hard, side = _cone(contact.weight, _lack(contact, accelerations))
            gradient = [g - p for g, p in zip(gradient, push(contact, force), strict=True)]
            _add_curvature(hessian, contact.rows, gram, direction, hard, side)
        return tuple(a - d for a, d in zip(accelerations, _solve_symmetric(hessian, gradient), strict=True))

    accelerations = lax.fori_loop(0, steps, step, start)
    return [_cone(contact.weight, _lack(contact, accelerations))[0] for contact in contacts]


def _cone(weight: jax.Array, lack: Vector) -> tuple[Vector, Vector, jax.Array, jax.Array]:
    """Force of a contact that lacks J a - wanted, and the parts of its Hessian over the rows.

    The force is weight times the projection of -lack on the cone: all of it inside (sticking), none in the
    polar cone (apart), else onto the surface. The Hessian is hard q q' + side (T - p p'), where p is the
    direction of the tangents, q the normal minus p, T the identity over the tangents; sticking, p is zero.
    """
    normal, *tangents = lack
    inverse = invert_root(_square(tangents) + 1e-20)
    length = (_square(tangents) + 1e-20) * inverse
    sticks = normal + length <= 0
    surface = 0.5 * weight * jnp.maximum(length - normal, 0.0)
    hard = jnp.where(sticks, weight, jnp.where(normal >= length, 0.0, 0.5 * weight))
    side = jnp.where(sticks, weight, surface * inverse)
    force = (jnp.where(sticks, -weight * normal, surface), *(-side * tangent for tangent in tangents))
    slide = jnp.where(sticks, 0.0, inverse)
    return force, tuple(slide * tangent for tangent in tangents), hard, side


def _add_curvature(hessian, rows, gram, direction: Vector, hard: jax.Array, side: jax.Array) -> None:
    """Adds hard q q' + side (T - p p') of one contact, carried to the axes by its rows."""
    slide = {
        axis: _sum([row[axis] * d for row, d in zip(rows[1:], direction, strict=True) if axis in row])
        for axis in AXES
        if any(axis in row for row in rows[1:])
    }
    across = {axis: _sum([sign[axis] for sign in (rows[0], _negate(slide)) if axis in sign]) for axis in AXES}
    for i in AXES:
        for j in range(i, len(AXES)):
            terms = [hessian[i, j]] if (i, j) in hessian else []
            terms.append(hard * across[i] * across[j])
            sides = [gram[i, j]] if (i, j) in gram else []
            if i in slide and j in slide:
                sides.append(-(slide[i] * slide[j]))
            if sides:
                terms.append(side * _sum(sides))
            hessian[i, j] = _sum(terms)


def _noslip(
    contacts: tuple[Contact, ...], smooth: Vector, forces: list[Vector], accuracy: Accuracy
) -> list[Vector]:
    """Friction without softness at the given normal forces: sweeps over the contacts, one block each.

    Block i minimises f' A_ii f / 2 + b' f over |f| <= normal force, with b = c_i + sum_j A_ij f_j.
    """
    normals = [force[0] for force in forces]
    free = smooth
    for contact, normal in zip(contacts, normals, strict=True):
        free = add(free, multiply(INVERSE_MASS, push(contact, (normal, 0.0, 0.0, 0.0))))
    constants = [_lack(contact, free)[1:] for contact in contacts]
    mixing = {
        (i, j): _couple(contacts[i], contacts[j])
        for i in range(len(contacts))
        for j in range(len(contacts))
        if i != j
    }

    def sweep(carry: tuple, roots: int) -> tuple:
        frictions, multipliers = map(list, carry)
        for i, contact in enumerate(contacts):
            lack = list(constants[i])
            for j, friction in enumerate(frictions):
                for (p, q), value in mixing.get((i, j), {}).items():
                    lack[p] = lack[p] + value * friction[q]
            frictions[i], multipliers[i] = _rub(lack, contact.spread, normals[i], multipliers[i], roots)
        return tuple(frictions), tuple(multipliers)

    start = tuple(force[1:] for force in forces), tuple(jnp.zeros_like(normal) for normal in normals)
    # The number of steps is static in both: Triton's loops do not take one that is computed.
    first = sweep(start, accuracy.first_roots)
    later = functools.partial(sweep, roots=accuracy.later_roots)
    frictions, _ = lax.fori_loop(1, accuracy.sweeps, lambda _, carry: later(carry), first)
    return [(normal, *friction) for normal, friction in zip(normals, frictions, strict=True)]


def _rub(lack, spread: Vector, limit: Value, guess: Value, roots) -> tuple[Vector, jax.Array]:
    """The friction f with |f| <= limit that minimises f' diag(spread) f / 2 + lack' f, and its multiplier.

    f = -lack / (spread + m); m is zero if that is short enough, else it solves |f| = limit. The search
    starts from `guess`, but not below the bounds that each of the three alone gives.
    """
    inverse = invert(limit + 1e-9)
    tops = [jnp.abs(value) * inverse for value in lack]
    low = jnp.maximum(tops[0] - spread[0], 0.0)
    for top, value in zip(tops[1:], spread[1:], strict=True):
        low = jnp.maximum(low, top - value)
    high = jnp.maximum(_sum(tops) - spread[2], 0.0)  # the smallest spread
    multiplier = _find_root(tops, spread, jnp.clip(guess, low, high), low, high, roots)
    friction = [-b * invert(s + multiplier) for b, s in zip(lack, spread, strict=True)]
    scale = limit * invert_root(_square(friction) + 1e-20)
    scale = jnp.where(multiplier > 0, scale, jnp.minimum(scale, 1.0))
    return tuple(scale * value for value in friction), multiplier


def _find_root(tops, shifts, start: jax.Array, low: jax.Array, high: jax.Array, steps) -> jax.Array:
    """The x in [low, high] with sum_i (top_i / (shift_i + x))^2 = 1.

    The inverse root of the sum is nearly linear in x: Chebyshev's third-order steps on it.
    """

    def step(_: int, x: jax.Array) -> jax.Array:
        inverses = [invert(shift + x) for shift in shifts]
        squares = [(top * inverse) * (top * inverse) for top, inverse in zip(tops, inverses, strict=True)]
        total = _sum(squares) + 1e-20
        firsts = [square * inverse for square, inverse in zip(squares, inverses, strict=True)]
        slope = invert(_sum(firsts) + 1e-20)
        second = _sum([first * inverse for first, inverse in zip(firsts, inverses, strict=True)])
        error = total * invert_root(total) - 1
        newton = total * slope
        bend = second * slope * newton - 1
        # Beyond these bounds the third-order term is no better than none.
        return jnp.clip(x + error * newton * (1 + jnp.clip(1.5 * error * bend, -0.5, 3.0)), low, high)

    return lax.fori_loop(0, steps, step, start)


def _soften(rows, spread: Vector, active, distance: jax.Array, velocity: Vector) -> Contact:
    """MuJoCo's spring and damper of a contact at `distance`, negative inside."""
    depth = jnp.minimum(jnp.abs(distance) * (1 / _WIDTH), 1.0)
    blend = jnp.where(depth <= 0.5, 2 * depth * depth, 1 - 2 * (1 - depth) * (1 - depth))
    impedance = _SOFT + (_HARD - _SOFT) * blend
    softness = (1 - impedance) * invert(impedance) * INVERSE_WEIGHT
    wanted = [-DAMPER * dot(row, velocity) for row in rows]
    wanted[0] = wanted[0] - SPRING * impedance * distance
    return Contact(rows, softness, jnp.where(active, invert(softness), 0.0), tuple(wanted), spread)


def _lack(contact: Contact, accelerations: Vector) -> Vector:
    """J a - wanted."""
    return tuple(
        dot(row, accelerations) - value for row, value in zip(contact.rows, contact.wanted, strict=True)
    )


def _couple(one: Contact, two: Contact) -> dict[tuple[int, int], Value]:
    """The entries of J M^-1 J' between the tangents of two contacts that are not zero."""
    block = {}
    for p, row in enumerate(one.rows[1:]):
        for q, other in enumerate(two.rows[1:]):
            terms = [
                row[i] * value * other[j] for i in row for j, value in INVERSE_MASS[i].items() if j in other
            ]
            if terms:
                block[p, q] = _sum(terms)
    return block


def _gram(rows) -> dict[tuple[int, int], Value]:
    """Upper entries of J'J that are not zero."""
    gram = {}
    for i in AXES:
        for j in range(i, len(AXES)):
            terms = [row[i] * row[j] for row in rows if i in row and j in row]
            if terms:
                gram[i, j] = _sum(terms)
    return gram


def _solve_symmetric(matrix: dict[tuple[int, int], Value], vector: list[Value]) -> Vector:
    """x with A x = b by the factors L D L', from the upper entries of A."""
    size = len(vector)
    lower: dict[tuple[int, int], Value] = {}
    scaled: dict[tuple[int, int], Value] = {}  # L D
    inverses, x = [], list(vector)
    for j in range(size):
        pivot = _sum([matrix[j, j], *(-(lower[j, k] * scaled[j, k]) for k in range(j))])
        inverses.append(invert(pivot))
        for i in range(j + 1, size):
            scaled[i, j] = _sum([matrix[j, i], *(-(lower[i, k] * scaled[j, k]) for k in range(j))])
            lower[i, j] = scaled[i, j] * inverses[j]
        for k in range(j):
            x[j] = x[j] - lower[j, k] * x[k]
    x = [value * inverse for value, inverse in zip(x, inverses, strict=True)]
    for i in reversed(range(size)):
        for k in range(i + 1, size):
            x[i] = x[i] - lower[k, i] * x[k]
    return tuple(x)


def _sum(values: list) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _square(values) -> Value:
    return _sum([value * value for value in values])


def _negate(row: Row) -> Row:
    return {axis: -value for axis, value in row.items()}
