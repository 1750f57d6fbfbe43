"""A patient of the sepsis simulator as an image: a scale for each vital sign, a lamp for each treatment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiope._extras import need
from semiope.domains import sepsis

WIDTH, HEIGHT, MARGIN = 480, 320, 20
BOX, GAP = 56, 4
# Okabe and Ito's palette, which colour-blind readers can tell apart.
PAPER, INK, PALE, BLUE, ORANGE, RED, GREEN = (
    "#ffffff", "#222222", "#e6e6e6", "#0072b2", "#e69f00", "#d55e00", "#009e73",
)  # fmt: skip


def draw_patient(state: int, title: str) -> NDArray[np.uint8]:
    """Return an array (height, width, 3): which level each vital is at, and which treatments are on."""
    image_module, draw_module = need("PIL.Image", "gym", "The picture"), need("PIL.ImageDraw", "gym", "The picture")
    image = image_module.new("RGB", (WIDTH, HEIGHT), PAPER)
    canvas = draw_module.Draw(image)
    canvas.text((MARGIN, 14), title, fill=INK, font=_font(16))
    if state >= len(sepsis.PATIENTS):
        canvas.text((MARGIN, 130), sepsis.describe(state), fill=INK, font=_font(28))
        return np.asarray(image)
    patient = sepsis.PATIENTS[state]
    outcome, color = _outcome(patient)
    kind = "diabetic" if patient.diabetic else "not diabetic"
    canvas.text((MARGIN, 38), f"{kind}, {outcome}", fill=color, font=_font(16))
    for row, (name, levels) in enumerate(sepsis.LEVELS.items()):
        top = 76 + 44 * row
        canvas.text((MARGIN, top + 8), name.replace("_", " "), fill=INK, font=_font(15))
        for level in levels:
            _box(canvas, 250 + level * (BOX + GAP), top, level, at=level == getattr(patient, name))
    for column, name in enumerate(("antibiotics", "vasopressors", "ventilation")):
        left, on = MARGIN + 150 * column, getattr(patient, name)
        canvas.rounded_rectangle((left, 266, left + 140, 300), 8, fill=BLUE if on else PALE)
        canvas.text(
            (left + 70, 283), f"{name} {'on' if on else 'off'}", fill=PAPER if on else INK, font=_font(13), anchor="mm"
        )
    return np.asarray(image)


def _box(canvas: Any, left: int, top: int, level: int, *, at: bool) -> None:
    """One level of a scale, lit if the vital is there: green where normal, orange one off, red two off."""
    lit = {0: GREEN, 1: ORANGE, 2: RED}[abs(level)]
    canvas.rectangle((left, top, left + BOX, top + 34), fill=lit if at else PALE)
    if at:
        canvas.text((left + BOX // 2, top + 17), sepsis.LEVEL_WORDS[level], fill=INK, font=_font(12), anchor="mm")


def _outcome(patient: sepsis.Patient) -> tuple[str, str]:
    if sepsis.is_dead(patient):
        return "dead", RED
    return ("discharged", GREEN) if sepsis.is_discharged(patient) else ("in care", INK)


def _font(size: int) -> Any:
    return need("PIL.ImageFont", "gym", "The picture").load_default(size)
